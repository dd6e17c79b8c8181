// People in front of forward-auth: they sign in at the provider, pass checks and sign out.
import type { OutgoingHttpHeaders } from 'node:http'
import { type Answer, isPassing, send, type Target, waitAfter } from './client.ts'
import { AUTH_HOST } from './identity.ts'
import type { Journal, SessionEntry } from './journal.ts'
import type { Random } from './random.ts'

const TRIES = 4
const MAX_HOPS = 5
/** The session at the sign-in host, and that which the apps of the domain share. */
const COOKIES = ['__Host-gatehouse.main', '__Secure-gatehouse-app.main']
const FORM = 'application/x-www-form-urlencoded'
const NAVIGATION = {
  accept: 'text/html,application/xhtml+xml,*/*;q=0.8',
  'user-agent': 'Mozilla/5.0',
  'sec-fetch-mode': 'navigate',
}
const CHECKED = {
  'x-forwarded-method': 'GET',
  'x-forwarded-proto': 'https',
  'x-forwarded-host': 'app.example.com',
  'x-forwarded-uri': '/',
  'x-forwarded-for': '192.0.2.1',
}

/** Somebody's session, as their browser has it. */
export interface Session {
  readonly number: number
  readonly person: string
  readonly cookie: string
}

/** Cookies by name, of one host. */
type Jar = Map<string, string>

export class SessionClient {
  readonly #journal: Journal
  readonly #random: Random
  readonly #targets: readonly Target[]
  readonly #provider: Target
  #sessions = 0

  constructor(journal: Journal, random: Random, targets: readonly Target[], provider: Target) {
    this.#journal = journal
    this.#random = random
    this.#targets = targets
    this.#provider = provider
  }

  /** Signs in, each step at any replica, and begins anew if one fails. */
  async signIn(person: string): Promise<Session | undefined> {
    for (let n = 1; n <= TRIES; n++) {
      const sent = performance.now()
      const [answer, cookie] = await this.#attempt(person)
      const session = cookie === '' ? undefined : { number: ++this.#sessions, person, cookie }
      const { replica, answered, status } = answer
      const entry = { replica, sent, answered, status, person, session: session?.number }
      this.#journal.add({ kind: 'sign-in', ...entry })
      if (session) return session
      await waitAfter(answer, this.#random)
    }
    return undefined
  }

  async signOut(session: Session): Promise<SessionEntry> {
    const { cookie } = session
    const headers = { ...NAVIGATION, cookie, origin: `https://${AUTH_HOST}`, 'content-type': FORM }
    for (let n = 1; ; n++) {
      const answer = await this.#ask('/portals/main/logout', headers, '')
      const entry = this.#note('sign-out', session, answer)
      if (n === TRIES || !isPassing(answer.status)) return entry
      await waitAfter(answer, this.#random)
    }
  }

  async check(session: Session, target = this.#any()): Promise<SessionEntry> {
    const headers = { ...CHECKED, accept: 'application/json', cookie: session.cookie }
    const answer = await send(target, { path: '/portals/main', headers })
    return this.#note('check', session, answer)
  }

  #any = (): Target => this.#random.pick(this.#targets)

  #note(kind: 'sign-out' | 'check', session: Session, answer: Answer): SessionEntry {
    const { replica, sent, answered, status } = answer
    const { number, person } = session
    const entry = { kind, replica, sent, answered, status, person, session: number } as const
    this.#journal.add(entry)
    return entry
  }

  /** The last answer of a sign-in, and the cookies of the session if it came about. */
  async #attempt(person: string): Promise<readonly [Answer, cookie: string]> {
    const jar: Jar = new Map()
    const start = `/portals/main/signin?rd=${encodeURIComponent('https://app.example.com/')}`
    const started = this.#step(await this.#ask(start, NAVIGATION), jar)
    if (started.status !== 303) return [started, '']
    const callback = await this.#authenticate(started.headers.location ?? '', person)
    if (callback.headers.location === undefined) return [callback, '']
    const { pathname, search } = new URL(callback.headers.location)
    const headers = { ...NAVIGATION, cookie: cookiesOf(jar) }
    const finished = await this.#ask(pathname + search, headers)
    collect(finished, jar)
    for (const name of jar.keys()) if (!COOKIES.includes(name)) jar.delete(name)
    return [finished, jar.size === COOKIES.length ? cookiesOf(jar) : '']
  }

  /** Goes through the pages of the provider; gives the answer that leads back. */
  async #authenticate(url: string, person: string): Promise<Answer> {
    const jar: Jar = new Map()
    const callback = `https://${AUTH_HOST}/`
    let path = url
    for (let hop = 0; ; hop++) {
      const { pathname, search } = new URL(path, 'https://provider')
      const headers = { cookie: cookiesOf(jar), host: this.#providerHost }
      const isForm = pathname.startsWith('/interaction/')
      const form = isForm && {
        ...{ method: 'POST' as const, body: `account=${person}` },
        headers: { ...headers, 'content-type': FORM },
      }
      const answer = await send(this.#provider, { path: pathname + search, headers, ...form })
      collect(answer, jar)
      path = answer.headers.location ?? ''
      if (path === '' || path.startsWith(callback) || hop === MAX_HOPS) return answer
    }
  }

  get #providerHost(): string {
    return `${this.#provider.address}:${this.#provider.port}`
  }

  #ask(path: string, headers: OutgoingHttpHeaders, body?: string): Promise<Answer> {
    const all = { ...headers, host: AUTH_HOST, 'x-forwarded-for': '192.0.2.1' }
    const form = body === undefined ? {} : { method: 'POST' as const, body }
    return send(this.#any(), { path, headers: all, ...form })
  }

  #step(answer: Answer, jar: Jar): Answer {
    const { replica, sent, answered, status } = answer
    this.#journal.add({ kind: 'login step', replica, sent, answered, status })
    collect(answer, jar)
    return answer
  }
}

function collect({ headers }: Answer, jar: Jar): void {
  for (const line of headers['set-cookie'] ?? []) {
    const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
    if (value === '') jar.delete(name)
    else jar.set(name, value)
  }
}

const cookiesOf = (jar: Jar): string =>
  [...jar].map(([name, value]) => `${name}=${value}`).join('; ')

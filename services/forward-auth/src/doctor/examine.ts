import { type Gate, HEADER_NAMES } from '@gatehouse/gate'
import type { KeyRing } from '../keys/key-ring.ts'
import { TICKET } from '../session/hop.ts'
import { pageUrl, type Site } from '../sites.ts'
import { HANGS, type HttpClient } from './client.ts'
import {
  type AppExamination,
  ECHO,
  type Examination,
  type Exchange,
  FORGED,
  FORGED_ADDRESS,
  FORGED_HOST,
} from './diagnose.ts'
import { createProbe, PROBE_MARK, type ProbedCheck, REPORT_PATH } from './probes.ts'

/** A person who is signed in for the examination. */
export interface SignedIn {
  /** The Cookie header of the session. */
  readonly cookie: string
  /** The identity headers that a check answers. */
  readonly identity: Readonly<Record<string, string>>
}

export interface ExamineOptions {
  readonly app: URL
  readonly site: Site
  readonly portal: { readonly name: string; readonly gate: Pick<Gate, 'readsCalls'> }
  readonly keys: KeyRing
  readonly now: () => number
  readonly ask: HttpClient
  /** Asks the service itself, at its URL. */
  readonly askService: HttpClient
  readonly service: URL
  readonly signedIn?: SignedIn | undefined
}

const BROWSER = {
  accept: 'text/html,*/*;q=0.8',
  'sec-fetch-mode': 'navigate',
  'sec-fetch-dest': 'document',
  'sec-fetch-site': 'none',
  referer: 'https://gatehouse-doctor.invalid/',
  cookie: 'own=1',
}
const PROGRAM = { accept: 'application/json', cookie: 'own=1' }
const MAX_COOKIE = 3_900

/** Cookies of 12 kB, as those of a large session. */
const LARGE = [0, 1, 2].map((i) => `gatehouse-doctor${i}=${'x'.repeat(MAX_COOKIE)}`).join('; ')
/** Makes the answer of a check a redirect of about 7 kB. */
const LONG = `long=${'x'.repeat(6_000)}`

const withForged = (names: readonly string[]) =>
  Object.fromEntries(names.map((name) => [name, FORGED]))
const OVERRIDES = withForged([...HEADER_NAMES.methodOverrides, ...HEADER_NAMES.pathOverrides])
/** RFC 7540 section 3.2. */
const UPGRADE = {
  connection: 'Upgrade, HTTP2-Settings',
  upgrade: 'h2c',
  'http2-settings': 'AAMAAABkAARAAAAAAAIAAAAA',
}

function forgedRequest(token: string, { protocol }: URL): Record<string, string> {
  const path = `/${FORGED}/${PROBE_MARK}${token}`
  return {
    ...OVERRIDES,
    'x-forwarded-for': FORGED_ADDRESS,
    'x-forwarded-host': FORGED_HOST,
    'x-forwarded-proto': protocol === 'https:' ? 'http' : 'https',
    'x-forwarded-method': 'OPTIONS',
    'x-forwarded-uri': path,
    'x-original-method': 'OPTIONS',
    'x-original-url': `https://${FORGED_HOST}${path}`,
  }
}

/** Makes requests through the proxy, and reads from the service which checks it made for them. */
export async function examine(options: ExamineOptions): Promise<Examination> {
  const { app, site, portal, signedIn } = options
  const authUrl = new URL(pageUrl({ portal, site }, '/profile.json'))
  const page = await exchange(options, app, { headers: BROWSER, query: 'a=b%2Fc&d' })
  return {
    page,
    back: await exchange(options, app, { headers: BROWSER, query: `${TICKET}=${FORGED}` }),
    program: await exchange(options, app, {
      ...{ headers: PROGRAM, method: 'POST' },
      calls: portal.gate.readsCalls ? HEADER_NAMES.calls : [],
    }),
    forged: await exchange(options, app, { headers: BROWSER, forge: forgedRequest }),
    large: await exchange(options, app, { headers: { ...BROWSER, cookie: LARGE } }),
    long: await exchange(options, app, { headers: BROWSER, query: LONG }),
    auth: await exchange(options, authUrl, { headers: PROGRAM, isPage: true }),
    signIn: await examineSignIn(options),
    app: signedIn && (await examineApp(options, signedIn)),
  }
}

/** A browser without cookies at the sign-in page, which gives it one and looks whether it comes back. */
async function examineSignIn({ app, site, portal, ask }: ExamineOptions) {
  const { cookie: _, ...headers } = BROWSER
  const url = pageUrl({ portal, site }, '/signin', { rd: app.href, hop: FORGED })
  const first = await ask(new URL(url), { headers })
  const cookie = first.headers['set-cookie']?.split(';', 1).join()
  const destination = URL.parse(first.headers.location ?? '', url)
  if (cookie === undefined || destination?.origin !== site.authOrigin) return { first }
  return { first, second: await ask(destination, { headers: { ...headers, cookie } }) }
}

interface ProbeOptions {
  readonly method?: string
  readonly headers: Readonly<Record<string, string>>
  readonly query?: string
  readonly forge?: (token: string, url: URL) => Record<string, string>
  /** Headers that name a call by MCP. */
  readonly calls?: readonly string[]
  /** Whether the URL is that of a page, which has its own path. */
  readonly isPage?: boolean
}

async function exchange(
  { keys, now, ask, askService, service }: ExamineOptions,
  base: URL,
  { method = 'GET', headers, query = '', forge, calls = [], isPage = false }: ProbeOptions,
): Promise<Exchange> {
  const token = createProbe(keys, now())
  const url = new URL(base)
  if (!isPage) url.pathname = `${base.pathname.replace(/\/$/, '')}/${PROBE_MARK}${token}`
  if (query !== '') url.search = query
  const agent = { 'user-agent': `${PROBE_MARK}${token}` }
  const allHeaders = { ...headers, ...agent, ...withForged(calls), ...forge?.(token, url) }
  const answer = await ask(url, { method, headers: allHeaders })
  const report = await askService(new URL(REPORT_PATH, service), { headers: agent })
  if (report.status !== 200)
    throw new Error(
      `${service.origin} answers ${report.status}: run the doctor with the configuration of the service that runs`,
    )
  return {
    method,
    host: url.host,
    scheme: url.protocol.slice(0, -1),
    target: `${url.pathname}${url.search}`,
    cookieLength: headers.cookie?.length ?? 0,
    calls,
    answer,
    checks: JSON.parse(report.body) as ProbedCheck[],
  }
}

async function examineApp(
  { app, ask, site }: ExamineOptions,
  { cookie, identity }: SignedIn,
): Promise<AppExamination> {
  const names = Object.keys(identity)
  let isHanging = false
  const askWith = async (headers: Record<string, string>) => {
    if (isHanging) return HANGS
    const answer = await ask(app, {
      headers: { ...PROGRAM, cookie, 'user-agent': ECHO, ...headers },
    })
    isHanging = answer === HANGS
    return answer
  }
  // One name each: a guard that knows some of them would hide that it does not know the others.
  const taken: Record<string, AppExamination['signedIn']> = {}
  for (const name of names) taken[name] = await askWith({ connection: `close, ${name}` })
  const aliasedBy = (mark: string) =>
    askWith(withForged(names.map((name) => name.replaceAll('-', mark))))
  return {
    host: app.host,
    reserved: await askWith({ 'x-forwarded-host': new URL(site.authOrigin).host }),
    signedIn: await askWith(withForged(names)),
    aliased: [await aliasedBy('_'), await aliasedBy('.'), await aliasedBy('~')],
    believed: await askWith(withForged(HEADER_NAMES.believed)),
    overridden: await askWith(OVERRIDES),
    upgraded: await askWith(UPGRADE),
    taken,
    identity,
    sessionCookie: cookie.slice(0, cookie.indexOf('=') + 9),
  }
}

import type { Test } from 'tap'
import { createBrowser } from '../../../../packages/identity-providers/test/stand-ins/browser.ts'
import type { Hostility } from '../../../../packages/identity-providers/test/stand-ins/hostility.ts'
import { startSessionProvider } from '../../../../packages/identity-providers/test/stand-ins/session-provider.ts'
import {
  readToken,
  signToken,
} from '../../../../packages/identity-providers/test/stand-ins/tokens.ts'
import { type Answer, ask } from '../../../../scripts/test/running.ts'
import { DOMAINS, SESSION_KEY } from '../app.ts'
import { BROWSER, SHAPES } from '../shapes.ts'

const AUTH = 'auth.example.com'
const APP = 'app.example.com'
const { Host: _, ...CHECK } = SHAPES[0]?.headers ?? {}
const FORM = { 'content-type': 'application/x-www-form-urlencoded' }
const LOGOUT = '/portals/main/providers/corp/backchannel-logout'

/** What the provider has issued at a sign-in or a refresh. */
interface Issued {
  readonly sub: string
  readonly sid: string
  readonly refresh: string
}

/** A person who has signed in, and the Cookie headers of both hosts. */
export interface Person extends Issued {
  readonly app: string
  readonly auth: string
}

type AskOptions = NonNullable<Parameters<typeof ask>[1]>

/** oidc-provider, and people who sign in through it at instances that listen somewhere. */
export async function startPeople(t: Test) {
  const provider = await startSessionProvider(t)
  const issued: Issued[] = []
  let forged: object = {}
  const note = (answer: Record<string, unknown>) => {
    if (typeof answer.id_token !== 'string') return answer
    const claims = readToken(answer.id_token)
    const { sub, sid } = claims as { sub: string; sid: string }
    issued.push({ sub, sid, refresh: String(answer.refresh_token) })
    return { ...answer, id_token: signToken(provider.key, { ...claims, ...forged }) }
  }
  const resume = () => {
    provider.hostility['/token'] = note
  }
  resume()

  /** The configuration of an instance, with more keys of the portal and of the file. */
  function configOf(portal: string, rest: string): string {
    const { type, name, issuerUrl, clientId, clientSecret } = provider.options
    const options = JSON.stringify({ type, name, issuerUrl, clientId, clientSecret })
    return `${DOMAINS}\n${SESSION_KEY}\n${rest}\nportals: [{ name: main, providers: [${options}], ${portal} }]\n`
  }

  /** Begins a sign-in, which the provider lets pass: what completes it. */
  async function beginSignIn(url: string, sub: string, browser = createBrowser()) {
    const jars: Record<string, Map<string, string>> = { [APP]: new Map(), [AUTH]: new Map() }
    const open = async (host: string, path: string, headers: object = {}): Promise<Answer> => {
      const jar = jars[host] as Map<string, string>
      const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ')
      const answer = await ask(`${url}${path}`, {
        headers: { ...BROWSER, host: AUTH, ...(cookie && { cookie }), ...headers },
      })
      for (const line of answer.headers['set-cookie'] ?? []) {
        const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
        // What a check sets for the domain is for the sign-in pages.
        const kept = (line.includes('; Domain=') ? jars[AUTH] : jar) as Map<string, string>
        if (line.includes('Max-Age=0;')) kept.delete(name)
        else kept.set(name, value)
      }
      return answer
    }
    const openApp = (uri: string) =>
      open(APP, '/portals/main', {
        ...CHECK,
        'x-forwarded-method': 'GET',
        'x-forwarded-uri': uri,
      })
    const openAuth = (location: string | undefined) => {
      const { pathname, search } = new URL(location ?? '')
      return open(AUTH, pathname + search)
    }

    const started = await openAuth((await openApp('/reports')).headers.location)
    const callback = await browser.signIn(started.headers.location ?? '', sub)

    /** Undefined if it leads to the provider once more. */
    return async function complete(): Promise<Person | undefined> {
      let { location } = (await openAuth(callback.href)).headers
      while (location?.startsWith(`https://${AUTH}/`))
        ({ location } = (await openAuth(location)).headers)
      if (location?.startsWith(provider.issuer)) return undefined
      const { pathname, search } = new URL(location ?? '')
      await openApp(pathname + search)
      const headerOf = (host: string) =>
        [...(jars[host] ?? [])].map(([name, value]) => `${name}=${value}`).join('; ')
      return { ...(issued.at(-1) as Issued), app: headerOf(APP), auth: headerOf(AUTH) }
    }
  }

  return {
    ...provider,
    hostility: provider.hostility as Record<string, Hostility | undefined>,
    issued,
    configOf,
    beginSignIn,
    async signIn(url: string, sub = 'alice', browser = createBrowser()): Promise<Person> {
      const person = await (await beginSignIn(url, sub, browser))()
      if (!person) throw new Error('the provider was asked once more')
      return person
    },
    /** The provider answers well again. */
    resume,
    /** Claims of ID tokens from now on. */
    forge(claims: object): void {
      forged = claims
    },
    /** A logout token of a person, with other claims. */
    async logoutToken({ sub, sid }: Issued, changes: object = {}): Promise<string> {
      const claims = { ...readToken(await provider.endSession(sub, sid)), ...changes }
      return signToken(provider.key, claims, { typ: 'logout+jwt' })
    },
    /** The status of a logout token. */
    async send(url: string, token: string): Promise<number> {
      const body = String(new URLSearchParams({ logout_token: token }))
      return (await ask(`${url}${LOGOUT}`, { method: 'POST', headers: FORM, body })).status
    },
  }
}

/** The answer of a check of an app, as a script of a person gets it, or of nobody. */
export function checkAt(url: string, person?: Person, options: AskOptions = {}): Promise<Answer> {
  const cookie = person && { cookie: person.app }
  const headers = { ...CHECK, host: AUTH, accept: 'application/json', ...cookie }
  return ask(`${url}/portals/main`, { ...options, headers })
}

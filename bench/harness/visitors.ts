import { dirname, join } from 'node:path'
import { fromClaims } from '@gatehouse/profile'
import { createLogger } from '@gatehouse/service-kit/telemetry'
import { createSigner } from 'fast-jwt'
import type { FastifyInstance } from 'fastify'
import { deriveKeys } from '../../services/forward-auth/src/keys/key-ring.ts'
import { accessTokensOf } from '../../services/forward-auth/src/oauth/tokens.ts'
import { digestsOf, sealSession } from '../../services/forward-auth/src/session/session.ts'
import { pageUrl, type Site } from '../../services/forward-auth/src/sites.ts'
import type { AuthStore } from '../../services/forward-auth/src/store/auth-store.ts'
import { SqliteStore } from '../../services/forward-auth/src/store/sqlite/sqlite-store.ts'
import { appCookieName, sessionCookieName } from '../../services/forward-auth/src/web/cookies.ts'
import { callHeaders, toolCall } from '../../services/forward-auth/test/helpers/mcp-requests.ts'
import { SESSION_SECRET } from './service-files.ts'

const SITE: Site = {
  domain: 'example.com',
  authOrigin: 'https://auth.example.com',
  basePath: '',
  scope: 'host',
}
const PORTAL = { name: 'main' }
const ISSUER = pageUrl({ portal: PORTAL, site: SITE }, '')
const HOUR = 3_600_000
const LIFETIME = 8 * HOUR
/** Sessions that are written at a time. */
const AT_ONCE = 1_000
/** The browser of their sign-ins. */
const SIGN_IN_BROWSER = { userAgent: 'Mozilla/5.0', address: '198.51.100.7' }

const idOf = (n: number) => `${n}`.padStart(6, '0')
const sidOf = (n: number) => `session-of-${idOf(n)}`.padEnd(22, '0')
/** URL of the MCP server. */
export const RESOURCE = 'https://app.example.com/mcp'
export const SCOPE = 'notes:read'

/** What the provider says of a visitor. */
export function visitorClaims(n: number) {
  const id = idOf(n)
  return {
    sub: `5f0c2c1e-93a4-4f57-b0d8-${id}a1b2c3`,
    name: `Ada Lovelace ${id}`,
    email: `ada.${id}@example.com`,
    email_verified: true,
    groups: ['staff', 'engineering'],
  }
}

/** Has a store hold the sessions of as many visitors, as their sign-ins would. */
export async function storeVisitors(store: AuthStore, count: number): Promise<void> {
  // A database is measured again and again.
  if (count === 0 || (await store.findSession(sidOf(count - 1)))) return
  const keys = deriveKeys([SESSION_SECRET], 'record')
  const now = Date.now()
  for (let from = 0; from < count; from += AT_ONCE) {
    const some = Array.from({ length: Math.min(AT_ONCE, count - from) }, (_, i) => from + i)
    await Promise.all(
      some.map((n) => {
        const claims = visitorClaims(n)
        const profile = fromClaims('corp', claims)
        const row = {
          ...digestsOf('main', profile, undefined, undefined),
          ...{ sid: sidOf(n), portal: 'main', issuedAt: Math.floor(now / 1_000) },
          ...{ begun: now, lastSeen: now, idle: null, reRead: now, ends: now + LIFETIME },
          ...{ rev: 1, lease: 0, parent: null },
        }
        const said = {
          issuer: ISSUER,
          provider: 'corp',
          claims,
          tokens: {},
          browser: SIGN_IN_BROWSER,
        }
        return store.beginSession(sealSession(row, said, keys))
      }),
    )
  }
}

/** The same in the folder of a configuration. Gives the folder. */
export async function storeVisitorsBeside(config: string, count: number): Promise<string> {
  const log = createLogger({ name: 'bench', level: 'error', format: 'json' })
  const folder = join(dirname(config), 'data')
  const store = new SqliteStore(folder, { log })
  await storeVisitors(store, count)
  await store.close()
  return folder
}

/** Has a service hold an agent of each of its visitors, and gives their access tokens. */
export async function storeAgents(
  { authStore, keys, clock }: FastifyInstance,
  count: number,
): Promise<string[]> {
  const { sign } = accessTokensOf({ keys, clock })
  const clientId = 'https://assistant.example/client.json'
  const agent = { clientId, clientName: 'Assistant', resource: RESOURCE, scopes: [SCOPE] }
  return Promise.all(
    Array.from({ length: count }, async (_, n) => {
      const parent = await authStore.findSession(sidOf(n))
      if (!parent) throw new Error(`visitor ${n} has no session`)
      const sid = `agent-of-${idOf(n)}`.padEnd(22, '0')
      const { sub } = visitorClaims(n)
      const contents = { issuer: ISSUER, provider: 'corp', claims: { sub }, tokens: {}, agent }
      const row = { ...parent, sid, parent: parent.sid }
      const sealed = sealSession(row, { ...contents, browser: SIGN_IN_BROWSER }, keys.record)
      await authStore.beginAgent(sealed, { id: sid, until: parent.ends })
      const claims = { iss: ISSUER, aud: RESOURCE, sub: `corp:${sub}` }
      return sign({ ...claims, client_id: clientId, scope: SCOPE, sid })
    }),
  )
}

/** Signs a token of a session, as the service does. */
function createTokens(typ: string): (claims: object) => string {
  const { kid, secret: key } = deriveKeys([SESSION_SECRET], 'session').first
  const header = { alg: 'HS256', typ } as const
  return createSigner({ algorithm: 'HS256', key, kid, header, noTimestamp: typ.includes('app') })
}

/** Cookie headers of as many visitors of an app, each with two cookies of the app and a session of their own. */
export function visitorCookies(count: number): string[] {
  const sign = createTokens('gatehouse-app+jwt')
  const exp = Math.floor((Date.now() + LIFETIME - HOUR) / 1_000)
  return Array.from({ length: count }, (_, n) => {
    const token = sign({ iss: ISSUER, sid: sidOf(n), rev: 1, aud: 'app.example.com', exp })
    const session = `${appCookieName(PORTAL, SITE, 'app.example.com')}=${token}`
    return ['theme=dark', session, `app_session=${idOf(n).repeat(6)}`].join('; ')
  })
}

/** The session tokens of as many visitors, which the sign-in host has. */
export function sessionTokens(count: number): string[] {
  const sign = createTokens('gatehouse-session+jwt')
  const iat = Math.floor(Date.now() / 1_000)
  return Array.from({ length: count }, (_, n) =>
    sign({
      ...visitorClaims(n),
      ...{ iss: ISSUER, aud: 'auth.example.com', sid: sidOf(n), rev: 1 },
      ...{ iat, nbf: iat, exp: iat + (LIFETIME - HOUR) / 1_000, gatehouse_provider: 'corp' },
    }),
  )
}

const BROWSER = [
  'User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0',
  'Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8',
  'Accept-Encoding: gzip, deflate, br, zstd',
  'Accept-Language: en-GB,en;q=0.7',
  'Sec-Fetch-Mode: navigate',
]
const TRAEFIK = [
  'X-Forwarded-For: 198.51.100.7',
  'X-Forwarded-Host: app.example.com',
  'X-Forwarded-Method: GET',
  'X-Forwarded-Proto: https',
  'X-Forwarded-Uri: /reports/2026?page=2',
]

/** The check that Traefik makes before somebody opens a page. */
export function checkRequest(cookie: string, query = ''): string {
  return get(`/portals/main${query}`, 'auth.example.com', [`Cookie: ${cookie}`, ...TRAEFIK])
}

/** The headers that name the call of a tool. */
const callLines = (tool: string) => callHeaders(tool).map((line) => line.join(': '))
const TRAEFIK_POST = TRAEFIK.map((line) => line.replace('Method: GET', 'Method: POST'))

/** The check that Traefik makes before somebody calls a tool of an MCP server. */
export function toolRequest(cookie: string): string {
  const lines = [`Cookie: ${cookie}`, ...TRAEFIK_POST, ...callLines('read_note')]
  return get('/portals/main', 'auth.example.com', lines)
}

const PROGRAM = ['User-Agent: node', 'Accept: application/json, text/event-stream']

/** The check that Traefik makes before an agent calls a tool of an MCP server. */
export function agentRequest(token: string): string {
  const lines = [
    'GET /portals/main HTTP/1.1',
    'Host: auth.example.com',
    ...PROGRAM,
    `Authorization: Bearer ${token}`,
    ...TRAEFIK_POST.map((line) => line.replace(/Uri: .*/, 'Uri: /mcp')),
    ...callLines('read_note'),
  ]
  return `${lines.join('\r\n')}\r\n\r\n`
}

/** What Traefik sends to the MCP proxy when an agent calls a tool. Default of `path`: that of the proxy. */
export function agentCall(
  token: string,
  tool: string,
  path = '/portals/main/mcp-proxy/mcp',
): string {
  const body = JSON.stringify(toolCall(tool))
  const lines = [
    `POST ${path} HTTP/1.1`,
    'Host: app.example.com',
    ...PROGRAM,
    'Content-Type: application/json',
    `Content-Length: ${Buffer.byteLength(body)}`,
    `Authorization: Bearer ${token}`,
    'X-Forwarded-For: 198.51.100.7',
    'X-Forwarded-Host: app.example.com',
    'X-Forwarded-Proto: https',
    ...callLines(tool),
  ]
  return `${lines.join('\r\n')}\r\n\r\n${body}`
}

/** The check that Traefik makes before a program's request. */
export function programRequest(authorization: string): string {
  return get('/portals/main', 'auth.example.com', [`Authorization: ${authorization}`, ...TRAEFIK])
}

/** The check of a page that somebody opens who is not signed in. */
export function anonymousRequest(): string {
  return get('/portals/main', 'auth.example.com', TRAEFIK)
}

/** The check of a call that a script makes when nobody is signed in. */
export function scriptRequest(): string {
  const ofScript = ['Sec-Fetch-Mode: cors', 'Sec-Fetch-Site: same-origin', 'Sec-Fetch-Dest: empty']
  const lines = [
    'GET /portals/main HTTP/1.1',
    'Host: auth.example.com',
    ...BROWSER.filter((line) => !line.startsWith('Sec-') && !line.startsWith('Accept:')),
    'Accept: */*',
    ...ofScript,
    ...TRAEFIK,
  ]
  return `${lines.join('\r\n')}\r\n\r\n`
}

/** What an app sends to verify the session token of a visitor. */
export function verifyRequest(token: string): string {
  const headers = [`Authorization: Bearer ${token}`]
  return get('/api/portals/main/verify', 'auth.example.com', headers)
}

/** What a browser sends when somebody signs out. */
export function logoutRequest(token: string): string {
  const lines = [
    'POST /portals/main/logout HTTP/1.1',
    'Host: auth.example.com',
    ...BROWSER,
    'Origin: https://auth.example.com',
    'Content-Type: application/x-www-form-urlencoded',
    'Content-Length: 0',
    `Cookie: ${sessionCookieName(PORTAL)}=${token}`,
    'X-Forwarded-For: 198.51.100.7',
  ]
  return `${lines.join('\r\n')}\r\n\r\n`
}

/** A page of an app as a browser asks for it. */
export function pageRequest(path: string, cookie: string): string {
  return get(path, 'app.example.com', [`Cookie: ${cookie}`])
}

function get(target: string, host: string, headers: readonly string[]): string {
  const lines = [`GET ${target} HTTP/1.1`, `Host: ${host}`, ...BROWSER, ...headers]
  return `${lines.join('\r\n')}\r\n\r\n`
}

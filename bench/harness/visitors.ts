import { createSigner } from 'fast-jwt'
import { deriveKeys } from '../../services/forward-auth/src/key-ring.ts'
import { cookiesOf } from '../../services/forward-auth/src/session/cookie.ts'
import { SESSION_TYPE } from '../../services/forward-auth/src/session/sessions.ts'
import { pageUrl, type Site } from '../../services/forward-auth/src/sites.ts'
import { SESSION_SECRET } from './service-files.ts'

const SITE: Site = {
  domain: 'example.com',
  authOrigin: 'https://auth.example.com',
  basePath: '',
}

const LIFETIME = 8 * 3_600
const PORTAL = { name: 'main' }
const CLAIM_LENGTH = 3_000

/** Cookie headers of as many visitors, each with two cookies of the app and a session of their own. */
export async function visitorCookies(count: number, tokenLength = 0): Promise<string[]> {
  const { kid, secret: key } = deriveKeys([SESSION_SECRET], 'session').first
  const header = { alg: 'HS256', typ: SESSION_TYPE } as const
  const sign = createSigner({ algorithm: 'HS256', key, kid, header })
  const iat = Math.floor(Date.now() / 1_000)
  return Array.from({ length: count }, (_, n) => {
    const id = `${n}`.padStart(6, '0')
    const claims = {
      sub: `5f0c2c1e-93a4-4f57-b0d8-${id}a1b2c3`,
      name: `Ada Lovelace ${id}`,
      email: `ada.${id}@example.com`,
      email_verified: true,
      groups: ['staff', 'engineering'],
      iss: pageUrl({ portal: PORTAL, site: SITE }, ''),
      aud: SITE.domain,
      sid: `session-of-${id}`.padEnd(22, '0'),
      iat,
      nbf: iat,
      exp: iat + LIFETIME,
      gatehouse_provider: 'corp',
    }
    const missing = Math.max(0, Math.floor(((tokenLength - sign(claims).length) * 3) / 4))
    const cookies = cookiesOf(sign({ ...claims, ...filler(missing) }), PORTAL)
    const pairs = cookies.map((cookie) => cookie.join('='))
    return ['theme=dark', ...pairs, `app_session=${id.repeat(6)}`].join('; ')
  })
}

/** Claims of about that many characters. */
function filler(length: number): object {
  const claims: Record<string, string> = {}
  for (let rest = length; rest > 0; rest -= CLAIM_LENGTH)
    claims[`more_${rest}`] = 'x'.repeat(Math.min(rest, CLAIM_LENGTH))
  return claims
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

/** The check that Traefik makes before a program's request. */
export function programRequest(authorization: string): string {
  return get('/portals/main', 'auth.example.com', [`Authorization: ${authorization}`, ...TRAEFIK])
}

/** The check of a page that somebody opens who is not signed in. */
export function anonymousRequest(): string {
  return get('/portals/main', 'auth.example.com', TRAEFIK)
}

/** What an app sends to verify the session token of a visitor. */
export function verifyRequest(cookies: string): string {
  const [, token = ''] = /__Secure-gatehouse\.main=([^;]+)/.exec(cookies) ?? []
  const headers = [`Authorization: Bearer ${token}`]
  return get('/api/portals/main/verify', 'auth.example.com', headers)
}

/** What a browser sends when somebody signs out. */
export function logoutRequest(cookie: string): string {
  const lines = [
    'POST /portals/main/logout HTTP/1.1',
    'Host: auth.example.com',
    ...BROWSER,
    'Origin: https://auth.example.com',
    'Content-Type: application/x-www-form-urlencoded',
    'Content-Length: 0',
    `Cookie: ${cookie}`,
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

import fc from 'fast-check'
import type { InjectOptions } from 'fastify'
import t, { type Test } from 'tap'
import { portalOf, startApp, yamlOf } from './app.ts'
import { BROWSER, type RequestHeaders, SHAPES } from './shapes.ts'

const PORTALS =
  portalOf('main', `policies: { admin: 'Group("admin")' }`) +
  portalOf('header', 'headers: [remote-*, x-auth-request-*]') +
  portalOf('other', 'assertion: { hosts: ["*.example.com"], header: X-Token }')

const { app, signIn } = await startApp(t, yamlOf(PORTALS))
const REAL = await Promise.all(['main', 'header', 'other'].map((portal) => signIn(portal)))
/** What counts elsewhere: the cookie of another app, and the token of the sign-in host by the name of an app's. */
const OTHER_APP = await signIn('main', {}, { host: 'an-app-that-nobody-asks-for.example.com' })
const SIGN_IN_HOST = await signIn('main', {}, { host: 'auth.example.com' })
const ELSEWHERE = [OTHER_APP, SIGN_IN_HOST.replace('gatehouse.', 'gatehouse-app.')]

/** A text of a few that matter, whole or in parts, or anything a header can hold. */
const textOf = (...known: string[]) =>
  fc.oneof(
    { weight: 4, arbitrary: fc.constantFrom(...known) },
    { weight: 1, arbitrary: fc.string({ maxLength: 60 }) },
    {
      weight: 2,
      arbitrary: fc
        .tuple(fc.constantFrom(...known), fc.string({ maxLength: 8 }), fc.constantFrom(...known))
        .map((parts) => parts.join('')),
    },
  )

const uri = textOf(
  '/',
  '/a?b=c',
  '//evil',
  '/\\x',
  'x:@y',
  '/%2e%2e/',
  '/#',
  '',
  '*',
  '/policy/any/',
  '/?gatehouse-ticket=x',
)
const host = textOf('app.example.com', 'example.com', 'EXAMPLE.com.', 'evil.test', '', '127.0.0.1')
const method = textOf('GET', 'POST', 'OPTIONS', 'HEAD', 'get', 'CONNECT', '', 'GET, GET')
const scheme = textOf('https', 'http', 'wss', 'ws', 'ftp', '')
const condition = textOf('true', 'Group("admin")', '!claims.x', '"x"', 'true ||', '', '1 == 1')

/** Real tokens that were changed in one place, and what was never one. */
const cookie = fc.oneof(
  textOf(
    ...['', '__Host-gatehouse-app.main=', '__Host-gatehouse-app.main=x.y.z', 'a=b; c=d', ';;='],
    ...['__Host-gatehouse.main=x.y.z', '__Host-gatehouse-hop.main.01234567=0123456789012345678901'],
  ),
  fc
    .tuple(
      fc.constantFrom(...REAL),
      fc.nat(),
      fc.constantFrom('A', 'b', '.', '~', '', ';', '=', ' '),
    )
    .map(([text, at, put]) => spoil(text, at, put)),
  fc.constantFrom(...ELSEWHERE, SIGN_IN_HOST, `${OTHER_APP}; ${REAL[0]}`),
  // Whole, but under the name of another portal.
  fc
    .shuffledSubarray([0, 1, 2], { minLength: 2 })
    .map(([from = 0, to = 0]) => `${REAL[to]?.split('=')[0]}=${REAL[from]?.split('=')[1]}`),
)

/** Changes the token; its last character holds bits that do not count. */
function spoil(text: string, at: number, put: string): string {
  const start = text.indexOf('=') + 1
  const index = start + (at % (text.length - start - 1))
  const spoiled = text.slice(0, index) + put + text.slice(index + 1)
  return spoiled === text ? `${text.slice(0, index)}_-${text.slice(index)}` : spoiled
}

const header = (name: string, value: fc.Arbitrary<string>) =>
  value.map((text): [string, string] => [name, text])

/** One header more, another one, or one less. */
const change = fc.oneof(
  header('X-Forwarded-Method', method),
  header('X-Forwarded-Proto', scheme),
  header('X-Forwarded-Host', host),
  header('X-Forwarded-Uri', uri),
  header('X-Original-Method', method),
  header(
    'X-Original-URL',
    fc.tuple(scheme, host, uri).map(([s, h, u]) => `${s}://${h}${u}`),
  ),
  header('Host', host),
  header('X-Forward-Auth-If', condition),
  header('Authorization', textOf('Bearer x.y.z', 'Basic eDp5', 'APIKey x', REAL[0] ?? '')),
  header('Accept', textOf('text/html', '*/*', 'application/json')),
  header('Sec-Fetch-Mode', textOf('navigate', 'cors', 'websocket')),
  header('X-Forwarded-User', textOf('admin', 'root')),
  header('X_Forwarded_User', textOf('admin')),
  header('X-Forwarded-For', textOf('127.0.0.1', '203.0.113.7, 10.0.0.1', 'x')),
  header('Upgrade', textOf('websocket')),
  header('Origin', textOf('https://app.example.com', 'null')),
  header('Access-Control-Request-Method', textOf('PUT')),
  header('Connection', textOf('X-Forwarded-Host', 'close', 'X-Forwarded-User, Cookie')),
)

const query = fc.oneof(
  { weight: 4, arbitrary: fc.constant('') },
  condition.map((source) => `?if=${encodeURIComponent(source)}`),
  textOf('?policy=admin', '?policy=any', '?policy', '?', '?if', '&', '?rd=/'),
)
const often = <T>(usual: T, ...others: T[]) =>
  fc.oneof({ weight: 8, arbitrary: fc.constant(usual) }, fc.constantFrom(...others))

/** A form would get a page in place of a redirect. */
const GET = { 'X-Forwarded-Method': 'GET', 'X-Original-Method': 'GET' }

const request = fc.record({
  shape: fc.constantFrom(...SHAPES),
  portal: often('main', 'header', 'other', 'nope', 'main/', 'main%2f', '__proto__'),
  suffix: often('', '/', '//', '/x', '/%00'),
  query,
  cookie,
  browser: fc.boolean(),
  changes: fc.array(change, { maxLength: 3 }),
  method: often(undefined, 'GET', 'HEAD', 'POST', 'OPTIONS', 'PROPFIND'),
  remoteAddress: often('127.0.0.1', '198.51.100.9', '::1', ''),
})

/** A header cannot hold what ends it. */
const sendable = (all: RequestHeaders): RequestHeaders =>
  Object.fromEntries(
    Object.entries(all).map(([name, text]) => [name, text.replace(/[\r\n\0]/g, '')]),
  )

/** Holds that no generated request without a valid session is let through, nor breaks anything. */
export async function testNoSession(t: Test, runs: number): Promise<void> {
  const [shape] = SHAPES
  const whole = { ...shape?.headers, cookie: REAL[0] ?? '' }
  const { statusCode } = await app.inject({ url: '/portals/main', headers: whole })
  t.equal(statusCode, 200, 'with a session they pass')

  const seen = new Map<number, number>()
  await fc.assert(
    fc.asyncProperty(request, async ({ shape, browser, changes, cookie, ...made }) => {
      const { statusCode } = await app.inject({
        method: (made.method ?? shape.method) as NonNullable<InjectOptions['method']>,
        url: `/portals/${made.portal}${shape.path}${made.suffix}${made.query}`,
        headers: sendable({
          ...shape.headers,
          ...(browser && { ...BROWSER, ...GET }),
          cookie,
          ...Object.fromEntries(changes),
        }),
        remoteAddress: made.remoteAddress,
      })
      seen.set(statusCode, (seen.get(statusCode) ?? 0) + 1)
      return statusCode >= 300 && statusCode !== 500
    }),
    { numRuns: runs },
  )
  // Otherwise the generated requests would all end at the first hurdle.
  for (const status of [302, 400, 401, 403, 404])
    t.ok(Number(seen.get(status)) > runs / 100, `${status}: ${seen.get(status)} times`)
}

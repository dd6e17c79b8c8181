import fc from 'fast-check'
import t from 'tap'
import { TIME_SCRIPT } from '../../../../packages/service-kit/src/http/time.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { portalOf, yamlOf } from '../app.ts'
import { createFakeProvider } from '../fake-provider.ts'
import { start } from '../portal/kit.ts'
import { BROWSER } from '../shapes.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'FWA_CALLBACK_FOREIGN', 'FWA_CALLBACK_SHARED', 'check refused', 'request refused')

const RUNS = Number(process.env.GATEHOUSE_FUZZ ?? 20_000) / 10
const OURS = /^https:\/\/(auth\.example\.com|app\.example\.com(:8443)?|example\.com)\//
const PROVIDER = /^https:\/\/(corp|code)\.test\/authorize\?/

/** Writes times in the zone of the reader. */
const OWN_SCRIPT = `<script>${TIME_SCRIPT}</script>`

/** A cookie that holds a session. */
const SESSION = /^__(Host|Secure)-gatehouse(-app)?\.\w+=[^;]/

const PATHS = [
  '/signin',
  '/providers/corp',
  '/providers/none',
  '/oauth2/callback',
  '/providers/corp/callback',
  '/providers/code/callback',
  '/logout',
  '/profile',
  '/profile.json',
  '/account',
  '/account/end-all',
  '/sessions',
]

const often = (usual: string, ...others: string[]) =>
  fc.oneof({ weight: 4, arbitrary: fc.constant(usual) }, fc.constantFrom(...others))

/** A text of a few that matter, two of them joined, or anything. */
const textOf = (...known: string[]) =>
  fc.oneof(
    { weight: 4, arbitrary: fc.constantFrom(...known) },
    {
      weight: 2,
      arbitrary: fc
        .tuple(fc.constantFrom(...known), fc.constantFrom(...known))
        .map((two) => two.join('')),
    },
    { weight: 1, arbitrary: fc.string({ maxLength: 40 }) },
  )

const url = textOf(
  'https://app.example.com/a?b=c',
  'https://app.example.com:8443/',
  'https://evil.test/',
  '//evil.test',
  '/\\evil.test',
  'https://app.example.com@evil.test/',
  'https://example.com.evil.test',
  'javascript:alert(1)',
  'http://app.example.com/',
  'https:evil.test',
  '%0d%0aLocation: https://evil.test',
  '',
)

t.test('invariant: no page makes a session of nothing, or sends anybody astray', async (t) => {
  const others = [createFakeProvider('code').provider]
  const { app, visitor, signIn } = await start(t, {
    yaml: yamlOf(portalOf('main') + portalOf('other')),
    others,
  })
  const begun = await visitor().open('https://auth.example.com/portals/main/providers/corp')
  const state = new URL(begun.headers.location ?? '').searchParams.get('state') ?? ''
  const [login = ''] = String(begun.headers['set-cookie']).split(';')

  const session = await signIn('main', {}, { host: 'auth.example.com' })

  const request = fc.record({
    isSignedIn: fc.boolean(),
    method: often('GET', 'HEAD', 'POST', 'OPTIONS', 'PUT'),
    path: fc.oneof({ weight: 8, arbitrary: fc.constantFrom(...PATHS) }, textOf(...PATHS)),
    portal: often('main', 'other', 'none', 'main%2f..'),
    query: fc.oneof(
      fc.record(
        { rd: url, switch: fc.constant('1'), hop: textOf('x', state) },
        { requiredKeys: ['rd'] },
      ),
      fc.record({ state: textOf(state, state.slice(0, -2)), code: textOf('x') }),
      fc.dictionary(
        fc.constantFrom('rd', 'state', 'code', 'switch', 'error', 'iss', 'policy'),
        fc.oneof(url, textOf('1', state, 'access_denied', 'https://corp.test')),
        { maxKeys: 3 },
      ),
    ),
    headers: fc.dictionary(
      fc.constantFrom(
        'host',
        'x-forwarded-host',
        'x-forwarded-for',
        'origin',
        'cookie',
        'authorization',
        'referer',
        'x-forwarded-proto',
        'x-original-url',
      ),
      fc.oneof(
        url,
        textOf(
          'auth.example.com',
          'evil.test',
          'AUTH.example.com:443',
          'null',
          'http',
          '127.0.0.1',
        ),
        textOf(login, `${login}; ${login}`, login.slice(0, -3), '__Host-gatehouse.main=x.y.z'),
      ),
      { maxKeys: 2 },
    ),
    remoteAddress: fc.constantFrom('127.0.0.1', '198.51.100.9'),
  })

  const seen = new Map<number, number>()
  await fc.assert(
    fc.asyncProperty(request, async ({ path, portal, query, isSignedIn, ...made }) => {
      const answer = await app.inject({
        method: made.method as 'GET',
        url: `/portals/${portal}${encodeURI(path)}?${new URLSearchParams(query)}`,
        headers: {
          ...BROWSER,
          host: 'auth.example.com',
          ...(isSignedIn && { cookie: session }),
          ...sendable(made.headers),
        },
        remoteAddress: made.remoteAddress,
      })
      const { statusCode, headers: sent } = answer
      seen.set(statusCode, (seen.get(statusCode) ?? 0) + 1)
      const { location } = sent
      if (location !== undefined && !OURS.test(location) && !PROVIDER.test(location)) return false
      const cookies = [sent['set-cookie'] ?? []].flat()
      const signsIn = cookies.some((cookie) => SESSION.test(cookie))
      const isSafe = !/<script|="\s*javascript:/i.test(answer.body.replace(OWN_SCRIPT, ''))
      return !signsIn && isSafe && statusCode < 600 && statusCode !== 500
    }),
    { numRuns: RUNS },
  )
  for (const status of [200, 303, 400, 403, 404])
    t.ok(Number(seen.get(status)) > RUNS / 100, `${status}: ${seen.get(status)} times`)
})

/** A header cannot hold what ends it. */
function sendable(headers: Record<string, string>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, text]) => [name, text.replace(/[^\t -~]/g, '')]),
  )
}

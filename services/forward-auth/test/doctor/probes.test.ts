import t, { type Test } from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { withOther } from '../../../../scripts/test/with-other.ts'
import { createProbe, PROBE_MARK, REPORT_PATH } from '../../src/doctor/probes.ts'
import { deriveKeys, sealValue } from '../../src/keys/key-ring.ts'
import { portalOf, startApp, yamlOf } from '../app.ts'
import { BROWSER, SHAPES, type Shape } from '../shapes.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'FWA_HEADER_INVALID', 'FWA_HOST_UNKNOWN', 'FWA_PEER_UNTRUSTED')

const MINUTE = 60_000
const POLICIES = `policies: { admin: 'Group("admin")' }, preflight: true,
  rules: [{ paths: [/public/*], require: anyone }]`.replace(/\s+/g, ' ')

async function start(t: Test) {
  const test = await startApp(t, yamlOf(portalOf('main', POLICIES)))
  const { app, clock } = test
  const probe = (now = clock.now()) => createProbe(app.keys.login, now)
  const report = (token: string) =>
    app.inject({ url: REPORT_PATH, headers: { 'user-agent': PROBE_MARK + token } })
  const checksOf = async (token: string) => (await report(token)).json()
  return { ...test, probe, report, checksOf }
}

const agent = (token: string) => ({ 'user-agent': PROBE_MARK + token })
/** The check of a proxy, about a path that holds the token. */
const about = (shape: Shape, token: string): Shape => {
  const put = (text: string) => text.replace('/a/b?q=1', `/${PROBE_MARK}${token}`)
  const headers = Object.entries(shape.headers).map(([name, value]) => [name, put(value)])
  return { ...shape, path: put(shape.path), headers: Object.fromEntries(headers) }
}

t.test('the report tells what arrived, by the path or User-Agent, from every proxy', async (t) => {
  const { check, probe, checksOf } = await start(t)
  for (const shape of SHAPES)
    for (const isInPath of [true, false]) {
      const token = probe()
      const asked = isInPath ? about(shape, token) : shape
      const headers = { cookie: 'own=1', ...(isInPath ? {} : agent(token)) }
      const { statusCode: status } = await check(asked, headers)
      t.match(
        await checksOf(token),
        [
          {
            ...{ dialect: shape.dialect.name, status, peer: '127.0.0.1', cookieLength: 5 },
            request: { method: 'POST', scheme: 'https', host: 'app.example.com', target: /^\/./ },
          },
        ],
        `${shape.proxy}, ${isInPath ? 'path' : 'User-Agent'}`,
      )
    }
})

/** Where a check sends somebody, without the secret that is another one each time. */
const withoutHop = (location: string | undefined) => location?.replace(/&hop=[\w.-]+$/, '&hop=')

t.test('a check that cannot be read is told with its error', async (t) => {
  const { check, probe, checksOf } = await start(t)
  const shape = SHAPES[0]!
  const table: [headers: Record<string, string>, remoteAddress: string, told: object][] = [
    [{ 'x-forwarded-host': 'evil.test' }, '127.0.0.1', { code: 'FWA_HOST_UNKNOWN' }],
    [{ 'x-forwarded-method': '' }, '127.0.0.1', { code: 'FWA_HEADER_INVALID', status: 400 }],
    [{}, '192.0.2.1', { code: 'FWA_PEER_UNTRUSTED', peer: '192.0.2.1' }],
  ]
  for (const [headers, remoteAddress, told] of table) {
    const token = probe()
    await check(shape, { ...headers, ...agent(token) }, { remoteAddress })
    t.match(await checksOf(token), [told])
  }
})

t.test('a probe changes no answer, and lets nothing pass', async (t) => {
  const { check, probe, signIn } = await start(t)
  const cookie = await signIn('main')
  const bodies = new Set<string>()
  for (const shape of SHAPES)
    for (const headers of [{}, BROWSER, { cookie }, { ...BROWSER, cookie }] as object[])
      for (const query of shape.path.includes('envoy') ? [''] : ['', '?policy=admin']) {
        const [plain, probed] = [
          await check(shape, { ...headers }, { query }),
          await check(shape, { ...headers, ...agent(probe()) }, { query }),
        ]
        t.equal(probed.statusCode, plain.statusCode, `${shape.proxy} ${query}`)
        const [went, wouldGo] = [probed, plain].map(({ headers }) => withoutHop(headers.location))
        t.equal(went, wouldGo)
        bodies.add(probed.body)
      }
  t.notOk(
    [...bodies].some((body) => body.includes('cookieLength')),
    'no report in an answer',
  )
})

t.test('a check that passes is kept only where anyone does', async (t) => {
  const { check, probe, checksOf, signIn } = await start(t)
  const token = probe()
  const answer = await check(SHAPES[0]!, { ...agent(token), cookie: await signIn('main') })
  t.equal(answer.statusCode, 200)
  t.strictSame(await checksOf(token), [])
  const open = probe()
  await check(SHAPES[0]!, { ...agent(open), 'x-forwarded-uri': '/public/a' })
  t.match(await checksOf(open), [{ status: 200, request: { target: '/public/a' } }])
})

t.test('only who holds a valid token reads a report', async (t) => {
  const { app, check, probe, report, clock } = await start(t)
  const token = probe()
  await check(SHAPES[0]!, agent(token))
  const foreign = deriveKeys(['f'.repeat(32)], 'login')
  const table: [what: string, token: string][] = [
    ['nothing', ''],
    ['of another key', createProbe(foreign, clock.now())],
    ['of another purpose', sealValue(clock.now() + MINUTE, app.keys.login, 'probe')],
    ['of a longer life', createProbe(app.keys.login, clock.now() + 1)],
    ['with other bits', withOther(token, -3)],
    ['cut off', token.slice(0, -1)],
  ]
  for (const [what, wrong] of table) {
    if (wrong === token) continue
    t.equal((await report(wrong)).statusCode, 404, what)
  }
  t.equal((await report(token)).json().length, 1)
  t.equal((await report(probe())).json().length, 0, 'another one reads nothing')
  await clock.advance(MINUTE)
  t.equal((await report(token)).statusCode, 404, 'after a minute')
  t.equal((await app.inject(REPORT_PATH)).statusCode, 404)
})

t.test('no session and no login is read from the token of a probe', async (t) => {
  const { app, probe } = await start(t)
  const token = probe()
  for (const headers of [
    { cookie: `__Host-gatehouse.main=${token}; __Host-gatehouse-app.main=${token}` },
    { authorization: `Bearer ${token}` },
  ]) {
    const url = '/api/portals/main/verify'
    t.equal((await app.inject({ url, headers })).statusCode, 401)
    t.equal(
      (
        await app.inject({
          url: '/portals/main/profile.json',
          headers: { ...headers, host: 'auth.example.com' },
        })
      ).statusCode,
      401,
    )
  }
})

t.test('what is kept is limited', async (t) => {
  const { check, probe, checksOf } = await start(t)
  const [first, token] = [probe(), probe()]
  await check(SHAPES[0]!, agent(first))
  for (let i = 0; i < 20; i++)
    await check(SHAPES[0]!, { ...agent(token), accept: 'x'.repeat(17_000) })
  const checks = await checksOf(token)
  t.equal(checks.length, 8)
  t.equal(checks[0].headers.accept.length, 16_384)
  for (let i = 0; i < 200; i++) await check(SHAPES[0]!, agent(probe()))
  t.strictSame(await checksOf(first), [], 'the oldest is dropped')
})

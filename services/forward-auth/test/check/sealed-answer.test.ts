import fc from 'fast-check'
import t from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { sealValue } from '../../src/keys/key-ring.ts'
import { portalOf, startApp, yamlOf } from '../app.ts'
import { BROWSER, SHAPES, type Shape } from '../shapes.ts'

expectWarnings(t, 'check refused')

const NGINX = SHAPES.find(({ proxy }) => proxy === 'nginx') as Shape
const { 'X-Gatehouse-Answer': _, ...OF_BEFORE } = NGINX.headers
const PROGRAM = { accept: 'application/json' }
const KEY = 'key-of-the-ci-job-0123456789abcdef'
const PORTALS =
  portalOf(
    'main',
    `callers: { keys: [{ name: ci, key: ${KEY}, hosts: [app.example.com] }] }, policies: { admins: 'Group("a")' }`,
  ) + portalOf('other')

const { app, clock, log, signIn } = await startApp(t, yamlOf(PORTALS))
const ADA = { cookie: await signIn('main') }
const ASK = '/portals/main/authz/nginx'

/** The check alone, of which nginx keeps a status and single headers. */
const ask = (headers: object, { sent = NGINX.headers, url = ASK } = {}) =>
  app.inject({ url, headers: { ...sent, ...headers } })
const unpack = (sealed: unknown, more: object = {}, url = `${ASK}/answer`) =>
  app.inject({
    url,
    headers: { ...(sealed !== undefined && { 'x-gatehouse-answer': String(sealed) }), ...more },
  })
const sealedFor = async (headers: object, url = ASK) => {
  const { statusCode, headers: answered, body } = await ask(headers, { url })
  const { 'x-gatehouse-answer': sealed, ...others } = answered
  t.same([statusCode, body], [403, ''])
  t.same(
    Object.keys(others).filter((name) => !['content-length', 'date', 'connection'].includes(name)),
    [],
    'nothing beside it',
  )
  return sealed
}
const sealedBy = (answer: object) => sealValue(answer, app.keys.login, 'answer of main')
const ANSWER = { status: 302, headers: {}, body: '', until: clock.now() + 60_000 }

t.test('a refusal is unpacked whole: status, every header and the body', async (t) => {
  const rows: [what: string, headers: object, url: string, expected: object][] = [
    [
      'a page',
      { ...BROWSER, 'X-Original-Method': 'GET' },
      ASK,
      { statusCode: 302, headers: { location: /signin\?rd=/, 'set-cookie': [/-hop/, /-binding/] } },
    ],
    [
      'a form',
      BROWSER,
      ASK,
      {
        statusCode: 403,
        headers: { 'set-cookie': [/-hop/, /-binding/] },
        body: /Nothing was sent/,
      },
    ],
    [
      'a program',
      PROGRAM,
      ASK,
      { statusCode: 401, headers: { 'www-authenticate': /Cookie realm/ }, body: /FWA_NO_SESSION/ },
    ],
    [
      'no admin',
      { ...PROGRAM, ...ADA },
      `${ASK}?policy=admins`,
      { statusCode: 403, body: /FWA_FORBIDDEN/ },
    ],
    [
      'no admin, a page',
      { ...BROWSER, ...ADA },
      `${ASK}?policy=admins`,
      { statusCode: 403, headers: { 'content-type': /html/ }, body: /switch=1/ },
    ],
    ['no such condition', { ...PROGRAM, ...ADA }, `${ASK}?if=(`, { statusCode: 400 }],
  ]
  for (const [what, headers, url, expected] of rows)
    t.match(await unpack(await sealedFor(headers, url)), expected, what)
  const passed = await ask(ADA)
  t.match(passed, { statusCode: 200, headers: { 'x-forwarded-user': 'ada' } })
  t.equal(passed.headers['x-gatehouse-answer'], undefined, 'what passes is not sealed')
})

t.test('one decision is one line of the log, and one row of the audit trail', async (t) => {
  const [lines, rows] = [
    () => log.filter(({ msg }) => msg === 'request'),
    () => log.filter(({ event }) => event === 'access-refused'),
  ]
  const before = [lines().length, rows().length]
  const sealed = await sealedFor(
    { ...PROGRAM, authorization: `APIKey ${KEY}` },
    `${ASK}?policy=admins`,
  )
  const { statusCode } = await unpack(sealed)
  t.equal(statusCode, 403)
  t.same([lines().length, rows().length], [(before[0] ?? 0) + 1, (before[1] ?? 0) + 1])
})

t.test('the page of a refusal has the ID of the check', async (t) => {
  const { body } = await unpack(await sealedFor({ ...BROWSER, ...ADA }, `${ASK}?policy=admins`))
  const [line] = log.filter(({ msg }) => msg === 'request').slice(-1)
  t.match(body, String(line?.reqId))
})

t.test('unpacking reads nothing else of the request', async (t) => {
  const sealed = await sealedFor(PROGRAM)
  const own = await unpack(sealed)
  for (const more of [ADA, BROWSER, { 'x-forwarded-host': 'auth.example.com' }, OF_BEFORE]) {
    const { statusCode, body, headers } = await unpack(sealed, more)
    t.same([statusCode, body, headers['x-forwarded-user']], [own.statusCode, own.body, undefined])
  }
  t.equal((await unpack(sealed, ADA, `${ASK}/answer?policy=any&if=true`)).statusCode, 401)
})

t.test('nothing else is unpacked, and nothing that lets a request pass', async (t) => {
  const sealed = String(await sealedFor(PROGRAM))
  const forged = [
    undefined,
    '',
    'sealed',
    'x',
    sealed.slice(1),
    `${sealed}A`,
    `${sealed}, ${sealed}`,
  ]
  const made: object[] = [
    { ...ANSWER, until: clock.now() },
    { ...ANSWER, status: '302' },
    { ...ANSWER, headers: { a: null } },
    { status: 302 },
    [],
  ]
  for (const one of [...forged, ...made.map(sealedBy)])
    t.equal((await unpack(one)).statusCode, 403, String(one).slice(0, 20))
  t.equal(
    (await unpack(sealed, {}, '/portals/other/authz/nginx/answer')).statusCode,
    403,
    'of another portal',
  )
  t.equal((await unpack(sealedBy(ANSWER))).statusCode, 302, 'for comparison')
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: -1, max: 299 }), fc.string(), async (status, body) => {
      const { statusCode } = await unpack(sealedBy({ ...ANSWER, status, body }))
      if (statusCode !== 403) throw new Error(`${status} is unpacked`)
    }),
  )
  await clock.advance(60_001)
  t.equal((await unpack(sealed)).statusCode, 403, 'after a minute')
})

t.test(
  'a configuration that asks twice is told what to do, by a status that ends there',
  async (t) => {
    for (const headers of [
      ADA,
      {},
      { 'x-gatehouse-answer': 'x' },
      { ...ADA, 'x-forwarded-host': 'auth.example.com' },
    ]) {
      const {
        statusCode,
        headers: answered,
        body,
      } = await ask({ ...PROGRAM, ...headers }, { sent: OF_BEFORE })
      t.equal(statusCode, 400, 'nginx answers its client 500 for it, and asks nobody else')
      t.match(JSON.parse(body), {
        code: 'FWA_HEADER_INVALID',
        detail: /copy `location = \/_gatehouse` and `@refused`/,
      })
      t.same([answered['x-forwarded-user'], answered['x-gatehouse-answer']], [undefined, undefined])
    }
  },
)

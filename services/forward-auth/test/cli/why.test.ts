import { localTime } from '@gatehouse/service-kit/program'
import t, { type Test } from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { listAudit } from '../../src/cli/audit.ts'
import { endSessions } from '../../src/session/ends.ts'
import { portalOf, startApp, yamlOf } from '../app.ts'
import { BROWSER, SHAPES } from '../shapes.ts'

// What is refused in these tests, and said.
expectWarnings(t, 'FWA_HOST_RESERVED', 'FWA_HOST_UNKNOWN', 'AUTH_KEY_INVALID')

const KEY = 'correct-horse-battery-staple'
const SCRIPT_KEY = 'deploy-horse-battery-staple'
const OPTIONS = `
  allow: { groups: [staff, hr] },
  callers: { keys: [
    { name: ci, key: ${KEY}, hosts: [ci.example.com] },
    { name: deployer, key: ${SCRIPT_KEY}, scopes: [read], hosts: [app.example.com] } ] },
  policies: {
    admin: 'Group("admin")', all: 'true', nobody: 'false', strong: { acr: [mfa] }, deploy: 'Scope("deploy")' },
  rules: [
    { hosts: [tools.example.com], tools: [read_note], require: [all] },
    { paths: [/strong/*], require: [strong] },
    { paths: [/deploy/*], require: [deploy] },
    { methods: [DELETE], require: [nobody] },
    { paths: [/closed/*], require: [nobody] } ]`
const BOB = { sub: '8f3c2d1e', name: 'Bob Miller', preferred_username: 'bob', groups: ['staff'] }
const MAIL = 'bob@example.com'

interface Asked {
  readonly claims?: object | undefined
  readonly headers?: Record<string, string>
  readonly query?: string
}

async function start(t: Test) {
  const test = await startApp(t, yamlOf(portalOf('main', OPTIONS.replace(/\s+/g, ' '))))
  const { app, signIn, check, log } = test
  /** A page that somebody asks for. Gives its status, and the request ID that it shows. */
  async function ask({ claims, headers = {}, query = '?policy=any' }: Asked) {
    const host = headers['X-Forwarded-Host'] ?? APP
    const cookie = claims && {
      cookie: await signIn('main', { ...BOB, email: MAIL, ...claims }, { host }),
    }
    const method = { ...BROWSER, 'X-Forwarded-Method': 'GET' }
    const answer = await check(SHAPES[0]!, { ...method, ...cookie, ...headers }, { query })
    const request = String(log.findLast(({ reqId }) => reqId !== undefined)?.reqId)
    const isPage = String(answer.headers['content-type']).startsWith('text/html')
    t.equal(answer.body.includes(request), isPage, 'a page shows its request ID')
    return { status: answer.statusCode, request }
  }
  async function why(query: Partial<Parameters<typeof listAudit>[0]>): Promise<string> {
    await app.auditTrail.flush()
    const told: string[] = []
    for await (const text of listAudit({
      rows: app.authStore.audit.rows(0),
      asStory: true,
      ...query,
    }))
      told.push(text)
    return told.join('')
  }
  return { ...test, ask, why }
}

const to = (host: string, path: string, rest: Record<string, string> = {}) => ({
  ...{ 'X-Forwarded-Host': host, 'X-Forwarded-Uri': path },
  ...rest,
})
const APP = 'app.example.com'
const CALL = { 'Mcp-Protocol-Version': '2026-07-28', 'Mcp-Method': 'tools/call' }
const JSON_ONLY = { Accept: 'application/json', 'Sec-Fetch-Mode': 'cors' }

t.test('why each kind of refusal was one: the request ID leads to its clause', async (t) => {
  const { ask, why } = await start(t)
  const table: [kind: string, asked: Asked, status: number, told: RegExp][] = [
    [
      'groups of a policy',
      { claims: {}, query: '?policy=admin' },
      403,
      /refused by policy admin, because this is not true: Group\("admin"\)\n {2}groups: staff/,
    ],
    [
      'allow of the portal',
      { claims: { groups: ['guests'] } },
      403,
      /refused by allow, because this is not true: groups: staff, hr\n {2}groups: guests/,
    ],
    [
      'a rule',
      { claims: {}, headers: to(APP, '/closed/files') },
      403,
      /GET \/closed\/files .*\n {2}refused by policy nobody/,
    ],
    [
      'a method',
      { claims: {}, headers: to(APP, '/files', { 'X-Forwarded-Method': 'DELETE' }) },
      403,
      /DELETE \/files .*\n {2}refused by policy nobody/,
    ],
    [
      'a tool',
      { claims: {}, headers: to('tools.example.com', '/', { ...CALL, 'Mcp-Name': 'drop' }) },
      403,
      /refused by tools\n/,
    ],
    [
      'step-up',
      { claims: {}, headers: to(APP, '/strong/', JSON_ONLY) },
      401,
      /refused by policy strong\n/,
    ],
    [
      'a key without the host',
      { headers: to(APP, '/', { ...JSON_ONLY, Authorization: `APIKey ${KEY}` }) },
      403,
      /psk:ci\n.*\n {2}refused by hosts\n/,
    ],
    [
      'a scope',
      { headers: to(APP, '/deploy/now', { ...JSON_ONLY, Authorization: `APIKey ${SCRIPT_KEY}` }) },
      403,
      /psk:deployer\n.*\n {2}refused by policy deploy, .*Scope\("deploy"\)/,
    ],
    [
      'a reserved host',
      { headers: to('auth.example.com', '/') },
      403,
      /refused by FWA_HOST_RESERVED\n/,
    ],
    [
      'an unknown host',
      { headers: to('elsewhere.test', '/') },
      403,
      /refused by FWA_HOST_UNKNOWN\n/,
    ],
    [
      'a wrong key',
      { headers: to(APP, '/', { ...JSON_ONLY, Authorization: 'APIKey no' }) },
      401,
      /refused by AUTH_KEY_INVALID\n/,
    ],
  ]
  for (const [kind, asked, status, told] of table) {
    const answer = await ask(asked)
    t.equal(answer.status, status, kind)
    t.match(await why({ request: answer.request }), told, kind)
  }
})

t.test('any name of a person leads to their refusals, and to nobody else', async (t) => {
  const { ask, why } = await start(t)
  const secret = '/reset/4fQ9xT2mB7kLzR0pW8sYv3/page?token=hunter2'
  await ask({ claims: {}, query: '?policy=admin', headers: to(APP, secret) })
  await ask({
    claims: { sub: 'eve', preferred_username: 'eve', name: 'Eve', email: 'eve@a.test' },
    query: '?policy=admin',
  })
  const whole = await why({ person: MAIL })
  t.equal(
    whole.replace(/request [\w-]+/, 'request ID').replace(/FWA_FORBIDDEN: .*/, 'FWA_FORBIDDEN'),
    `${localTime('2030-01-01T00:00:00Z')}  access-refused: bob@example.com (corp:8f3c2d1e)
  at app.example.com by GET /reset/*/page from 203.0.113.7
  refused by policy admin, because this is not true: Group("admin")
  groups: staff
  FWA_FORBIDDEN
  request ID

`,
  )
  for (const person of ['8f3c2d1e', 'corp:8f3c2d1e', 'bob', 'Bob Miller', 'BOB@example.com'])
    t.equal(await why({ person }), whole, person)
  await t.rejects(why({ person: MAIL, host: 'other.example.com' }), { message: /about bob@/ })
  await t.rejects(why({ person: 'carol' }), {
    message: 'the audit trail has nothing of that time about carol',
  })
  await t.rejects(why({ person: '' }), {
    message: /^the audit trail has nothing of that time about/,
  })
  await t.rejects(why({ host: 'other.example.com' }), { message: /about other\.example\.com$/ })
  await t.rejects(why({ event: 'sign-out' }), { message: /about anybody$/ })
})

t.test('a second refusal of another kind has its row, also of a script', async (t) => {
  const { ask, why } = await start(t)
  await ask({ claims: {}, headers: to(APP, '/users', JSON_ONLY), query: '?policy=admin' })
  const { status, request } = await ask({ claims: {}, headers: to(APP, '/closed/b', JSON_ONLY) })
  t.equal(status, 403)
  t.match(await why({ request }), /GET \/closed\/b .*\n {2}refused by policy nobody, /)
})

t.test('groups are told whole, and how many there are', async (t) => {
  const { ask, why } = await start(t)
  const ids = Array.from({ length: 20 }, (_, i) => `0f8fad5b-d9cb-469f-a165-7086772${i + 10_000}`)
  const teams = Array.from({ length: 200 }, (_, i) => `team-${i}`)
  const long = Array.from({ length: 20 }, (_, i) => `${i}`.padStart(200, 'x'))
  const table: [groups: string[], told: string[]][] = [
    [ids, ids],
    [teams, [...teams.slice(0, 50), '... (200 in all)']],
    [long, [...long.slice(0, 9), '... (20 in all)']],
  ]
  for (const [i, [groups, told]] of table.entries()) {
    await ask({ claims: { sub: `${i}`, groups }, headers: to(APP, '/closed/') })
    const row = JSON.parse(await why({ person: `corp:${i}`, json: true }))
    t.strictSame(row.groups.split(', '), told)
  }
  const story = await why({ person: 'corp:0' })
  for (const id of ids) t.match(story, id)
})

t.test('the request ID of each error page of a sign-in leads to its row', async (t) => {
  const { app, why } = await start(t)
  const signin = '/portals/main/signin'
  const table: [url: string, code: string][] = [
    [`/portals/main/providers/corp/callback?state=${'x'.repeat(22)}&code=y`, 'FWA_LOGIN_UNKNOWN'],
    ['/portals/main/providers/other', 'FWA_NOT_FOUND'],
    [`${signin}?policy=no-such-policy`, 'FWA_SIGN_IN_POLICY'],
  ]
  for (const [url, code] of table) {
    const headers = { ...BROWSER, host: 'auth.example.com' }
    const { statusCode, body } = await app.inject({ url, headers })
    t.ok(statusCode >= 400, `${url}: ${statusCode}`)
    const [, request = ''] = /([0-9a-f]{8,}-\w+)/.exec(body) ?? []
    t.match(await why({ request }), `access-refused: somebody who is not signed in`, code)
    t.match(await why({ request }), `refused by ${code}`)
  }
})

t.test('who ended a session has a name', async (t) => {
  const { app, signIn, why } = await start(t)
  await signIn('main', { ...BOB, email: MAIL })
  const [row] = await app.authStore.listSessions({ portal: 'main' }, 1)
  const ender = { endedBy: 'administrator', actor: 'corp:1', actorName: 'Grace Hopper' } as const
  await endSessions(app, [{ sid: row!.sid }], ender)
  t.match(await why({ person: 'bob' }), 'ended by administrator Grace Hopper (corp:1)\n')
})

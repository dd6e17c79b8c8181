import t from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { loadForwardAuthConfig } from '../../src/config/load.ts'
import { portalOf, startApp, type TestApp, yamlOf } from '../app.ts'
import { SHAPES } from '../shapes.ts'

const TOO_MANY = 'more groups than fit into headers'
const TRAEFIK = SHAPES[0]!
const guids = (count: number) =>
  Array.from(
    { length: count },
    (_, i) => `${String(i).padStart(8, '0')}-0000-4000-8000-0123456789ab`,
  )
const [FIRST = '', SECOND = '', THIRD = ''] = guids(3)

/** What the app at a host gets for somebody with these groups. */
async function told({ check, signIn }: TestApp, groups: readonly string[], at: Asked = {}) {
  const { host = 'app.example.com', portal = 'main', shape = TRAEFIK, query = '' } = at
  const Cookie = await signIn(
    portal,
    { groups, email: 'ada@example.com', email_verified: true },
    { host },
  )
  const where = {
    'X-Forwarded-Host': host,
    'X-Forwarded-Method': 'GET',
    Accept: 'application/json',
  }
  const { statusCode, headers } = await check(shape, { ...where, Cookie }, { portal, query })
  const text = (name: string) => String(headers[name] ?? '')
  const [, claims = ''] = text('x-gatehouse-assertion').split('.')
  return {
    statusCode,
    json: JSON.parse(text('x-authenticated-user') || '{}').user?.groups as string[] | undefined,
    list: text('remote-groups').split(',').filter(Boolean),
    claim: text('x-it').split(',').filter(Boolean),
    assertion: JSON.parse(Buffer.from(claims, 'base64url').toString() || '{}'),
    /** Of the identity headers without the assertion, as an app reads them. */
    length: [
      'x-forwarded-user',
      'x-forwarded-displayname',
      'x-authenticated-user',
      'remote-groups',
      'x-it',
    ]
      .map((name) => `${name}: ${text(name)}\r\n`.length)
      .reduce((sum, length) => sum + length),
  }
}

interface Asked {
  readonly host?: string
  readonly portal?: string
  readonly shape?: (typeof SHAPES)[number]
  readonly query?: string
}

const HEADERS =
  'headers: [default, remote-*, { name: X-It, claim: groups }], assertion: { hosts: ["*.example.com"] }'
const NAMED = `allow: { groups: ["${FIRST}", staff] }, policies: { ops: 'Group("${SECOND}") || Role("x")', last: 'Group("${THIRD}")' }`

t.test('200, 250 and 1,000 groups: apps are told of those that the portal names', async (t) => {
  expectWarnings(t, TOO_MANY)
  const test = await startApp(t, yamlOf(portalOf('main', `${HEADERS}, ${NAMED}`)))
  for (const count of [200, 250, 1_000]) {
    const it = await told(test, guids(count))
    t.equal(it.statusCode, 200, `${count} groups`)
    for (const list of [it.json, it.list, it.claim]) t.strictSame(list, [FIRST, SECOND, THIRD])
    t.ok(it.length < 4_096, `${it.length} characters`)
    t.notOk('groups' in it.assertion, 'an assertion names them as unknown')
    t.match(it.assertion, { _claim_names: { groups: 'unknown' } })
  }
  const few = await told(test, guids(20))
  t.strictSame([few.json, few.list, few.assertion.groups], [guids(20), guids(20), guids(20)])
  const lines = test.log.filter(({ msg }) => String(msg).includes(TOO_MANY))
  t.match(lines, [{ level: 40, portal: 'main', groups: 200, told: 3 }], 'and said once')
})

t.test('apps are told of no groups where nothing is named, or too much', async (t) => {
  expectWarnings(t, TOO_MANY)
  const all = guids(110).map((guid) => `"${guid}"`)
  const yaml = yamlOf(
    portalOf('main', HEADERS) + portalOf('named', `${HEADERS}, allow: { groups: [${all}] }`),
  )
  const test = await startApp(t, yaml)
  for (const portal of ['main', 'named']) {
    const it = await told(test, guids(250), { portal })
    t.match(
      it,
      { statusCode: 200, json: { length: 0 }, list: { length: 0 }, claim: { length: 0 } },
      portal,
    )
  }
})

t.test('apps are told of the groups that are listed, by every proxy', async (t) => {
  const groups = 'groups: [staff, { hosts: [wiki.example.com], groups: ["wiki-*", "*-readers"] }]'
  const test = await startApp(t, yamlOf(portalOf('main', `${HEADERS}, ${groups}`)))
  const all = ['staff', 'wiki-admins', 'crm', 'docs-readers', ...guids(250)]
  const table: [host: string, groups: string[]][] = [
    ['app.example.com', ['staff']],
    ['wiki.example.com', ['wiki-admins', 'docs-readers']],
  ]
  for (const [host, wanted] of table) {
    const it = await told(test, all, { host })
    for (const list of [it.json, it.list, it.claim, it.assertion.groups]) t.strictSame(list, wanted)
    t.notOk('_claim_names' in it.assertion)
  }
  for (const shape of SHAPES)
    t.strictSame((await told(test, all, { shape })).list, ['staff'], shape.proxy)
})

t.test('one person is told of differently at each app, in any order', async (t) => {
  const groups =
    'groups: ["*", { hosts: [a.example.com], groups: [a] }, { hosts: [b.example.com], groups: [] }]'
  const scope = yamlOf(portalOf('main', `${HEADERS}, ${groups}`))
  const test = await startApp(
    t,
    scope.replace('example.com }', 'example.com, session: { scope: domain } }'),
  )
  const Cookie = await test.signIn('main', { groups: ['a', 'b'] })
  const at = async (host: string) => {
    const { headers } = await test.check(TRAEFIK, { 'X-Forwarded-Host': host, Cookie })
    return headers['remote-groups']
  }
  for (const host of ['a', 'b', 'c', 'a', 'c', 'b'])
    t.equal(await at(`${host}.example.com`), { a: 'a', b: '', c: 'a,b' }[host])
})

t.test('policies and allow see all groups', async (t) => {
  const options = `groups: [], ${HEADERS}, ${NAMED}, rules: [{ paths: [/x], require: last }]`
  const test = await startApp(t, yamlOf(portalOf('main', options)))
  const ask = async (groups: readonly string[], query = '') =>
    (await told(test, groups, { query })).statusCode
  for (const query of ['', '?policy=ops', '?policy=last', `?if=Group("${guids(250)[249]}")`])
    t.equal(await ask(guids(250), encodeURI(query)), 200, query)
  t.equal(await ask(guids(250).slice(1)), 403, 'allow')
  t.equal(await ask(guids(1), '?policy=ops'), 403, 'a policy')
})

t.test('faults of groups are found with their place', async (t) => {
  const file = `${t.testdir({ 'config.yaml': '' })}/config.yaml`
  const { writeFile } = await import('node:fs/promises')
  const table: [groups: string, message: RegExp | undefined][] = [
    ['[]', undefined],
    ['["*", { hosts: ["*.example.com"], groups: [] }]', undefined],
    ['[""]', /groups/],
    ['staff', /groups/],
    ['[{ groups: [a] }]', /hosts/],
    ['[{ hosts: [], groups: [a] }]', /hosts/],
    [
      '[{ hosts: [app.example.org], groups: [a] }]',
      /groups\/0\/hosts\/0 is on none of the domains/,
    ],
    ['[{ hosts: ["https://a.example.com"], groups: [a] }]', /groups\/0\/hosts\/0 is not a host/],
  ]
  for (const [groups, message] of table) {
    await writeFile(file, yamlOf(portalOf('main', `groups: ${groups}`)))
    const loaded = loadForwardAuthConfig(file, {})
    if (message) await t.rejects(loaded, { message }, groups)
    else await t.resolves(loaded, groups)
  }
})

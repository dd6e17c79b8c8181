import { parseHost } from '@gatehouse/net'
import fc from 'fast-check'
import t from 'tap'
import { gateRules } from '../src/faults.ts'
import { Gate } from '../src/gate.ts'
import type { GateConfig } from '../src/options.ts'
import { compilePattern } from '../src/patterns.ts'
import { Person, profileOf } from './person.ts'

type Options = Pick<GateConfig, 'allow' | 'policies' | 'providers' | 'headers' | 'headerEncoding'>
type Row = Options & { readonly groups: GateConfig['groups'] | undefined }

/** The gate of a portal, and what it warns of. */
function gateOf({ groups: listed, ...config }: Partial<Row>) {
  let time = 0
  const warned: object[] = []
  const gate = new Gate(
    {
      name: 'main',
      providers: [{ name: 'corp' }],
      policies: {},
      headers: ['default', 'remote-*'],
      headerEncoding: 'percent',
      resources: [],
      rules: [],
      preflight: false,
      ...config,
      ...(listed && { groups: listed }),
    },
    {
      now: () => time,
      elapsed: () => 0,
      log: { info() {}, warn: (fields) => void warned.push(fields) },
    },
  )
  /** What an app is told of somebody. */
  const tell = (groups: readonly string[] | undefined, at = 'app.example.com', claims = {}) =>
    new Person(profileOf({ groups, ...claims }), gate).answerAt(parseHost(at)!)
  const pass = (ms: number) => {
    time += ms
  }
  return { gate, tell, warned, pass }
}

/** The groups of the header in JSON, and of the one with a list. */
function groupsIn({ headers }: ReturnType<ReturnType<typeof gateOf>['tell']>) {
  const { user } = JSON.parse(headers['x-authenticated-user'] ?? '')
  const list = headers['remote-groups'] ?? ''
  t.strictSame(list === '' ? [] : list.split(','), user.groups ?? [], 'both headers agree')
  return user.groups
}

const guids = (count: number) =>
  Array.from(
    { length: count },
    (_, i) => `${String(i).padStart(8, '0')}-0000-4000-8000-0123456789ab`,
  )
const lengthOf = (headers: Readonly<Record<string, string>>) =>
  Object.entries(headers).reduce((sum, [name, value]) => sum + `${name}: ${value}\r\n`.length, 0)

t.test('apps are told of the groups that the portal lists', async (t) => {
  const all = ['staff', 'wiki-users', 'wiki-admins', 'crm', 'Ops, night', 'ü*']
  const rows = ['staff', { hosts: ['wiki.example.com', '*.wiki.example.com'], groups: ['wiki-*'] }]
  const late = [...rows, { hosts: ['*.example.com'], groups: ['crm'] }]
  const table: [GateConfig['groups'], host: string, told: string[]][] = [
    [undefined, 'app', all],
    [['*'], 'app', all],
    [[], 'app', []],
    [['nobody'], 'app', []],
    [['staff', 'crm'], 'app', ['staff', 'crm']],
    [['*-admins', 'ü*'], 'app', ['wiki-admins', 'ü*']],
    [['Staff'], 'app', []],
    [rows, 'app', ['staff']],
    [rows, 'wiki', ['wiki-users', 'wiki-admins']],
    [rows, 'a.wiki', ['wiki-users', 'wiki-admins']],
    [rows.slice(1), 'app', []],
    [late, 'wiki', ['wiki-users', 'wiki-admins']],
    [late, 'app', ['crm']],
  ]
  for (const [groups, host, told] of table) {
    const { tell, warned } = gateOf({ groups, headers: [{ name: 'X-It', claim: 'groups' }] })
    const it = tell(all, `${host}.example.com`)
    const text = `${JSON.stringify(groups)} at ${host}`
    t.strictSame(it.identity.groups, told, text)
    const sent = (it.headers['x-it'] ?? '').split(',').map(decodeURIComponent)
    t.strictSame(sent, told.length > 0 ? told : [''], `${text}, as a header`)
    t.same(warned, [])
  }
})

t.test('headers of groups are bounded, for as many groups as a person may have', async (t) => {
  const named = { policies: { ops: `Group("${guids(8)[7]}")` } }
  const byAllow: Partial<Row> = {
    allow: { groups: guids(2), condition: `Group("${guids(3)[2]}") || claims.hd == "example.com"` },
    providers: [{ name: 'corp', allow: { groups: [guids(5)[4] ?? ''] } }, { name: 'two' }],
  }
  const many = {
    policies: {
      any: guids(20)
        .map((one) => `Group("${one}")`)
        .join('||'),
    },
  }
  const more = Object.fromEntries(
    Array.from({ length: 5 }, (_, i) => [
      `p${i}`,
      guids(1_000)
        .slice(i * 18, i * 18 + 18)
        .map((one) => `Group("${one}")`)
        .join('||'),
    ]),
  )
  const table: [why: string, config: Partial<Row>, count: number, told: string[]][] = [
    ['few', {}, 30, guids(30)],
    ['200, and nothing is named', {}, 200, []],
    ['200', named, 200, guids(8).slice(7)],
    ['250', named, 250, guids(8).slice(7)],
    ['1,000', named, 1_000, guids(8).slice(7)],
    ['named by allow', byAllow, 250, [...guids(3), ...guids(5).slice(4)]],
    ['named by one long condition', many, 250, guids(20)],
    ['more are named than fit', { policies: more }, 250, []],
    ['listed', { groups: ['0000000*-*'] }, 250, guids(10)],
    ['listed, but too many', { ...named, groups: ['*'] }, 250, guids(8).slice(7)],
    ['listed, but not what is named', { ...named, groups: ['000001*'] }, 250, []],
  ]
  for (const [why, config, count, told] of table) {
    const { tell } = gateOf(config)
    const it = tell(guids(count))
    t.strictSame(groupsIn(it) ?? [], told, why)
    t.ok(lengthOf(it.headers) < 4_096, `${why}: ${lengthOf(it.headers)} characters`)
  }
  const { tell, warned } = gateOf({ headers: [{ name: 'X-Name', property: 'name' }] })
  t.strictSame(tell(guids(1_000)).identity.groups, guids(1_000), 'of headers without groups')
  t.same(warned, [])
})

t.test('no encoding makes the headers of groups too long', async (t) => {
  const ofText = (text: string) => Array.from({ length: 1_000 }, (_, i) => `${text}${i}`)
  for (const text of [
    'a',
    'é',
    '€',
    '😀',
    '"',
    '\\',
    '%',
    'a b',
    'cn=staff,dc=example,dc=com',
    'x'.repeat(250),
  ])
    for (const headerEncoding of ['percent', 'utf-8', 'rfc8187'] as const)
      for (let count = 1; count <= 1_000; count *= 2) {
        const headers: Row['headers'] = ['default', 'remote-*', 'x-auth-request-*']
        const { tell } = gateOf({ headers, headerEncoding })
        const { headers: sent } = tell(ofText(text).slice(0, count))
        // A short name that is not ASCII takes half as much again in RFC 8187.
        const most = headerEncoding === 'rfc8187' ? 5_500 : 4_096
        if (lengthOf(sent) > most) t.fail(`${text} ${count} ${headerEncoding}: ${lengthOf(sent)}`)
      }
})

t.test(
  'the assertion has all groups that an app may know, or says that it does not have them',
  async (t) => {
    t.strictSame(gateOf({}).tell(guids(250)).identity.groups, guids(250))
    t.strictSame(gateOf({ groups: ['*7-*'] }).tell(guids(20)).identity.groups, [
      guids(8)[7],
      guids(18)[17],
    ])
  },
)

t.test('groups that are not known stay so', async (t) => {
  const headers: Row['headers'] = ['default', { name: 'X-It', claim: 'groups' }]
  const unknown = { _claim_names: { groups: 'elsewhere' } }
  for (const groups of [undefined, ['staff']]) {
    const { tell } = gateOf({ groups, headers })
    t.throws(() => tell(undefined, 'app.example.com', unknown), { code: 'FWA_IDENTITY_UNSENDABLE' })
    t.equal(tell(undefined).headers['x-it'], '', 'nor does nobody have some')
    t.notMatch(tell(undefined).headers['x-authenticated-user'], 'groups')
  }
})

t.test('a portal says once an hour that groups do not fit', async (t) => {
  const { tell, warned, pass } = gateOf({ policies: { ops: `Group("${guids(1)[0]}")` } })
  tell(guids(30))
  t.same(warned, [])
  for (let i = 0; i < 10; i++) tell(guids(250))
  t.strictSame(warned, [{ portal: 'main', groups: 250, told: 1 }])
  pass(3_599_999)
  tell(guids(250))
  t.equal(warned.length, 1)
  pass(1)
  tell(guids(251))
  t.match(warned[1], { groups: 251 })
})

t.test('policies see all groups, whatever apps are told', async (t) => {
  const { gate } = gateOf({ groups: [], policies: { ops: `Group("${guids(250)[249]}")` } })
  const ada = new Person(profileOf({ groups: guids(250) }), gate)
  const ops = gate.policies.get('ops')!
  t.ok(ada.meets(ops))
  ada.answerAt(parseHost('app.example.com')!)
  t.ok(ada.meets(ops))
  t.equal(ada.identity.profile.groups?.length, 250)
})

t.test('what an app is told is computed once for each row of hosts', async (t) => {
  const { gate } = gateOf({ groups: ['*', { hosts: ['wiki.example.com'], groups: ['wiki'] }] })
  const ada = new Person(profileOf({ groups: ['wiki', 'ops'] }), gate)
  const at = (host: string) => ada.answerAt(parseHost(host)!)
  t.equal(at('a.example.com'), at('b.example.com'))
  t.equal(at('wiki.example.com'), at('wiki.example.com'))
  t.not(at('wiki.example.com'), at('a.example.com'))
})

t.test('hosts of groups are checked', async (t) => {
  const check = gateRules(['example.com'], [])
  const faultsOf = (groups: unknown) =>
    check.flatMap((rule) => {
      try {
        return rule({ groups, policies: {}, headers: [], rules: [], resources: [] } as never)
      } catch {
        return []
      }
    })
  t.same(faultsOf(['staff', { hosts: ['*.example.com'], groups: [] }]), [])
  t.match(faultsOf(['staff', { hosts: ['a.example.com', 'a.example.org'], groups: [] }]), [
    { path: '/groups/1/hosts/1', message: /none of the domains/ },
  ])
})

/** Whether a pattern fits, letter by letter and in every way. */
function fits(pattern: string, text: string): boolean {
  let ends = new Set([0])
  for (const letter of pattern) {
    const next = new Set<number>()
    for (const end of ends)
      if (letter === '*') for (let i = end; i <= text.length; i++) next.add(i)
      else if (text[end] === letter) next.add(end + 1)
    ends = next
  }
  return ends.has(text.length)
}

t.test('a pattern fits what it looks like, and takes no longer for a long text', async (t) => {
  const table: [pattern: string, yes: string[], no: string[]][] = [
    ['staff', ['staff'], ['Staff', 'staff ', 'a staff', '']],
    ['*', ['', 'a', '*', 'a\nb'], []],
    ['a*', ['a', 'ab', 'a*'], ['', 'ba']],
    ['*a', ['a', 'ba', 'aa'], ['ab']],
    ['aba*aba', ['abaaba', 'abaXaba'], ['aba', 'ababa']],
    ['*a*b*', ['ab', 'xaxbx'], ['ba', 'a']],
    ['a**b', ['ab', 'a*b'], ['a']],
    ['.*', ['.x'], ['x']],
    ['[a]', ['[a]'], ['a']],
  ]
  for (const [pattern, yes, no] of table) {
    for (const text of yes) t.ok(compilePattern(pattern)(text), `${pattern} fits ${text}`)
    for (const text of no) t.notOk(compilePattern(pattern)(text), `${pattern} does not fit ${text}`)
  }
  const letters = (max: number) =>
    fc.array(fc.constantFrom('a', 'b', '*', '.'), { maxLength: max }).map((all) => all.join(''))
  fc.assert(
    fc.property(
      letters(8),
      letters(10),
      (pattern, text) => compilePattern(pattern)(text) === fits(pattern, text),
    ),
    { numRuns: 3_000 },
  )
  // With backtracking, this would never end.
  t.notOk(compilePattern(`${'*a'.repeat(10_000)}*b*c`)('a'.repeat(20_000)))
  t.ok(compilePattern('*a'.repeat(10_000))('a'.repeat(20_000)))
})

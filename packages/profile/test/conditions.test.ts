import fc from 'fast-check'
import t from 'tap'
import {
  ANY_ARGUMENTS,
  compileCondition,
  fromClaims,
  type McpCall,
  type ProfileError,
  type Subject,
} from '../src/index.ts'
import { identifiedClaims } from './arbitrary.ts'

const ada = fromClaims('corp', {
  sub: 'user1234',
  nickname: 'Ada Lovelace',
  email: 'ada@example.com',
  email_verified: true,
  groups: ['g1', 'g2', 'a"b\\c'],
  role: 'r1',
  location: 'earth',
  scope: 'read  write',
  level: 3,
  is_admin: false,
  is_user: true,
  tags: ['x', 7, { y: 1 }],
  address: { country: 'UK', toString: 'x' },
  bio: 'x'.repeat(5_000),
})
const decide = (source: string, profile = ada) => compileCondition(source).holds(profile)

/** Compiles, or gives the error. */
function refusal(source: string): ProfileError | undefined {
  try {
    compileCondition(source)
    return undefined
  } catch (error) {
    return error as ProfileError
  }
}

t.test('expressions of traefik-forward-auth work', async (t) => {
  const holds = [
    'ClaimEqual("id", "user1234")',
    'Eq("id","user1234")',
    'Eq("sub", "user1234")',
    'ClaimEqual(`id`, `user1234`)',
    'ClaimEqual("is_admin", "false") && ClaimEqual("is_user", true)',
    'ClaimEqual("is_admin", false) && !ClaimEqual("is_admin", true)',
    'Eq("level", 3) && Eq("level", "3")',
    'Eq("nothing", "")',
    '!Eq("nothing", "something")',
    '!ClaimEqual("id", "other")',
    'ClaimEqual("id", "bad") || ClaimEqual("location", "earth")',
    '((ClaimEqual("id", "user1234") || ClaimEqual("name", "x")) && (Eq("location", "earth")))',
    'ClaimEqual("id", "user1234") && ClaimEqual("location", "bad") || Role("r1")',
    '!(!(Group("g1")))',
    '!!Group("g1")',
    '(Group("g1") || Group("g3")) && (Role("r1") || Role("r3"))',
    'ClaimContains("groups", "g1") && !ClaimContains("groups", "g3")',
    'Cont("scope", "write") && Cont("name", "Ada") && Cont("level", 3) && Cont("tags", 7)',
    'EmailVerified() && Group("g1") && Role("r1")',
    'Group(`a"b\\c`) && Group("a\\"b\\\\c")',
    ' Group ( "g1" )\n&&\tRole("r1") ',
  ]
  const fails = [
    'ClaimEqual("id", "bad")',
    'ClaimEqual("name", "ada lovelace")',
    'ClaimEqual("nothing", "x")',
    'Group("no")',
    'Group("G1")',
    'Group("")',
    'Role("")',
    'Role("g1")',
    'Cont("scope", "rea")',
    'Cont("scope", "")',
    'Cont("nothing", "")',
    'Cont("tags", "[object Object]")',
    'ClaimEqual("id", "user1234") && (ClaimEqual("location", "bad") || Role("r2"))',
  ]
  for (const source of holds) t.equal(decide(source), true, source)
  for (const source of fails) t.equal(decide(source), false, source)
})

t.test('EmailVerified() holds for a verified address only', async (t) => {
  const rows: [claims: object, verified: boolean, not: boolean][] = [
    [{ email: 'a@b', email_verified: true }, true, false],
    [{ email: 'a@b', email_verified: false }, false, true],
    [{ email: 'a@b' }, false, true],
    [{ email: '', email_verified: true }, false, true],
    [{ email_verified: true }, false, true],
    [{ email: 'a@b@c', email_verified: true }, false, false],
    [{ email: 'a@b', email_verified: 'true' }, true, false],
    [{ email: 'a@b', email_verified: 'false' }, false, true],
    [{ email: 'a@b', email_verified: 'yes' }, false, false],
  ]
  for (const [claims, verified, not] of rows) {
    const profile = fromClaims('corp', { sub: '1', ...claims })
    t.equal(decide('EmailVerified()', profile), verified, JSON.stringify(claims))
    t.equal(decide('!EmailVerified()', profile), not, `! ${JSON.stringify(claims)}`)
  }
})

t.test('conditions read claims', async (t) => {
  const rows: [source: string, holds: boolean][] = [
    ['claims.is_user', true],
    ['!claims.is_admin', true],
    ['claims.location == "earth" && claims["location"] != "moon"', true],
    ['claims.level >= 3 && claims.level < 4', true],
    ['claims.location in ["moon", "earth"]', true],
    ['"g1" in claims.groups && !("g3" in claims.groups)', true],
    ['claims.address.country == "UK"', true],
    ['claims.email.endsWith("@example.com") && claims.id.startsWith("user")', true],
    ['claims.location.contains("art") && claims.groups.size() == 3', true],
    ['claims.groups[0] == "g1"', true],
    ['has(claims.location) && !has(claims.nothing) && !("nothing" in claims)', true],
    ['claims.level == 3 ? claims.is_user : false', true],
    ['Eq("location", claims.location)', true],
    ['true', true],
    ['claims.level', false],
    ['claims.location', false],
    ['claims.is_admin', false],
  ]
  for (const [source, holds] of rows) t.equal(decide(source), holds, source)
})

t.test('a condition that cannot be evaluated denies, also under !', async (t) => {
  const sources = [
    'claims.missing',
    'claims.missing == "x"',
    'claims.missing != "x"',
    'claims.address.missing',
    'claims.location.missing',
    'claims.groups[9] == "x"',
    'claims.missing in ["x"]',
    '"x" in claims.missing',
    'claims.missing.startsWith("x")',
    'claims.level.startsWith("x")',
    'claims.location > 3',
    'claims.location && true',
    'claims.missing || claims.location == "moon"',
    'Eq("groups", "g1")',
    'Eq("address", "")',
    'Cont("address", "UK")',
    'Eq("location", claims.missing)',
    'Eq("bio", "")',
    'Cont("bio", "x")',
    ...['claims.bio == ""', 'has(claims.bio)', '"bio" in claims'],
    ...['claims.__proto__', 'claims.constructor', 'claims.toString', 'claims["__proto__"]'],
    ...['claims.address.constructor', 'claims.address.__proto__', 'claims.groups.length'],
  ]
  for (const source of sources) {
    t.equal(decide(source), false, source)
    t.equal(decide(`!(${source})`), false, `!(${source})`)
  }
  t.equal(decide('!claims.missing'), false)
  t.equal(decide('!claims.location'), false)
})

t.test('unknown groups deny in every condition about them', async (t) => {
  const groups = Array.from({ length: 5_000 }, (_, i) => `g${i}`)
  const profile = fromClaims('corp', { sub: '1', groups, role: { admin: true } })
  for (const source of [
    'Group("g1")',
    'Role("x")',
    'Cont("groups", "g1")',
    '"g1" in claims.groups',
    'has(claims.groups)',
    'has(claims.groups) && "g1" in claims.groups',
    'Eq("groups", "")',
    'claims.groups == ["g1"]',
    'claims.groups.size() == 0',
  ]) {
    t.equal(decide(source, profile), false, source)
    t.equal(decide(`!(${source})`, profile), false, `!(${source})`)
  }
})

t.test('a failing side does not matter if the other side decides', async (t) => {
  t.equal(decide('claims.missing == "x" || Group("g1")'), true)
  t.equal(decide('Group("g1") || claims.missing == "x"'), true)
  t.equal(decide('!(claims.missing && Group("no"))'), true)
  t.equal(decide('!(claims.missing && Group("g1"))'), false)
})

t.test('names with a meaning in JavaScript are ordinary names', async (t) => {
  for (const name of ['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty']) {
    const sent = JSON.parse(`{"sub": "1", "${name}": "x", "a": {"${name}": "x"}}`)
    const profile = fromClaims('corp', sent)
    for (const source of [`claims.${name} == 1`, `claims.a.${name} == 1`, `Eq("${name}", "y")`])
      t.equal(decide(source, profile), false, source)
    t.equal(decide(`Eq("${name}", "")`), true, `${name} is missing`)
    t.equal(decide('Eq("id", "1")', profile), true)
  }
  t.equal(({} as { x?: unknown }).x, undefined)
})

t.test('invalid conditions are refused with a column', async (t) => {
  const rows: [source: string, column: number, message: RegExp][] = [
    ['', 1, /unexpected end/],
    ['Group("a"', 10, /unexpected end/],
    ['Group("a") &&', 14, /unexpected end/],
    ['Group("a") Group("b")', 12, /unexpected "Group"/],
    ['Group("a") & Group("b")', 12, /unexpected "&"/],
    ['Group("a") and Group("b")', 12, /unexpected "and"/],
    ['Group("a") ¤', 12, /unexpected "¤"/],
    ['Group("a', 7, /unterminated string/],
    ['Group(`a', 7, /unexpected "`"/],
    ['Group("\\q")', 8, /escape/],
    ['Group(`a"b`) x', 14, /unexpected "x"/],
    ['Group(`"`) && Group(`""`) && x', 30, /the name x is not offered/],
    ['Group(a)', 7, /the name a is not offered/],
    ['Group(1)', 1, /Group\(int\)/],
    ['Eq("a")', 1, /Eq\(string\)/],
    ['Eq("a", "b", "c")', 14, /too many/],
    ['true && Foo("a")', 9, /the function Foo is not offered/],
    ['true && size(claims.a) == 1', 9, /the function size is not offered/],
    ['claims.a.matches("(a+)+$")', 1, /the method matches is not offered/],
    ['claims.a.all(x, x)', 1, /the method all is not offered/],
    ['claims.a.exists(x, claims.a.exists(y, x == y))', 1, /the method exists is not offered/],
    ['claims.a.map(x, x) == [1]', 1, /the method map is not offered/],
    ['cel.bind(x, 1)', 1, /the method bind is not offered/],
    ['claims.a + "b" == "c"', 1, /the operator \+ is not offered/],
    ['claims.a == -claims.b', 13, /the operator - is not offered/],
    ['{"a": 1} == claims', 1, /the operator map is not offered/],
    ['type(1) == int', 1, /the function type is not offered/],
    ['[1, "a"] == []', 5, /same type/],
    ['has("a")', 5, /has\(\)/],
    ['"a"', 1, /the result is a string/],
    ['1', 1, /the result is a int/],
    ['claims', 1, /the result is a map/],
    ['[true]', 1, /the result is a list/],
    ['Group("a") ? 1 : 2', 1, /the result is a int/],
    ['"a" && true', 1, /bool/],
    ['Group("a\0b")', 9, /control character/],
    ['\0true', 1, /control character/],
    ['true && mcp.tool == "x"', 9, /mcp is known in policies/],
    ['Group("a")\u0085', 11, /control character/],
    ['Group(`a\ud800`)', 9, /lone surrogate/],
    [`${'('.repeat(40)}true${')'.repeat(40)}`, 33, /too many parts or levels/],
    [`${'!'.repeat(400)}true`, 101, /too many parts or levels/],
    [`claims${'.a'.repeat(40)}`, 69, /too many parts or levels/],
    [`1 in [${'1,'.repeat(400)}1]`, 207, /too many parts or levels/],
  ]
  for (const [source, column, message] of rows) {
    const error = refusal(source)
    const what = JSON.stringify(source.slice(0, 50))
    t.match(error, { code: 'PROFILE_CONDITION_INVALID', message, column }, what)
    t.match(error?.message, `, at column ${column}`)
  }
})

t.test('a condition of a request reads three members of mcp', async (t) => {
  for (const member of ['method', 'tool', 'resource'])
    t.ok(compileCondition(`mcp.${member} == "x"`, 'request').readsMcp, member)
  const refused: [source: string, message: RegExp][] = [
    ['mcp == claims', /mcp without a member is not offered/],
    ['mcp["tool"] == "x"', /mcp without a member is not offered/],
    ['mcp.name == "x"', /the member mcp.name is not offered/],
    ['mcp.__proto__ == "x"', /the member mcp.__proto__ is not offered/],
  ]
  for (const [source, message] of refused)
    t.throws(() => compileCondition(source, 'request'), { message }, source)
})

t.test('a condition of a request reads arguments by their names', async (t) => {
  const table: [source: string, readsArguments: boolean][] = [
    ['mcp.arguments.path == "x"', true],
    ['Group("g1") && !has(mcp.arguments._2)', true],
    ['mcp.tool == "arguments" && claims.arguments.path == "x"', false],
  ]
  for (const [source, readsArguments] of table)
    t.match(compileCondition(source, 'request'), { readsMcp: true, readsArguments }, source)
  const refused: [source: string, column: number, message: RegExp][] = [
    ['true && mcp.arguments == claims', 9, /mcp.arguments without a name is not offered/],
    ['has(mcp.arguments)', 5, /mcp.arguments without a name is not offered/],
    ['"x" in mcp.arguments', 8, /mcp.arguments without a name is not offered/],
    ['mcp.arguments["x"] == "x"', 1, /mcp.arguments without a name is not offered/],
    ['mcp.arguments.size() == 1', 1, /mcp.arguments without a name is not offered/],
    ['mcp["arguments"].x == "x"', 1, /mcp without a member is not offered/],
    ['mcp.tool.arguments.x == "x" && mcp.arguments.`x`', 46, /unexpected/],
    ['mcp.arguments.ä', 15, /unexpected/],
    ['mcp.arguments.a$b', 16, /unexpected/],
    ['mcp.arguments.a.*', 17, /unexpected/],
  ]
  for (const [source, column, message] of refused)
    t.throws(() => compileCondition(source, 'request'), { message, column }, source)
  t.match(refusal('true && mcp.arguments.x == "x"'), {
    message: /^mcp is known in policies/,
    column: 9,
  })
})

t.test('the length of a condition is limited', async (t) => {
  const source = (length: number) => `Group("${'x'.repeat(length - 9)}")`
  t.equal(decide(source(1_024)), false)
  t.match(refusal(source(1_025)), { code: 'PROFILE_CONDITION_INVALID', column: undefined })
  t.match(refusal(source(1e6)), { code: 'PROFILE_CONDITION_INVALID' })
})

t.test('back quotes make raw strings outside of strings and comments only', async (t) => {
  const rows: [source: string, holds: boolean][] = [
    ['"`" == "\\x60" && \'`\' == "`"', true],
    ['"""a"`b""" == "a\\"\\x60b"', true],
    ['`a\nb` == "a\\nb"', true],
    ['`` == ""', true],
    ['`\\` == "\\\\" && `"` == \'"\'', true],
    ['true // `a', true],
    ['true // it\'s\n && `a` == "b"', false],
  ]
  for (const [source, holds] of rows) t.equal(decide(source), holds, source)
})

t.test('evaluations do not affect each other', async (t) => {
  const bob = fromClaims('corp', { sub: 'bob' })
  const condition = compileCondition('Group("g1") && claims.id == "user1234"')
  t.strictSame(
    [condition.holds(ada), condition.holds(bob), condition.holds(ada)],
    [true, false, true],
  )
})

const FRAGMENTS = [
  ...['Group(', 'Eq(', 'Cont(', 'EmailVerified()', 'has(', 'claims', '.a', '.groups', '["a"]', ')'],
  ...['(', '[', ']', '{', '}', '&&', '||', '!', '==', 'in', '?', ':', ',', '.', '"a"', '`a`', '`'],
  ...["'", '"', '"""', '\\', '//', '\n', ' ', '1', '1u', '-', '+', 'true', 'null', 'b"a"', 'r"\\"'],
  ...[
    '.all(x, ',
    '.map(',
    '.matches("a")',
    '__proto__',
    '\0',
    '\u2028',
    '\ud800',
    'é',
    '0x',
    '1e999',
  ],
]
const wild = fc
  .array(fc.constantFrom(...FRAGMENTS), { maxLength: 25 })
  .map((parts) => parts.join(''))
const operand = fc.oneof(
  fc.constantFrom(
    'Group("a")',
    'Role(`a`)',
    'Eq("a", "b")',
    'Cont("groups", "a")',
    'EmailVerified()',
  ),
  fc.constantFrom('claims.a', 'claims.a == "b"', '"a" in claims.groups', 'has(claims.a)', 'true'),
  fc.constantFrom('claims.a.b.c', 'claims.groups.size() > 1', 'claims.name.contains("a")'),
)
const { tame } = fc.letrec<{ tame: string }>((tie) => ({
  tame: fc.oneof(
    { depthSize: 'small' },
    operand,
    tie('tame').map((a) => `!(${a})`),
    fc
      .tuple(tie('tame'), fc.constantFrom('&&', '||'), tie('tame'))
      .map((all) => `(${all.join(' ')})`),
  ),
}))

t.test('any text compiles to a boolean or is refused with a column', async (t) => {
  const seen = { compiled: 0, refused: 0 }
  fc.assert(
    fc.property(
      fc.oneof(wild, tame, fc.string({ unit: 'binary' })),
      identifiedClaims,
      (source, claims) => {
        const error = refusal(source)
        if (error) {
          seen.refused++
          const { code, column = 0 } = error
          // A text that is too long has no column.
          const isWithin = column >= 1 && column <= source.length + 1
          return code === 'PROFILE_CONDITION_INVALID' && (isWithin || source.length > 1_024)
        }
        seen.compiled++
        return typeof decide(source, fromClaims('corp', claims)) === 'boolean'
      },
    ),
    { numRuns: 2_000 },
  )
  t.ok(seen.compiled > 100 && seen.refused > 100, JSON.stringify(seen))
})

t.test('a condition and its opposite never both hold for a person', async () => {
  fc.assert(
    fc.property(tame, identifiedClaims, (source, claims) => {
      const profile = fromClaims('corp', claims)
      return !(decide(source, profile) && decide(`!(${source})`, profile))
    }),
    { numRuns: 700 },
  )
})

t.test('!claims.missing denies everybody', async () => {
  fc.assert(
    fc.property(identifiedClaims, (claims) => {
      const profile = fromClaims('corp', claims)
      return !decide('!claims.missing', profile) && !decide('!(claims.missing == "x")', profile)
    }),
    { numRuns: 300 },
  )
})

const programs = {
  key: { claims: {}, caller: { method: 'psk', scopes: ['deploy'], claims: {} } },
  token: {
    claims: {},
    caller: { method: 'jwt', scopes: ['read'], claims: { repository: 'acme/x', run: 7 } },
  },
} as const

t.test('programs: what conditions see of them', async (t) => {
  const rows: [source: string, key: boolean, token: boolean, person: boolean][] = [
    ['Scope("deploy")', true, false, false],
    ['Scope("read") || Scope("deploy")', true, true, false],
    ['"read" in caller.scopes', false, true, false],
    ['caller.method == "psk"', true, false, false],
    ['caller.method == "jwt"', false, true, false],
    ['caller.method == "session"', false, false, true],
    ['caller.claims.repository == "acme/x"', false, true, false],
    ['caller.claims.repository.startsWith("acme/") && caller.claims.run > 6', false, true, false],
    ['has(caller.claims.repository)', false, true, false],
    ['Group("g1")', false, false, true],
    ['Role("r1")', false, false, true],
    ['EmailVerified()', false, false, true],
    ['ClaimEqual("nothing", "")', false, false, true],
    ['Eq("nothing", "")', false, false, true],
    ['ClaimContains("groups", "g1") || Cont("groups", "g1")', false, false, true],
    ['claims.id == "user1234"', false, false, true],
    ['!claims.suspended', false, false, false],
    ['Group("g1") || Scope("deploy")', true, false, true],
    ['claims.level == 3 || caller.method == "psk"', true, false, true],
    ['true', true, true, true],
  ]
  for (const [source, ...expected] of rows) {
    const condition = compileCondition(source)
    const held = [programs.key, programs.token, ada].map((who) => condition.holds(who))
    t.strictSame(held, expected, source)
  }
})

t.test('a resource is known if every server reads its URI alike', async (t) => {
  const isPublic = 'mcp.resource.startsWith("note://team/public/")'
  const isNotSecret = 'mcp.resource != "note://team/secret"'
  const table: [uri: string, isPublic: boolean, isNotSecret: boolean][] = [
    ['note://team/public/1', true, true],
    ['note://team/public/a%20b?c=%C3%A4', true, true],
    ['https://example.com', false, true],
    ['note:other', false, true],
    ['note://team/secret', false, false],
    ['NOTE://team/secret', false, false],
    ['note://team/public/../secret', false, false],
    ['note://team/public/%2E%2e/secret', false, false],
    ['note://team/public/..%2fsecret', false, false],
    ['note://team/public/%252e%252e/secret', false, false],
    ['note://team/public/..%5Csecret', false, false],
    ['note://team/sec\tret', false, false],
    [' note://team/secret', false, false],
    ['https://EXAMPLE.com/secret', false, false],
    ['note://team/secret#1', false, false],
    ['note://team/public/ä', false, false],
    ['secret', false, false],
  ]
  for (const [name, ...held] of table) {
    const subject = { claims: {}, mcp: { method: 'resources/read', name } }
    const compiled = [isPublic, isNotSecret].map((source) => compileCondition(source, 'request'))
    t.strictSame(
      compiled.map((one) => one.holds(subject)),
      held,
      name,
    )
    const others = [
      '!(mcp.resource == "x")',
      '!has(mcp.resource)',
      'mcp.method == "resources/read"',
    ]
    t.strictSame(
      others.map((source) => compileCondition(source, 'request').holds(subject)),
      [held[1] || name === 'note://team/secret', false, true],
      name,
    )
  }
})

const ofCall = (call?: Partial<McpCall>): Subject => ({
  ...ada,
  mcp: { method: 'tools/call', name: 'search', ...call },
})
/** What a condition and its opposite say about a call. */
const decisionsOn = (source: string, subject: Subject) =>
  [source, `!(${source})`].map((text) => compileCondition(text, 'request').holds(subject))
const YES = [true, false]
const NO = [false, true]
const FAILS = [false, false]

t.test('arguments: texts, booleans and exact numbers', async (t) => {
  const table: [source: string, x: unknown, expected: boolean[]][] = [
    ['mcp.arguments.x == "a"', 'a', YES],
    ['mcp.arguments.x == "a"', 'A', NO],
    ['mcp.arguments.x == ""', '', YES],
    ['mcp.arguments.x.startsWith("/home/")', '/home/ada', YES],
    ['mcp.arguments.x.startsWith("/home/")', 7, FAILS],
    ['mcp.arguments.x.contains("..") || mcp.arguments.x.endsWith("/")', 'a/../b', YES],
    ['mcp.arguments.x.size() <= 3', 'four', NO],
    ['mcp.arguments.x in ["dev", "test"]', 'test', YES],
    ['mcp.arguments.x in ["dev", "test"]', ['test'], FAILS],
    ['mcp.arguments.x == claims.email', 'ada@example.com', YES],
    ['mcp.arguments.x', true, YES],
    ['mcp.arguments.x', false, NO],
    ['mcp.arguments.x', 'true', FAILS],
    ['mcp.arguments.x == false', false, YES],
    ['mcp.arguments.x == 10', 10, YES],
    ['mcp.arguments.x != 10', 10.5, YES],
    ['mcp.arguments.x <= 10', 10, YES],
    ['mcp.arguments.x <= 10', 11, NO],
    ['mcp.arguments.x <= 10', -0, YES],
    ['mcp.arguments.x < 10.5 && mcp.arguments.x > 9.5', 10, YES],
    ['10 >= mcp.arguments.x', 10.25, NO],
    ['mcp.arguments.x in [1, 2]', 2, YES],
    ['mcp.arguments.x in [1.5, 2.0]', 2, YES],
    ['mcp.arguments.x <= 10', '9', FAILS],
    ['mcp.arguments.x < "b"', 1, FAILS],
    ['mcp.arguments.x <= 9007199254740991', 2 ** 53 - 1, YES],
    ['mcp.arguments.x > 0', 2 ** 53, FAILS],
    ['mcp.arguments.x < 0', -(2 ** 53), FAILS],
    ['mcp.arguments.x > 0', 1e300, FAILS],
    ['mcp.arguments.x > 0', Number.POSITIVE_INFINITY, FAILS],
    ['mcp.arguments.x != 0', Number.NaN, FAILS],
    ['mcp.arguments.x > 0', 5n, FAILS],
    ['mcp.arguments.x != true', false, YES],
    ['mcp.arguments.x != true', 'true', FAILS],
    ['true != mcp.arguments.x', 'true', FAILS],
    ['mcp.arguments.x != true', 1, FAILS],
    ['mcp.arguments.x != 10', '10', FAILS],
    ['!(mcp.arguments.x in ["a", "b"])', 1, FAILS],
    ['!(mcp.arguments.x in ["a", "b"])', 'c', YES],
    ['mcp.arguments.x == 1 || mcp.arguments.x == "1"', '1', YES],
    ...[null, undefined, {}, [], ['a'], { y: 'a' }].flatMap((x): [string, unknown, boolean[]][] => [
      ['mcp.arguments.x == "a"', x, FAILS],
      ['mcp.arguments.x == null', x, FAILS],
      ['mcp.arguments.x.y == "a"', x, FAILS],
      ['mcp.arguments.x[0] == "a"', x, FAILS],
      ['has(mcp.arguments.x)', x, FAILS],
      ['has(mcp.arguments.x.y)', x, FAILS],
    ]),
  ]
  for (const [source, x, expected] of table)
    t.strictSame(
      decisionsOn(source, ofCall({ arguments: { x, other: [] } })),
      expected,
      `${source} with ${typeof x === 'bigint' ? x : JSON.stringify(x)}`,
    )
})

t.test('arguments: missing, in another spelling, or not known', async (t) => {
  const call = (sent: string): McpCall => ({
    method: 'tools/call',
    name: 'search',
    arguments: JSON.parse(sent),
  })
  const table: [mcp: McpCall | undefined, has: boolean[], isAllowed: boolean[]][] = [
    [call('{}'), NO, YES],
    [call('{"force": false}'), YES, YES],
    [call('{"force": true}'), YES, NO],
    [call('{"forced": true, "enforce": true, "f.rce": true, "force ": true}'), NO, YES],
    [call('{"Force": false}'), FAILS, FAILS],
    [call('{"force": false, "FORCE": true}'), FAILS, FAILS],
    [call('{"FORCE": true, "force": false}'), FAILS, FAILS],
    [call('{"force": null}'), FAILS, FAILS],
    [{ method: 'tools/call', name: 'search' }, FAILS, FAILS],
    [{ method: 'tools/list' }, FAILS, FAILS],
    [{ method: 'prompts/get', name: 'a', arguments: { force: false } }, FAILS, FAILS],
    [{ method: 'resources/read', name: 'note://a', arguments: {} }, FAILS, FAILS],
    [undefined, FAILS, FAILS],
  ]
  const isAllowed = '!has(mcp.arguments.force) || mcp.arguments.force == false'
  for (const [mcp, ...expected] of table)
    t.strictSame(
      ['has(mcp.arguments.force)', isAllowed].map((source) => decisionsOn(source, { ...ada, mcp })),
      expected,
      JSON.stringify(mcp),
    )
  const { holds } = compileCondition(
    'mcp.method != "tools/call" || mcp.arguments.x == 1',
    'request',
  )
  t.ok(holds({ ...ada, mcp: { method: 'tools/list' } }), 'what else the condition lets pass')
})

t.test('arguments: another spelling for the same name', async (t) => {
  const table: [name: string, key: string, isSame: boolean][] = [
    ['path', 'Path', true],
    ['PATH', 'path', true],
    ['disk', 'di\u017fk', true],
    ['disk', 'dis\u212a', true],
    ['path', 'pa\u0442h', false],
    ['file_path', 'filePath', false],
    ['path', 'path\n', false],
    ['path', ' path', false],
    ['hasOwnProperty', 'HASOWNPROPERTY', true],
    ['__proto__', '__PROTO__', true],
    ['__proto__', 'x', false],
    ['toString', 'x', false],
    ['constructor', 'x', false],
  ]
  for (const [name, key, isSame] of table) {
    const subject = ofCall({ arguments: { [key]: 'a' } })
    t.strictSame(decisionsOn(`has(mcp.arguments.${name})`, subject), isSame ? FAILS : NO, key)
    t.strictSame(decisionsOn(`mcp.arguments.${name} == "a"`, subject), FAILS, key)
    const both = ofCall({ arguments: JSON.parse(`{"${name}": "a", ${JSON.stringify(key)}: "b"}`) })
    const [isRead] = decisionsOn(`mcp.arguments.${name} == "a"`, both)
    t.equal(isRead, !isSame && name !== 'constructor', `${name} beside ${key}`)
  }
  const subject = ofCall({ arguments: { Path: '/etc', size: 1 } })
  t.ok(compileCondition('mcp.arguments.size == 1', 'request').holds(subject), 'others are known')
})

t.test('a tool with some arguments', async (t) => {
  const table: [source: string, holds: boolean, scopes: string[], clause?: string][] = [
    ['mcp.arguments.x == "a"', true, []],
    ['!(mcp.arguments.x == "a")', true, []],
    ['!has(mcp.arguments.x)', true, []],
    ['mcp.arguments.x', true, []],
    ['Group("g1") && mcp.arguments.x == "a"', true, []],
    ['Group("editors") && mcp.arguments.x == "a"', false, [], 'Group("editors")'],
    ['mcp.arguments.x == "a" && Group("editors")', false, [], 'Group("editors")'],
    ['Group("editors") || mcp.arguments.x == "a"', true, []],
    [
      '!(Group("g1") || mcp.arguments.x == "a")',
      false,
      [],
      '!(Group("g1") || mcp.arguments.x == "a")',
    ],
    ['mcp.tool == "other" && mcp.arguments.x == "a"', false, [], 'mcp.tool == "other"'],
    ['mcp.tool == "search" && mcp.arguments.x <= 10', true, []],
    ['Scope("w") && mcp.arguments.x == "a"', false, ['w'], 'Scope("w")'],
    ['mcp.arguments.x == "a" && Scope("w")', false, ['w'], 'Scope("w")'],
    ['claims.missing == "x"', false, [], 'claims.missing == "x"'],
    ['Group("g1") ? mcp.arguments.x == "a" : true', true, []],
    [
      'Group("g9") ? mcp.arguments.x == "a" : false',
      false,
      [],
      'Group("g9") ? mcp.arguments.x == "a" : false',
    ],
  ]
  const subject = {
    ...ofCall({ arguments: ANY_ARGUMENTS }),
    caller: { method: 'agent', scopes: [], claims: {} } as const,
  }
  for (const [source, holds, scopes, clause] of table) {
    const condition = compileCondition(source, 'request')
    t.equal(condition.holds(subject), holds, source)
    t.equal(condition.refusingClause(subject), clause, source)
    if (!holds) t.strictSame(condition.wantedScopes(subject), scopes, source)
  }
  const scopesOf = (call: Partial<McpCall>) =>
    compileCondition('Scope("w") && mcp.arguments.x == "a"', 'request').scopesOfAgents({
      method: 'tools/call',
      name: 'search',
      ...call,
    })
  t.strictSame(scopesOf({ arguments: ANY_ARGUMENTS }), ['w'])
  t.strictSame(scopesOf({ arguments: { x: 'a' } }), ['w'])
  t.strictSame(scopesOf({ arguments: { x: 'b' } }), [])
})

const scalar = fc.constantFrom('a', 'b', '', 1, 2.5, 2 ** 53, true, false, null, 'true', ['a'])
const someArguments = fc.dictionary(fc.constantFrom('x', 'y', 'X', 'z'), scalar, { maxKeys: 3 })
const argumentTest = fc.constantFrom(
  ...['mcp.arguments.x == "a"', 'mcp.arguments.x != mcp.arguments.y', 'has(mcp.arguments.y)'],
  ...['mcp.arguments.y < 2', 'mcp.arguments.x', 'mcp.arguments.y.contains("a")', 'Group("g1")'],
  ...['Group("g9")', 'claims.missing == "x"', 'Scope("w")', 'mcp.arguments.x in ["a", "b"]'],
)
const { test: argumentTests } = fc.letrec<{ test: string }>((tie) => ({
  test: fc.oneof(
    { depthSize: 'small' },
    argumentTest,
    tie('test').map((test) => `!(${test})`),
    fc
      .tuple(tie('test'), fc.constantFrom('&&', '||'), tie('test'))
      .map((parts) => `(${parts.join(' ')})`),
  ),
}))

t.test('what holds with some arguments holds with any', async (t) => {
  const seen = { holds: 0, refused: 0 }
  fc.assert(
    fc.property(argumentTests, someArguments, (source, sent) => {
      const [holds, opposite] = decisionsOn(source, ofCall({ arguments: sent }))
      const [mayHold, mayNot] = decisionsOn(source, ofCall({ arguments: ANY_ARGUMENTS }))
      if (holds) seen.holds++
      if (!mayHold) seen.refused++
      return !(holds && opposite) && (mayHold || !holds) && (mayNot || !opposite)
    }),
    { numRuns: 2_000 },
  )
  t.ok(seen.holds > 100 && seen.refused > 100, JSON.stringify(seen))
})

t.test('arguments that a condition does not read change nothing', async () => {
  fc.assert(
    fc.property(
      argumentTests,
      someArguments,
      fc.dictionary(fc.string(), fc.jsonValue()),
      (source, sent, others) => {
        const more = Object.entries(others).filter(([key]) => !/^[xy]$/iu.test(key))
        const both = { ...sent, ...Object.fromEntries(more) }
        const [alone, beside] = [sent, both].map((args) =>
          decisionsOn(source, ofCall({ arguments: args })),
        )
        return alone?.join() === beside?.join()
      },
    ),
    { numRuns: 1_000 },
  )
})

t.test('a clause refuses a call exactly if the condition does', async () => {
  const sent = fc.oneof(someArguments, fc.constant(ANY_ARGUMENTS), fc.constant(undefined))
  fc.assert(
    fc.property(fc.array(argumentTests, { minLength: 1, maxLength: 4 }), sent, (parts, values) => {
      const subject = ofCall(values && { arguments: values })
      const condition = compileCondition(parts.join(' && '), 'request')
      return condition.holds(subject) === (condition.refusingClause(subject) === undefined)
    }),
    { numRuns: 1_000 },
  )
})

t.test('the clause that refuses, as it is written', async (t) => {
  const rows: [source: string, clause: string | undefined][] = [
    ['Group("g1")', undefined],
    ['Group("g9")', 'Group("g9")'],
    ['Group("g1") && Role("r9") && Group("g9")', 'Role("r9")'],
    ['(Group("g1") && Role("r9")) && Group("g9")', 'Role("r9")'],
    ['Group("g1") && (Role("r9") || Group("g9"))', 'Role("r9") || Group("g9")'],
    ['Group(`g1`) &&\n  Group(`a"b`) && Role("r1")', 'Group(`a"b`)'],
    ['Group("g1") && claims.missing == "x"', 'claims.missing == "x"'],
    ['Group("g1") && !Group("g2")', '!Group("g2")'],
    ['Group("g1") ? false : true', 'Group("g1") ? false : true'],
  ]
  for (const [source, clause] of rows)
    t.equal(compileCondition(source).refusingClause(ada), clause, source)
})

t.test('the scopes with which a condition would hold', async (t) => {
  const rows: [source: string, scopes: string[]][] = [
    ['Scope("write")', ['write']],
    ['Scope("read") && Scope("write") && Scope("admin")', ['read', 'write', 'admin']],
    ['Scope("write") || Scope("admin")', ['write']],
    ['Group("g1") || Scope("write")', ['write']],
    ['Group("g1") && Scope("write")', []],
    ['caller.claims.repository == "acme/y" && Scope("write")', []],
    ['caller.claims.repository == "acme/x" && Scope("write")', ['write']],
    ['caller.method == "psk"', []],
  ]
  for (const [source, scopes] of rows) {
    const condition = compileCondition(source)
    t.notOk(condition.holds(programs.token), source)
    t.strictSame(condition.wantedScopes(programs.token), scopes, source)
    t.notOk(condition.holds(programs.token), 'asking grants nothing')
  }
})

t.test('the scopes that an agent needs, whoever it acts for', async (t) => {
  const call = (name: string) => ({ method: 'tools/call', name })
  const rows: [source: string, mcp: ReturnType<typeof call> | undefined, scopes: string[]][] = [
    ['Scope("a")', undefined, ['a']],
    ['Group("other") && Role("other") && Scope("a")', undefined, ['a']],
    ['Group("other")', undefined, []],
    ['caller.method == "session" && Scope("a")', undefined, []],
    ['caller.method == "agent" && Scope("a")', undefined, ['a']],
    ['mcp.tool == "search" && Scope("a")', call('search'), ['a']],
    ['mcp.tool == "search" && Scope("a")', call('delete'), []],
    ['mcp.tool == "search" && Scope("a")', undefined, []],
  ]
  for (const [source, mcp, scopes] of rows) {
    t.strictSame(compileCondition(source, 'request').scopesOfAgents(mcp), scopes, source)
    t.notOk(decide('Group("other")'), 'nobody else is taken for a member by that')
    t.notOk(decide('Scope("a")'), 'nor has its scopes')
  }
})

t.test('the texts that a condition names', async (t) => {
  const rows: [source: string, texts: string[]][] = [
    ['Group("a") || !Group(`b "c"`) && Role("d")', ['a', 'b "c"', 'd']],
    ['ClaimContains("groups", "e") ? true : claims.hd == \'f\'', ['groups', 'e', 'f']],
    ['claims["g"] in ["h", "i"] || claims.name.startsWith("j")', ['g', 'h', 'i', 'j']],
    ['claims.groups.size() > 2 || has(claims.level) && EmailVerified()', []],
  ]
  for (const [source, texts] of rows) t.strictSame(compileCondition(source).texts, texts, source)
})

t.test('a condition refuses exactly if a clause does', async (t) => {
  const atoms = ['Group("g1")', 'Group("g9")', 'Scope("a")', 'claims.x', 'true', '(Role("r1"))']
  const source = fc.array(fc.constantFrom(...atoms), { minLength: 1, maxLength: 8 })
  const who = fc.constantFrom(ada, programs.key, programs.token)
  fc.assert(
    fc.property(source, who, (parts, subject) => {
      const condition = compileCondition(parts.join(' && '))
      const clause = condition.refusingClause(subject)
      t.equal(condition.holds(subject), clause === undefined)
      if (clause !== undefined) t.ok(parts.some((part) => part.includes(clause)))
    }),
  )
})

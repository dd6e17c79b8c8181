import t from 'tap'
import { Compile } from 'typebox/compile'
import { compileMembership } from '../src/allow.ts'
import {
  AllowSchema,
  compileAllow,
  compileCondition,
  fromClaims,
  withUnknown,
} from '../src/index.ts'

const person = (claims: object) => fromClaims('corp', { sub: '1', ...claims })
const verified = (email: string) => person({ email, email_verified: true })
const grouped = (...groups: string[]) => person({ groups })

t.test('an allow rule decides about a profile', async (t) => {
  const domains = { emailDomains: ['Example.com', 'example.org'] }
  const both = { emailDomains: ['example.com'], groups: ['ops'] }
  const rows: [
    why: string,
    rule: Parameters<typeof compileAllow>[0],
    who: object,
    mayEnter: boolean,
  ][] = [
    ['anyone', 'anyone', person({}), true],
    ['condition holds', 'Group("ops")', grouped('ops'), true],
    ['condition does not hold', 'Group("ops")', grouped('dev'), false],
    ['condition fails', '!claims.suspended', person({}), false],
    ['domain', domains, verified('ada@example.org'), true],
    ['domain in other letters', domains, verified('ada@EXAMPLE.Com'), true],
    ['address not verified', domains, person({ email: 'ada@example.com' }), false],
    [
      'address verified in words, as JumpCloud does',
      domains,
      person({ email: 'a@example.com', email_verified: 'true' }),
      true,
    ],
    [
      'address not verified in words',
      domains,
      person({ email: 'a@example.com', email_verified: 'false' }),
      false,
    ],
    ['no address', domains, person({ email_verified: true }), false],
    ['subdomain', domains, verified('ada@mail.example.com'), false],
    ['longer domain', domains, verified('ada@evil-example.com'), false],
    ['domain within another', domains, verified('ada@example.com.evil.net'), false],
    ['two @', domains, verified('ada@evil.net@example.com'), false],
    ['two @ the other way', domains, verified('ada@example.com@evil.net'), false],
    ['a group', { groups: ['dev', 'ops'] }, grouped('x', 'ops'), true],
    ['no such group', { groups: ['ops'] }, grouped('Ops', 'ops '), false],
    ['no groups', { groups: ['ops'] }, person({}), false],
    ['groups unknown', { groups: ['ops'] }, person({ _claim_names: { groups: 'x' } }), false],
    [
      'both hold',
      both,
      person({ email: 'a@example.com', email_verified: true, groups: 'ops' }),
      true,
    ],
    ['only the domain holds', both, verified('a@example.com'), false],
    ['only the group holds', both, grouped('ops'), false],
    [
      'an object with a condition',
      { condition: 'Role("x")', groups: ['ops'] },
      grouped('ops'),
      false,
    ],
    ['no domain at all', { emailDomains: [] }, verified('a@example.com'), false],
    ['no group at all', { groups: [] }, grouped('ops'), false],
  ]
  for (const [why, rule, who, expected] of rows)
    t.equal(compileAllow(rule)(who as ReturnType<typeof person>), expected, why)
})

t.test('membership is true, false or not known', async (t) => {
  const cut = { _claim_names: { groups: 'unknown' } }
  const both = { emailDomains: ['example.com'], groups: ['ops'] }
  const address = { email: 'a@example.com', email_verified: true }
  const elsewhere = { email: 'a@example.org', email_verified: true }
  const rows: [membership: object, who: object, expected: boolean | undefined][] = [
    [{ groups: ['ops'] }, { groups: ['ops'] }, true],
    [{ groups: ['ops'] }, { groups: ['dev'] }, false],
    [{ groups: ['ops'] }, {}, false],
    [{ groups: ['ops'] }, cut, undefined],
    [{ groups: ['ops'] }, { groups: Array.from({ length: 2_000 }, (_, i) => `g${i}`) }, undefined],
    [{ emailDomains: ['example.com'] }, address, true],
    [{ emailDomains: ['example.com'] }, elsewhere, false],
    [{ emailDomains: ['example.com'] }, { email: 'a@example.com' }, undefined],
    [{ emailDomains: ['example.com'] }, { email: 'a@example.org' }, undefined],
    [{ emailDomains: ['example.com'] }, {}, undefined],
    [both, { ...address, groups: ['ops'] }, true],
    [both, { ...elsewhere, ...cut }, false],
    [both, { ...address, ...cut }, undefined],
    [both, { groups: ['dev'] }, false],
  ]
  for (const [membership, who, expected] of rows)
    t.equal(compileMembership(membership)(person(who)), expected, JSON.stringify([membership, who]))
})

t.test('what a token leaves out is not missing', async (t) => {
  const claims = withUnknown({ tenant: 'a', _claim_names: { groups: 'src1', tenant: 'src1' } })
  t.equal(claims.tenant, 'a')
  const subject = { claims: {}, caller: { method: 'jwt' as const, scopes: [], claims } }
  const decide = (source: string) => compileCondition(source).holds(subject)
  t.equal(decide('caller.claims.tenant == "a"'), true)
  for (const source of [
    'has(caller.claims.groups)',
    '"blocked" in caller.claims.groups',
    'has(caller.claims.groups) && "blocked" in caller.claims.groups',
  ]) {
    t.equal(decide(source), false, source)
    t.equal(decide(`!(${source})`), false, `!(${source})`)
  }
  const whole = { tenant: 'a' }
  t.equal(withUnknown(whole), whole)
})

t.test('names the part of a rule that refuses, and what is missing', async (t) => {
  const rule = { emailDomains: ['example.com', 'b.example'], groups: ['ops', 'dev'] }
  const both = { ...rule, condition: 'Role("x") && Role("y")' }
  const ada = { email: 'a@example.com', email_verified: true, groups: ['ops'] }
  const rows: [rule: Parameters<typeof compileAllow>[0], claims: object, clause?: string][] = [
    ['anyone', {}],
    [rule, ada],
    [rule, {}, 'emailDomains: example.com, b.example (no e-mail address came)'],
    [
      rule,
      { ...ada, email_verified: false },
      'emailDomains: example.com, b.example (the e-mail address is not verified)',
    ],
    [rule, { ...ada, email: 'a@c.example' }, 'emailDomains: example.com, b.example'],
    [rule, { ...ada, groups: undefined }, 'groups: ops, dev (no groups came)'],
    [
      rule,
      { ...ada, groups: undefined, _claim_names: { groups: 'a' } },
      'groups: ops, dev (the groups are not known)',
    ],
    [rule, { ...ada, groups: ['hr'] }, 'groups: ops, dev'],
    [both, { ...ada, roles: ['x'] }, 'Role("y")'],
    ['(Role("x") && true) || (Role("y"))', ada, '(Role("x") && true) || (Role("y"))'],
    ['Role("x") && !(Role("y"))', ada, 'Role("x") && !(Role("y"))'],
    [both, { ...ada, roles: ['x', 'y'], groups: [] }, 'groups: ops, dev (no groups came)'],
  ]
  for (const [rule, claims, clause] of rows)
    t.equal(compileAllow(rule).refusingClause(person(claims)), clause)
})

t.test('the texts that a rule names', async (t) => {
  const rows: [rule: Parameters<typeof compileAllow>[0], texts: string[]][] = [
    ['anyone', []],
    ['Group("a")', ['a']],
    [{ groups: ['a', 'b'] }, ['a', 'b']],
    [{ condition: 'Group("c")', groups: ['a'], emailDomains: ['x.org'] }, ['c', 'x.org', 'a']],
  ]
  for (const [rule, texts] of rows)
    t.strictSame(compileAllow(rule).texts, texts, JSON.stringify(rule))
})

t.test('invalid allow rules are refused', async (t) => {
  const rows: [rule: Parameters<typeof compileAllow>[0], code: string][] = [
    [{}, 'PROFILE_ALLOW_INVALID'],
    [{ emailDomains: ['@example.com'] }, 'PROFILE_ALLOW_INVALID'],
    [{ emailDomains: ['*.example.com'] }, 'PROFILE_ALLOW_INVALID'],
    [{ emailDomains: ['bücher.example'] }, 'PROFILE_ALLOW_INVALID'],
    [{ emailDomains: ['example.com', ''] }, 'PROFILE_ALLOW_INVALID'],
    [{ emailDomains: [`${'a.'.repeat(126)}ab`] }, 'PROFILE_ALLOW_INVALID'],
    ['', 'PROFILE_CONDITION_INVALID'],
    ['Anyone', 'PROFILE_CONDITION_INVALID'],
    ['ada@example.com', 'PROFILE_CONDITION_INVALID'],
    [{ condition: 'Group(' }, 'PROFILE_CONDITION_INVALID'],
  ]
  for (const [rule, code] of rows)
    t.throws(() => compileAllow(rule), { code }, JSON.stringify(rule))
})

t.test('the schema accepts what compiles, and nothing else', async (t) => {
  const schema = Compile(AllowSchema)
  for (const rule of ['anyone', { groups: ['a'] }, { condition: 'x', emailDomains: ['b'] }])
    t.ok(schema.Check(rule), JSON.stringify(rule))
  for (const rule of [{}, { groups: [] }, { group: ['a'] }, ['anyone'], null, true])
    t.notOk(schema.Check(rule), JSON.stringify(rule))
})

import type { Caller } from '@gatehouse/auth-core'
import { parseClientName, parseName } from '@gatehouse/pki'
import fc from 'fast-check'
import t from 'tap'
import { type PolicyRule, RIGHTS, type Right } from '../../src/config/auth.ts'
import {
  createPolicy,
  type Person,
  type PolicyOptions,
  type Principal,
} from '../../src/policy/rules.ts'

const A = 'https://a.test'
const B = 'https://b.test'

const token = (claims: object = {}, more: object = {}) =>
  ({ method: 'jwt', issuer: A, subject: 'svc', scopes: [], claims, ...more }) as Caller
const key = (domains?: string[]) =>
  ({ method: 'psk', subject: 'ops', ...(domains && { domains }) }) as Caller

const claim = { domainsClaim: 'domains' }
const allow = (rule: object): PolicyOptions => ({
  rules: [{ effect: 'allow', names: ['*.a.test'], ...rule }],
})
const bySubject = allow({ issuer: A, subject: 'svc' })
const denied: PolicyOptions = {
  rules: [
    { effect: 'allow', names: ['*'], issuer: A },
    { effect: 'deny', names: ['*.secret.test'] },
  ],
}

const rights = (right: Right, name = 'ops'): PolicyOptions => ({
  keys: new Map([[name, { rights: [right] }]]),
})
const deny = (...names: string[]): PolicyOptions => ({ rules: [{ effect: 'deny', names }] })

const person = (more: object = {}) =>
  ({ provider: 'corp', id: '42', claims: {}, ...more }) as Person
const ada = person({
  groups: ['ops'],
  email: { address: 'ada@Example.com', verified: true },
  claims: { groups: ['ops'] },
})
const people = (who: PolicyRule['people'], more: object = {}) => allow({ people: who, ...more })

const DECISIONS: readonly [
  why: string,
  options: PolicyOptions,
  caller: Principal,
  right: Right,
  names: string,
  allowed: boolean,
][] = [
  ['a key may have everything', {}, key(), 'issue', 'x.test 10.0.0.1 *.y.test', true],
  ['and delete it', bySubject, key(), 'delete', 'x.test', true],
  ['a key with domains: those', {}, key(['*.a.test']), 'renew', 'x.a.test y.a.test', true],
  ['it revokes nothing', {}, key(['*.a.test']), 'revoke', 'x.a.test', false],
  ['nor deletes', {}, key(['*.a.test']), 'delete', 'x.a.test', false],
  ['unless its rights say so', rights('revoke'), key(['a.test']), 'revoke', 'a.test', true],
  ['rights are for its domains', rights('revoke'), key(['a.test']), 'revoke', 'b.test', false],
  ['and are all that it has', rights('revoke'), key(['a.test']), 'read', 'a.test', false],
  ['a key that reads', rights('read'), key(), 'read', 'a.test', true],
  ['and does not issue', rights('read'), key(), 'issue', 'a.test', false],
  ['rights of another key', rights('read', 'dev'), key(), 'delete', 'a.test', true],
  ['not others', {}, key(['*.a.test']), 'read', 'a.test', false],
  ['not one other among them', {}, key(['*.a.test']), 'read', 'x.a.test b.test', false],
  ['not the wildcard', {}, key(['*.a.test']), 'issue', '*.a.test', false],
  ['no domains at all', {}, key([]), 'read', 'a.test', false],

  ['a token may have everything while nothing limits it', {}, token(), 'delete', 'x.test', true],
  ['names in the claim', claim, token({ domains: ['a.test'] }), 'issue', 'a.test', true],
  ['with commas', claim, token({ domains: 'b.test, a.test' }), 'renew', 'a.test', true],
  ['rules in the claim', claim, token({ domains: ['10.0.0.0/8'] }), 'read', '10.1.2.3', true],
  ['not other names', claim, token({ domains: ['a.test'] }), 'issue', 'b.a.test', false],
  ['a claim takes nothing out', claim, token({ domains: ['*'] }), 'revoke', 'a.test', false],
  ['nor deletes', claim, token({ domains: ['*'] }), 'delete', 'a.test', false],
  ['no claim', claim, token(), 'read', 'a.test', false],
  ['empty claim', claim, token({ domains: [] }), 'read', 'a.test', false],
  ['empty string', claim, token({ domains: '' }), 'read', 'a.test', false],
  ['claim that is a number', claim, token({ domains: 1 }), 'read', 'a.test', false],
  ['claim that is null', claim, token({ domains: null }), 'read', 'a.test', false],
  ['claim that is an object', claim, token({ domains: { 0: 'a.test' } }), 'read', 'a.test', false],
  ['a list with a number', claim, token({ domains: ['a.test', 1] }), 'read', 'a.test', false],
  ['a list with a bad rule', claim, token({ domains: ['a.test', 'x*'] }), 'read', 'a.test', false],
  [
    'an inherited member is no claim',
    { domainsClaim: 'toString' },
    token(),
    'read',
    'a.test',
    false,
  ],

  ['a rule by issuer and subject', bySubject, token(), 'issue', 'x.a.test', true],
  ['not for more names', bySubject, token(), 'issue', 'a.test', false],
  ['not for another subject', bySubject, token({}, { subject: 'sv' }), 'issue', 'x.a.test', false],
  [
    'not for the subject of another issuer',
    bySubject,
    token({}, { issuer: B }),
    'issue',
    'x.a.test',
    false,
  ],
  [
    'not for a key’s name',
    { rules: [{ effect: 'allow', names: ['a.test'], issuer: A }] },
    key(['b.test']),
    'read',
    'a.test',
    false,
  ],
  ['a rule does not revoke unless it says so', bySubject, token(), 'revoke', 'x.a.test', false],
  [
    'a rule that does',
    allow({ issuer: A, rights: ['revoke'] }),
    token(),
    'revoke',
    'x.a.test',
    true,
  ],
  [
    'and then nothing else',
    allow({ issuer: A, rights: ['revoke'] }),
    token(),
    'issue',
    'x.a.test',
    false,
  ],
  [
    'by claim',
    allow({ claim: { name: 'team', value: 'ops' } }),
    token({ team: 'ops' }),
    'read',
    'x.a.test',
    true,
  ],
  [
    'by one value of a claim',
    allow({ claim: { name: 'team', value: 'ops' } }),
    token({ team: ['dev', 'ops'] }),
    'read',
    'x.a.test',
    true,
  ],
  [
    'not by part of it',
    allow({ claim: { name: 'team', value: 'ops' } }),
    token({ team: 'devops' }),
    'read',
    'x.a.test',
    false,
  ],
  [
    'by scope',
    allow({ scope: 'certs' }),
    token({}, { scopes: ['x', 'certs'] }),
    'read',
    'x.a.test',
    true,
  ],
  [
    'not without it',
    allow({ scope: 'certs' }),
    token({ scope: 'certs' }),
    'read',
    'x.a.test',
    false,
  ],
  [
    'all conditions have to hold',
    allow({ issuer: A, scope: 'certs' }),
    token(),
    'read',
    'x.a.test',
    false,
  ],
  [
    'an allow rule without condition holds for nobody',
    allow({}),
    token(),
    'read',
    'x.a.test',
    false,
  ],
  [
    'claim or rule',
    { ...claim, ...bySubject },
    token({ domains: ['b.test'] }),
    'issue',
    'b.test x.a.test',
    true,
  ],
  [
    'a rule where the claim is absent',
    { ...claim, ...bySubject },
    token(),
    'issue',
    'x.a.test',
    true,
  ],

  ['what is not denied', denied, token(), 'issue', 'a.test', true],
  ['deny wins', denied, token(), 'issue', 'x.secret.test', false],
  ['deny wins for one name', denied, token(), 'read', 'a.test x.secret.test', false],
  ['deny wins over keys', denied, key(), 'read', 'x.secret.test', false],
  ['deny of a name a wildcard covers', deny('vault.a.test'), key(), 'issue', '*.a.test', false],
  ['deny of what is below a wildcard', deny('*.v.test'), key(), 'issue', '*.v.test', false],
  ['deny of what is further above', deny('*.test'), key(), 'read', '*.x.a.test', false],
  ['deny of that wildcard', deny('=*.a.test'), key(), 'renew', '*.a.test', false],
  ['not of another depth', deny('vault.a.test'), key(), 'issue', '*.vault.a.test', true],
  ['deny of a network', deny('10.0.0.0/8'), key(), 'issue', '10.1.2.3', false],
  [
    'deny for some callers',
    { rules: [{ effect: 'deny', names: ['*'], issuer: B }] },
    key(),
    'read',
    'a.test',
    true,
  ],
  ['people have nothing while no rule is about them', {}, ada, 'read', 'x.a.test', false],
  ['not what tokens have', allow({ issuer: A }), ada, 'read', 'x.a.test', false],
  [
    'nor by a claim of the same name',
    claim,
    person({ claims: { domains: ['*'] } }),
    'read',
    'a.test',
    false,
  ],
  [
    'nor by a rule for a claim of tokens',
    allow({ claim: { name: 'groups', value: 'ops' } }),
    ada,
    'read',
    'x.a.test',
    false,
  ],
  ['anyone who passes the check', people('anyone'), person(), 'read', 'x.a.test', true],
  ['within its names', people('anyone'), person(), 'read', 'x.b.test', false],
  ['who reads and renews', people('anyone'), ada, 'renew', 'x.a.test', true],
  ['but revokes nothing', people('anyone'), ada, 'revoke', 'x.a.test', false],
  ['unless it says so', people('anyone', { rights: ['revoke'] }), ada, 'revoke', 'x.a.test', true],
  ['people of a group', people({ groups: ['dev', 'ops'] }), ada, 'read', 'x.a.test', true],
  ['not of another', people({ groups: ['dev'] }), ada, 'read', 'x.a.test', false],
  ['not of none', people({ groups: ['ops'] }), person(), 'read', 'x.a.test', false],
  ['people of a domain', people({ emailDomains: ['EXAMPLE.com'] }), ada, 'read', 'x.a.test', true],
  [
    'not with an address that is not verified',
    people({ emailDomains: ['example.com'] }),
    person({ email: { address: 'ada@example.com', verified: false } }),
    'read',
    'x.a.test',
    false,
  ],
  [
    'not of a domain below',
    people({ emailDomains: ['example.com'] }),
    person({ email: { address: 'ada@x.example.com', verified: true } }),
    'read',
    'x.a.test',
    false,
  ],
  [
    'who meet all restrictions',
    people({ groups: ['dev'], emailDomains: ['example.com'] }),
    ada,
    'read',
    'x.a.test',
    false,
  ],
  ['a rule about people is for no token', people('anyone'), token(), 'read', 'x.b.test', true],
  ['nor for a key', people('anyone'), key(['b.test']), 'read', 'x.a.test', false],
  [
    'a deny rule for all is for people too',
    { rules: [...people('anyone').rules!, { effect: 'deny', names: ['x.a.test'] }] },
    ada,
    'read',
    'x.a.test',
    false,
  ],
  [
    'one about people is for nobody else',
    { rules: [{ effect: 'deny', names: ['*'], people: 'anyone' }] },
    key(),
    'read',
    'a.test',
    true,
  ],
  ...(['groups', 'emailDomains'] as const).flatMap((kind): (typeof DECISIONS)[number][] => {
    const who = { [kind]: kind === 'groups' ? ['ops'] : ['example.com'] }
    const rules = [
      ...people('anyone').rules!,
      { effect: 'deny' as const, names: ['*'], people: who },
    ]
    const cut = kind === 'groups' ? { claims: { _claim_names: { groups: 'unknown' } } } : {}
    const other = { groups: ['dev'], email: { address: 'a@b.test', verified: true } }
    return [
      [`a deny rule by ${kind}`, { rules }, ada, 'read', 'x.a.test', false],
      [`stands if ${kind} are not known`, { rules }, person(cut), 'read', 'x.a.test', false],
      [`and not for others than ${kind}`, { rules }, person(other), 'read', 'x.a.test', true],
      [`an allow rule by ${kind}`, people(who), person(cut), 'read', 'x.a.test', false],
    ]
  }),
  ...(
    [
      ['a deny rule by a claim', { groups: ['ops'] }, false],
      ['stands if the token leaves the claim out', { _claim_names: { groups: 'src1' } }, false],
      ['and not for others', { groups: ['dev'] }, true],
      ['nor for tokens without it', {}, true],
    ] as const
  ).map(([why, claims, allowed]): (typeof DECISIONS)[number] => {
    const claim = { name: 'groups', value: 'ops' }
    const rules = [...bySubject.rules!, { effect: 'deny' as const, names: ['*'], claim }]
    return [why, { rules }, token(claims), 'read', 'x.a.test', allowed]
  }),
  [
    'deny of one right',
    { rules: [{ effect: 'deny', names: ['*'], rights: ['delete'] }] },
    key(),
    'read',
    'a.test',
    true,
  ],
]

t.test('the policy decides who may do what with which names', async (t) => {
  for (const [why, options, caller, right, names, allowed] of DECISIONS) {
    const decision = createPolicy(options)(caller, right, names.split(' ').map(parseName), 'server')
    t.equal(decision.allowed, allowed, why)
  }
})

const CLIENT = { profile: 'client' } as const
const clientKeys = { keys: new Map([['ops', { profile: 'client' as const }]]) }

const CLIENT_DECISIONS: readonly [
  why: string,
  options: PolicyOptions,
  caller: Principal,
  right: Right,
  names: string,
  asServer: boolean,
  asClient: boolean,
][] = [
  ['a key has both', {}, key(), 'issue', 'a.test', true, true],
  ['a key with domains has one', {}, key(['a.test']), 'issue', 'a.test', true, false],
  ['the other, if it says so', clientKeys, key(['a.test']), 'issue', 'a.test', false, true],
  ['also for all names', clientKeys, key(['*']), 'read', 'a.test', false, true],
  ['open to tokens', {}, token(), 'issue', 'a.test', true, false],
  ['a claim', claim, token({ domains: ['*'] }), 'issue', 'a.test', true, false],
  ['a rule', allow({ issuer: A }), token(), 'issue', 'x.a.test', true, false],
  ['a rule of clients', allow({ issuer: A, ...CLIENT }), token(), 'issue', 'x.a.test', true, true],
  [
    'a rule of clients beside a claim',
    { ...claim, ...allow({ issuer: A, ...CLIENT }) },
    ...([token({ domains: [] }), 'issue', 'x.a.test', false, true] as const),
  ],
  [
    'it revokes nothing',
    allow({ issuer: A, ...CLIENT }),
    token(),
    'revoke',
    'x.a.test',
    true,
    false,
  ],
  ['a rule for others', allow({ issuer: B, ...CLIENT }), token(), 'issue', 'x.a.test', true, false],
  ['people', people('anyone'), ada, 'read', 'x.a.test', true, false],
  ['people of clients', people('anyone', CLIENT), ada, 'read', 'x.a.test', false, true],
  ['a denial is about both', deny('a.test'), key(), 'issue', 'a.test', false, false],
  [
    'unless it names one',
    { rules: [{ effect: 'deny', names: ['a.test'], ...CLIENT }] },
    ...([key(), 'issue', 'a.test', true, false] as const),
  ],
]

t.test('a rule, key or claim is about certificates of one profile', async (t) => {
  for (const [why, options, caller, right, names, ...expected] of CLIENT_DECISIONS) {
    const policy = createPolicy(options)
    const parsed = names.split(' ').map(parseName)
    const allowed = (['server', 'client'] as const).map(
      (profile) => policy(caller, right, parsed, profile).allowed,
    )
    t.strictSame(allowed, expected, why)
  }
})

t.test('names of clients are granted by rules for them', async (t) => {
  const rules: PolicyRule[] = [
    { effect: 'allow', names: ['*@a.test', 'spiffe://a.test/web/*'], issuer: A, ...CLIENT },
    { effect: 'deny', names: ['root@a.test'] },
  ]
  const policy = createPolicy({ rules })
  for (const [name, allowed] of Object.entries({
    'ada@a.test': true,
    'root@a.test': false,
    'ada@b.test': false,
    'spiffe://a.test/web/1': true,
    'spiffe://a.test/db': false,
    'a.test': false,
  }))
    t.equal(policy(token(), 'issue', [parseClientName(name)], 'client').allowed, allowed, name)
})

t.test('a refusal has the name and the reason', async (t) => {
  const reason = (options: PolicyOptions, caller: Caller, name: string) => {
    const decision = createPolicy(options)(
      caller,
      'issue',
      [parseName('ok.test'), parseName(name)],
      'server',
    )
    return decision.allowed ? '' : `${decision.name.text}: ${decision.reason}`
  }
  t.equal(reason({}, key(['ok.test']), 'a.test'), 'a.test: it is not in the domains of the key')
  t.equal(reason(claim, token(), 'a.test'), 'ok.test: the token has no claim `domains`')
  t.equal(
    reason(claim, token({ domains: 3 }), 'a.test'),
    'ok.test: the claim `domains` is not a list of name rules',
  )
  t.equal(
    reason(claim, token({ domains: ['ok.test'] }), 'a.test'),
    'a.test: neither the claim `domains` nor a rule grants it',
  )
  t.equal(
    reason(denied, token(), 'x.secret.test'),
    'x.secret.test: it is in the deny rule `*.secret.test`',
  )
})

t.test('a refusal says which denied name a wildcard covers, to whom it is granted', async (t) => {
  const reason = (caller: Caller) => {
    const policy = createPolicy(deny('vault.a.test', '*.b.test'))
    const decision = policy(caller, 'issue', [parseName('*.a.test')], 'server')
    return decision.allowed ? '' : decision.reason
  }
  t.equal(reason(key()), 'it covers a name that is in the deny rule `vault.a.test`')
  t.equal(reason(key(['b.test'])), 'it is not in the domains of the key')
})

t.test('property: who may have a wildcard is denied none of the names that it covers', async () => {
  const label = fc.constantFrom('a', 'b', 'c')
  const host = fc.array(label, { minLength: 1, maxLength: 3 }).map((labels) => labels.join('.'))
  const rule = fc.tuple(fc.constantFrom('', '*.', '=*.'), host).map((parts) => parts.join(''))
  fc.assert(
    fc.property(
      fc.array(rule, { maxLength: 3 }),
      host,
      fc.constantFrom(...RIGHTS),
      (names, parent, right) => {
        const policy = createPolicy(names.length > 0 ? deny(...names) : {})
        const may = (text: string) => policy(key(), right, [parseName(text)], 'server').allowed
        return !may(`*.${parent}`) || ['a', 'b', 'c', 'd'].every((one) => may(`${one}.${parent}`))
      },
    ),
    { numRuns: 2000 },
  )
})

t.test(
  'property: with rules, only what a matching allow rule holds and no deny rule does',
  async () => {
    const label = fc.constantFrom('a', 'b', 'c')
    const name = fc
      .array(label, { minLength: 1, maxLength: 3 })
      .map((labels) => `${labels.join('.')}.test`)
    const rule = fc.record(
      {
        effect: fc.constantFrom('allow' as const, 'deny' as const),
        names: fc.array(name, { minLength: 1, maxLength: 3 }),
        issuer: fc.constantFrom(A, B),
        rights: fc.subarray([...RIGHTS], { minLength: 1 }),
      },
      { requiredKeys: ['effect', 'names', 'issuer'] },
    )
    fc.assert(
      fc.property(
        fc.array(rule, { minLength: 1, maxLength: 4 }),
        fc.constantFrom(...RIGHTS),
        fc.array(name, { minLength: 1, maxLength: 3 }),
        (rules, right, names) => {
          const holds = (effect: string, text: string) =>
            rules.some(
              (rule) =>
                rule.effect === effect &&
                rule.issuer === A &&
                rule.names.includes(text) &&
                (rule.rights?.includes(right) ??
                  (effect === 'deny' || !['revoke', 'delete'].includes(right))),
            )
          const expected = names.every((text) => holds('allow', text) && !holds('deny', text))
          const { allowed } = createPolicy({ rules })(
            token(),
            right,
            names.map(parseName),
            'server',
          )
          return allowed === expected
        },
      ),
    )
  },
)

t.test('who may have every name is known without a name', async (t) => {
  const person = { provider: 'corp', id: '42', groups: ['ops'] } as unknown as Principal
  const everything: PolicyRule = {
    effect: 'allow',
    people: 'anyone',
    names: ['*'],
    rights: ['read'],
  }
  const deny: PolicyRule = { effect: 'deny', names: ['secret.test'] }
  const cases: [why: string, rules: readonly PolicyRule[], caller: Principal, isAll: boolean][] = [
    ['a key', [], key(), true],
    ['a key with a deny rule', [deny], key(), false],
    ['a limited key', [], key(['*.a.test']), false],
    ['a key with all domains', [], key(['*']), true],
    ['a person with a rule', [everything], person, true],
    ['a person with a deny rule', [everything, deny], person, false],
    ['a person with less', [{ ...everything, names: ['*.a.test'] }], person, false],
    ['a person without a rule', [], person, false],
  ]
  for (const [why, rules, caller, isAll] of cases)
    t.equal(createPolicy({ rules }).scopeOf(caller, 'read').isAll, isAll, why)
})

t.test('the rules for names that a caller has are known without a name', async (t) => {
  const read = (...names: string[]): PolicyRule => ({ ...OF_ANYONE, names })
  const ofClients = { ...read('*@a.test'), profile: 'client' } as const
  const cases: [why: string, rules: readonly PolicyRule[], caller: Principal, names: string[]][] = [
    ['a key', [], key(), ['*']],
    ['a limited key', [], key(['*.a.test', '10.0.0.0/8']), ['*.a.test', '10.0.0.0/8']],
    ['a person', [read('*.a.test'), read('=*.b.test')], ada, ['*.a.test', '=*.b.test']],
    ['a person with a deny rule', [read('*'), ...(deny('x.test').rules ?? [])], ada, ['*']],
    ['a person who is denied all', [read('*'), ...(deny('*').rules ?? [])], ada, []],
    ['a person with rules of clients alone', [ofClients], ada, []],
    ['a person without a rule', [], ada, []],
  ]
  for (const [why, rules, caller, names] of cases)
    t.strictSame(createPolicy({ rules }).namesOf(caller, 'read', 'server'), names, why)
})

const OF_ANYONE: PolicyRule = {
  effect: 'allow',
  people: 'anyone',
  names: ['*'],
  rights: ['read'],
}

/** An allow rule for the tokens of a team. */
const ofTeam = (lifetime: number | undefined, ...names: string[]): PolicyRule => ({
  effect: 'allow',
  names,
  scope: 'team',
  ...(lifetime !== undefined && { lifetime }),
})
const team = token({}, { scopes: ['team'] })
const LIFETIMES: readonly [
  why: string,
  options: PolicyOptions,
  caller: Principal,
  names: string,
  lifetime: number,
][] = [
  ['no rule has one', { rules: [ofTeam(undefined, '*')] }, team, 'a.test', Infinity],
  ['that of the rule', { rules: [ofTeam(5, '*')] }, team, 'a.test', 5],
  [
    'one of the names is enough',
    { rules: [ofTeam(5, 'a.test'), ofTeam(undefined, '*')] },
    team,
    'b.test a.test',
    5,
  ],
  [
    'none of them',
    { rules: [ofTeam(5, 'a.test'), ofTeam(undefined, '*')] },
    team,
    'b.test',
    Infinity,
  ],
  [
    'the shortest of several',
    { rules: [ofTeam(5, '*'), ofTeam(2, '*.a.test'), ofTeam(9, '*')] },
    team,
    'x.a.test',
    2,
  ],
  [
    'a wildcard that covers the name',
    { rules: [ofTeam(5, 'x.a.test'), ofTeam(undefined, '=*.a.test')] },
    team,
    '*.a.test',
    5,
  ],
  [
    'not that of a rule for others',
    { rules: [ofTeam(9, '*'), { ...ofTeam(2, '*'), scope: 'other' }] },
    team,
    'a.test',
    9,
  ],
  [
    'not that of a rule for another right',
    { rules: [ofTeam(9, '*'), { ...ofTeam(2, '*'), rights: ['revoke'] }] },
    team,
    'a.test',
    9,
  ],
  ['that of the row of a key', { keys: new Map([['ops', { lifetime: 3 }]]) }, key(), 'a.test', 3],
  ['of another key', { keys: new Map([['dev', { lifetime: 3 }]]) }, key(), 'a.test', Infinity],
  ['rules are not for keys', { rules: [ofTeam(5, '*')] }, key(), 'a.test', Infinity],
  [
    'that of a row of auth.mtls',
    {},
    { method: 'mtls', subject: 'web', domains: ['*'], lifetime: 4 },
    'a.test',
    4,
  ],
  [
    'of a person',
    { rules: [{ effect: 'allow', names: ['*'], people: 'anyone', lifetime: 6 }] },
    ada,
    'a.test',
    6,
  ],
  [
    'of a device',
    { rules: [{ effect: 'allow', names: ['*'], acme: 'open', lifetime: 7 }] },
    { method: 'acme', subject: '10.0.0.1' },
    'a.test',
    7,
  ],
]

t.test('rules and rows say how long certificates live', (t) => {
  for (const [why, options, caller, names, lifetime] of LIFETIMES)
    t.match(
      createPolicy(options)(caller, 'issue', names.split(' ').map(parseName), 'server'),
      { allowed: true, lifetime },
      why,
    )
  t.end()
})

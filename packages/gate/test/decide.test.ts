import { parseHost } from '@gatehouse/net'
import { compileCondition, type Profile } from '@gatehouse/profile'
import t from 'tap'
import { type Decision, decide, kindOf, Principal, type RequestKind } from '../src/decide.ts'
import { createPolicyReader } from '../src/gate.ts'
import type { HeaderSettings, Identity } from '../src/headers.ts'
import { createPolicy, type Policy } from '../src/policy.ts'
import type { Admission } from '../src/rules.ts'
import { Person, profileOf } from './person.ts'

type Outcome = Decision['outcome']

/** What of a portal counts here. */
interface Door {
  readonly name: string
  readonly preflight: boolean
  readonly policies: ReadonlyMap<string, Policy>
  readonly headers: HeaderSettings['headers']
  readonly dynamicHeaders: readonly string[]
  readonly admits: () => boolean
}

const portal = (rest: Partial<Door> = {}): Door => ({
  name: 'main',
  preflight: false,
  policies: new Map(),
  headers: [],
  dynamicHeaders: [],
  admits: () => true,
  ...rest,
})
/** Somebody with a session at a portal. */
const visit = (at: Door, who: Profile) => new Person(who, at, at.admits)

/** A policy whose condition is a function. */
const policyOf = (holds: () => boolean): Policy => ({
  name: 'test',
  condition: { ...compileCondition('true'), holds },
  stepUp: undefined,
})
const SESSION: Admission = { demanded: [], purpose: [] }
const host = parseHost('app.example.com')!

const ask = (
  at: Door,
  principal: Person | undefined,
  policy: Policy | undefined | (() => Policy | undefined),
  kind: RequestKind,
  admission = SESSION,
): Outcome =>
  decide({
    preflight: at.preflight,
    host,
    principal,
    admission,
    routePolicy: typeof policy === 'function' ? policy : () => policy,
    kind: () => kind,
    now: 0,
  }).outcome

t.test('tells navigations, preflights and API requests apart', async (t) => {
  const html = { accept: 'text/html,*/*;q=0.8' }
  const preflight = { origin: 'https://x.test', 'access-control-request-method': 'PUT' }
  const table: [kind: RequestKind, method: string, headers: Record<string, string>, why: string][] =
    [
      ['navigation', 'GET', { 'sec-fetch-mode': 'navigate' }, 'a browser says so'],
      ['navigation', 'POST', { 'sec-fetch-mode': 'navigate' }, 'of a form too'],
      ['navigation', 'GET', html, 'an old browser'],
      ['navigation', 'HEAD', { accept: 'TEXT/HTML' }, 'HEAD'],
      ['api', 'POST', html, 'a POST that nothing says is of a form'],
      ['api', 'GET', { ...html, 'sec-fetch-mode': 'cors' }, 'fetch that accepts HTML'],
      ['api', 'GET', { ...html, 'sec-fetch-mode': 'websocket' }, 'WebSocket'],
      ['api', 'GET', { ...html, upgrade: 'websocket' }, 'WebSocket of an old browser'],
      ['api', 'GET', { ...html, 'x-requested-with': 'XMLHttpRequest' }, 'XHR of a library'],
      ['api', 'GET', { accept: 'application/json' }, 'a program'],
      ['api', 'GET', { accept: '*/*' }, 'curl'],
      ['api', 'GET', { accept: 'text/html;q=0' }, 'whoever wants no page'],
      ['api', 'GET', { accept: 'application/json, TEXT/HTML ; Q=0.000' }, 'in any spelling'],
      ['api', 'GET', { accept: 'text/html;level=1;q=0.0, */*' }, 'though anything else'],
      ['api', 'GET', { accept: 'text/html-fragment' }, 'a type that only begins like it'],
      ['navigation', 'GET', { accept: 'text/html;q=0.001' }, 'a page if there is nothing else'],
      ['navigation', 'GET', { accept: '*/*;q=0, text/html;charset=utf-8;q=0.9' }, 'nothing else'],
      ['api', 'GET', {}, 'nothing at all'],
      ['preflight', 'OPTIONS', preflight, 'a preflight'],
      ['preflight', 'OPTIONS', { ...preflight, 'sec-fetch-mode': 'cors' }, 'as browsers send it'],
      ['api', 'OPTIONS', { ...preflight, cookie: 'a=b' }, 'with a cookie it is none'],
      ['api', 'OPTIONS', { ...preflight, authorization: 'x' }, 'nor with credentials'],
      ['api', 'OPTIONS', { ...preflight, 'x-http-method-override': 'PUT' }, 'nor as another one'],
      ['api', 'OPTIONS', { origin: 'https://x.test' }, 'nor without a method to come'],
      ['api', 'OPTIONS', { 'access-control-request-method': 'PUT' }, 'nor without an origin'],
      ['api', 'GET', preflight, 'nor by GET'],
    ]
  for (const [kind, method, headers, why] of table) t.equal(kindOf(method, headers), kind, why)
})

t.test('decisions', async (t) => {
  const yes = policyOf(() => true)
  const no = policyOf(() => false)
  const ada = profileOf()
  const open: Admission = { demanded: [], purpose: 'anyone' }
  const ruled = (...demanded: Policy[]): Admission => ({ demanded, purpose: demanded })
  const either = (...anyOf: Admission[]): Admission => ({ ...SESSION, anyOf })
  const table: [
    Outcome,
    Partial<Door>,
    Profile | undefined,
    Policy | undefined,
    RequestKind,
    Admission?,
  ][] = [
    ['allow', {}, ada, undefined, 'api'],
    ['allow', {}, ada, yes, 'navigation'],
    ['forbidden', {}, ada, no, 'api'],
    ['forbidden', { admits: () => false }, ada, undefined, 'api'],
    ['forbidden', { admits: () => false }, ada, yes, 'navigation'],
    ['forbidden', { preflight: true }, ada, no, 'preflight'],
    ['sign-in', {}, undefined, undefined, 'navigation'],
    ['sign-in', { preflight: true }, undefined, yes, 'navigation'],
    ['no-session', {}, undefined, yes, 'api'],
    ['no-session', { preflight: true }, undefined, yes, 'api'],
    ['no-session', {}, undefined, undefined, 'preflight'],
    ['preflight', { preflight: true }, undefined, undefined, 'preflight'],
    ['anonymous', {}, undefined, undefined, 'navigation', open],
    ['anonymous', {}, undefined, undefined, 'api', open],
    ['anonymous', { admits: () => false }, ada, undefined, 'api', open],
    ['allow', {}, ada, undefined, 'api', open],
    ['allow', {}, ada, yes, 'api', open],
    ['forbidden', {}, ada, no, 'api', open],
    ['no-session', {}, undefined, yes, 'api', open],
    ['sign-in', {}, undefined, yes, 'navigation', open],
    ['allow', {}, ada, undefined, 'api', ruled(yes)],
    ['allow', {}, ada, yes, 'api', ruled(yes, yes)],
    ['forbidden', {}, ada, undefined, 'api', ruled(yes, no)],
    ['forbidden', {}, ada, yes, 'api', ruled(no)],
    ['forbidden', {}, ada, no, 'api', ruled(yes)],
    ['no-session', {}, undefined, undefined, 'api', ruled(yes)],
    ['allow', {}, ada, undefined, 'api', either(ruled(no), ruled(yes))],
    ['allow', {}, ada, yes, 'api', either(ruled(no), ruled(yes))],
    ['forbidden', {}, ada, no, 'api', either(ruled(no), ruled(yes))],
    ['allow', {}, ada, undefined, 'api', either(ruled(no), open)],
    ['anonymous', { admits: () => false }, ada, undefined, 'api', either(ruled(yes), open)],
    ['anonymous', {}, undefined, undefined, 'api', either(ruled(yes), open)],
    ['no-session', {}, undefined, yes, 'api', either(ruled(yes), open)],
    ['no-session', {}, undefined, undefined, 'api', either(ruled(yes), ruled(no))],
  ]
  for (const [outcome, rest, who, policy, kind, admission] of table)
    t.equal(
      ask(portal(rest), who && visit(portal(rest), who), policy, kind, admission),
      outcome,
      `${outcome}: ${JSON.stringify(rest)} ${kind} ${JSON.stringify(admission)}`,
    )
  const odd = 'yes' as unknown as boolean
  t.equal(
    ask(portal(), visit(portal({ admits: () => odd }), ada), undefined, 'api'),
    'forbidden',
    'only true admits',
  )
})

t.test('a refusal names the policy and the clause', async (t) => {
  const admin = createPolicy('admin', 'Group("staff") && Group("admin")')
  const ada = visit(portal(), profileOf({ groups: ['staff'] }))
  const question = {
    preflight: false,
    host,
    principal: ada,
    admission: SESSION,
    routePolicy: () => admin,
    kind: () => 'api' as const,
    now: 0,
  }
  t.match(decide(question), { refusal: { reason: 'policy admin', clause: 'Group("admin")' } })
  const shut = visit(portal({ admits: () => false }), profileOf())
  t.match(decide({ ...question, principal: shut }), { refusal: { reason: 'allow' } })
})

t.test('a policy may demand how and how lately a person has authenticated', async (t) => {
  const HOUR = 3_600_000
  const now = 100 * HOUR
  const at = (hours: number) => ({ auth_time: hours * 3_600 })
  const table: [Outcome, claims: object, config: Parameters<typeof createPolicy>[1]][] = [
    ['step-up', {}, { acr: ['mfa'] }],
    ['step-up', { acr: 'pwd' }, { acr: ['mfa'] }],
    ['step-up', { acr: ['mfa'] }, { acr: ['mfa'] }],
    ['allow', { acr: 'mfa' }, { acr: ['mfa'] }],
    ['allow', { acr: 'hw' }, { acr: ['mfa', 'hw'] }],
    ['step-up', {}, { maxAge: HOUR }],
    ['step-up', { auth_time: '360000' }, { maxAge: HOUR }],
    ['allow', at(99.5), { maxAge: HOUR }],
    ['allow', at(99), { maxAge: HOUR }],
    ['step-up', at(98.98), { maxAge: HOUR }],
    ['step-up', at(100.02), { maxAge: HOUR }],
    ['allow', at(100.005), { maxAge: HOUR }],
    ['step-up', { acr: 'mfa', ...at(1) }, { acr: ['mfa'], maxAge: HOUR }],
    ['allow', { acr: 'mfa', ...at(99.9) }, { acr: ['mfa'], maxAge: HOUR }],
    ['forbidden', {}, { condition: 'Group("admin")', acr: ['mfa'] }],
    ['step-up', { groups: ['admin'] }, { condition: 'Group("admin")', acr: ['mfa'] }],
  ]
  for (const [outcome, claims, config] of table) {
    const policy = createPolicy('strong', config)
    const decided = decide({
      preflight: false,
      host,
      principal: visit(portal(), profileOf(claims)),
      admission: { demanded: [policy], purpose: [policy] },
      routePolicy: () => undefined,
      kind: () => 'api',
      now,
    })
    t.equal(decided.outcome, outcome, `${JSON.stringify(claims)} ${JSON.stringify(config)}`)
    if (decided.outcome === 'step-up') t.equal(decided.policy, policy)
  }
})

t.test('one authentication has to meet all policies of a request', async (t) => {
  const MINUTE = 60_000
  const policies = {
    staff: createPolicy('staff', {}),
    mfa: createPolicy('mfa', { acr: ['mfa', 'hw'] }),
    hw: createPolicy('hw', { acr: ['hw'] }),
    pwd: createPolicy('pwd', { acr: ['pwd'] }),
    hour: createPolicy('hour', { maxAge: 60 * MINUTE }),
    recent: createPolicy('recent', { maxAge: 5 * MINUTE }),
  }
  const table: [names: (keyof typeof policies)[], expected: object][] = [
    [['staff', 'mfa', 'mfa'], { name: 'mfa', stepUp: { acr: ['mfa', 'hw'], maxAge: undefined } }],
    [
      ['mfa', 'staff', 'hour'],
      { name: 'mfa,hour', stepUp: { acr: ['mfa', 'hw'], maxAge: 3_600_000 } },
    ],
    [['hour', 'mfa', 'recent'], { name: 'hour,mfa,recent', stepUp: { maxAge: 300_000 } }],
    [['mfa', 'hw'], { name: 'mfa,hw', stepUp: { acr: ['hw'], maxAge: undefined } }],
  ]
  const ask = (names: (keyof typeof policies)[], claims: object) =>
    decide({
      preflight: false,
      host,
      principal: visit(portal(), profileOf(claims)),
      admission: { demanded: names.map((name) => policies[name]), purpose: [] },
      routePolicy: () => undefined,
      kind: () => 'api',
      now: 3_600_000,
    })
  for (const [names, policy] of table)
    t.match(ask(names, {}), { outcome: 'step-up', policy }, names.join())
  t.match(
    ask(['mfa', 'recent'], { acr: 'mfa' }),
    { outcome: 'step-up', policy: { name: 'mfa,recent', stepUp: { acr: ['mfa', 'hw'] } } },
    'what the session meets already is asked for again',
  )
  t.match(ask(['mfa', 'pwd'], { acr: 'mfa' }), { outcome: 'forbidden' }, 'nobody is sent around')
})

t.test(
  'a condition is not read for who is not signed in, and one that cannot be read denies',
  async (t) => {
    const broken = () => {
      throw new Error('this condition cannot be read')
    }
    const nobody = (kind: RequestKind) => ask(portal({ preflight: true }), undefined, broken, kind)
    t.equal(nobody('navigation'), 'sign-in')
    t.equal(nobody('api'), 'no-session')
    t.throws(() => nobody('preflight'), /cannot be read/)
    t.throws(() => ask(portal(), visit(portal(), profileOf()), broken, 'api'), /cannot be read/)
  },
)

t.test('a condition that cannot be read is compiled once, and refused each time', async (t) => {
  const readPolicy = createPolicyReader(portal())
  const [first, again] = [1, 2].map(() => {
    try {
      return readPolicy('if=Group(')
    } catch (error) {
      return error
    }
  })
  t.match(first, { code: 'PROFILE_CONDITION_INVALID' })
  t.equal(again, first, 'the same error: nothing was compiled')
})

t.test('conditions', async (t) => {
  const admin = profileOf({ groups: ['admin'] })
  const nobody = profileOf()
  const policies = new Map([['admin', createPolicy('admin', 'Group("admin")')]])
  const read = createPolicyReader(portal({ policies }))
  const isAdmin = `if=${encodeURIComponent('Group("admin")')}`

  t.equal(read(''), undefined, 'none')
  for (const query of ['policy=admin', isAdmin, 'if=Group(%22admin%22)', 'if=Group("admin")']) {
    t.equal(read(query)?.condition?.holds(admin), true, query)
    t.equal(read(query)?.condition?.holds(nobody), false, `${query}, nobody`)
    t.equal(read(query), read(query), `${query}, compiled once`)
  }
  t.equal(read('policy=any'), undefined, 'any is built in, and demands nothing')

  const refused: [query: string, code: string][] = [
    ['policy=nope', 'FWA_POLICY_UNKNOWN'],
    ['policy=', 'FWA_POLICY_UNKNOWN'],
    ['policy=__proto__', 'FWA_POLICY_UNKNOWN'],
    ['polcy=admin', 'FWA_PARAMETER_UNKNOWN'],
    ['IF=true', 'FWA_PARAMETER_UNKNOWN'],
    ['&', 'FWA_PARAMETER_UNKNOWN'],
    [`${isAdmin}&policy=admin`, 'PROFILE_CONDITION_INVALID'],
    ['policy=admin&policy=any', 'PROFILE_CONDITION_INVALID'],
    ['if=true&if=true', 'PROFILE_CONDITION_INVALID'],
    ['if=', 'PROFILE_CONDITION_INVALID'],
    ['if=Group(', 'PROFILE_CONDITION_INVALID'],
    [`if=${'x'.repeat(2_000)}`, 'PROFILE_CONDITION_INVALID'],
  ]
  for (const [query, code] of refused) t.throws(() => read(query), { code }, query.slice(0, 40))
  t.throws(
    () => read('if="x"'),
    { code: 'PROFILE_CONDITION_INVALID' },
    'a condition that is only a text',
  )
})

t.test('caches a bounded number of conditions', async (t) => {
  const read = createPolicyReader(portal())
  const first = read('if=Group("first")')
  for (let i = 0; i < 150; i++) read(`if=Group("${i}")`)
  t.equal(read('if=Group("first")'), first, 'kept while there is room')
  for (let i = 0; i < 250; i++) read(`if=Group("${i}")`)
  t.not(read('if=Group("first")'), first, 'and made anew after others took its place')
})

t.test('headers are made once per session, and anew for another portal', async (t) => {
  let made = 0
  const headers = [{ name: 'x-it', value: () => String(++made) }]
  const [one, two] = [portal({ headers }), portal({ headers })]
  const ada = visit(one, profileOf())
  t.equal(ada.answerAt(host), ada.answerAt(host))
  t.equal(made, 1)
  t.equal(visit(two, profileOf()).answerAt(host).headers['x-it'], '2', 'as after a reload')
})

t.test('a portal and a condition are asked once of a session, and another one anew', async (t) => {
  const asked: string[] = []
  const says = (name: string, verdict: boolean) => () => {
    asked.push(name)
    return verdict
  }
  const [open, shut] = [true, false].map((verdict) =>
    portal({ admits: says(`portal ${verdict}`, verdict) }),
  ) as [Door, Door]
  const [yes, no] = [policyOf(says('yes', true)), policyOf(says('no', false))]
  let at = open
  let ada = visit(at, profileOf())
  const steps: [Door, Policy | undefined, Outcome, asks: string[]][] = [
    [open, undefined, 'allow', ['portal true']],
    [open, yes, 'allow', ['yes']],
    [open, yes, 'allow', []],
    [open, no, 'forbidden', ['no']],
    [open, no, 'forbidden', []],
    [open, undefined, 'allow', []],
    [open, yes, 'allow', ['yes']],
    [shut, yes, 'forbidden', ['portal false']],
    [shut, undefined, 'forbidden', []],
    [open, no, 'forbidden', ['portal true', 'no']],
  ]
  for (const [next, condition, decision, asks] of steps) {
    // As after a reload.
    if (at !== next) ada = visit(next, profileOf())
    at = next
    t.equal(ask(at, ada, condition, 'api'), decision)
    t.strictSame(asked.splice(0), asks)
  }
})

t.test('what a portal or a condition throws is thrown again, never kept', async (t) => {
  const fail = () => {
    throw new Error('broken')
  }
  for (const at of [portal({ admits: fail }), portal()]) {
    const ada = visit(at, profileOf())
    for (const time of ['first', 'second'])
      t.throws(() => ask(at, ada, policyOf(fail), 'api'), /broken/, `the ${time} time`)
  }
})

t.test('a program is known by its method, or by the client that acts for a person', async (t) => {
  const settings = { headers: [], dynamicHeaders: [] }
  const table: [method: Identity['method'], client: string | undefined, isProgram: boolean][] = [
    ['session', undefined, false],
    ['session', 'https://agent.example/id.json', true],
    ['jwt', undefined, true],
    ['psk', undefined, true],
  ]
  class Anybody extends Principal {
    refusal = () => undefined
  }
  for (const [method, client, isProgram] of table) {
    const profile = profileOf()
    const identity = { method, client, profile, portal: 'main' }
    t.equal(new Anybody(identity, profile, settings).isProgram, isProgram, `${method} ${client}`)
  }
})

t.test('whoever may meet one of several rules is asked for the fewest scopes', async (t) => {
  const compiled = (name: string, condition: string) => createPolicy(name, condition)
  const reads = compiled('reads', 'Scope("read")')
  const writes = compiled('writes', 'Scope("write")')
  const editors = compiled('editors', 'Group("editors")')
  const lately = createPolicy('lately', { maxAge: 1 })
  const by = (...demanded: Policy[]): Admission => ({ demanded, purpose: demanded })
  class Token extends Principal {
    constructor() {
      const profile = profileOf()
      super({ method: 'jwt', portal: 'main', profile }, subject, {
        headers: [],
        dynamicHeaders: [],
      })
    }
    refusal = () => undefined
  }
  const subject = { claims: {}, caller: { method: 'jwt', scopes: [], claims: {} } } as const
  const table: [anyOf: Admission[], decision: object][] = [
    [[by(reads, writes), by(reads)], { refusal: { wantedScopes: ['read'] } }],
    [
      [by(reads, editors), by(reads)],
      { refusal: { reason: 'policy reads', wantedScopes: ['read'] } },
    ],
    [[by(editors), by(lately), by(writes)], { refusal: { wantedScopes: ['write'] } }],
    [[by(editors), by(lately)], { outcome: 'step-up' }],
    [
      [by(editors), by(editors, reads)],
      { outcome: 'forbidden', refusal: { reason: 'policy editors' } },
    ],
    [[by(editors), by()], { outcome: 'allow' }],
  ]
  for (const [anyOf, decision] of table) {
    const asked = { preflight: false, host, principal: new Token(), now: 0 }
    const admission: Admission = { ...SESSION, anyOf }
    const made = decide({ ...asked, admission, routePolicy: () => undefined, kind: () => 'api' })
    t.match(made, decision, JSON.stringify(decision))
  }
})

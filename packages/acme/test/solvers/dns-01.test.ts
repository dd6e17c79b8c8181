import { createHash } from 'node:crypto'
import { parseName } from '@gatehouse/pki'
import { manualClock } from '@gatehouse/service-kit/testing'
import t from 'tap'
import type { Ask } from '../../src/dns/exchange.ts'
import { FLAG, type ResourceRecord } from '../../src/dns/message.ts'
import {
  AcmeError,
  type ChallengeTask,
  createDns01,
  type DnsRecord,
  type Propagation,
} from '../../src/index.ts'

const RESOLVER = '192.0.2.53'
const NS1 = '192.0.2.1'
const NS2 = '192.0.2.2'
const NS3 = '192.0.2.3'
const signal = new AbortController().signal

/** What a server says: lines of `name TYPE value`, `!` for a referral, or why it says nothing. */
type Says = readonly string[] | 'silent' | 'SERVFAIL'

const delegation = [
  'example.test SOA x',
  'example.test NS ns1.example.test',
  'example.test NS ns2.example.test',
  `ns1.example.test A ${NS1}`,
  `ns2.example.test A ${NS2}`,
]

const CHALLENGE = '_acme-challenge.app.example.test'
const task = (keyAuthorization = 'token.thumbprint'): ChallengeTask => ({
  identifier: { type: 'dns', value: 'app.example.test' },
  wildcard: false,
  token: 'token',
  keyAuthorization,
})
const textOf = (keyAuthorization = 'token.thumbprint') =>
  createHash('sha256').update(keyAuthorization).digest('base64url')

/** A solver in a world where servers say what `world` has for their address. */
function scene(world: Record<string, Says>, changes: Partial<Propagation> = {}, asking?: Ask) {
  const clock = manualClock()
  const asked: string[] = []
  const calls: string[] = []
  const ask: Ask = async ({ host }, { name, type }, { recursive }) => {
    asked.push(`${recursive ? 'recursive ' : ''}${host} ${name} ${type}`)
    const says = world[host] ?? []
    if (says === 'silent') throw new AcmeError('ACME_DNS_UNREACHABLE', 'silent')
    const records = says === 'SERVFAIL' ? [] : says.map(readLine)
    const own = records.filter((record) => record.name === name)
    const cnames = own.filter((record) => record.type === 'CNAME')
    const referral = records.filter((record) => record.type === '!NS' && name.endsWith(record.name))
    const answers = cnames.length > 0 ? cnames : own.filter((record) => record.type === type)
    return {
      id: 0,
      flags:
        FLAG.response |
        (referral.length > 0 ? 0 : FLAG.authoritative) |
        (says === 'SERVFAIL' ? 2 : 0),
      questions: [{ name, type }],
      answers,
      authorities: referral.map((record) => ({ ...record, type: 'NS' })),
      additionals: [],
    }
  }
  const record = (verb: string) => async (given: DnsRecord) =>
    void calls.push(`${verb} ${given.name} ${given.value}`)
  const provider = { present: record('present'), cleanUp: record('cleanUp') }
  const propagation = {
    check: 'authoritative' as const,
    resolvers: [RESOLVER],
    timeout: 60_000,
    wait: 0,
  }
  const solver = createDns01({
    providers: () => provider,
    propagation: { ...propagation, ...changes },
    clock,
    ask: asking ?? ask,
  })
  return { world, clock, asked, calls, provider, solver }
}

function readLine(line: string): ResourceRecord {
  const [name = '', type = '', value = ''] = line.split(' ')
  return { name, type, value }
}

/** Whether the promise is settled after the clock went on that long, in steps. */
async function settles(
  promise: Promise<unknown>,
  clock: ReturnType<typeof manualClock>,
  ms: number,
) {
  let isSettled = false
  const note = () => {
    isSettled = true
  }
  promise.then(note, note)
  for (let at = 0; at <= ms && !isSettled; at += 250) await clock.advance(250)
  return isSettled
}

const has = `${CHALLENGE} TXT ${textOf()}`

t.test('publishes the record, and waits until every name server has it', async (t) => {
  const { world, solver, calls, clock, asked } = scene({
    [RESOLVER]: delegation,
    [NS1]: [has],
    [NS2]: [],
  })
  const done = solver.present(task(), signal)
  t.notOk(await settles(done, clock, 10_000), 'not while one is without')
  t.strictSame(calls, [`present ${CHALLENGE} ${textOf()}`])
  world[NS2] = [`${CHALLENGE} TXT of-another-order`, has]
  t.ok(await settles(done, clock, 10_000))
  await done
  t.notOk(
    asked.some(
      (line) =>
        line.includes(`recursive ${NS1}`) || line === `recursive ${RESOLVER} ${CHALLENGE} TXT`,
    ),
    'what resolvers have cached of the record does not count',
  )
})

const FAILURES: [
  title: string,
  world: Record<string, Says>,
  expected: { code: string; message?: string | RegExp },
][] = [
  [
    'a name server stays without the record',
    { [RESOLVER]: delegation, [NS1]: [has], [NS2]: [] },
    {
      code: 'ACME_DNS_PROPAGATION',
      message: `${CHALLENGE} still lacks the TXT record at ns2.example.test`,
    },
  ],
  [
    'a name server answers with an error',
    { [RESOLVER]: delegation, [NS1]: 'SERVFAIL', [NS2]: [has] },
    { code: 'ACME_DNS_PROPAGATION' },
  ],
  [
    'no name server answers',
    { [RESOLVER]: delegation, [NS1]: 'silent', [NS2]: 'silent' },
    { code: 'ACME_DNS_UNREACHABLE' },
  ],
  ['the resolver is silent', { [RESOLVER]: 'silent' }, { code: 'ACME_DNS_UNREACHABLE' }],
  [
    'the resolver answers with an error',
    { [RESOLVER]: 'SERVFAIL' },
    { code: 'ACME_DNS_LOOKUP', message: /RCODE 2/ },
  ],
  ['no zone holds the name', { [RESOLVER]: [] }, { code: 'ACME_DNS_LOOKUP', message: /no zone/ }],
  [
    'a zone has no name servers',
    { [RESOLVER]: ['example.test SOA x'] },
    { code: 'ACME_DNS_LOOKUP' },
  ],
  [
    'CNAME records go in a circle',
    {
      [RESOLVER]: delegation,
      [NS1]: [`${CHALLENGE} CNAME a.example.test`, `a.example.test CNAME ${CHALLENGE}`],
    },
    { code: 'ACME_DNS_LOOKUP' },
  ],
  [
    'CNAME records go on and on',
    {
      [RESOLVER]: delegation,
      [NS1]: [
        `${CHALLENGE} CNAME c0.example.test`,
        ...Array.from({ length: 20 }, (_, i) => `c${i}.example.test CNAME c${i + 1}.example.test`),
      ],
    },
    { code: 'ACME_DNS_LOOKUP' },
  ],
  ...['x/%2e%2e/%2e%2e?.test', '-rf.test', 'a<b>.test', '*.example.test'].map(
    (target): (typeof FAILURES)[number] => [
      `a CNAME leads to what is no host, ${target}`,
      { [RESOLVER]: delegation, [NS1]: [`${CHALLENGE} CNAME ${target}`] },
      { code: 'ACME_DNS_LOOKUP', message: /no host/ },
    ],
  ),
]

for (const [title, world, expected] of FAILURES)
  t.test(`fails: ${title}`, async (t) => {
    const { solver, clock } = scene(world)
    const done = solver.present(task(), signal)
    t.ok(await settles(done, clock, 70_000))
    await t.rejects(done, expected)
  })

t.test('does not wait for a silent name server', async (t) => {
  const { solver } = scene({ [RESOLVER]: delegation, [NS1]: 'silent', [NS2]: [has] })
  await t.resolves(solver.present(task(), signal))
})

t.test('limits the time and number of slow name servers', async (t) => {
  const hosts = Array.from({ length: 250 }, (_, i) => `198.51.100.${i}`)
  const many = hosts.map((host) => `ns1.example.test A ${host}`)
  const silence = Object.fromEntries(hosts.map((host) => [host, 'silent' as const]))
  const crowd = scene({ [RESOLVER]: [...delegation.slice(0, 2), ...many], ...silence })
  await t.rejects(crowd.solver.present(task(), signal), { code: 'ACME_DNS_UNREACHABLE' })
  t.equal(crowd.asked.filter((line) => line.startsWith('198.51.100.')).length, 4)

  const slow = scene(
    { [RESOLVER]: delegation },
    {},
    (_, __, { signal }) =>
      new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
  )
  const endless = slow.solver.present(task(), signal)
  t.notOk(await settles(endless, slow.clock, 50_000))
  t.ok(await settles(endless, slow.clock, 20_000))
  await t.rejects(endless, { code: 'ACME_DNS_UNREACHABLE', message: /too long/ })
})

t.test('follows a CNAME into another zone, and stays there when it changes', async (t) => {
  const there = `far.other.test TXT ${textOf()}`
  const { world, solver, calls } = scene({
    [RESOLVER]: [
      ...delegation,
      'other.test SOA x',
      'other.test NS ns3.other.test',
      `ns3.other.test A ${NS3}`,
    ],
    [NS1]: [`${CHALLENGE} CNAME far.other.test`],
    [NS3]: [there],
  })
  const place = await solver.locate?.(task(), signal)
  t.equal(place, 'far.other.test')
  world[NS1] = []
  await solver.present({ ...task(), place }, signal)
  await solver.cleanUp({ ...task(), place }, signal)
  t.strictSame(calls, [`present far.other.test ${textOf()}`, `cleanUp far.other.test ${textOf()}`])
})

t.test('looks up the name to clean up an order without a stored location', async (t) => {
  const { solver, calls } = scene({ [RESOLVER]: delegation, [NS1]: [] })
  await solver.cleanUp(task(), signal)
  t.strictSame(calls, [`cleanUp ${CHALLENGE} ${textOf()}`])
})

t.test(
  'finds a zone that a resolver does not know yet through the parent zone (cert-manager#5515)',
  async (t) => {
    const { solver } = scene({
      [RESOLVER]: [...delegation, `ns3.example.test A ${NS3}`],
      [NS1]: ['app.example.test !NS ns3.example.test'],
      [NS2]: ['app.example.test !NS ns3.example.test'],
      [NS3]: [has],
    })
    await t.resolves(solver.present(task(), signal))
  },
)

t.test(
  'asks only the configured resolvers with split-horizon DNS (cert-manager#903)',
  async (t) => {
    const { solver, asked } = scene({ [RESOLVER]: [has] }, { check: 'resolvers' })
    await solver.present(task(), signal)
    t.strictSame(asked, [
      `recursive ${RESOLVER} ${CHALLENGE} CNAME`,
      `recursive ${RESOLVER} ${CHALLENGE} TXT`,
    ])
  },
)

t.test('can wait for a fixed time without looking up the record (cert-manager#5917)', async (t) => {
  const { solver, clock, asked } = scene({ [RESOLVER]: [] }, { check: 'none', wait: 30_000 })
  const done = solver.present(task(), signal)
  t.notOk(await settles(done, clock, 29_000))
  t.ok(await settles(done, clock, 2_000))
  t.strictSame(asked, [`recursive ${RESOLVER} ${CHALLENGE} CNAME`])
})

t.test('changes a name once at a time, and continues after a failure', async (t) => {
  const { solver, provider } = scene({ [RESOLVER]: [] }, { check: 'none' })
  let running = 0
  let most = 0
  provider.present = async ({ value }) => {
    most = Math.max(most, ++running)
    await new Promise(setImmediate)
    running--
    if (value === textOf('b')) throw new Error('refused')
  }
  const results = await Promise.allSettled(
    ['a', 'b', 'c'].map((key) => solver.present({ ...task(key), token: key }, signal)),
  )
  t.strictSame(
    results.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled'],
  )
  t.equal(most, 1)
})

t.test(
  'stops at once without a change if it is aborted while another changes the name',
  async (t) => {
    const { solver, provider } = scene({ [RESOLVER]: [] }, { check: 'none' })
    const { promise: released, resolve: release } = Promise.withResolvers<void>()
    const changed: string[] = []
    provider.present = async ({ value }) => {
      await released
      changed.push(value)
    }
    const stop = new AbortController()
    const first = solver.present(task('a'), signal)
    const second = solver.present(task('b'), stop.signal)
    const third = solver.present(task('c'), signal)
    await new Promise(setImmediate)
    stop.abort(new Error('enough'))
    await t.rejects(second, { message: 'enough' })
    release()
    await Promise.all([first, third])
    t.strictSame(changed, [textOf('a'), textOf('c')])
  },
)

t.test('stops waiting at once after an abort', async (t) => {
  const { solver, clock } = scene({ [RESOLVER]: delegation, [NS1]: [], [NS2]: [] })
  const controller = new AbortController()
  const done = solver.present(task(), controller.signal)
  await clock.advance(1_000)
  controller.abort(new Error('enough'))
  await t.rejects(done, { message: 'enough' })
})

t.test('a resolver must be an IP address', async (t) => {
  for (const resolver of ['dns.example', '', '1.2.3.4:99999', '[::1'])
    t.throws(() => scene({}, { resolvers: [resolver] }), { code: 'ACME_DNS_LOOKUP' }, resolver)
  for (const resolver of ['1.1.1.1', '1.1.1.1:5353', '2606:4700::1111', '[::1]:53'])
    t.doesNotThrow(() => scene({}, { resolvers: [resolver] }), resolver)
})

t.test('demands no more of a zone in the check than for a record', async (t) => {
  for (const check of ['resolvers', 'none', 'authoritative'] as const) {
    const found = scene({ [RESOLVER]: [has] }, { check })
    const present = await found.solver.present(task(), signal).catch((error) => error.code)
    const checked = await found.solver.check?.(parseName('app.example.test'), signal).then(
      () => undefined,
      (error) => error.code,
    )
    t.equal(checked, present, check)
    t.equal(present, check === 'authoritative' ? 'ACME_DNS_LOOKUP' : undefined, check)
  }
})

t.test('check', async (t) => {
  const wildcard = parseName('*.app.example.test')
  const alias = `${CHALLENGE} CNAME app.elsewhere.test`
  const elsewhere = ['elsewhere.test SOA x', 'elsewhere.test NS ns1.example.test']
  const known = [...delegation, alias, ...elsewhere]
  const { solver, provider, calls } = scene({ [RESOLVER]: known, [NS1]: [alias], [NS2]: [alias] })
  const target = 'app.elsewhere.test'
  t.strictSame(await solver.check?.(wildcard, signal), { target, isProviderChecked: false })

  const checked: string[] = []
  Object.assign(provider, { check: async (name: string) => void checked.push(name) })
  t.strictSame(await solver.check?.(wildcard, signal), { target, isProviderChecked: true })
  t.strictSame(checked, [target])
  t.strictSame(calls, [], 'nothing was changed')

  const refusal = new AcmeError('ACME_DNS_CREDENTIALS', 'no')
  Object.assign(provider, { check: () => Promise.reject(refusal) })
  await t.rejects(async () => solver.check?.(wildcard, signal), { code: 'ACME_DNS_CREDENTIALS' })
  const lost = scene({ [RESOLVER]: [] })
  await t.rejects(async () => lost.solver.check?.(wildcard, signal), { code: 'ACME_DNS_LOOKUP' })
})

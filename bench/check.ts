import { compare, type Effort } from './harness/compare.ts'
import { startServers, type Target } from './harness/http.ts'
import { startIssuer } from './harness/issuer.ts'
import { atLeast, compared, type Row } from './harness/rows.ts'
import { API_KEY } from './harness/service-files.ts'
import {
  anonymousRequest,
  checkRequest,
  programRequest,
  verifyRequest,
  visitorCookies,
} from './harness/visitors.ts'

const VISITORS = 1_000
/** More than are remembered, so that none is when it comes again. */
const STRANGERS = 60_000
const BARE = { server: 'bare-check', name: 'bare Fastify route' }
const SIGNING = {
  server: 'bare-check',
  args: ['signing'],
  name: 'bare Fastify route that signs as well',
}
const LEAST = { server: 'least-check', name: 'the least that any check does' }
const FIRST = 'of a session seen for the first time'
const POLICY = '?policy=staff'

/** The check that proxies make, and verify, against routes that give the same answers to the same requests. */
export async function check(effort: Effort): Promise<Row[]> {
  const cookies = await visitorCookies(VISITORS)
  const plain = cookies.map((cookie) => checkRequest(cookie))
  const withPolicy = cookies.map((cookie) => checkRequest(cookie, POLICY))
  const strange = (await visitorCookies(STRANGERS)).map((cookie) => checkRequest(cookie))
  const production = { args: ['production'], requests: withPolicy }
  const anonymous = { requests: [anonymousRequest()] }
  const verifying = { requests: cookies.map(verifyRequest) }
  const rows = [
    await compareRate('of a session seen before', { requests: plain }, 0.72, effort),
    await compareRate('with metrics, ended sessions and a policy', production, 0.65, effort),
    await compareRate(FIRST, { requests: strange }, 0.35, effort, SIGNING),
    await compareRate('when nobody is signed in', anonymous, 0.5, effort),
    await compareRate('verify of a session token', verifying, 0.55, effort),
  ]
  const programs = await comparePrograms(plain, effort)
  if (effort.comparisons === 'with target') return [...rows, ...programs]
  return [
    ...rows,
    ...programs,
    await compareRate('with the assertion', { requests: plain }, undefined, effort, {
      server: 'forward-auth',
      args: ['without assertion'],
      name: 'without',
    }),
    await compareRate(
      'with ten rules, of which the last fits',
      { args: ['with ten rules'], requests: plain },
      undefined,
      effort,
      { server: 'forward-auth', name: 'without rules' },
    ),
    await compareDelay(production, effort),
    await compareRate('of a session seen before', { requests: plain }, undefined, effort, LEAST),
    await compareRate('with a session of 2 kB', await withTokens(2_000), undefined, effort),
    await compareRate('with a session of 12 kB', await withTokens(12_000), undefined, effort),
    await compareTwo(production, effort),
  ]
}

/** What a check is compared with. */
interface Baseline {
  readonly server: string
  readonly args?: readonly string[]
  readonly name: string
  /** Default: those of the check. */
  readonly requests?: readonly string[]
}

type Checks = Omit<Target, 'server'>

/** Programs whose credentials were seen before, against people with a session. */
async function comparePrograms(people: readonly string[], effort: Effort): Promise<Row[]> {
  const issuer = await startIssuer()
  const args = ['with programs', issuer.url]
  const session = { server: 'forward-auth', args, requests: people, name: 'of a session' }
  const tokens = issuer.tokens('ES256', VISITORS).map((token) => programRequest(`Bearer ${token}`))
  const key = [programRequest(`APIKey ${API_KEY}`)]
  try {
    return [
      await compareRate('of a token seen before', { args, requests: tokens }, 1, effort, session),
      await compareRate('of an API key', { args, requests: key }, 1, effort, session),
    ]
  } finally {
    issuer.close()
  }
}

async function withTokens(length: number): Promise<Checks> {
  const cookies = await visitorCookies(VISITORS, length)
  return { requests: cookies.map((cookie) => checkRequest(cookie)) }
}

async function compareRate(
  what: string,
  checks: Checks,
  target: number | undefined,
  effort: Effort,
  baseline: Baseline = BARE,
): Promise<Row> {
  const { value, ratio } = await compareSides(checks, effort, baseline)
  const measured = {
    name: `check: ${what} / ${baseline.name}`,
    value: value('check'),
    unit: 'req/s',
    baseline: value('baseline'),
    ratio: ratio('check', 'baseline'),
  }
  return target === undefined
    ? compared(measured)
    : atLeast({ ...measured, target, noise: effort.noise })
}

async function compareDelay(checks: Checks, effort: Effort): Promise<Row> {
  const { value, ratio } = await compareSides(
    { ...checks, measured: 'p99 at half rate' },
    effort,
    BARE,
  )
  return compared({
    name: 'check: p99 at half of the highest rate / of a bare Fastify route',
    value: value('check'),
    unit: 'ms',
    baseline: value('baseline'),
    ratio: ratio('check', 'baseline'),
  })
}

function compareSides(checks: Checks, effort: Effort, { name: _, ...baseline }: Baseline) {
  return compare(
    () =>
      startServers({
        baseline: { ...checks, args: [], ...baseline },
        check: { ...checks, server: 'forward-auth' },
      }),
    effort,
  )
}

/** On a core each, at the same time, against the first one alone. */
async function compareTwo(checks: Checks, effort: Effort): Promise<Row> {
  const target = { ...checks, server: 'forward-auth' }
  const { value, ratio } = await compare(async () => {
    const first = await startServers({ check: target }, 0)
    const second = await startServers({ check: target }, 1)
    const instances = [first, second]
    return {
      measure: {
        one: first.measure.check,
        two: async (ms: number) => {
          const rates = await Promise.all(instances.map(({ measure }) => measure.check(ms)))
          return rates.reduce((sum, rate) => sum + rate)
        },
      },
      stop: async () => {
        await Promise.all(instances.map(({ stop }) => stop()))
      },
    }
  }, effort)
  return compared({
    name: 'check: two instances on two cores / one',
    value: value('two'),
    unit: 'req/s',
    baseline: value('one'),
    ratio: ratio('two', 'one'),
  })
}

import { compare, type Effort } from './harness/compare.ts'
import { startServers, type Target } from './harness/http.ts'
import { startIssuer } from './harness/issuer.ts'
import { atLeast, compared, type Row } from './harness/rows.ts'
import { API_KEY } from './harness/service-files.ts'
import {
  anonymousRequest,
  checkRequest,
  programRequest,
  sessionTokens,
  toolRequest,
  verifyRequest,
  visitorCookies,
} from './harness/visitors.ts'

const VISITORS = 1_000
/** More than are remembered, so that none is when it comes again. */
const STRANGERS = 100_000
const BARE = { server: 'bare-check', name: 'bare Fastify route' }
const SIGNING = {
  server: 'bare-check',
  args: ['signing'],
  name: 'bare Fastify route that signs as well',
}
/** Answers what the check answers when nobody is signed in, or a program's token is refused. */
const REDIRECTING = { ...BARE, args: ['redirecting'] }
const REFUSING = { ...BARE, args: ['refusing'] }
const LEAST = { server: 'least-check', name: 'the least that any check does' }
/** The arguments of a service of a kind that knows the visitors. */
const argsOf = (kind: string, sessions = VISITORS) => [kind, String(sessions)]
const PLAIN = { server: 'forward-auth', args: argsOf('plain') }
const FIRST = 'of a session seen for the first time'
const POLICY = '?policy=staff'

/** The check that proxies make, and verify, against routes that give the same answers to the same requests. */
export async function* check(effort: Effort): AsyncGenerator<Row> {
  const cookies = visitorCookies(VISITORS)
  const tokens = sessionTokens(VISITORS)
  const plain = {
    args: argsOf('plain'),
    requests: cookies.map((cookie) => checkRequest(cookie)),
  }
  const withPolicy = cookies.map((cookie) => checkRequest(cookie, POLICY))
  const strange = {
    args: argsOf('plain', STRANGERS),
    requests: visitorCookies(STRANGERS).map((cookie) => checkRequest(cookie)),
  }
  const forged = cookies.map((cookie) => checkRequest(forge(cookie)))
  const production = { args: argsOf('production'), requests: withPolicy }
  const signedOut = { requests: [anonymousRequest()], status: 302 }
  const rates: readonly Rate[] = [
    ['of a session seen before', plain, 0.72],
    ['with metrics, ended sessions and a policy', production, 0.65],
    [FIRST, strange, 0.35],
    [FIRST, { ...strange, args: argsOf('with assertion', STRANGERS) }, 0.35, SIGNING],
    ['of a forged session', { requests: forged, status: 302 }, 0.2, REDIRECTING],
    ['when nobody is signed in', signedOut, 0.5, REDIRECTING],
    [
      'verify of a session token',
      { args: argsOf('plain'), requests: tokens.map(verifyRequest) },
      0.55,
    ],
  ]
  yield* compareRates(rates, effort)
  yield* comparePrograms(plain.requests, effort)
  if (effort.comparisons === 'with target') return
  const others: readonly Rate[] = [
    [
      'with the assertion',
      { ...plain, args: argsOf('with assertion') },
      undefined,
      { ...PLAIN, name: 'without' },
    ],
    [
      'with ten rules, of which the last fits',
      { ...plain, args: argsOf('with ten rules') },
      undefined,
      { ...PLAIN, name: 'without rules' },
    ],
    [
      'of a call by rules for tools',
      { args: argsOf('with rules for tools'), requests: cookies.map(toolRequest) },
      undefined,
      { ...PLAIN, args: argsOf('with a rule'), name: 'by a rule without tools' },
    ],
    ['of a session seen before', plain, undefined, LEAST],
  ]
  yield* compareRates(others, effort)
  if (effort.wants(DELAY)) yield await compareDelay(production, effort)
  if (effort.wants(TWO)) yield await compareTwo(production, effort)
}

const DELAY = 'check: p99 at half of the highest rate / of a bare Fastify route'
const TWO = 'check: two instances on two cores / one'

/** What a check is compared with. */
interface Baseline {
  readonly server: string
  readonly args?: readonly string[]
  readonly name: string
  /** Default: those of the check. */
  readonly requests?: readonly string[]
}

type Checks = Omit<Target, 'server'>

/** The floor of a row is its least ratio. The baseline is the bare route unless it is given. */
type Rate = readonly [what: string, checks: Checks, floor: number | undefined, baseline?: Baseline]

/** Programs whose credentials were seen before, against people with a session, and forged ones. */
async function* comparePrograms(people: readonly string[], effort: Effort): AsyncGenerator<Row> {
  const issuer = await startIssuer()
  const args = [...argsOf('with programs'), issuer.url]
  const session = { server: 'forward-auth', args, requests: people, name: 'of a session' }
  const tokens = issuer.tokens('ES256', VISITORS)
  const seen = tokens.map((token) => programRequest(`Bearer ${token}`))
  const forged = tokens.map((token) => programRequest(`Bearer ${forge(token)}`))
  const key = [programRequest(`APIKey ${API_KEY}`)]
  const rates: readonly Rate[] = [
    ['of a token seen before', { args, requests: seen }, 1, session],
    ['of an API key', { args, requests: key }, 1, session],
    ['of a forged token', { args, requests: forged, status: 401 }, undefined, REFUSING],
  ]
  try {
    yield* compareRates(rates, effort)
  } finally {
    issuer.close()
  }
}

/** A token, or the cookie with one, whose signature is of another. */
function forge(text: string): string {
  return text.replace(/(?<=[\w-]\.)[\w-]{8}(?=[\w-]{35,}(?:;|$))/, 'AAAAAAAA')
}

async function* compareRates(rates: readonly Rate[], effort: Effort): AsyncGenerator<Row> {
  for (const [what, checks, floor, baseline = BARE] of rates) {
    const name = `check: ${what} / ${baseline.name}`
    if (!effort.wants(name)) continue
    const { value, ratio } = await compareSides(checks, effort, baseline)
    const measured = {
      name,
      value: value('check'),
      unit: 'req/s',
      baseline: value('baseline'),
      ratio: ratio('check', 'baseline'),
    }
    yield floor === undefined
      ? compared(measured)
      : atLeast({ ...measured, target: floor, noise: effort.noise })
  }
}

async function compareDelay(checks: Checks, effort: Effort): Promise<Row> {
  const { value, ratio } = await compareSides(
    { ...checks, measured: 'p99 at half rate' },
    effort,
    BARE,
  )
  return compared({
    name: DELAY,
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
        baseline: { status: 200, ...checks, args: [], ...baseline },
        check: { status: 200, ...checks, server: 'forward-auth' },
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
    name: TWO,
    value: value('two'),
    unit: 'req/s',
    baseline: value('one'),
    ratio: ratio('two', 'one'),
  })
}

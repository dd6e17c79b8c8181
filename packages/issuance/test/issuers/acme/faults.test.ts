import { AcmeError } from '@gatehouse/acme'
import fc from 'fast-check'
import t from 'tap'
import type { Reply } from '../../../../acme/test/scripted-ca/index.ts'
import { createWorld, type End, type Fault, runProcess, type World } from '../../faulty-world.ts'

const RUNS = Number(process.env.GATEHOUSE_FAULT_RUNS ?? 50)
const SEED = process.env.GATEHOUSE_FAULT_SEED
const MINUTE = 60_000

const typed = (status: number, type: string, headers = {}): Reply => ({
  status,
  headers,
  body: { type: `urn:ietf:params:acme:error:${type}`, detail: type },
})

const STATUSES = [400, 401, 403, 404, 405, 409, 410, 413, 415, 422, 429, 500, 502, 503, 504]
const REFUSALS = ['rejectedIdentifier', 'badCSR', 'caa']

/** A CA that refuses a nonce has not done what it was asked for (RFC 8555 section 6.5). */
const BAD_NONCE = typed(400, 'badNonce')

const reply = fc.oneof(
  fc.constantFrom<Reply>('reset', { body: '<html>' }, { body: {} }),
  fc.constantFrom(...STATUSES).map((status): Reply => ({ status, body: '' })),
  fc.constantFrom(404, 500, 503).map((status) => typed(status, 'malformed')),
  fc.constantFrom(500, 503).map((status) => typed(status, 'serverInternal')),
  fc.nat(90_000).map((s) => typed(429, 'rateLimited', { 'retry-after': String(s) })),
  fc.nat(900).map((s) => typed(503, 'rateLimited', { 'retry-after': String(s) })),
  fc.constant(BAD_NONCE),
  fc.constant(typed(403, 'orderNotReady')),
  fc.constant(typed(400, 'accountDoesNotExist')),
  fc.constantFrom(...REFUSALS).map((type) => typed(403, type)),
)

const fault: fc.Arbitrary<Fault> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc
      .record({ what: fc.constant('answer' as const), reply, done: fc.boolean() })
      .map((answer) => ({ ...answer, done: answer.done && answer.reply !== BAD_NONCE })),
  },
  { weight: 1, arbitrary: fc.record({ what: fc.constantFrom('kill' as const, 'term' as const) }) },
)

const scene = fc.record({
  faults: fc
    .array(fc.tuple(fc.nat(70), fault), { maxLength: 12 })
    .map((list): ReadonlyMap<number, Fault> => new Map(list)),
  validating: fc.nat(3),
  processing: fc.nat(2),
  reuseOrders: fc.boolean(),
  refuses: fc.integer({ min: 0, max: 9 }).map((n) => n === 0),
})

/** Starts a process again and again, as a supervisor and the scheduler do, until the order is over. */
async function runToEnd(world: World): Promise<Exclude<End, { what: 'killed' }>> {
  const since = world.clock.now()
  for (let tries = 0; tries < 100; tries++) {
    const end = await runProcess(world, since)
    if (end.what === 'issued') return end
    if (end.what === 'failed' && world.checkpoint === undefined && end.error instanceof AcmeError)
      return end
    await new Promise<void>((resolve) => world.clock.setTimer(resolve, 10 * MINUTE))
  }
  throw new Error(`no end: ${JSON.stringify(world.checkpoint)}`)
}

async function check(world: World): Promise<void> {
  const end = await runToEnd(world)
  if (end.what === 'issued') demand(world.ca.issued() === 1, `${world.ca.issued()} certificates`)
  else {
    const { code } = end.error as AcmeError
    demand(world.stated.has(code), `the CA never said ${code}`)
    demand(world.ca.issued() === 0, 'a certificate was issued, and thrown away')
  }
  demand(world.records.size === 0, 'an answer to a challenge was left behind')
}

function demand(holds: boolean, message: string): void {
  if (!holds) throw new Error(message)
}

t.test(
  `${RUNS} orders with any faults end with one certificate, or with what the CA said for good`,
  { timeout: 3_600_000 },
  async (t) => {
    await fc.assert(
      fc.asyncProperty(scene, async (options) => {
        const world = await createWorld(options)
        try {
          await check(world)
        } finally {
          await world.fetch.close()
          await world.ca.close()
        }
      }),
      { numRuns: RUNS, ...(SEED !== undefined && { seed: Number(SEED) }) },
    )
    t.pass()
  },
)

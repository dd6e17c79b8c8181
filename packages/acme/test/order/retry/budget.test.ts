import t from 'tap'
import { AcmeError, createRetryBudget } from '../../../src/index.ts'
import { toError } from '../../../src/protocol/problem.ts'
import { hurriedClock } from '../../scripted-ca/index.ts'

const refusal = (status: number, retryAfterMs?: number) =>
  toError(undefined, { status, ...(retryAfterMs !== undefined && { retryAfterMs }) })

t.test('retries temporary errors with growing delays until the time is over', async (t) => {
  const growing = [250, 500, 1_000, 2_000, 4_000, 8_000]
  const rows: [ms: number, waits: number[]][] = [
    [20_000, growing],
    [15_750, growing],
    [15_749, growing.slice(0, -1)],
    [50_000, [...growing, 15_000, 15_000]],
  ]
  for (const [ms, expected] of rows) {
    const clock = hurriedClock()
    const patience = createRetryBudget(ms, { clock })
    const waits: number[] = []
    for (let at = clock.now(); await patience.waitAfter(refusal(500)); at = clock.now())
      waits.push(clock.now() - at)
    t.strictSame(waits, expected, `${ms} ms`)
  }
})

t.test('waits no longer in all when the clock is set back', async (t) => {
  const stopped = { ...hurriedClock(), now: () => 0 }
  const patience = createRetryBudget(20_000, { clock: stopped })
  let waits = 0
  while (waits < 20 && (await patience.waitAfter(refusal(500)))) waits++
  t.equal(waits, 6)
})

t.test('waits a moment, also if the CA asks for none', async (t) => {
  const clock = hurriedClock()
  const start = clock.now()
  await createRetryBudget(20_000, { clock }).waitAfter(refusal(503, 0))
  t.equal(clock.now() - start, 250)
})

t.test('counts the time of requests, too', async (t) => {
  const clock = hurriedClock()
  const patience = createRetryBudget(20_000, { clock })
  await new Promise<void>((resolve) => clock.setTimer(resolve, 19_900))
  t.notOk(await patience.waitAfter(refusal(500)))
})

t.test('decides which errors to retry at once', async (t) => {
  const rows: [what: string, error: unknown, isWorth: boolean][] = [
    ['a fault of the CA', refusal(500), true],
    ['a replica that lags', refusal(404), true],
    ['a busy CA that says when', refusal(503, 5_000), true],
    ['a busy CA that says much later', refusal(503, 60_000), false],
    ['a rate limit that says when', refusal(429, 5_000), true],
    ['a rate limit that does not', refusal(429), false],
    ['the network', new AcmeError('ACME_UNREACHABLE', ''), true],
    ['DNS', new AcmeError('ACME_DNS_PROPAGATION', ''), false],
    ['a solver that names a time', new AcmeError('ACME_DNS', '', { retryAfterMs: 5_000 }), false],
    ['an order that is over', new AcmeError('ACME_ORDER_INVALID', ''), false],
    ['a fault of ours', new Error('x'), false],
  ]
  for (const [what, error, isWorth] of rows)
    t.equal(
      await createRetryBudget(20_000, { clock: hurriedClock() }).waitAfter(error),
      isWorth,
      what,
    )
})

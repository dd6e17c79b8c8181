import t from 'tap'
import { afterError, type OrderState } from '../../src/index.ts'
import { isFinal } from '../../src/order/state.ts'
import { toError } from '../../src/protocol/problem.ts'

const DAY = 86_400_000
const NOW = Date.UTC(2030, 0, 1)
const state = (deniedSince?: number): OrderState => ({
  step: 'created',
  request: { identifiers: [] },
  ...(deniedSince !== undefined && { deniedSince }),
})
const denial = toError({}, { status: 404 })
const refusal = toError(
  { type: 'urn:ietf:params:acme:error:caa' },
  { status: 403, isDecision: true },
)
const fault = toError({}, { status: 500 })

t.test('a refusal is final, and so is a denial that lasts for a day', async (t) => {
  const rows: [what: string, error: unknown, deniedSince: number | undefined, is: boolean][] = [
    ['a refusal', refusal, undefined, true],
    ['a first denial', denial, undefined, false],
    ['a denial for almost a day', denial, NOW - DAY + 1, false],
    ['a denial for a day', denial, NOW - DAY, true],
    ['a fault for more than a day', fault, NOW - 2 * DAY, false],
    ['an error of ours', new Error('x'), NOW - 2 * DAY, false],
  ]
  for (const [what, error, deniedSince, is] of rows)
    t.equal(isFinal(error, state(deniedSince), NOW), is, what)
})

t.test('the first denial is remembered', async (t) => {
  t.strictSame(afterError(state(), denial, NOW), state(NOW))
  t.strictSame(afterError(state(5), denial, NOW), state(5))
  t.strictSame(afterError(state(), fault, NOW), state())
})

import t from 'tap'
import { AcmeError, type AcmeErrorCode, type ErrorOutcome, outcomeOf } from '../../../src/index.ts'
import { toError } from '../../../src/protocol/problem.ts'

const urn = (type: string) => ({ type: `urn:ietf:params:acme:error:${type}`, detail: type })

t.test('classifies error responses of a CA', async (t) => {
  const rows: [
    status: number | undefined,
    type: string,
    whenAsked: ErrorOutcome,
    whenRead: ErrorOutcome,
  ][] = [
    [400, 'rejectedIdentifier', 'final', 'denied'],
    [400, 'unsupportedIdentifier', 'final', 'denied'],
    [400, 'badCSR', 'final', 'denied'],
    [400, 'badPublicKey', 'final', 'denied'],
    [400, 'invalidProfile', 'final', 'denied'],
    [400, 'malformed', 'final', 'denied'],
    [403, 'caa', 'final', 'denied'],
    [403, 'unauthorized', 'final', 'denied'],
    [400, 'aReasonOfItsOwn', 'final', 'denied'],
    [403, '', 'denied', 'denied'],
    [404, 'malformed', 'denied', 'denied'],
    [404, '', 'denied', 'denied'],
    [410, 'malformed', 'denied', 'denied'],
    [400, 'badNonce', 'passing', 'passing'],
    [403, 'orderNotReady', 'passing', 'passing'],
    [500, 'serverInternal', 'passing', 'passing'],
    [500, 'rejectedIdentifier', 'passing', 'passing'],
    [502, '', 'passing', 'passing'],
    [503, 'rateLimited', 'passing', 'passing'],
    [429, 'rateLimited', 'waiting', 'waiting'],
    [429, '', 'waiting', 'waiting'],
    [403, 'userActionRequired', 'waiting', 'waiting'],
    [400, 'accountDoesNotExist', 'account', 'account'],
    [undefined, 'unauthorized', 'final', 'final'],
    [undefined, 'serverInternal', 'final', 'final'],
  ]
  for (const [status, type, whenAsked, whenRead] of rows) {
    const context = status === undefined ? {} : { status }
    const document = type === '' ? undefined : urn(type)
    const asked = toError(document, { ...context, isDecision: true })
    t.equal(outcomeOf(asked), whenAsked, `${status} ${type} to a decision`)
    t.equal(outcomeOf(toError(document, context)), whenRead, `${status} ${type} to a look`)
  }
})

t.test('classifies errors without a response', async (t) => {
  const rows: [code: AcmeErrorCode, outcome: ErrorOutcome][] = [
    ['ACME_UNREACHABLE', 'passing'],
    ['ACME_TIMEOUT', 'passing'],
    ['ACME_ANSWER_INVALID', 'passing'],
    ['ACME_CERTIFICATE_MISMATCH', 'final'],
    ['ACME_ORDER_INVALID', 'final'],
    ['ACME_NO_CHALLENGE', 'waiting'],
    ['ACME_DNS_PROPAGATION', 'waiting'],
    ['ACME_DNS_CREDENTIALS', 'waiting'],
  ]
  for (const [code, outcome] of rows) t.equal(outcomeOf(new AcmeError(code, '')), outcome, code)
  t.equal(outcomeOf(new Error('a fault of ours')), 'waiting')
})

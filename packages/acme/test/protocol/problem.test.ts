import t from 'tap'
import { AcmeError } from '../../src/index.ts'
import { toError } from '../../src/protocol/problem.ts'

const urn = (type: string) => `urn:ietf:params:acme:error:${type}`

t.test('a problem document is a coded error', async (t) => {
  const unpause =
    'Your account is temporarily prevented from requesting certificates for a.example and possibly others. Please visit: https://unpause.ca.example/sfe/v1/unpause?jwt=abc'
  const rows: [document: unknown, status: number | undefined, code: string, message: string][] = [
    [{ type: urn('caa'), detail: 'no' }, 403, 'ACME_CAA', 'the CA says: no'],
    [{ type: urn('badCSR') }, 400, 'ACME_BAD_CSR', 'the CA says: badCSR'],
    [{ type: urn('unauthorized'), detail: 'x' }, undefined, 'ACME_UNAUTHORIZED', 'the CA says: x'],
    [{ type: urn('rateLimited'), detail: 'slow' }, 429, 'ACME_RATE_LIMITED', 'the CA says: slow'],
    [{ type: urn('rateLimited'), detail: unpause }, 429, 'ACME_PAUSED', `the CA says: ${unpause}`],
    [
      { type: urn('userActionRequired'), detail: 'terms', instance: 'https://ca.example/tos' },
      403,
      'ACME_USER_ACTION_REQUIRED',
      'the CA says: terms (https://ca.example/tos)',
    ],
    ...[
      'Account is not valid, has status "deactivated"',
      'The account https://ca.example/a/1 was revoked by its owner',
      'not a valid account',
    ].map((detail): [document: unknown, status: number, code: string, message: string] => [
      { type: urn('unauthorized'), detail },
      403,
      'ACME_ACCOUNT_CLOSED',
      `the CA says: ${detail}`,
    ]),
    [{ type: urn('unauthorized') }, 401, 'ACME_UNAUTHORIZED', 'the CA says: unauthorized'],
    [
      { type: urn('unauthorized'), detail: 'found "your account was revoked" at the name' },
      undefined,
      'ACME_UNAUTHORIZED',
      'the CA says: found "your account was revoked" at the name',
    ],
    [{ type: urn('brandNew'), detail: 'x' }, 400, 'ACME_PROBLEM', 'the CA says: x'],
    [{ type: 'about:blank' }, 500, 'ACME_SERVER_INTERNAL', 'the CA says: about:blank'],
    ['<html>', 503, 'ACME_SERVER_INTERNAL', 'the CA says: status 503'],
    [undefined, 429, 'ACME_RATE_LIMITED', 'the CA says: status 429'],
    [undefined, 403, 'ACME_PROBLEM', 'the CA says: status 403'],
    [{ type: 7, detail: {} }, 400, 'ACME_PROBLEM', 'the CA says: status 400'],
    ['nothing', undefined, 'ACME_PROBLEM', 'the CA says: without a reason'],
  ]
  for (const [document, status, code, message] of rows) {
    const error = toError(document, { ...(status && { status }) })
    t.type(error, AcmeError)
    t.equal(error.code, code, message)
    t.equal(error.message, message)
  }
})

t.test('each name has its own word in the message', async (t) => {
  const identifier = { type: 'dns', value: 'b.example' }
  const subproblems = [{ type: urn('caa'), detail: 'forbidden', identifier }, { type: urn('dns') }]
  const error = toError({ type: urn('compound'), detail: 'several', subproblems }, { status: 403 })
  t.equal(error.message, 'the CA says: several; b.example: forbidden; dns')
  t.equal(error.code, 'ACME_CAA', 'that of the first')
  t.strictSame(error.problem?.subproblems, [
    { type: 'caa', detail: 'forbidden', identifier },
    { type: 'dns', detail: '' },
  ])
})

t.test('shortens texts of the CA and removes control characters', async (t) => {
  const { message } = toError({
    type: urn('caa'),
    detail: `a\r\nFAKE LOG\u001b[31m${'x'.repeat(1e5)}`,
  })
  t.notMatch(message, /\p{Cc}/u)
  t.ok(message.length < 1100)
})

t.test('nothing of a hostile problem document reaches a log or a page', async (t) => {
  const hostile = 'a\r\nFAKE \u202egol\u2028\u200b'
  const subproblems = Array.from({ length: 5_000 }, () => ({
    type: urn('caa'),
    detail: hostile + 'x'.repeat(2_000),
    identifier: { type: 'dns', value: 'b.example' },
  }))
  const instance = `https://ca.example/${hostile}${'x'.repeat(1e5)}`
  const type = urn('userActionRequired')
  const error = toError({ type, detail: hostile, instance, subproblems }, { status: 403 })
  t.notMatch(error.message, /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u)
  t.ok(error.message.length <= 4_000)
  t.ok(JSON.stringify(error.problem).length < 200_000, 'and it is bounded where it is kept')
  const { message } = toError({ type, detail: hostile, instance }, { status: 403 })
  t.match(message, 'https://ca.example/', 'the page is shown')
  t.notMatch(message, /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u)
})

t.test('a subproblem that cannot be read does not hide the rest', async (t) => {
  const identifier = { type: 'dns', value: 'b.example' }
  const bad = [7, { identifier: { type: 'person', value: 'x' } }, { identifier: { value: 'a\nb' } }]
  const subproblems = [...bad, { type: urn('dns'), identifier }]
  const error = toError({ type: urn('caa'), detail: 'no', subproblems }, { status: 403 })
  t.equal(error.code, 'ACME_CAA')
  t.strictSame(error.problem?.subproblems, [{ type: 'dns', detail: '', identifier }])
})

t.test('passes Retry-After on', async (t) => {
  t.equal(toError({}, { status: 503, retryAfterMs: 5000 }).retryAfterMs, 5000)
})

import t from 'tap'
import { toError } from '../../src/protocol/problem.ts'
import { AcmeProblem, type ProblemType } from '../../src/server/index.ts'

t.test('a problem is a document that a client reads', async (t) => {
  const identifier = { type: 'dns', value: 'a.example' } as const
  const subproblems = [new AcmeProblem('rejectedIdentifier', 'not yours', { identifier })]
  const problem = new AcmeProblem('rejectedIdentifier', 'one name', { subproblems })
  const document = JSON.parse(JSON.stringify(problem))
  t.strictSame(document, {
    type: 'urn:ietf:params:acme:error:rejectedIdentifier',
    status: 403,
    detail: 'one name',
    subproblems: [
      {
        type: 'urn:ietf:params:acme:error:rejectedIdentifier',
        status: 403,
        detail: 'not yours',
        identifier,
      },
    ],
  })
  const error = toError(document, { status: problem.status })
  t.equal(error.code, 'ACME_REJECTED_IDENTIFIER')
  t.equal(error.message, 'the CA says: one name; a.example: not yours')
})

t.test('each type has its status, unless another is given', async (t) => {
  const rows: [type: ProblemType, status: number][] = [
    ['malformed', 400],
    ['badNonce', 400],
    ['accountDoesNotExist', 400],
    ['unauthorized', 403],
    ['orderNotReady', 403],
    ['rateLimited', 429],
    ['serverInternal', 500],
  ]
  for (const [type, status] of rows) t.equal(new AcmeProblem(type, 'x').status, status, type)
  t.equal(new AcmeProblem('malformed', 'x', { status: 415 }).status, 415)
  const limited = new AcmeProblem('rateLimited', 'later', { retryAfter: 60 })
  t.match(limited, { retryAfter: 60, detail: 'later', message: 'later' })
  t.notOk('retryAfter' in limited.toJSON(), 'which is a header')
})

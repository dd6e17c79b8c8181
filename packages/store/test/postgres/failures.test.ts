import t from 'tap'
import { StoreError } from '../../src/index.ts'
import { reasonOf, unavailable } from '../../src/postgres/failures.ts'

const cases: [error: Error, reason: string][] = [
  [unavailable('it is closed'), 'it is closed'],
  [
    new StoreError('STORE_REFUSED', 'No server accepts us: a:1: the password is wrong.'),
    'No server accepts us: a:1: the password is wrong',
  ],
  [
    Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' }),
    'ECONNREFUSED, nothing listens there',
  ],
  [
    Object.assign(new Error('x'), { code: 'SELF_SIGNED_CERT_IN_CHAIN' }),
    'its certificate is of a CA that is not trusted here; `storage.caFile` names the root of a private CA',
  ],
  [
    new AggregateError([Object.assign(new Error('x'), { code: 'ETIMEDOUT' })]),
    'ETIMEDOUT, it does not answer',
  ],
  [new Error('it is a standby'), 'it is a standby'],
]

for (const [error, reason] of cases)
  t.test(error.message, async (t) => {
    t.equal(reasonOf(error), reason)
  })

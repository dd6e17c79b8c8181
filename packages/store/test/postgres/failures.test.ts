import t from 'tap'
import { StoreError } from '../../src/index.ts'
import { reasonOf, unavailable } from '../../src/postgres/failures.ts'

const cases: [error: Error, reason: string][] = [
  [unavailable('it is closed'), 'it is closed'],
  [
    new StoreError('STORE_REFUSED', 'No server accepts us: a:1: the password is wrong.'),
    'No server accepts us: a:1: the password is wrong',
  ],
  [Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' }), 'ECONNREFUSED'],
  [new Error('it is a standby'), 'it is a standby'],
]

for (const [error, reason] of cases)
  t.test(error.message, async (t) => {
    t.equal(reasonOf(error), reason)
  })

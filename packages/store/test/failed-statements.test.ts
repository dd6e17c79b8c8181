import t from 'tap'
import { FailedStatements } from '../src/failed-statements.ts'
import { type Parameter, StoreError, type StoreErrorCode, type Transaction } from '../src/index.ts'

const failing = (code: StoreErrorCode) => new StoreError(code, code)
const full = failing('STORE_UNAVAILABLE')

/** Those that still fail, and what was tried. */
function world(...broken: readonly string[]) {
  const failed = new FailedStatements()
  const tried: string[] = []
  const stillBroken = new Map(broken.map((sql) => [sql, full as Error]))
  return {
    failed,
    stillBroken,
    tried,
    retry: () =>
      failed.retry((job) => {
        const all = async (sql: string, ...params: readonly Parameter[]) => {
          tried.push([sql, ...params].join(' '))
          const error = stillBroken.get(sql)
          if (error) throw error
          return []
        }
        return job({ all } as unknown as Transaction)
      }),
  }
}

const codes: [code: StoreErrorCode, counts: boolean][] = [
  ['STORE_UNAVAILABLE', true],
  ['STORE_REFUSED', true],
  ['STORE_CORRUPT', true],
  ['STORE_STATEMENT_FAILED', false],
]
for (const [code, counts] of codes)
  t.test(`${code} ${counts ? 'counts' : 'says nothing about the store'}`, async (t) => {
    const { failed } = world()
    failed.note('a', [], failing(code))
    t.equal(failed.first()?.code, counts ? code : undefined)
  })

t.test('an error of another kind says nothing about the store', async (t) => {
  const { failed } = world()
  failed.note('a', [], new TypeError('own'))
  t.equal(failed.first(), undefined)
})

t.test('a statement counts until it succeeds, whatever others do', async (t) => {
  const { failed } = world()
  failed.note('a', [], full)
  failed.delete('b')
  t.equal(failed.first(), full)
  failed.delete('a')
  t.equal(failed.first(), undefined)
})

t.test('it counts as long as its cause lasts, and no longer', async (t) => {
  const { failed, retry, stillBroken } = world('a')
  failed.note('a', [], full)
  for (let time = 0; time < 100; time++) await retry()
  t.equal(failed.first(), full)
  stillBroken.delete('a')
  await retry()
  t.equal(failed.first(), undefined)
})

t.test('one that fails for a reason of its own counts no longer', async (t) => {
  const { failed, retry, stillBroken } = world()
  failed.note('a', [], full)
  stillBroken.set('a', failing('STORE_STATEMENT_FAILED'))
  await retry()
  t.equal(failed.first(), undefined)
})

t.test('each is tried with its last parameters, until one still fails', async (t) => {
  const { failed, retry, tried, stillBroken } = world('b')
  failed.note('a', [1], full)
  failed.note('b', [], full)
  failed.note('c', [], full)
  failed.note('a', [2, 'x'], full)
  await retry()
  t.strictSame(tried.splice(0), ['a 2 x', 'b'])
  stillBroken.clear()
  await retry()
  t.strictSame(tried, ['b', 'c'])
  t.equal(failed.first(), undefined)
})

t.test('many that fail are kept in bounds', async (t) => {
  const { failed, retry, tried } = world()
  for (let n = 0; n < 100; n++) failed.note(`${n}`, [], full)
  failed.note('15', ['again'], full)
  await retry()
  t.equal(tried.length, 16)
  t.equal(tried.at(-1), '15 again', 'those that are kept may fail again')
  t.equal(failed.first(), undefined)
})

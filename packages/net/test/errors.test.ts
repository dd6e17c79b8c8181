import { readdirSync, readFileSync } from 'node:fs'
import t from 'tap'
import { hasCode, NET_ERRORS, NetError, TitledError } from '../src/index.ts'

const folder = new URL('../src/', import.meta.url)
const source = readdirSync(folder)
  .filter((file) => file !== 'errors.ts')
  .map((file) => readFileSync(new URL(file, folder), 'utf8'))
  .join('\n')

t.test('every listed code is used, and every used code is listed', async (t) => {
  const used = new Set(source.match(/(?<=')NET_[A-Z_]+(?=')/g))
  t.strictSame([...used].toSorted(), Object.keys(NET_ERRORS).toSorted())
})

t.test('an error carries its code and cause', async (t) => {
  const cause = new Error('below')
  t.match(new NetError('NET_FETCH_FAILED', 'above', { cause }), {
    name: 'NetError',
    code: 'NET_FETCH_FAILED',
    message: 'above',
    cause,
  })
})

t.test(
  'an error with a title carries what problem details show, and nothing that was not given',
  async (t) => {
    const table = { A_B: { title: 'A and B' }, C_D: { title: 'C' } }
    const cause = new Error('below')
    const shown = { members: { x: 1 }, retryAfter: 5, expose: true, headers: { 'x-a': 'b' } }
    const error = new TitledError(table, 'A_B', 'above', { cause, ...shown })
    t.match(error, { code: 'A_B', title: 'A and B', message: 'above', cause, ...shown })
    const bare = new TitledError(table, 'A_B', 'above')
    t.equal('cause' in bare, false)
    t.strictSame(
      [bare.members, bare.retryAfter, bare.expose, bare.headers],
      Array(4).fill(undefined),
    )
    t.equal(hasCode(error, 'A_B'), true)
    t.equal(hasCode(error, 'C_D'), false)
    t.equal(hasCode(new NetError('NET_FETCH_FAILED', ''), 'NET_FETCH_FAILED'), false)
  },
)

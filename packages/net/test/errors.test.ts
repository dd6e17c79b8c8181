import { readdirSync, readFileSync } from 'node:fs'
import t from 'tap'
import { NET_ERRORS, NetError } from '../src/index.ts'

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

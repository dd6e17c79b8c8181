import fc from 'fast-check'
import t from 'tap'
import { createKeptTokens } from '../../src/jwt/kept-tokens.ts'

const tokenOf = (n: number, length = 20) =>
  `${'x'.repeat(length - 12)}${String(n).padStart(12, '0')}`
const keep = (maxEntries: number, maxCharacters = 1_000) => {
  const kept = createKeptTokens<{ token: string }>(maxEntries, maxCharacters)
  const known = (...numbers: number[]) => numbers.filter((n) => kept.get(tokenOf(n)))
  return { ...kept, known, add: (n: number) => kept.set({ token: tokenOf(n) }) }
}

t.test('an entry is found by the whole token alone', async (t) => {
  const { get, set } = keep(4)
  const entry = { token: `right${tokenOf(1)}` }
  set(entry)
  t.equal(get(`right${tokenOf(1)}`), entry)
  t.equal(get(`wrong${tokenOf(1)}`), undefined, 'the same end is not enough')
  t.equal(get(tokenOf(1)), undefined, 'nor a part')
  t.equal(get(''), undefined)
})

t.test('a full generation takes the place of the older one', async (t) => {
  const { add, known } = keep(4)
  for (const n of [1, 2, 3]) add(n)
  t.strictSame(known(3, 1, 2), [3, 1, 2], 'all, and what is asked for is young again')
  for (const n of [4, 5, 6]) add(n)
  t.strictSame(known(6, 5, 4), [6, 5, 4])
  t.strictSame(known(1, 3), [], 'what was not asked for is forgotten')
})

t.test('so does one with many characters', async (t) => {
  const { set, get } = keep(1_000, 100)
  const tokens = [1, 2, 3].map((n) => tokenOf(n, 60))
  for (const token of tokens) set({ token })
  t.strictSame(
    tokens.map((token) => get(token) !== undefined),
    [false, true, true],
  )
})

t.test('it never holds more than it may, nor what was not set', async () => {
  const numbers = fc.array(fc.nat(30), { maxLength: 200 })
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 12 }), numbers, (max, added) => {
      const { add, get } = keep(max * 2, 1_000_000)
      for (const n of added) add(n)
      const held = [...new Set(added)].filter((n) => get(tokenOf(n)))
      const last = added.at(-1)
      return held.length <= max * 2 && (last === undefined || held.includes(last))
    }),
  )
})

import fc from 'fast-check'
import t from 'tap'
import { EndedSessions } from '../../src/session/ended-sessions.ts'
import type { Revocation } from '../../src/store/store.ts'

const PEOPLE = ['ada', 'bob']
const NUMBERS = Array.from({ length: 250 }, (_, n) => n)

const rowOf = (n: number, person: string): Revocation => ({
  ...{ sid: `${person} ${n}`, person, generation: 0 },
  ...{ first: n, last: n, until: 1_000, due: 1_000 },
})
const sessionOf = (n: number, person: string) => ({
  ...{ sid: `${person} ${n}`, person, iat: n, generation: 0 },
})

t.test('a session that has ended stays so when one row replaces those of a person', async () => {
  const some = fc.shuffledSubarray(NUMBERS, { minLength: 80 })
  fc.assert(
    fc.property(some, fc.constantFrom(...PEOPLE), (ended, person) => {
      const list = new EndedSessions()
      for (const n of ended) {
        list.learn(rowOf(n, person))
        list.collapse(person)
      }
      const other = PEOPLE.find((each) => each !== person)!
      const after = { ...sessionOf(Math.max(...ended), person), sid: 'after', generation: 1 }
      return (
        ended.every((n) => list.has(sessionOf(n, person)) && !list.has(sessionOf(n, other))) &&
        !list.has(after) &&
        list.size <= 101
      )
    }),
  )
})

t.test('a row that is known is kept once', async (t) => {
  const ended = new EndedSessions()
  ended.learn(rowOf(1, 'ada'))
  ended.learn(rowOf(1, 'ada'))
  ended.learn({ ...rowOf(2, 'ada'), sid: '~ada' })
  ended.learn({ ...rowOf(2, 'ada'), sid: '~ada' })
  t.equal(ended.size, 2)
})

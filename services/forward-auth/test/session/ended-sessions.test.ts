import fc from 'fast-check'
import t from 'tap'
import { EndedSessions } from '../../src/session/ended-sessions.ts'
import type { Row } from '../../src/session/revocation-file.ts'

const PEOPLE = ['ada', 'bob']
const LIMITS = { each: 3, crowded: 1_000 }

const rowOf = (n: number, person: string): Row => ({
  ...{ sid: `${person} ${n}`, person, generation: 0 },
  ...{ first: n, last: n, until: 1_000, due: 1_000 },
})

t.test('a session that is looked for again is found ended just when it is among all', async () => {
  const step = fc.record({
    person: fc.constantFrom(...PEOPLE),
    n: fc.nat(80),
    isLooked: fc.boolean(),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), fc.nat(80), (steps, iat) => {
      const ended = new EndedSessions(LIMITS)
      const sessions = PEOPLE.map((person) => ({
        sid: `${person} ${iat}`,
        iat,
        generation: 0,
        person,
      }))
      const since = new Map<string, number>()
      for (const { person, n, isLooked } of steps) {
        ended.learn(rowOf(n, person))
        ended.collapse(person)
        if (!isLooked) continue
        for (const { person: whose, ...session } of sessions) {
          const known = since.get(session.sid) ?? -1
          const isEnded = ended.has(session, () => whose, -1)
          if (ended.has(session, () => whose, known) !== isEnded) return false
          if (!isEnded) since.set(session.sid, ended.learned)
        }
      }
      return true
    }),
  )
})

t.test('a row that is known is not counted again', async (t) => {
  const ended = new EndedSessions()
  ended.learn(rowOf(1, 'ada'))
  ended.learn(rowOf(1, 'ada'))
  ended.learn({ ...rowOf(2, 'ada'), sid: '~ada' })
  ended.learn({ ...rowOf(2, 'ada'), sid: '~ada' })
  t.equal(ended.learned, 2)
})

import t from 'tap'
import { SignInRate } from '../../src/sign-in/sign-in-rate.ts'

const [SECOND, HOUR] = [1_000, 3_600_000]

function start() {
  const clock = { now: 1_900_000_000_000 }
  const rate = new SignInRate(() => clock.now)
  const take = (person: string) => rate.take(person)
  const burst = (person: string) => {
    let taken = 0
    while (take(person) === 0) taken += 1
    return taken
  }
  return { clock, take, burst }
}

t.test('a person may sign in 60 times at once, then once every 5 seconds', async (t) => {
  const { clock, take, burst } = start()
  t.equal(burst('ada'), 60)
  t.equal(take('ada'), 5, 'seconds to wait')
  clock.now += 4 * SECOND
  t.equal(take('ada'), 1)
  clock.now += SECOND
  t.equal(take('ada'), 0)
  t.equal(take('ada'), 5)
  t.equal(take('bob'), 0, 'somebody else has their own')
  clock.now += HOUR
  t.equal(burst('ada'), 60, 'never more than 60')
})

t.test('each instance counts on its own', async (t) => {
  const [one, other] = [start(), start()]
  t.equal(one.burst('ada'), 60)
  t.equal(other.burst('ada'), 60)
  t.equal(one.take('ada'), 5)
})

t.test('refused attempts do not extend the wait', async (t) => {
  const { clock, take, burst } = start()
  burst('ada')
  for (let i = 0; i < 1_000; i++) take('ada')
  clock.now += 5 * SECOND
  t.equal(take('ada'), 0)
})

t.test('a clock that jumps locks nobody out', async (t) => {
  const { clock, take, burst } = start()
  clock.now += 24 * HOUR
  burst('ada')
  clock.now -= 24 * HOUR
  t.equal(take('ada'), 5, 'it was wrong by a day')
  clock.now += 5 * SECOND
  t.equal(take('ada'), 0)
  clock.now += 24 * HOUR
  t.equal(burst('ada'), 60)
})

t.test('counts for a limited number of people', async (t) => {
  const { take, burst } = start()
  burst('ada')
  for (let i = 0; i < 10_000; i++) take(`person-${i}`)
  t.equal(burst('ada'), 60)
})

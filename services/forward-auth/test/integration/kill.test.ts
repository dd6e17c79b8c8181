import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { createMovedClock, end, FAKETIME, type Person } from '../helpers/moved-clock.ts'

const kills = Number(process.env.GATEHOUSE_KILLS ?? 10)
const OFFSETS = ['+0', '+2d', '+0', '-1h', '+0', '+45d']
const CALLERS = 4
const LOAD_MS = 300
/** Of the kills, one in so many does not wait for the first answer. */
const EARLY_SHARE = 5

interface Past {
  readonly person: Person
  readonly offset: string
  /** Whether the logout was answered. */
  readonly isOut: boolean
}

t.test(
  `killed ${kills} times by a clock that moves, what was answered about a session holds`,
  { skip: FAKETIME ? false : 'faketime is not installed' },
  async (t) => {
    const { start, setClock, signIn, signOut, check } = await createMovedClock(t)
    const past: Past[] = []
    let onAnswer = () => {}

    /** Signs people in and every other one out, until nobody answers. */
    async function call(url: string, offset: string): Promise<void> {
      for (let n = 0; ; n++) {
        const person = await signIn(url)
        if (!person) return
        const status = n % 2 === 0 ? await signOut(url, person) : 0
        // Not known whether it was written before the kill.
        if (status === undefined) return
        past.push({ person, offset, isOut: status === 200 })
        onAnswer()
      }
    }

    for (let i = 0; i < kills; i++) {
      const offset = OFFSETS[i % OFFSETS.length] ?? '+0'
      setClock(offset)
      const { child, url = '' } = await start()
      const answered = new Promise<void>((resolve) => {
        onAnswer = resolve
      })
      const load = Array.from({ length: CALLERS }, () => call(url, offset))
      if (i % EARLY_SHARE !== 0) await Promise.race([answered, Promise.all(load)])
      await sleep(Math.random() * LOAD_MS)
      t.equal(child.exitCode, null, 'it runs until it is killed')
      await end(child, 'SIGKILL')
      await Promise.all(load)
    }

    setClock('+0')
    const { child, url = '' } = await start()
    const wrong: Past[] = []
    for (const offset of new Set(OFFSETS)) {
      setClock(offset)
      for (const one of past) {
        const status = await check(url, one.person)
        const mayBeIn = !one.isOut && one.offset === offset
        // Those of another time are in or not, as their hours say; who is out is out at any time.
        const isRight = one.isOut ? status === 401 : !mayBeIn || status === 200
        if (!isRight) wrong.push(one)
      }
    }
    t.strictSame(wrong, [])
    const out = past.filter(({ isOut }) => isOut).length
    t.comment(`${kills} kills, ${past.length - out} logins and ${out} logouts answered`)
    t.ok(out >= kills / 2, 'the kills hit a service at work')
    setClock('+0')
    await end(child, 'SIGTERM')
  },
)

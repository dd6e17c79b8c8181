import t from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { canMoveClocks } from '../helpers/clock.ts'
import { killAndLook } from '../helpers/kills.ts'

expectWarnings(t, 'the CA needs its operator', 'this CA begins in the future')

const kills = Number(process.env.GATEHOUSE_KILLS ?? 60)
const timeout = Math.max(600_000, kills * 6_000)

t.test(`killed ${kills} times, nothing that was handed out is lost`, { timeout }, (t) =>
  killAndLook(t, kills),
)

t.test(
  `killed ${kills} times with clocks that move, nothing is lost, withheld or revived`,
  { timeout, skip: canMoveClocks ? false : 'needs the package faketime' },
  (t) => killAndLook(t, kills, { clocks: true }),
)

import t from 'tap'
import { killAndLook } from '../helpers/kills.ts'

const kills = Number(process.env.GATEHOUSE_KILLS ?? 200)

t.test(`killed ${kills} times, nothing that was handed out is lost`, { timeout: 600_000 }, (t) =>
  killAndLook(t, kills),
)

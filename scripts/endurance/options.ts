import { parseArgs } from 'node:util'

export interface Options {
  readonly minutes: number
  readonly seed: number
  /** `sqlite`: one replica of each service on a folder of its own, and no database to disturb. */
  readonly storage: 'postgres' | 'sqlite'
  readonly names: number
  readonly requests: number
  /** Whether folder and logs stay although nothing was broken. */
  readonly keep: boolean
}

const USAGE = `npm run endurance -- [--minutes 20] [--seed N] [--storage postgres|sqlite]
                        [--names N] [--requests N] [--keep]
GATEHOUSE_ENDURANCE_MINUTES and GATEHOUSE_ENDURANCE_SEED are the same as --minutes and --seed.`

const FULL = { minutes: 20, names: 500, requests: 10_000 }
/** A run that is no longer has so many names; those between have some between. */
const SHORT = { minutes: 3, names: 50 }

export function readOptions(args: readonly string[], env: NodeJS.ProcessEnv): Options {
  const { values } = parseArgs({
    args: [...args],
    options: {
      minutes: { type: 'string', default: env.GATEHOUSE_ENDURANCE_MINUTES ?? `${FULL.minutes}` },
      seed: { type: 'string', default: env.GATEHOUSE_ENDURANCE_SEED ?? `${Date.now() % 2 ** 31}` },
      storage: { type: 'string', default: 'postgres' },
      names: { type: 'string' },
      requests: { type: 'string' },
      keep: { type: 'boolean', default: false },
    },
  })
  const { storage, keep } = values
  if (storage !== 'postgres' && storage !== 'sqlite') throw new TypeError(USAGE)
  const minutes = positive(values.minutes)
  const share = (minutes - SHORT.minutes) / (FULL.minutes - SHORT.minutes)
  const usual = SHORT.names + (FULL.names - SHORT.names) * Math.min(Math.max(share, 0), 1)
  return {
    ...{ minutes, storage, keep, seed: positive(values.seed) },
    names: positive(values.names ?? `${Math.ceil(usual)}`),
    requests: positive(values.requests ?? `${Math.ceil((FULL.requests * minutes) / FULL.minutes)}`),
  }
}

function positive(text: string): number {
  const number = Number(text)
  if (number > 0 && Number.isFinite(number)) return number
  throw new TypeError(`${text} is not a number above 0\n${USAGE}`)
}

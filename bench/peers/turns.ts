import { cpuOf } from '../acme-server.ts'
import { median } from '../harness/compare.ts'

/** One turn of a side: how many answers it gave, and the seconds of CPU time that it used. */
interface Turn {
  readonly answers: number
  readonly cpu: number
}
export type Drive = (ms: number) => Promise<Turn>

/** Microseconds of CPU time for an answer, of all turns. */
export interface Figure {
  readonly median: number
  readonly least: number
  readonly most: number
}

const TURNS = 3
/** How long a server is driven at a time. */
const SLICE_MS = 400
/** Seconds of CPU time, since a busy machine gives a server less of a second. */
const TURN = 0.5
const WARM_UP = 2
/** Slices of a turn or a warm-up at most, if it does not have to give a number of answers. */
const MAX_SLICES = 25

/**
 * Adds to `figures` what each side takes, in turns, forwards and backwards.
 *
 * @param answers - how many a side gives at least before it is measured
 */
export async function takeTurns<Side extends string>(
  sides: Record<Side, Drive>,
  figures: Map<Side, number[]>,
  answers = 0,
): Promise<void> {
  const names = Object.keys(sides) as Side[]
  for (const name of names) await use(sides[name], WARM_UP, answers)
  for (let n = 0; n < TURNS; n++)
    for (const name of n % 2 === 0 ? names : names.toReversed()) {
      const { answers, cpu } = await use(sides[name], TURN)
      figures.set(name, [...(figures.get(name) ?? []), (cpu / answers) * 1e6])
    }
}

/** Adds what each side takes for as many answers, without a warm-up. */
export async function takeOnce<Side extends string>(
  sides: Record<Side, Drive>,
  figures: Map<Side, number[]>,
  least: number,
): Promise<void> {
  for (const name of Object.keys(sides) as Side[]) {
    const { answers, cpu } = await use(sides[name], 0, least)
    figures.set(name, [...(figures.get(name) ?? []), (cpu / answers) * 1e6])
  }
}

/** Drives a server until it has used as many seconds of CPU time, and given as many answers. */
async function use(drive: Drive, seconds: number, least = 0): Promise<Turn> {
  let [answers, cpu] = [0, 0]
  for (let n = 0; answers < least || (n < MAX_SLICES && cpu < seconds); n++) {
    const slice = await drive(SLICE_MS)
    answers += slice.answers
    cpu += slice.cpu
  }
  return { answers, cpu }
}

export function figureOf(values: readonly number[] = []): Figure {
  return { median: median(values), least: Math.min(...values), most: Math.max(...values) }
}

/** Measures what `drive` has a process do. */
export function measured(pid: number, drive: (ms: number) => Promise<number>): Drive {
  return async (ms) => {
    const before = cpuOf(pid)
    const answers = await drive(ms)
    return { answers, cpu: cpuOf(pid) - before }
  }
}

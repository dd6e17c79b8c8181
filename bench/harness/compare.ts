/** How long to measure: a round is a fresh start of every side, a slice one turn of one side in it. */
export interface Effort {
  readonly rounds: number
  readonly slices: number
  readonly sliceMs: number
  /** How far the last turns of a side may lie apart, as a share, for its figure to be stable. */
  readonly stable: number
  /** How long to run it before, at least and at most. */
  readonly warmUpMs: { readonly min: number; readonly max: number }
  /** How many a service issues before its memory is looked at. */
  readonly certificates: number
  /** Whether those are made too that are only stated. */
  readonly comparisons: 'all' | 'with target'
  /** Whether a row with this name is asked for. */
  readonly wants: (name: string) => boolean
  /** How far a ratio may miss its target and still be taken as equal. */
  readonly noise: number
}

/** Sides that run at the same time, each in a fresh process; `measure` gives one figure of a side. */
export interface Round<Side extends string> {
  readonly measure: Readonly<Record<Side, (ms: number) => Promise<number>>>
  stop(): Promise<void>
}

export interface Comparison<Side extends string> {
  /** Median figure of a side. */
  value(side: Side): number
  /** Median of the ratios of slices that ran one after the other, then of the rounds. */
  ratio(side: Side, baseline: Side): number
  /** The same of their differences. */
  difference(side: Side, baseline: Side): number
}

/** Measures all sides in turn, forwards and backwards, in as many fresh rounds as the effort says. */
export async function compare<Side extends string>(
  startRound: () => Promise<Round<Side>>,
  effort: Effort,
): Promise<Comparison<Side>> {
  const rounds: Record<Side, number>[][] = []
  for (let n = 0; n < effort.rounds; n++) rounds.push(await runRound(startRound, effort))

  const medianOf = (figure: (slice: Record<Side, number>) => number) =>
    median(rounds.map((slices) => median(slices.map(figure))))
  return {
    value: (side) => medianOf((slice) => slice[side]),
    ratio: (side, baseline) => medianOf((slice) => slice[side] / slice[baseline]),
    difference: (side, baseline) => medianOf((slice) => slice[side] - slice[baseline]),
  }
}

async function runRound<Side extends string>(
  startRound: () => Promise<Round<Side>>,
  effort: Effort,
): Promise<Record<Side, number>[]> {
  const { slices, sliceMs } = effort
  const { measure, stop } = await startRound()
  const sides = Object.keys(measure) as Side[]
  const results: Record<Side, number>[] = []
  for (const side of sides) await warmUp(measure[side], effort)
  for (let n = 0; n < slices; n++) {
    const slice = {} as Record<Side, number>
    for (const side of n % 2 === 0 ? sides : sides.toReversed())
      slice[side] = await measure[side](sliceMs)
    results.push(slice)
  }
  await stop()
  return results
}

/** Turns whose figures have to agree. */
const AGREEING = 4

/**
 * Runs a side until its figure is stable: V8 takes seconds to compile what a busy server runs, and a
 * figure is stable for a second or two before the last of its compilers takes over.
 */
async function warmUp(
  measure: (ms: number) => Promise<number>,
  { sliceMs, stable, warmUpMs: { min, max } }: Effort,
): Promise<void> {
  const figures: number[] = []
  for (let ms = sliceMs; ms <= max; ms += sliceMs) {
    figures.push(await measure(sliceMs))
    if (ms < min) continue
    const last = figures.slice(-AGREEING)
    if (last.length === AGREEING && Math.max(...last) <= Math.min(...last) * (1 + stable)) return
  }
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

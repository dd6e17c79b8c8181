/** How long to measure: a round is a fresh start of every side, a slice one turn of one side in it. */
export interface Effort {
  readonly rounds: number
  readonly slices: number
  readonly warmUpMs: number
  readonly sliceMs: number
  /** How many a service issues before its memory is looked at. */
  readonly certificates: number
  /** Whether those are made too that are only stated. */
  readonly comparisons: 'all' | 'with target'
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
  { slices, warmUpMs, sliceMs }: Effort,
): Promise<Record<Side, number>[]> {
  const { measure, stop } = await startRound()
  const sides = Object.keys(measure) as Side[]
  const results: Record<Side, number>[] = []
  for (const side of sides) await measure[side](warmUpMs)
  for (let n = 0; n < slices; n++) {
    const slice = {} as Record<Side, number>
    for (const side of n % 2 === 0 ? sides : sides.toReversed())
      slice[side] = await measure[side](sliceMs)
    results.push(slice)
  }
  await stop()
  return results
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

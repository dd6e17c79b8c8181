/** What became of one promise. */
export interface Verdict {
  readonly promise: string
  /** How often it could have been broken, and was not. */
  held: number
  /** How often a replica did what it may do only while it cannot reach the database. */
  excused: number
  /** What happened instead, a sentence for each case. */
  readonly broken: string[]
}

export const verdictOf = (promise: string): Verdict => ({
  promise,
  held: 0,
  excused: 0,
  broken: [],
})

/** A promise that nothing put to the test is as bad as one that was broken: nobody knows. */
export const isHeld = ({ held, broken }: Verdict): boolean => held > 0 && broken.length === 0

/** Counts a case: `fault` says what is wrong, if anything is. */
export function count(verdict: Verdict, fault: string | undefined): void {
  if (fault === undefined) verdict.held += 1
  else verdict.broken.push(fault)
}

/** Seconds, for sentences. */
export const seconds = (ms: number): string => `${(ms / 1_000).toFixed(3)} s`

export function groupBy<T>(
  items: Iterable<T>,
  keyOf: (item: T) => string,
): ReadonlyMap<string, readonly T[]> {
  return Map.groupBy(items, keyOf)
}

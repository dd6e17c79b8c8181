const DAY = 86_400_000

/** From when on a row is old, by the clock and by the run time of the store. */
export type Age = {
  readonly now: number
  readonly before: number
  readonly ranBefore: number
}

/**
 * The SQL condition that a row is old by the clock and as much run time has passed, so that a wrong
 * clock deletes nothing. A row that a clock wrote which was ahead is old by its run time alone.
 */
export function isOver(at: string, ran: string): string {
  return `((${at} < :before OR ${at} > :now + ${DAY}) AND ${ran} <= :ranBefore)`
}

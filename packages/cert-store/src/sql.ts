const DAY = 86_400_000
/** Rows of a table that one statement deletes or changes. */
export const MAX_ROWS = 1_000
/** SQL: the texts, and the ids, of the first parameter, a JSON array. */
export const TEXTS = 'SELECT value FROM json_array_elements_text($1::json)'
export const IDS = 'SELECT value::bigint FROM json_array_elements_text($1::json)'

/** Bounds for pruning: what is older than `before` by the clock and `ranBefore` by the run time goes. */
export interface Age {
  readonly now: number
  readonly before: number
  readonly ranBefore: number
}

/** Gives the bounds for what is kept for so many milliseconds. */
export function agesAt(now: number, ran: number): (ms: number) => Age {
  return (ms) => ({ now, before: now - ms, ranBefore: ran - ms })
}

/**
 * The SQL condition for rows to prune, with the members of {@link Age} as its first parameters. Clock and run time
 * must agree, so that a wrong clock deletes nothing. The time of a row from more than a day in the future is
 * ignored: the clock was wrong when it was written.
 */
export function isOld(at: string, ran: string): string {
  return `((${at} < $2 OR ${at} > $1::bigint + ${DAY}) AND ${ran} <= $3)`
}

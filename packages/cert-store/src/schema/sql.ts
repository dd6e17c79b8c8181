import type { Engine, Parameter } from '@gatehouse/store'

export const DAY = 86_400_000
/** Rows of a table that one statement deletes or changes. */
export const MAX_ROWS = 250
/** SQL: the texts, and the ids, of the first parameter, a JSON array. */
export const TEXTS = 'SELECT value FROM json_array_elements_text($1::json)'
export const IDS = 'SELECT value::bigint FROM json_array_elements_text($1::json)'

/** Runs a statement, each time in a transaction of its own, until it finds no more. Gives how many rows it changed. */
export async function repeat(db: Engine, sql: string, ...params: readonly Parameter[]) {
  let sum = 0
  for (let rows = MAX_ROWS; rows === MAX_ROWS; sum += rows) rows = await db.run(sql, ...params)
  return sum
}

/** Bounds for pruning: what is older than `latest` by the clock and `ranLatest` by the run time goes. */
export type Age = readonly [now: number, latest: number, ranLatest: number]

/** Gives the bounds for what is kept for so many milliseconds, as parameters. */
export function agesAt(now: number, ran: number): (ms: number) => Age {
  return (ms) => [now, now - ms, ran - ms]
}

/**
 * The SQL condition for rows to prune, with an {@link Age} as its first parameters. Clock and run time must agree, so
 * that a wrong clock deletes nothing. The time of a row from more than a day in the future is ignored: the clock was wrong
 * when it was written.
 */
export function isOld(time: string, ran: string): string {
  return `${ran} <= $3 AND (${time} < $2 OR ${time} > $1::bigint + ${DAY})`
}

/** The SQL that deletes some of these rows. They are found by the run time: what is old by it is old by the clock too. */
export function deleteOld(
  table: string,
  key: string,
  time: string,
  ran: string,
  which = 'true',
): string {
  return `
  DELETE FROM ${table} WHERE ${key} IN (
    SELECT ${key} FROM ${table} WHERE ${isOld(time, ran)} AND ${which}
    ORDER BY ${ran} LIMIT ${MAX_ROWS} FOR UPDATE SKIP LOCKED)`
}

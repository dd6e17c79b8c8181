/** A value inside of an array parameter. */
export type ArrayElement = string | number | bigint | boolean | Uint8Array | null

/**
 * A value for `$1`. A `Uint8Array` is a bytea. An array is a PostgreSQL array, for `unnest($1::text[])`.
 * JSON is passed as text that `JSON.stringify` made.
 */
export type Parameter = ArrayElement | undefined | readonly ArrayElement[]

/** One SQL statement with its parameters. */
export interface Statement {
  readonly sql: string
  readonly params?: readonly Parameter[]
  /**
   * Its rows are stored with the write, so that they are known even if the connection breaks while the
   * database commits. Without it, this statement then seems to have given no rows. The SQL must give rows,
   * of what JSON has (numbers, texts, booleans, json). If it begins with WITH, it has to end in
   * `SELECT * FROM kept`, and none of its own names is `stored`.
   */
  readonly keep?: boolean
}

/** A row as an object. int8 is a number, xid8 a bigint, bytea a Buffer, and json is parsed. */
export type Row = Record<string, unknown>

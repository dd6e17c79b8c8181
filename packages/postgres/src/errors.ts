import { CodedError } from '@gatehouse/net'

/** Every error of this package: its meaning and what to do about it. */
export const POSTGRES_ERRORS = {
  POSTGRES_URL_INVALID: {
    title: 'URL of the database is not valid',
    action:
      'Write `postgres://user:password@host:5432/database`, with several hosts separated by commas. Percent-encode special characters of the user name and password.',
  },
  POSTGRES_UNAVAILABLE: {
    title: 'Database cannot be used now',
    action:
      'See the reason in the message: check that PostgreSQL runs, is reachable from here and accepts writes. The connection is made again by itself.',
  },
  POSTGRES_REFUSED: {
    title: 'Database refuses this user',
    action:
      'Check user, password, database and `pg_hba.conf`. The user needs the right to create the schema, or has to own it.',
  },
  POSTGRES_SCHEMA_NEWER: {
    title: 'Schema is from a newer version',
    action: 'Start the version that made the schema, or a newer one.',
  },
  POSTGRES_SCHEMA_OLDER: {
    title: 'Schema is absent or from an older version',
    action:
      'Check the name of the schema, and start this version of the service once: it brings the schema up to date.',
  },
  POSTGRES_SCHEMA_FOREIGN: {
    title: 'Schema is of another service',
    action: 'Give each service a schema of its own: `storage.schema`.',
  },
  POSTGRES_STATEMENT_FAILED: {
    title: 'Database rejects a statement',
    action: 'Report it, with the SQLSTATE of the message. Nothing of the write was stored.',
  },
} as const satisfies Record<`POSTGRES_${string}`, { title: string; action: string }>

export type PostgresErrorCode = keyof typeof POSTGRES_ERRORS

/** An error of this package. Its message names hosts and ports, never a user, a password or a stored value. */
export class PostgresError extends CodedError<PostgresErrorCode> {
  override readonly name = 'PostgresError'
  /** Seconds until the next attempt makes sense, of `POSTGRES_UNAVAILABLE`. */
  readonly retryAfter: number | undefined
  /** The name of the constraint that a write violated. */
  readonly constraint: string | undefined

  constructor(
    code: PostgresErrorCode,
    message: string,
    { retryAfter, constraint }: Partial<Pick<PostgresError, 'retryAfter' | 'constraint'>> = {},
  ) {
    super(code, message)
    this.retryAfter = retryAfter
    this.constraint = constraint
  }
}

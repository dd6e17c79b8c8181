import { CodedError } from '@gatehouse/net'

/** Every error of this package: its meaning and what to do about it. */
export const STORE_ERRORS = {
  STORE_URL_INVALID: {
    title: 'URL of the database is not valid',
    action:
      'Write `postgres://user:password@host:5432/database`, with several hosts separated by commas. ' +
      'Percent-encode special characters of the user name and password.',
  },
  STORE_UNAVAILABLE: {
    title: 'Store cannot be used now',
    action:
      'See the reason in the message. For a folder, check the disk and its permissions; for a database, that ' +
      'PostgreSQL runs, is reachable from here and accepts writes. The service tries again automatically.',
  },
  STORE_REFUSED: {
    title: 'Database refuses this user',
    action:
      'Check user, password, database and `pg_hba.conf`. The user needs the right to create the schema, or has ' +
      'to own it, and every right on its tables.',
  },
  STORE_CORRUPT: {
    title: 'Store is damaged',
    action: 'Stop the service, move the file away and restore a backup.',
  },
  STORE_NEWER: {
    title: 'Store is from a newer version',
    action: 'Start the version that made the store, or a newer one.',
  },
  STORE_OLDER: {
    title: 'Store is absent or from an older version',
    action:
      'Check the name of the folder or schema, and start this version of the service once: it brings the store up to date.',
  },
  STORE_UNRELEASED: {
    title: 'Store is of a version that was never released',
    action: 'Start with an empty folder, or with a schema that does not exist yet.',
  },
  STORE_FOREIGN: {
    title: 'Schema is of another service',
    action: 'Give each service its own schema: `storage.schema`.',
  },
  STORE_STATEMENT_FAILED: {
    title: 'Store rejects a statement',
    action: 'Report it, with the message. Nothing of the write was stored.',
  },
} as const satisfies Record<`STORE_${string}`, { title: string; action: string }>

export type StoreErrorCode = keyof typeof STORE_ERRORS

/** An error of this package. Its message names hosts and ports, never a user, a password or a stored value. */
export class StoreError extends CodedError<StoreErrorCode> {
  override readonly name = 'StoreError'
  /** Seconds until the next attempt makes sense, of `STORE_UNAVAILABLE`. */
  readonly retryAfter: number | undefined
  /** The name of the constraint that a write violated. */
  readonly constraint: string | undefined

  constructor(
    code: StoreErrorCode,
    message: string,
    {
      retryAfter,
      constraint,
      cause,
    }: Partial<Pick<StoreError, 'retryAfter' | 'constraint' | 'cause'>> = {},
  ) {
    super(code, message, { cause })
    this.retryAfter = retryAfter
    this.constraint = constraint
  }
}

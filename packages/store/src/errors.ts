import { TitledError, type TitledErrorOptions } from '@gatehouse/net'

/** Every error of this package: its meaning and what to do about it. */
export const STORE_ERRORS = {
  STORE_URL_INVALID: {
    title: 'URL of the database is not valid',
    action:
      'Write `postgres://user:password@host:5432/database`, with several hosts separated by commas. ' +
      'Percent-encode special characters of the user name and password.',
  },
  STORE_UNAVAILABLE: {
    title: 'Store is unavailable',
    action:
      'The log has the reason. For a folder, check the disk and its permissions; for a database, that ' +
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
    action:
      'Stop the service, move the folder of the store away and restore a backup into an empty one.',
  },
  STORE_LOCKED: {
    title: 'Store is in use',
    action:
      'Stop the other service first, or all replicas of a database. Each service needs its own data folder.',
  },
  STORE_MISSING: {
    title: 'Store is absent or from an older version',
    action:
      'Check the folder or schema in `storage`, and what is mounted there, or restore a backup. The service makes its ' +
      'store at the first start, and brings one of an older version up to date.',
  },
  STORE_NEWER: {
    title: 'Store is from a newer version',
    action: 'Start the version that made the store, or a newer one.',
  },
  STORE_NOT_EMPTY: {
    title: 'Folder or schema holds something else',
    action:
      'Name one that is empty or does not exist. Each service needs its own: `storage.path`, `storage.schema`.',
  },
  STORE_UNFINISHED: {
    title: 'Store was not moved completely',
    action:
      'Run the same `move` again: it continues where it stopped. Or drop the schema, and continue with the old store.',
  },
  STORE_UNRELEASED: {
    title: 'Store is of a version that was never released',
    action:
      'Start with an empty folder, or with a schema that does not exist yet. Nothing converts such a store.',
  },
  STORE_STATEMENT_FAILED: {
    title: 'Store rejects a statement',
    action: 'Report it, with the message. Nothing of the write was stored.',
  },
} as const satisfies Record<`STORE_${string}`, { title: string; action: string }>

export type StoreErrorCode = keyof typeof STORE_ERRORS

/** Seconds. */
const RETRY_AFTER = 5
const UNAVAILABLE: readonly StoreErrorCode[] = ['STORE_UNAVAILABLE', 'STORE_REFUSED']

/** An error of this package. Its message names hosts and ports, never a user, a password or a stored value. */
export class StoreError extends TitledError<StoreErrorCode> {
  override readonly name = 'StoreError'
  /** The name of the constraint that a write violated. */
  declare readonly constraint?: string

  constructor(
    code: StoreErrorCode,
    message: string,
    options: TitledErrorOptions & { readonly constraint?: string | undefined } = {},
  ) {
    const retryAfter = UNAVAILABLE.includes(code) ? { retryAfter: RETRY_AFTER } : {}
    super(STORE_ERRORS, code, message, { ...retryAfter, ...options })
  }
}

/** The store cannot be used for a while; a client may try again in a few seconds. */
export function storeUnavailable(reason: string, cause?: unknown): StoreError {
  return new StoreError('STORE_UNAVAILABLE', `The store cannot be used: ${reason}.`, { cause })
}

/** Whether an error says that the store is away, and nothing about what was asked of it. */
export function isUnavailable(error: unknown): error is StoreError {
  return error instanceof StoreError && UNAVAILABLE.includes(error.code)
}

import type { Row, Table } from './tables.ts'

/** The first rows of a table after a key, as its engine orders them. */
export interface Page<Key> {
  readonly rows: readonly Row[]
  /** The key of the last row, for the next page. */
  readonly last: Key
}

/** What a store has beside its rows. */
export interface Counters {
  /** Milliseconds that the service has run on it. */
  readonly runTime: number
  /** The last id of each table that has a sequence. */
  readonly lastIds: ReadonlyMap<string, number>
}

/** A store that is to be moved. It is only read. */
export interface Source extends AsyncDisposable {
  /** Identifies its keyring. */
  readonly check: Buffer
  page(table: Table, after: Page<unknown> | undefined, limit: number): Promise<Page<unknown>>
  counters(): Promise<Counters>
  /** @throws CertError CERT_STORE_LOCKED if somebody has used it since it was opened */
  assertUnused(): Promise<void>
}

/** What is in a target: a store that was moved there, completely or in part, by the check of its keyring. */
export interface Found {
  readonly check: Buffer
  readonly isFinished: boolean
}

/** Where a store is moved to. No service uses it before it is finished. */
export interface Target extends AsyncDisposable {
  /** `undefined` for an empty one. */
  readonly found: Found | undefined
  /** Makes an empty target of what is there, for the store with this keyring. */
  begin(check: Buffer): Promise<void>
  /** The rows with the keys of these, in any order. */
  find(table: Table, rows: readonly Row[]): Promise<readonly Row[]>
  count(table: Table): Promise<number>
  /** Adds rows, all or none. Gives false if they contradict what is there. */
  insert(table: Table, rows: readonly Row[]): Promise<boolean>
  /** Makes the target a store of its own. */
  finish(counters: Counters): Promise<void>
}

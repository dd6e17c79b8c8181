import { existsSync } from 'node:fs'
import { readdir, rename, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { pathToFileURL } from 'node:url'
import { isDeepStrictEqual } from 'node:util'
import { makeFolder } from '@gatehouse/service-kit/files'
import { createEmpty, lockFile } from '@gatehouse/service-kit/lock'
import {
  asStoreError,
  migrateSqlite,
  Sqlite,
  SqliteHealth,
  StoreError,
  storeUnavailable,
} from '@gatehouse/store'
import { syncFolder } from '../files.ts'
import { Leases } from '../orders/leases.ts'
import type { Store } from '../port/store.ts'
import { MIGRATIONS, OF_PROCESSES } from '../schema/tables.ts'
import { storeOn } from './whole.ts'

/** "GHcs": marks a SQLite file as a store of this service. */
export const APPLICATION_ID = 0x47486373
/** Milliseconds that a statement waits for another program's lock; the event loop waits with it. */
const BUSY_TIMEOUT_MS = 100
const SCHEMA = `
  SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY type, name`
const NOT_DATA = ['lock.db', 'lost+found']
const TEMPORARY = OF_PROCESSES.map((table) =>
  table.createdBy('sqlite').replace('CREATE TABLE', 'CREATE TEMP TABLE'),
).join(';\n')

export interface SqliteStoreOptions {
  readonly folder: string
  /** Milliseconds from a clock that nobody can set; default: how long this process has been running. */
  readonly elapsed?: (() => number) | undefined
}

/**
 * Opens the store in `folder`, made if absent, and keeps other processes off it until it is closed.
 * @throws StoreError STORE_LOCKED, STORE_CORRUPT, STORE_NEWER, STORE_UNRELEASED, STORE_UNAVAILABLE
 */
export async function openSqliteStore({ folder, elapsed }: SqliteStoreOptions): Promise<Store> {
  const unlock = await lockFolder(folder)
  try {
    const file = storeFile(folder)
    if (!existsSync(file)) await createStoreFile(folder)
    return sqliteStore(connect(file), { file, elapsed, closed: unlock })
  } catch (error) {
    unlock()
    throw asStoreError(error)
  }
}

interface Opened {
  readonly file: string
  readonly elapsed?: (() => number) | undefined
  closed(): void
}

/** The store of one process, over a connection. */
export function sqliteStore(sqlite: DatabaseSync, { file, elapsed, closed }: Opened): Store {
  sqlite.exec(`PRAGMA temp_store = MEMORY; ${TEMPORARY}`)
  const engine = new Sqlite(sqlite, { elapsed, file })
  const health = new SqliteHealth(engine, file)
  const close = async (): Promise<void> => {
    await engine.close()
    closed()
  }
  return {
    ...storeOn(engine, { leases: new Leases(engine) }),
    check: () => health.check(),
    inspect: (signal) => health.inspect(signal),
    failure: () => engine.failure(),
    isShared: false,
    isLeader: () => true,
    close,
    [Symbol.asyncDispose]: close,
  }
}

export function storeFile(folder: string): string {
  return join(folder, 'store.db')
}

/** An empty file, in which a store is made before it gets its name; whatever a killed process left there is taken away. */
export async function emptyDraft(
  folder: string,
  draft = `${storeFile(folder)}.new`,
): Promise<string> {
  await Promise.all(['', '-journal', '-wal', '-shm'].map((end) => rm(draft + end, { force: true })))
  createEmpty(draft)
  return draft
}

/** @throws StoreError STORE_NOT_EMPTY if the folder holds anything but a draft */
export async function requireEmpty(folder: string, draft: string): Promise<void> {
  const entry = (await readdir(folder)).find(
    (name) => !NOT_DATA.includes(name) && !name.startsWith(basename(draft)),
  )
  if (entry === undefined) return
  throw new StoreError('STORE_NOT_EMPTY', `${folder} holds ${entry} already.`)
}

/**
 * Whether the store of `folder` was ever given a master key: one that was killed at its first start was not.
 * Reads the file alone and changes nothing, also beside a running service.
 */
export function hasMasterKey(folder: string): boolean {
  const url = pathToFileURL(storeFile(folder))
  url.search = 'immutable=1'
  using sqlite = new DatabaseSync(url, { readOnly: true })
  return sqlite.prepare('SELECT 1 FROM master_key').get() !== undefined
}

/** @throws StoreError STORE_MISSING unless `folder` has a store */
export function requireStore(folder: string): void {
  if (existsSync(storeFile(folder))) return
  throw new StoreError('STORE_MISSING', `There is no store in ${folder}.`)
}

/** Takes the folder for this process, by a file lock that the system frees when it ends; gives what frees it. */
export async function lockFolder(folder: string): Promise<() => void> {
  const unlock = attemptLock(folder)
  if (unlock) return unlock
  throw new StoreError('STORE_LOCKED', `Another process is using ${folder}.`)
}

function attemptLock(folder: string): (() => void) | undefined {
  try {
    makeFolder(folder)
    return lockFile(join(folder, 'lock.db'))
  } catch (error) {
    const failure = asStoreError(error)
    if (failure instanceof StoreError) throw failure
    const { code } = error as NodeJS.ErrnoException
    throw storeUnavailable(`${folder} cannot be written (${code})`, error)
  }
}

/** Opens a store's file, which must be one, with today's schema. */
export function connect(file: string): DatabaseSync {
  const sqlite = new DatabaseSync(file, { timeout: BUSY_TIMEOUT_MS, defensive: true })
  try {
    assertStore(sqlite, file)
    sqlite.exec(`
      PRAGMA journal_mode = WAL;
      PRAGMA synchronous = FULL;
      PRAGMA secure_delete = FAST;
      PRAGMA wal_autocheckpoint = 4000;
      PRAGMA journal_size_limit = 67108864`)
    migrateSqlite(sqlite, MIGRATIONS)
    return sqlite
  } catch (error) {
    sqlite.close()
    throw error
  }
}

/** @throws StoreError STORE_CORRUPT for an empty file and for the database of another program */
export function assertStore(sqlite: DatabaseSync, file: string): void {
  if (sqlite.prepare('PRAGMA application_id').get()?.application_id === APPLICATION_ID) return
  throw new StoreError('STORE_CORRUPT', `${file} is not a store.`)
}

/** @throws StoreError STORE_CORRUPT unless every page, row and index is sound */
export function checkIntegrity(sqlite: DatabaseSync): void {
  const faults = sqlite.prepare('PRAGMA integrity_check(1)').all()
  const orphans = sqlite.prepare('PRAGMA foreign_key_check').all()
  if (faults[0]?.integrity_check === 'ok' && orphans.length === 0) return
  throw new StoreError('STORE_CORRUPT', 'The store is damaged.')
}

/** @throws StoreError STORE_CORRUPT for tables, indexes, triggers or views that no migration has made */
export function checkSchema(sqlite: DatabaseSync): void {
  using made = new DatabaseSync(':memory:')
  migrateSqlite(made, MIGRATIONS)
  if (isDeepStrictEqual(sqlite.prepare(SCHEMA).all(), made.prepare(SCHEMA).all())) return
  throw new StoreError('STORE_CORRUPT', 'The store has unexpected tables.')
}

/** A store comes into being whole, so an empty file of its name is a damaged one. */
async function createStoreFile(folder: string): Promise<void> {
  const file = storeFile(folder)
  if (existsSync(`${file}-wal`))
    throw new StoreError('STORE_CORRUPT', `${file} is missing, but its log is there.`)
  const draft = await emptyDraft(folder)
  initialise(draft)
  await rename(draft, file)
  await syncFolder(folder)
}

/** Makes an empty file a store without data. */
export function initialise(file: string): void {
  using sqlite = new DatabaseSync(file)
  migrateSqlite(sqlite, MIGRATIONS)
  sqlite.exec(`PRAGMA application_id = ${APPLICATION_ID}`)
}

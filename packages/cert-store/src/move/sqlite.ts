import { existsSync } from 'node:fs'
import { rename } from 'node:fs/promises'
import { DatabaseSync } from 'node:sqlite'
import { attempt } from '@gatehouse/net'
import {
  asStoreError,
  type Engine,
  requireMigratedSqlite,
  Sqlite,
  StoreError,
} from '@gatehouse/store'
import {
  assertStore,
  checkIntegrity,
  connect,
  emptyDraft,
  initialise,
  lockFolder,
  requireEmpty,
  requireStore,
  storeFile,
} from '../engines/sqlite.ts'
import { findUnfinished, noteUnfinished } from '../engines/unfinished.ts'
import { syncFolder } from '../files.ts'
import { MASTER_KEY, MIGRATIONS } from '../schema/tables.ts'
import type { Found, Source, Target } from './copy.ts'

/**
 * @throws StoreError STORE_MISSING, STORE_LOCKED, STORE_CORRUPT, STORE_NEWER, STORE_UNRELEASED
 */
export async function openSqliteSource(folder: string): Promise<Source> {
  requireStore(folder)
  return open(folder, async (held) => {
    const sqlite = openExisting(folder, held)
    checkIntegrity(sqlite)
    const db = engineOn(sqlite)
    const keyring = await MASTER_KEY.find(db, '')
    if (!keyring) throw new StoreError('STORE_MISSING', `The store in ${folder} has no keys yet.`)
    return {
      db,
      check: keyring.checkValue,
      // The lock has kept everybody off it.
      async assertUnused() {},
      [Symbol.asyncDispose]: async () => held.dispose(),
    }
  })
}

/** @throws StoreError STORE_LOCKED, STORE_NOT_EMPTY, STORE_CORRUPT, STORE_UNAVAILABLE */
export function openSqliteTarget(folder: string): Promise<Target> {
  return open(folder, async (held) => {
    const file = storeFile(folder)
    const draft = `${file}.move`
    const isFinished = existsSync(file)
    if (!isFinished) await requireEmpty(folder, draft)
    let sqlite = isFinished ? openExisting(folder, held) : openDraft(draft, held)
    return {
      found: sqlite && (await findStore(sqlite, isFinished)),
      async begin(check) {
        sqlite?.close()
        initialise(await emptyDraft(folder, draft))
        sqlite = held.use(connect(draft))
        const db = engineOn(sqlite)
        await noteUnfinished(db, check)
        return { db, check, isFinished: false }
      },
      async publish() {
        const whole = sqlite as DatabaseSync
        // One file, without a log beside it.
        whole.exec('PRAGMA journal_mode = DELETE')
        checkIntegrity(whole)
        whole.close()
        await rename(draft, file)
        await syncFolder(folder)
      },
      [Symbol.asyncDispose]: async () => held.dispose(),
    }
  })
}

/** A draft that was killed before it began, or just before it got its name, is made anew. */
async function findStore(sqlite: DatabaseSync, isFinished: boolean): Promise<Found | undefined> {
  const db = engineOn(sqlite)
  const keyring = isFinished ? await MASTER_KEY.find(db, '') : undefined
  const check = isFinished ? (keyring?.checkValue ?? Buffer.of()) : await findUnfinished(db)
  return check && { db, check, isFinished }
}

/** Makes an engine that is never closed: it would save the run time of the move. */
function engineOn(sqlite: DatabaseSync): Engine {
  return new Sqlite(sqlite)
}

/** Keeps others off a folder until what is held is disposed of, or `use` fails. */
async function open<Side>(
  folder: string,
  use: (held: DisposableStack) => Promise<Side>,
): Promise<Side> {
  const held = new DisposableStack()
  held.defer(await lockFolder(folder))
  try {
    return await use(held)
  } catch (error) {
    held.dispose()
    throw asStoreError(error)
  }
}

/** A store with today's schema, to be read. */
function openExisting(folder: string, held: DisposableStack): DatabaseSync {
  const file = storeFile(folder)
  const sqlite = held.use(new DatabaseSync(file, { readOnly: true }))
  assertStore(sqlite, file)
  requireMigratedSqlite(sqlite, MIGRATIONS)
  return sqlite
}

/** The rest of an earlier move; `undefined` if that was killed before it began. */
function openDraft(draft: string, held: DisposableStack): DatabaseSync | undefined {
  return existsSync(draft) ? attempt(() => held.use(connect(draft))) : undefined
}

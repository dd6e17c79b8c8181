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
import type { Source, Target, TargetStore } from './copy.ts'

/**
 * @throws StoreError STORE_MISSING, STORE_LOCKED, STORE_CORRUPT, STORE_NEWER, STORE_UNRELEASED
 */
export async function openSqliteSource(folder: string): Promise<Source> {
  requireStore(folder)
  return open(folder, async (resources) => {
    const sqlite = openExisting(folder, resources)
    checkIntegrity(sqlite)
    const db = engineOn(sqlite)
    const keyring = await MASTER_KEY.find(db, '')
    if (!keyring) throw new StoreError('STORE_MISSING', `The store in ${folder} has no keys yet.`)
    return {
      db,
      check: keyring.checkValue,
      // The lock has kept all other processes away.
      async assertUnused() {},
      [Symbol.asyncDispose]: async () => resources.dispose(),
    }
  })
}

/** @throws StoreError STORE_LOCKED, STORE_NOT_EMPTY, STORE_CORRUPT, STORE_UNAVAILABLE */
export function openSqliteTarget(folder: string): Promise<Target> {
  return open(folder, async (resources) => {
    const file = storeFile(folder)
    const draft = `${file}.move`
    const isFinished = existsSync(file)
    if (!isFinished) await requireEmpty(folder, draft)
    let sqlite = isFinished ? openExisting(folder, resources) : openDraft(draft, resources)
    return {
      existing: sqlite && (await findStore(sqlite, isFinished)),
      async begin(check) {
        sqlite?.close()
        initialise(await emptyDraft(folder, draft))
        sqlite = resources.use(connect(draft))
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
      [Symbol.asyncDispose]: async () => resources.dispose(),
    }
  })
}

/** A draft that was killed before it began, or just before it got its name, is made anew. */
async function findStore(
  sqlite: DatabaseSync,
  isFinished: boolean,
): Promise<TargetStore | undefined> {
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
  use: (resources: DisposableStack) => Promise<Side>,
): Promise<Side> {
  const resources = new DisposableStack()
  resources.defer(await lockFolder(folder))
  try {
    return await use(resources)
  } catch (error) {
    resources.dispose()
    throw asStoreError(error)
  }
}

/** A store with today's schema, to be read. */
function openExisting(folder: string, resources: DisposableStack): DatabaseSync {
  const file = storeFile(folder)
  const sqlite = resources.use(new DatabaseSync(file, { readOnly: true }))
  assertStore(sqlite, file)
  requireMigratedSqlite(sqlite, MIGRATIONS)
  return sqlite
}

/** The rest of an earlier move; `undefined` if that was killed before it began. */
function openDraft(draft: string, resources: DisposableStack): DatabaseSync | undefined {
  return existsSync(draft) ? attempt(() => resources.use(connect(draft))) : undefined
}

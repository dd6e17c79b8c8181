import { open, rm } from 'node:fs/promises'
import { StoreError, storeUnavailable } from '../errors.ts'

/** SQLite's primary result codes for transient conditions, in which the data is intact. */
const TRANSIENT = new Map([
  [5, 'it is locked by another program'],
  [6, 'it is locked'],
  [7, 'out of memory'],
  [8, 'it is read-only'],
  [10, 'the disk failed'],
  [13, 'the disk is full'],
  [14, 'its files cannot be opened'],
])
/** SQLITE_IOERR_SHMSIZE: there is no space for the shared memory of the write-ahead log. */
const TRANSIENT_EXTENDED = new Map([[4874, 'the disk is full']])
const DAMAGED = [11, 26]
const BUSY = 5
const CONSTRAINT = 19
/** The bytes on disk that a commit of any size needs at most. */
const ROOM = 65_536

interface SqliteError {
  readonly errcode?: number
  readonly message?: string
}

/** Whether another program is using the file. */
export function isBusy(error: unknown): boolean {
  return primaryOf(error) === BUSY
}

/** The error to report for one of SQLite's; one of another kind as it is. */
export function asStoreError(error: unknown): unknown {
  if (error instanceof StoreError) return error
  const { code, errcode, message } = Object(error) as { code?: string } & SqliteError
  if (code === 'ERR_INVALID_STATE') return storeUnavailable('it is closed', error)
  if (errcode === undefined) return error
  const primary = primaryOf(error)
  if (DAMAGED.includes(primary))
    return new StoreError('STORE_CORRUPT', 'The store is damaged or not a store.', { cause: error })
  const reason = TRANSIENT_EXTENDED.get(errcode) ?? TRANSIENT.get(primary)
  if (reason !== undefined) return storeUnavailable(reason, error)
  const constraint = primary === CONSTRAINT ? message : undefined
  const text = `The store rejects a statement: ${message} (SQLite ${errcode}).`
  return new StoreError('STORE_STATEMENT_FAILED', text, { constraint })
}

/** Demands room for a commit beside the file: what is rolled back needs less. @throws StoreError STORE_UNAVAILABLE */
export async function requireRoom(location: string): Promise<void> {
  try {
    const path = `${location}.room`
    await using file = await open(path, 'w', 0o600)
    await rm(path)
    await file.writeFile(Buffer.alloc(ROOM))
    await file.sync()
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const reason = code === 'ENOSPC' ? 'the disk is full' : `its folder gives ${code}`
    throw storeUnavailable(reason, error)
  }
}

function primaryOf(error: unknown): number {
  return ((error as { errcode?: number }).errcode ?? 0) & 0xff
}

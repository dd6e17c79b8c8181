import { constants, open, rename, rm } from 'node:fs/promises'
import { backup as copy, DatabaseSync } from 'node:sqlite'
import { pipeline } from 'node:stream/promises'
import { asStoreError, StoreError } from '@gatehouse/store'
import { CertStoreError } from './errors.ts'
import { createPrivateFile, fileError, syncFolder } from './files.ts'
import {
  assertStore,
  checkIntegrity,
  checkSchema,
  connect,
  emptyDraft,
  lockFolder,
  requireEmpty,
  requireStore,
  storeFile,
} from './sqlite.ts'

/** Pages of the file that are copied, as `node:sqlite` tells it. */
interface BackupProgress {
  readonly totalPages: number
  readonly remainingPages: number
}

interface Places {
  readonly folder: string
  readonly file: string
  /** Told what is being done. */
  readonly say?: (text: string) => void
}

/**
 * Copies the store of `folder`, as it is at one moment, into a new file; the service may run.
 * The keys in it are sealed: without the master key, which is not in it, they stay closed.
 * @throws CertStoreError CERT_STORE_MISSING, CERT_FILE_EXISTS, CERT_FILE_FAILED, STORE_CORRUPT
 */
export async function backup({ folder, file, say = () => {} }: Places): Promise<void> {
  requireStore(folder)
  await createPrivateFile(file, async (draft) => {
    try {
      await copyStore(storeFile(folder), draft, say)
      using sqlite = new DatabaseSync(draft)
      // One file, without a log beside it.
      sqlite.exec('PRAGMA journal_mode = DELETE')
      say('checking the copy')
      checkIntegrity(sqlite)
    } catch (error) {
      throw asStoreError(error)
    }
  })
}

async function copyStore(from: string, to: string, say: (text: string) => void): Promise<void> {
  say('copying the store')
  using source = new DatabaseSync(from, { readOnly: true })
  assertStore(source, from)
  // Held open, so that a busy service does not make the copy begin anew.
  source.exec('BEGIN; SELECT count(*) FROM sqlite_schema')
  const progress = ({ totalPages, remainingPages }: BackupProgress) => {
    const percent = Math.floor(100 * (1 - remainingPages / totalPages))
    say(`copying the store: ${percent} %`)
  }
  await copy(source, to, { progress })
}

/**
 * Makes a backup the store of `folder`, which has to be empty or absent. The master key that it was
 * made under has to be put in its place by hand.
 * @throws CertStoreError CERT_STORE_LOCKED, CERT_STORE_NOT_EMPTY, CERT_BACKUP_INVALID, STORE_NEWER,
 *   STORE_UNRELEASED, CERT_FILE_FAILED
 */
export async function restore({ folder, file, say = () => {} }: Places): Promise<void> {
  await using opened = new AsyncDisposableStack()
  opened.defer(await lockFolder(folder))
  const draft = await emptyDraft(folder)
  opened.defer(() => rm(draft, { force: true }))
  await requireEmpty(folder, draft)
  say('copying the backup')
  await copyInto(draft, file)
  say('checking the copy')
  verify(file, draft)
  await rename(draft, storeFile(folder))
  await syncFolder(folder)
}

async function copyInto(draft: string, file: string): Promise<void> {
  // Opening a pipe would wait for somebody to write.
  const flags = constants.O_RDONLY | constants.O_NONBLOCK
  await using source = await open(file, flags).catch((cause) => {
    throw new CertStoreError('CERT_BACKUP_INVALID', `Cannot read ${file} (${cause.code}).`, {
      cause,
    })
  })
  if (!(await source.stat()).isFile())
    throw new CertStoreError('CERT_BACKUP_INVALID', `${file} is not a file.`)
  try {
    await using target = await open(draft, 'w')
    await pipeline(source.createReadStream(), target.createWriteStream({ flush: true }))
  } catch (error) {
    throw fileError(draft, error)
  }
}

function verify(file: string, draft: string): void {
  try {
    using sqlite = connect(draft)
    checkIntegrity(sqlite)
    checkSchema(sqlite)
  } catch (cause) {
    const failure = asStoreError(cause)
    if (!(failure instanceof StoreError) || failure.code !== 'STORE_CORRUPT') throw failure
    throw new CertStoreError('CERT_BACKUP_INVALID', `${file} is not a whole backup.`, { cause })
  }
}

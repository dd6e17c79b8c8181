import { backup as copy, DatabaseSync } from 'node:sqlite'
import { createPrivateFile } from '../files.ts'
import { storeFailure } from '../store/database.ts'
import { assertStore, checkIntegrity, requireStore, storeFile } from '../store/open.ts'

/**
 * Copies the store of `folder`, as it is at one moment, into a new file; the service may run.
 * The keys in it are sealed: without the master key, which is not in it, they stay closed.
 *
 * @throws CertError CERT_STORE_MISSING, CERT_FILE_EXISTS, CERT_FILE_FAILED, CERT_STORE_CORRUPT
 */
export async function backup({ folder, file }: { folder: string; file: string }): Promise<void> {
  requireStore(folder)
  await createPrivateFile(file, async (draft) => {
    try {
      await copyStore(storeFile(folder), draft)
      foldIn(draft)
    } catch (error) {
      throw storeFailure(error) ?? error
    }
  })
}

async function copyStore(from: string, to: string): Promise<void> {
  const source = new DatabaseSync(from, { readOnly: true })
  try {
    assertStore(source, from)
    // Held open, so that a busy service does not make the copy begin anew.
    source.exec('BEGIN; SELECT count(*) FROM sqlite_schema')
    await copy(source, to)
  } finally {
    source.close()
  }
}

/** Makes the copy one file, without a log beside it, and sees that it is sound. */
function foldIn(file: string): void {
  const sqlite = new DatabaseSync(file)
  try {
    sqlite.exec('PRAGMA journal_mode = DELETE')
    checkIntegrity(sqlite)
  } finally {
    sqlite.close()
  }
}

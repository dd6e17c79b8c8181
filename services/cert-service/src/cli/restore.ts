import { open, readdir, rename, rm } from 'node:fs/promises'
import { basename } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { CertError } from '../errors.ts'
import { fileError, syncFolder } from '../files.ts'
import { storeFailure } from '../store/database.ts'
import { checkIntegrity, connect, emptyDraft, lockFolder, storeFile } from '../store/open.ts'

const NOT_DATA = ['lock.db', 'lost+found']

/**
 * Makes a backup the store of `folder`, which has to be empty or absent. The master key that it was
 * made under has to be put in its place by hand.
 *
 * @throws CertError CERT_STORE_LOCKED, CERT_STORE_NOT_EMPTY, CERT_BACKUP_INVALID, CERT_STORE_NEWER, CERT_FILE_FAILED
 */
export async function restore({ folder, file }: { folder: string; file: string }): Promise<void> {
  const unlock = await lockFolder(folder)
  try {
    const draft = await emptyDraft(folder)
    try {
      await requireEmpty(folder, draft)
      await copyInto(draft, file)
      verify(file, draft)
      await rename(draft, storeFile(folder))
      await syncFolder(folder)
    } finally {
      await rm(draft, { force: true })
    }
  } finally {
    unlock()
  }
}

async function requireEmpty(folder: string, draft: string): Promise<void> {
  const known = [...NOT_DATA, basename(draft)]
  const found = (await readdir(folder)).find((name) => !known.includes(name))
  if (found === undefined) return
  throw new CertError('CERT_STORE_NOT_EMPTY', `${folder} holds ${found} already.`)
}

async function copyInto(draft: string, file: string): Promise<void> {
  await using source = await open(file, 'r').catch((cause) => {
    throw new CertError('CERT_BACKUP_INVALID', `Cannot read ${file} (${cause.code}).`, { cause })
  })
  try {
    await using target = await open(draft, 'w')
    await pipeline(source.createReadStream(), target.createWriteStream({ flush: true }))
  } catch (error) {
    throw fileError(draft, error)
  }
}

function verify(file: string, draft: string): void {
  try {
    const sqlite = connect(draft)
    try {
      checkIntegrity(sqlite)
    } finally {
      sqlite.close()
    }
  } catch (cause) {
    const failure = storeFailure(cause)
    if (failure?.code !== 'CERT_STORE_CORRUPT') throw failure ?? cause
    throw new CertError('CERT_BACKUP_INVALID', `${file} is not a whole backup.`, { cause })
  }
}

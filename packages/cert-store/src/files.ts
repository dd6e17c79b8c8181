import { existsSync } from 'node:fs'
import { open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { TitledError } from '@gatehouse/net'
import { CertStoreError } from './errors.ts'

/**
 * Makes a new file for its owner alone, which appears when `fill` has filled its draft and not before.
 * @throws CertStoreError CERT_FILE_FAILED, and each {@link TitledError} of `fill`
 */
export async function createPrivateFile(
  path: string,
  fill: (draft: string) => Promise<void>,
): Promise<void> {
  if (existsSync(path)) throw new CertStoreError('CERT_FILE_FAILED', `${path} exists already.`)
  const draft = `${path}.draft`
  try {
    await rm(draft, { force: true })
    await (await open(draft, 'wx', 0o600)).close()
    await fill(draft)
    await rename(draft, path)
    await syncFolder(dirname(path))
  } catch (error) {
    await rm(draft, { force: true }).catch(() => {})
    throw fileError(path, error)
  }
}

/** Makes new, renamed and removed entries of a folder outlive a power loss. */
export async function syncFolder(path: string): Promise<void> {
  await using folder = await open(path, 'r')
  await folder.sync()
}

/** Gives the error to report when a file cannot be written. */
export function fileError(path: string, cause: unknown): TitledError {
  if (cause instanceof TitledError) return cause
  const { code } = cause as NodeJS.ErrnoException
  return new CertStoreError('CERT_FILE_FAILED', `Cannot write ${path} (${code}).`, { cause })
}

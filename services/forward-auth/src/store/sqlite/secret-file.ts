import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { link, open, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { makeFolder } from '@gatehouse/service-kit/files'
import { FwaError } from '../../errors.ts'
import { MIN_SECRET_LENGTH } from '../../keys/key-ring.ts'
import type { SecretName } from '../store.ts'

/** The file of a secret in the folder of the store. */
export const SECRET_FILES: Readonly<Record<SecretName, string>> = {
  session: 'session.key',
  assertion: 'assertion.key',
}

export function assertStoredSecret(text: string): void {
  if (text.trim().length < MIN_SECRET_LENGTH)
    throw new Error(`holds a key of fewer than ${MIN_SECRET_LENGTH} characters`)
}

/** Reads a secret, or generates it at the first start. Throws FwaError FWA_KEY_UNUSABLE. */
export async function storedSecret(folder: string, name: SecretName): Promise<string> {
  const file = join(folder, SECRET_FILES[name])
  try {
    makeFolder(folder)
    if (!existsSync(file)) await generate(folder, file)
    const secret = (await readFile(file, 'utf8')).trim()
    assertStoredSecret(secret)
    return secret
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException
    const why = code ?? message
    throw new FwaError('FWA_KEY_UNUSABLE', `${file} cannot be read or made (${why})`, { cause })
  }
}

/** Links a complete file into place; if several instances start at once, the first one wins. */
async function generate(folder: string, file: string): Promise<void> {
  const draft = `${file}.${randomBytes(8).toString('hex')}`
  try {
    await using handle = await open(draft, 'wx', 0o600)
    await handle.writeFile(`${randomBytes(32).toString('base64url')}\n`)
    await handle.sync()
    await link(draft, file).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error
    })
    await using entries = await open(folder, 'r')
    await entries.sync()
  } finally {
    await rm(draft, { force: true })
  }
}

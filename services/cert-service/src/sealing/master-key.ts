import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  hkdfSync,
  type KeyObject,
  randomBytes,
  timingSafeEqual,
} from 'node:crypto'
import { existsSync, realpathSync } from 'node:fs'
import { open, rename, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, join, relative, resolve, sep } from 'node:path'
import { makeFolder } from '@gatehouse/service-kit'
import { CertError } from '../errors.ts'
import { createPrivateFile, fileError, syncFolder } from '../files.ts'

/** The key that wraps the data keys. Its file lies outside of the data folder. */
export interface MasterKey {
  /** Identifies this key without revealing anything about it. */
  readonly check: Buffer
  /** Encrypts a data key. It only unwraps with the same `label`. */
  wrap(dataKey: Uint8Array, label: string): Buffer
  /** @throws CertError CERT_SEAL_BROKEN */
  unwrap(wrapped: Uint8Array, label: string): Buffer
}

export const NONCE_BYTES = 12
const TAG_BYTES = 16
const KEY_BYTES = 32
const TEXT = /^[A-Za-z0-9+/]{43}=$/
const OTHERS_OR_GROUP_WRITE = 0o027

/**
 * The key in `file`, or `undefined` if there is no such file.
 *
 * @throws CertError CERT_MASTER_KEY_INVALID, CERT_MASTER_KEY_EXPOSED
 */
export async function readMasterKey(file: string): Promise<MasterKey | undefined> {
  const found = await readStart(file)
  if (!found) return undefined
  assertMasterKey(file, found)
  return masterKey(Buffer.from(found.text, 'base64'))
}

/**
 * Checks the mode and the content of a key file.
 *
 * @throws CertError CERT_MASTER_KEY_EXPOSED, CERT_MASTER_KEY_INVALID
 */
export function assertMasterKey(
  file: string,
  { mode, text }: { readonly mode: number; readonly text: string },
): void {
  if ((mode & OTHERS_OR_GROUP_WRITE) !== 0)
    throw new CertError('CERT_MASTER_KEY_EXPOSED', `${file} is open to other users.`)
  if (!TEXT.test(text.trimEnd()))
    throw new CertError('CERT_MASTER_KEY_INVALID', `${file} does not hold 32 bytes in base64.`)
}

/** Creates a key in a new file. @throws CertError CERT_FILE_EXISTS, CERT_FILE_FAILED */
export async function createMasterKey(file: string): Promise<MasterKey> {
  const bytes = randomBytes(KEY_BYTES)
  try {
    makeFolder(dirname(file))
  } catch (error) {
    throw fileError(file, error)
  }
  const text = `${bytes.toString('base64')}\n`
  await createPrivateFile(file, (draft) => writeFile(draft, text, { flush: true }))
  return masterKey(bytes)
}

/**
 * The key that a store was sealed with. Also completes an interrupted rotation: `<file>.next` takes
 * the place of `file` if the store is already wrapped by it, and is deleted otherwise.
 *
 * @throws CertError CERT_MASTER_KEY_MISSING, CERT_MASTER_KEY_WRONG, and as {@link readMasterKey}
 */
export async function matchMasterKey(file: string, check: Uint8Array): Promise<MasterKey> {
  const fits = (key: MasterKey | undefined) =>
    key !== undefined && timingSafeEqual(key.check, check)

  const key = await readMasterKey(file)
  if (key && fits(key)) {
    await rm(nextFile(file), { force: true })
    return key
  }
  const next = await readMasterKey(nextFile(file))
  if (next && fits(next)) {
    await adoptNextMasterKey(file)
    return next
  }
  throw key
    ? new CertError('CERT_MASTER_KEY_WRONG', `The key in ${file} is not the key of this store.`)
    : new CertError(
        'CERT_MASTER_KEY_MISSING',
        `${file} does not exist, and the store needs its key.`,
      )
}

/** Where a rotation stores the next key until the store is wrapped by it. */
export function nextFile(file: string): string {
  return `${file}.next`
}

/** Replaces the old key by the next one. */
export async function adoptNextMasterKey(file: string): Promise<void> {
  await rename(nextFile(file), file)
  await syncFolder(dirname(file))
}

/** @throws CertError CERT_MASTER_KEY_MISPLACED if the key lies inside of the data folder, so that a copy of it reveals everything */
export function refuseBeside(file: string, folder: string): void {
  const data = realpath(folder)
  const paths = [join(realpath(dirname(file)), basename(file)), realpath(file)]
  if (paths.every((path) => relative(data, path).split(sep)[0] === '..')) return
  throw new CertError('CERT_MASTER_KEY_MISPLACED', `${file} is inside the data folder ${folder}.`)
}

/** Mode and first 64 bytes of a file, which is longer than a key; `undefined` if there is no file. */
async function readStart(file: string): Promise<{ mode: number; text: string } | undefined> {
  try {
    await using handle = await open(file, 'r')
    const { mode } = await handle.stat()
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(64))
    return { mode, text: buffer.toString('latin1', 0, bytesRead).trimEnd() }
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    if (code === 'ENOENT') return undefined
    throw new CertError('CERT_MASTER_KEY_INVALID', `Cannot read ${file} (${code}).`, { cause })
  }
}

function masterKey(bytes: Buffer): MasterKey {
  const wrapping = derive(bytes, 'gatehouse wrap')
  return {
    check: createHmac('sha256', derive(bytes, 'gatehouse check')).digest(),
    wrap: (dataKey, label) =>
      encrypt(wrapping, randomBytes(NONCE_BYTES), dataKey, [Buffer.from(label)]),
    unwrap(wrapped, label) {
      try {
        return decrypt(wrapping, wrapped, [Buffer.from(label)])
      } catch (cause) {
        throw new CertError('CERT_SEAL_BROKEN', `Data key ${label} was changed.`, { cause })
      }
    },
  }
}

/** AES-256-GCM: gives nonce, ciphertext and tag. `associated` is authenticated but not included. */
export function encrypt(
  key: KeyObject,
  nonce: Uint8Array,
  plain: Uint8Array,
  associated: readonly Uint8Array[],
): Buffer {
  const cipher = createCipheriv('aes-256-gcm', key, nonce)
  for (const part of associated) cipher.setAAD(part)
  return Buffer.concat([nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()])
}

/** Reverses {@link encrypt}. @throws Error unless key, text and associated data are the same */
export function decrypt(
  key: KeyObject,
  sealed: Uint8Array,
  associated: readonly Uint8Array[],
): Buffer {
  const nonce = sealed.subarray(0, NONCE_BYTES)
  const tag = sealed.subarray(-TAG_BYTES)
  const cipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES })
  for (const part of associated) cipher.setAAD(part)
  cipher.setAuthTag(tag)
  return Buffer.concat([cipher.update(sealed.subarray(NONCE_BYTES, -TAG_BYTES)), cipher.final()])
}

function derive(bytes: Buffer, info: string): KeyObject {
  return createSecretKey(Buffer.from(hkdfSync('sha256', bytes, '', info, KEY_BYTES)))
}

function realpath(path: string): string {
  return existsSync(path) ? realpathSync(path) : resolve(path)
}

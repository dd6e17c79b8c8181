import {
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
import { decrypt, encrypt, NONCE_BYTES } from './aes-gcm.ts'

/** The key over the data keys: its file never lies beside what it protects. */
export interface MasterKey {
  /** Tells this key from every other, and nothing about it. */
  readonly check: Buffer
  /** Encrypts a data key. `label` says which one, and has to be the same again to unwrap. */
  wrap(dataKey: Uint8Array, label: string): Buffer
  /** @throws CertError CERT_SEAL_BROKEN */
  unwrap(wrapped: Uint8Array, label: string): Buffer
}

const KEY_BYTES = 32
const TEXT = /^[A-Za-z0-9+/]{43}=$/
const OTHERS_OR_GROUP_WRITE = 0o027

/** The key in `file`, or `undefined` without such a file. @throws CertError CERT_MASTER_KEY_INVALID, CERT_MASTER_KEY_EXPOSED */
export async function readMasterKey(file: string): Promise<MasterKey | undefined> {
  const found = await readStart(file)
  if (!found) return undefined
  assertMasterKey(file, found)
  return masterKey(Buffer.from(found.text, 'base64'))
}

/**
 * Judges the content of a key's file and its mode.
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

/** Makes a new key in a new file. @throws CertError CERT_FILE_EXISTS, CERT_FILE_FAILED */
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
 * The key that a store was sealed with. Also ends a rotation that was cut short: `<file>.next` is
 * the key once the store is wrapped by it, and nothing before.
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
    ? new CertError('CERT_MASTER_KEY_WRONG', `The key in ${file} is not the one of this store.`)
    : new CertError('CERT_MASTER_KEY_MISSING', `There is no ${file}, and the store needs its key.`)
}

/** Where the coming key waits during a rotation. */
export function nextFile(file: string): string {
  return `${file}.next`
}

/** Puts the coming key in the place of the old one. */
export async function adoptNextMasterKey(file: string): Promise<void> {
  await rename(nextFile(file), file)
  await syncFolder(dirname(file))
}

/** @throws CertError CERT_MASTER_KEY_MISPLACED when a copy of the data folder would hold the key to it */
export function refuseBeside(file: string, folder: string): void {
  const data = realpath(folder)
  const places = [join(realpath(dirname(file)), basename(file)), realpath(file)]
  if (places.every((place) => relative(data, place).split(sep)[0] === '..')) return
  throw new CertError('CERT_MASTER_KEY_MISPLACED', `${file} is inside the data folder ${folder}.`)
}

/** More than a key is long, whatever the file's size. */
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

function derive(bytes: Buffer, info: string): KeyObject {
  return createSecretKey(Buffer.from(hkdfSync('sha256', bytes, '', info, KEY_BYTES)))
}

function realpath(path: string): string {
  return existsSync(path) ? realpathSync(path) : resolve(path)
}

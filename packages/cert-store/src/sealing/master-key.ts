import { randomBytes, timingSafeEqual } from 'node:crypto'
import { existsSync, realpathSync } from 'node:fs'
import { open, rename, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, join, relative, resolve, sep } from 'node:path'
import { makeFolder } from '@gatehouse/service-kit/files'
import { StoreError } from '@gatehouse/store'
import { CertStoreError } from '../errors.ts'
import { createPrivateFile, fileError, syncFolder } from '../files.ts'
import type { Store } from '../port/store.ts'
import { dataKeyLabel, KEY_BYTES, Keyring, MasterKey, openDataKeys } from './keyring.ts'

interface KeyringOptions {
  readonly masterKeyFile: string
  /** The key itself, in base64, in place of the file. */
  readonly masterKey?: string | undefined
  /** The data folder, which must not contain the master key. A shared store has none. */
  readonly folder?: string | undefined
  readonly store: Pick<Store, 'loadKeyring' | 'createKeyring' | 'addDataKey' | 'countSeals'>
}

const TEXT = /^[A-Za-z0-9+/]{43}=$/
const OTHERS_OR_GROUP_WRITE = 0o027

/**
 * Opens the keyring of a store. A store without one gets a new keyring, and a master key if the file
 * does not exist and the store is not shared; a store that has one never gets a new master key here.
 * @throws CertStoreError CERT_MASTER_KEY_UNUSABLE
 */
export async function openKeyring(options: KeyringOptions): Promise<Keyring> {
  const { masterKeyFile: file, masterKey, folder, store } = options
  if (masterKey === undefined && folder !== undefined) refuseBeside(file, folder)
  const stored = await store.loadKeyring()
  const configuredKey =
    masterKey === undefined ? undefined : new MasterKey(Buffer.from(masterKey, 'base64'))
  const master = stored
    ? await matchMasterKey(file, stored.check, configuredKey)
    : (configuredKey ?? (await readMasterKey(file)) ?? (await firstMasterKey(options)))
  // Another replica may have begun the keyring meanwhile: then its key is what counts.
  if (!stored && !(await store.createKeyring(master.check))) return openKeyring(options)
  return new Keyring(await openDataKeys({ store, stored, master }))
}

/** A key that one replica creates would not be known to the others. */
async function firstMasterKey({ masterKeyFile: file, folder }: KeyringOptions): Promise<MasterKey> {
  if (folder !== undefined) return createMasterKey(file)
  throw unusable(
    `${file} does not exist. Create it once, with \`openssl rand -base64 32\`, and give each replica a copy.`,
  )
}

async function readMasterKey(file: string): Promise<MasterKey | undefined> {
  const start = await readStart(file)
  if (!start) return undefined
  assertMasterKey(file, start)
  return new MasterKey(Buffer.from(start.text, 'base64'))
}

/** @throws CertStoreError CERT_MASTER_KEY_UNUSABLE */
export function assertMasterKey(
  file: string,
  { mode, text }: { readonly mode: number; readonly text: string },
): void {
  if ((mode & OTHERS_OR_GROUP_WRITE) !== 0) throw unusable(`${file} is open to other users.`)
  if (!TEXT.test(text.trimEnd())) throw unusable(`${file} does not hold 32 bytes in base64.`)
}

/** Creates a key in a new file. @throws CertStoreError CERT_FILE_FAILED */
export async function createMasterKey(file: string): Promise<MasterKey> {
  const bytes = randomBytes(KEY_BYTES)
  try {
    makeFolder(dirname(file))
  } catch (error) {
    throw fileError(file, error)
  }
  const text = `${bytes.toString('base64')}\n`
  await createPrivateFile(file, (draft) => writeFile(draft, text, { flush: true }))
  return new MasterKey(bytes)
}

/**
 * Finds the key that a store was sealed with, which is `given` or in the file. Also completes an interrupted rotation:
 * `<file>.next` takes the place of `file` if the store is already wrapped by it, and is deleted otherwise.
 * @throws CertStoreError CERT_MASTER_KEY_UNUSABLE
 */
async function matchMasterKey(
  file: string,
  check: Uint8Array,
  configuredKey?: MasterKey,
): Promise<MasterKey> {
  if (configuredKey && timingSafeEqual(configuredKey.check, check)) return configuredKey
  if (configuredKey) throw unusable('`storage.masterKey` is not the key of this store.')
  const key = await readMasterKey(file)
  if (key && timingSafeEqual(key.check, check)) {
    await rm(nextFile(file), { force: true })
    return key
  }
  const next = await readMasterKey(nextFile(file))
  if (next && timingSafeEqual(next.check, check)) {
    await adoptNextMasterKey(file)
    return next
  }
  throw key
    ? unusable(`The key in ${file} is not the key of this store.`)
    : unusable(`${file} does not exist, and the store needs its key.`)
}

/**
 * Puts a new master key in the place of the old one and wraps the data keys anew. Cut short at any
 * point, the store opens with the one key or the other, and the next start tidies up.
 * @throws StoreError STORE_MISSING; CertStoreError CERT_MASTER_KEY_UNUSABLE, CERT_FILE_FAILED
 */
export async function replaceMasterKey(
  store: Pick<Store, 'loadKeyring' | 'replaceKeyring'>,
  file: string,
): Promise<void> {
  const keyring = await store.loadKeyring()
  if (!keyring) throw new StoreError('STORE_MISSING', 'The store has no keys yet.')
  const old = await matchMasterKey(file, keyring.check)
  const next = await createMasterKey(nextFile(file))
  const dataKeys = keyring.dataKeys.map((record) => {
    const dataKey = old.unwrap(record.wrapped, dataKeyLabel(record))
    return { ...record, wrapped: next.wrap(dataKey, dataKeyLabel(record)) }
  })
  if (!(await store.replaceKeyring({ check: next.check, dataKeys }, old.check)))
    throw unusable('The master key was replaced meanwhile.')
  await adoptNextMasterKey(file)
}

/** Returns the file where a rotation stores the next key until the store is wrapped by it. */
export function nextFile(file: string): string {
  return `${file}.next`
}

async function adoptNextMasterKey(file: string): Promise<void> {
  await rename(nextFile(file), file)
  await syncFolder(dirname(file))
}

/** @throws CertStoreError CERT_MASTER_KEY_UNUSABLE if the key lies inside of the data folder, so that a copy of it reveals everything */
export function refuseBeside(file: string, folder: string): void {
  const data = realpath(folder)
  const paths = [join(realpath(dirname(file)), basename(file)), realpath(file)]
  if (paths.every((path) => relative(data, path).split(sep)[0] === '..')) return
  throw unusable(`${file} is inside the data folder ${folder}.`)
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
    throw unusable(`Cannot read ${file} (${code}).`, { cause })
  }
}

function realpath(path: string): string {
  return existsSync(path) ? realpathSync(path) : resolve(path)
}

function unusable(message: string, options?: ErrorOptions): CertStoreError {
  return new CertStoreError('CERT_MASTER_KEY_UNUSABLE', message, options)
}

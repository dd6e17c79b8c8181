import { hash, hkdfSync, randomBytes } from 'node:crypto'
import { link, open, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { makeFolder } from '@gatehouse/service-kit'
import { FwaError } from '../errors.ts'

/** 32 bytes for one purpose, and what tells them apart from other such keys. */
export interface Key {
  readonly kid: string
  readonly secret: Buffer
}

/** The keys for one purpose. */
export interface KeyRing {
  /** Signs or seals what is new. */
  readonly first: Key
  /** Verify or open what there is, the first one included. */
  readonly all: readonly Key[]
}

/** Keys by purpose, so that nothing made for one passes for the other. */
export interface Keys {
  readonly session: KeyRing
  readonly login: KeyRing
}

/** Where in `storage.path` the key of sessions is kept. */
export const KEY_FILE = 'session.key'
const MIN_LENGTH = 32

/**
 * The keys of the configured secrets, or of one that is made at the first start and kept in `folder`.
 *
 * @throws FwaError FWA_KEY_UNUSABLE
 */
export async function loadKeys({
  secrets,
  folder,
}: {
  readonly secrets: readonly string[] | undefined
  readonly folder: string
}): Promise<Keys> {
  const all = secrets ?? [await keptSecret(folder)]
  return { session: derive(all, 'session'), login: derive(all, 'login') }
}

/** @throws Error unless a kept key can be used */
export function assertKeptSecret(text: string): void {
  if (text.trim().length < MIN_LENGTH)
    throw new Error(`holds a key of less than ${MIN_LENGTH} characters`)
}

function derive(secrets: readonly string[], purpose: keyof Keys): KeyRing {
  const all = secrets.map((secret) => deriveKey(secret, purpose))
  const [first] = all
  if (!first) throw new FwaError('FWA_KEY_UNUSABLE', 'there is no secret')
  return { first, all }
}

/** RFC 5869. The digest is that of the derived key: everyone who has a token sees it. */
function deriveKey(secret: string, purpose: keyof Keys): Key {
  if (secret.length < MIN_LENGTH)
    throw new FwaError('FWA_KEY_UNUSABLE', `a secret has less than ${MIN_LENGTH} characters`)
  const key = Buffer.from(hkdfSync('sha256', secret, '', `gatehouse forward-auth ${purpose}`, 32))
  return { kid: hash('sha256', key, 'base64url').slice(0, 16), secret: key }
}

async function keptSecret(folder: string): Promise<string> {
  const file = join(folder, KEY_FILE)
  try {
    makeFolder(folder)
    const kept = await read(file)
    if (kept !== undefined) return kept
    await keep(folder, file)
    return (await read(file)) ?? ''
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new FwaError('FWA_KEY_UNUSABLE', `${file} cannot be read or made (${code})`, { cause })
  }
}

async function read(file: string): Promise<string | undefined> {
  try {
    return (await readFile(file, 'utf8')).trim()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/** Appears whole or not at all; of several instances that start at once the first one makes it. */
async function keep(folder: string, file: string): Promise<void> {
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

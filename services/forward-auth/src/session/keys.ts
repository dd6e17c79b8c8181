import { hash, hkdfSync, randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { link, open, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { makeFolder } from '@gatehouse/service-kit'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { ForwardAuthConfig } from '../config/schema.ts'
import { FwaError } from '../errors.ts'
import { AssertionKeys } from './assertion-keys.ts'

/** 32 bytes for one purpose, and their key ID. */
export interface Key {
  readonly kid: string
  readonly secret: Buffer
}

export interface KeyRing {
  readonly first: Key
  /** Verify or open; includes the first one. */
  readonly all: readonly Key[]
}

/** Keys by purpose: a key for one purpose is of no use for the others. */
export interface Keys {
  readonly session: KeyRing
  readonly login: KeyRing
  readonly assertion: AssertionKeys
}

export const KEY_FILE = 'session.key'
export const ASSERTION_KEY_FILE = 'assertion.key'
const MIN_LENGTH = 32

/**
 * Derives the keys of sessions from the configured secrets, or from one that is generated at the
 * first start and stored in `folder`; those of assertions always from such a one.
 */
export async function loadKeys({
  secrets,
  folder,
}: {
  readonly secrets: readonly string[] | undefined
  readonly folder: string
}): Promise<Keys> {
  const all = secrets ?? [await storedSecret(folder, KEY_FILE)]
  const assertion = new AssertionKeys(await storedSecret(folder, ASSERTION_KEY_FILE))
  return { session: derive(all, 'session'), login: derive(all, 'login'), assertion }
}

export function assertStoredSecret(text: string): void {
  if (text.trim().length < MIN_LENGTH)
    throw new Error(`holds a key of fewer than ${MIN_LENGTH} characters`)
}

type Purpose = 'session' | 'login'

function derive(secrets: readonly string[], purpose: Purpose): KeyRing {
  const all = secrets.map((secret) => deriveKey(secret, purpose))
  const [first] = all
  if (!first) throw new FwaError('FWA_KEY_UNUSABLE', 'no secret is given')
  return { first, all }
}

/** RFC 5869. Tokens show the key ID, so it is a digest of the derived key, not of the secret. */
function deriveKey(secret: string, purpose: Purpose): Key {
  if (secret.length < MIN_LENGTH)
    throw new FwaError('FWA_KEY_UNUSABLE', `a secret has fewer than ${MIN_LENGTH} characters`)
  const key = Buffer.from(hkdfSync('sha256', secret, '', `gatehouse forward-auth ${purpose}`, 32))
  return { kid: hash('sha256', key, 'base64url').slice(0, 16), secret: key }
}

async function storedSecret(folder: string, name: string): Promise<string> {
  const file = join(folder, name)
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

declare module 'fastify' {
  interface FastifyInstance {
    readonly keys: Keys
  }
}

type KeysConfig = Pick<ForwardAuthConfig, 'session' | 'storage'>

export const keys = fp<KeysConfig>(
  async (app: FastifyInstance, config) => {
    const { path: folder } = config.storage
    await app.decorateReloaded('keys', config, ({ session }) =>
      loadKeys({ secrets: session.keys?.map(({ secret }) => secret), folder }),
    )
  },
  { fastify: '5.x', name: 'forward-auth/keys', dependencies: ['service-kit/reload'] },
)

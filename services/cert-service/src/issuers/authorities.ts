import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import {
  type Authority,
  carriesConstraints,
  createCrl,
  createIntermediate,
  createRoot,
  loadAuthority,
  type NameRule,
} from '@gatehouse/pki'
import { CertError } from '../errors.ts'
import type { Keyring } from '../sealing/keyring.ts'
import type { AuthorityRecord, Store } from '../store/store.ts'

const DAY = 86_400_000

/** What the embedded CA is made of and how. */
export interface AuthorityOptions {
  /** Begins the common names of what is made here. */
  readonly name: string
  readonly root?: { readonly certFile: string; readonly keyFile?: string } | undefined
  readonly intermediate?: { readonly certFile: string; readonly keyFile: string } | undefined
  readonly permitted: readonly NameRule[]
  readonly crlUrl?: string | undefined
  /** Milliseconds. */
  readonly leafLifetime: number
}

export interface AuthorityDeps {
  readonly store: Store
  readonly keyring: Keyring
  now(): number
}

/** An authority and its row in the store. */
export interface StoredAuthority {
  readonly id: number
  readonly authority: Authority
}

/** The operator's own root or the stored one; made if there is none. */
export async function openRoot(
  options: AuthorityOptions,
  deps: AuthorityDeps,
): Promise<StoredAuthority | undefined> {
  const now = deps.now()
  if (options.root) {
    const { key: _, ...authority } = await readAuthority(options.root, now)
    return adopt('root', authority, deps)
  }
  if (options.intermediate) return undefined
  const stored = (await deps.store.listAuthorities()).find(({ role }) => role === 'root')
  if (stored) return restore(stored, deps)
  const root = await createRoot({ commonName: `${options.name} Root CA`, now })
  const id = await save('root', root, deps)
  // From here on the key is opened only to be used.
  return { id, authority: loadAuthority({ certificate: root.certificate, now }) }
}

/** The operator's own intermediate or the newest stored one that still fits; else a new one. */
export async function openIntermediate(
  options: AuthorityOptions,
  root: StoredAuthority | undefined,
  deps: AuthorityDeps,
): Promise<StoredAuthority> {
  if (options.intermediate)
    return adopt('intermediate', await readAuthority(options.intermediate, deps.now()), deps)
  const stored = (await deps.store.listAuthorities()).find(
    ({ role, sealedKey, notAfter }) =>
      role === 'intermediate' && sealedKey && notAfter > deps.now(),
  )
  const current = stored && restore(stored, deps, openKey(stored, deps.keyring))
  if (current && fits(current, options, root, deps.now())) return current
  const made = await makeIntermediate(options, root, deps)
  if (made ?? current) return made ?? (current as StoredAuthority)
  throw new CertError(
    'CERT_ROOT_KEY_ABSENT',
    'An intermediate has to be made, but the key of the root is not here.',
  )
}

/** A new intermediate, or undefined while the root's key is elsewhere. */
async function makeIntermediate(
  options: AuthorityOptions,
  root: StoredAuthority | undefined,
  deps: AuthorityDeps,
): Promise<StoredAuthority | undefined> {
  const signer = root && (await withKey(root, options, deps))
  if (!signer) return undefined
  const { name, permitted, crlUrl } = options
  const commonName = `${name} Intermediate CA`
  const now = deps.now()
  const authority = await createIntermediate({
    root: signer.authority,
    commonName,
    now,
    ...(permitted.length > 0 && { permitted }),
    ...(crlUrl && { crlUrl: crlUrlOf(crlUrl, signer.authority) }),
  })
  // While the root's key is open: its list, to last as long as what it is about.
  const number = ((await deps.store.findCrl(signer.id))?.number ?? 0n) + 1n
  const nextUpdate = authority.info.notAfter
  const list = { authority: signer.authority, number, revoked: [], thisUpdate: now, nextUpdate }
  await deps.store.saveCrl({ authorityId: signer.id, number, crl: createCrl(list), nextUpdate })
  return { id: await save('intermediate', authority, deps), authority }
}

/** Whether an intermediate is of this root, holds the configured constraint, and outlasts new leaves. */
function fits(
  { authority }: StoredAuthority,
  options: AuthorityOptions,
  root: StoredAuthority | undefined,
  now: number,
): boolean {
  return (
    !isEnding(authority, options.leafLifetime, now) &&
    carriesConstraints(authority.certificate, options.permitted) &&
    (!root || isSignedBy(authority.certificate, root.authority.certificate))
  )
}

/** Whether an authority is to be replaced: 30 days, or two leaf lifetimes, before its end. */
export function isEnding(authority: Authority, leafLifetime: number, now: number): boolean {
  return authority.info.notAfter - now < Math.max(30 * DAY, 2 * leafLifetime)
}

/** Where the list of an authority is to be had; several authorities share one path. */
export function crlUrlOf(base: string, authority: Authority): string {
  const url = new URL(base)
  url.searchParams.set('issuer', authority.info.skid ?? '')
  return url.href
}

/** The authority of a row; with its key only where that is given. */
export function restore(
  { id, certificate }: AuthorityRecord,
  { now }: AuthorityDeps,
  key?: KeyObject,
): StoredAuthority {
  return { id, authority: loadAuthority({ certificate, now: now(), ...(key && { key }) }) }
}

/** The private key of a row, undefined where it is kept elsewhere. */
export function openKey(
  { sealedKey, certificate }: AuthorityRecord,
  keyring: Keyring,
): KeyObject | undefined {
  if (!sealedKey) return undefined
  const key = keyring.open(sealedKey, certificate)
  return createPrivateKey({ key, format: 'der', type: 'pkcs8' })
}

/** The root with its key, from the operator's file or the store; undefined where it is elsewhere. */
async function withKey(
  { id }: StoredAuthority,
  options: AuthorityOptions,
  deps: AuthorityDeps,
): Promise<StoredAuthority | undefined> {
  if (options.root?.keyFile !== undefined)
    return { id, authority: await readAuthority(options.root, deps.now()) }
  const record = (await deps.store.listAuthorities()).find((row) => row.id === id)
  const key = record && openKey(record, deps.keyring)
  return key && restore(record, deps, key)
}

async function readAuthority(
  files: { readonly certFile: string; readonly keyFile?: string },
  now: number,
): Promise<Authority> {
  const certificate = await readFile(files.certFile, 'utf8')
  if (files.keyFile === undefined) return loadAuthority({ certificate, now })
  return loadAuthority({ certificate, key: await readFile(files.keyFile, 'utf8'), now })
}

/** Gives an authority of the operator a row; its key stays in its file. */
async function adopt(
  role: AuthorityRecord['role'],
  authority: Authority,
  { store }: AuthorityDeps,
): Promise<StoredAuthority> {
  const { certificate } = authority
  const known = (await store.listAuthorities()).find(
    (row) => row.role === role && certificate.equals(row.certificate),
  )
  const { notAfter } = authority.info
  const { id } =
    known ?? (await store.addAuthority({ role, certificate, sealedKey: null, notAfter }))
  return { id, authority }
}

async function save(
  role: AuthorityRecord['role'],
  { certificate, info, key }: Authority,
  { store, keyring }: AuthorityDeps,
): Promise<number> {
  const pkcs8 = (key as KeyObject).export({ format: 'der', type: 'pkcs8' })
  const sealedKey = keyring.seal(role, pkcs8, certificate)
  const { notAfter } = info
  return (await store.addAuthority({ role, certificate, sealedKey, notAfter })).id
}

function isSignedBy(certificate: Uint8Array, signer: Uint8Array): boolean {
  return new X509Certificate(certificate).verify(new X509Certificate(signer).publicKey)
}

import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto'
import { existsSync } from 'node:fs'
import {
  type Authority,
  carriesConstraints,
  createCrl,
  createIntermediate,
  createRoot,
  fromPem,
  loadAuthority,
  type NameRule,
  parseCertificate,
} from '@gatehouse/pki'
import { requireNamedFile } from '@gatehouse/service-kit'
import { hasBegun } from '../clocks.ts'
import { CertError } from '../errors.ts'
import type { Keyring } from '../sealing/keyring.ts'
import type { AuthorityRecord, Store } from '../store/store.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR

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
  readonly log: { warn(fields: object, message: string): void }
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
    // Its key may be elsewhere until an intermediate has to be signed.
    const { certFile } = options.root
    return adopt('root', readAuthority('ca.root', { certFile }, now), deps)
  }
  if (options.intermediate) return undefined
  const rows = (await deps.store.listAuthorities()).filter(({ role }) => role === 'root')
  const stored = rows.map((row) => restore(row))
  const valid = stored.find(({ authority }) => isValid(authority, now))
  const chosen = valid ?? stored[0]
  if (chosen) {
    tellPassedOver(stored, chosen, deps)
    return chosen
  }
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
  const now = deps.now()
  if (options.intermediate)
    return adopt('intermediate', readAuthority('ca.intermediate', options.intermediate, now), deps)
  const stored = await restoreIntermediates(deps)
  const chosen =
    chooseIntermediate(stored, options, root, now) ??
    (await makeInTime(stored, options, root, deps)) ??
    nextBest(stored, now)
  if (!chosen) {
    const keyFile = options.root?.keyFile
    throw new CertError(
      'CERT_ROOT_KEY_ABSENT',
      `An intermediate has to be made, but the key of the root is not here${keyFile ? `: ${keyFile}` : '.'}`,
    )
  }
  tellPassedOver(stored, chosen, deps)
  return chosen
}

/** The intermediates whose keys are in the store, newest first, whatever the clock says of them. */
export async function restoreIntermediates({
  store,
  keyring,
}: AuthorityDeps): Promise<readonly StoredAuthority[]> {
  return (await store.listAuthorities())
    .filter(({ role, sealedKey }) => role === 'intermediate' && sealedKey)
    .map((row) => restore(row, openKey(row, keyring)))
}

/** The newest intermediate that is valid now and fits. */
export function chooseIntermediate(
  stored: readonly StoredAuthority[],
  options: AuthorityOptions,
  root: StoredAuthority | undefined,
  now: number,
): StoredAuthority | undefined {
  return stored.find((one) => isValid(one.authority, now) && fits(one, options, root, now))
}

/** A new intermediate, but none of a root that has not begun or is over while there are others. */
async function makeInTime(
  stored: readonly StoredAuthority[],
  options: AuthorityOptions,
  root: StoredAuthority | undefined,
  deps: AuthorityDeps,
): Promise<StoredAuthority | undefined> {
  const now = deps.now()
  const isOutside =
    root && !(hasBegun(root.authority.info, now) && root.authority.info.notAfter > now + HOUR)
  return isOutside && stored.length > 0 ? undefined : makeIntermediate(options, root, deps)
}

/** Of those that do not fit: one that is valid, else the one that will be first, else the newest. */
function nextBest(stored: readonly StoredAuthority[], now: number): StoredAuthority | undefined {
  const begins = ({ authority }: StoredAuthority) => authority.info.notBefore
  return (
    stored.find(({ authority }) => isValid(authority, now)) ??
    stored
      .filter(({ authority }) => authority.info.notAfter > now)
      .toSorted((a, b) => begins(a) - begins(b))[0] ??
    stored[0]
  )
}

function isValid({ info }: Authority, now: number): boolean {
  return hasBegun(info, now) && info.notAfter > now
}

/** Authorities are never refused for their dates alone: the clock may be the one that is wrong. */
function tellPassedOver(
  stored: readonly StoredAuthority[],
  chosen: StoredAuthority,
  { now, log }: AuthorityDeps,
): void {
  for (const { id, authority } of stored) {
    const { subject, notBefore } = authority.info
    if (hasBegun(authority.info, now())) continue
    const fields = { ca: subject, notBefore: new Date(notBefore).toISOString() }
    if (id === chosen.id) log.warn(fields, 'this CA begins in the future: is the clock behind?')
    else log.warn(fields, 'this CA begins in the future and is passed over')
  }
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
  await makeRootList(signer, authority.info.notAfter, deps)
  return { id: await save('intermediate', authority, deps), authority }
}

async function makeRootList(
  { id, authority }: StoredAuthority,
  nextUpdate: number,
  { store, now }: AuthorityDeps,
): Promise<void> {
  const thisUpdate = now()
  const number = ((await store.findCrl(id))?.number ?? 0n) + 1n
  const crl = createCrl({ authority, number, revoked: [], thisUpdate, nextUpdate })
  await store.saveCrl({ authorityId: id, number, crl, thisUpdate, nextUpdate })
}

/** Makes the root's list anew where a clock dated it that was ahead, if the root's key is here. */
export async function mendRootList(
  root: StoredAuthority,
  intermediate: Authority,
  options: AuthorityOptions,
  deps: AuthorityDeps,
): Promise<void> {
  const list = await deps.store.findCrl(root.id)
  if (!list || hasBegun({ notBefore: list.thisUpdate ?? 0 }, deps.now())) return
  if (!hasBegun(root.authority.info, deps.now())) return
  const signer = await withKey(root, options, deps)
  if (signer) await makeRootList(signer, intermediate.info.notAfter, deps)
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

/** The authority of a row, whatever the clock says of it; with its key only where that is given. */
function restore({ id, certificate }: AuthorityRecord, key?: KeyObject): StoredAuthority {
  const now = parseCertificate(certificate).notBefore
  return { id, authority: loadAuthority({ certificate, now, ...(key && { key }) }) }
}

/** The private key of a row, undefined where it is kept elsewhere. */
function openKey(
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
  const { root: own } = options
  if (own?.keyFile !== undefined)
    return existsSync(own.keyFile)
      ? { id, authority: readAuthority('ca.root', own, deps.now()) }
      : undefined
  const record = (await deps.store.listAuthorities()).find((row) => row.id === id)
  const key = record && openKey(record, deps.keyring)
  return key && restore(record, key)
}

/** @throws ConfigError CONFIG_FILE_UNUSABLE; PkiError */
function readAuthority(
  name: 'ca.root' | 'ca.intermediate',
  { certFile, keyFile }: { readonly certFile: string; readonly keyFile?: string },
  now: number,
): Authority {
  const certificate = requireNamedFile(`${name}.certFile`, certFile)
  const key = keyFile === undefined ? undefined : requireNamedFile(`${name}.keyFile`, keyFile)
  return loadOwnAuthority({ certificate, key }, now, { mayBeOver: true })
}

/**
 * The authority of an operator, from PEM. One that is over is refused unless it `mayBeOver`.
 *
 * @throws PkiError
 */
export function loadOwnAuthority(
  { certificate, key }: { readonly certificate: string; readonly key?: string | undefined },
  now: number,
  { mayBeOver }: { readonly mayBeOver: boolean },
): Authority {
  // A clock that is wrong must not end the start: nothing is made that is valid outside its CA.
  const chain = fromPem(certificate, 'CERTIFICATE').map(parseCertificate)
  const begun = Math.max(now, ...chain.map(({ notBefore }) => notBefore))
  return loadAuthority({
    certificate,
    ...(key !== undefined && { key }),
    now: mayBeOver ? Math.min(begun, ...chain.map(({ notAfter }) => notAfter)) : begun,
  })
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

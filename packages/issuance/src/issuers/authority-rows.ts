import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto'
import type { Keyring } from '@gatehouse/cert-store'
import type { Authorities, AuthorityRecord, Store } from '@gatehouse/cert-store/port'
import type { Clock } from '@gatehouse/net'
import {
  type Authority,
  fromPem,
  loadAuthority,
  type NameRule,
  type Profile,
  parseCertificate,
} from '@gatehouse/pki'
import { requireNamedFile } from '@gatehouse/service-kit/config'
import type { CaConfig } from '../options/ca.ts'
import { DAY, hasBegun } from '../times.ts'

export const YEAR = 365 * DAY

export interface AuthorityOptions extends Omit<CaConfig, 'permitted'> {
  readonly permitted: readonly NameRule[]
  /** The digest of its configuration. */
  readonly configuration?: string
}

export interface AuthorityDeps {
  readonly store: Pick<Store, keyof Authorities | 'isShared'>
  readonly keyring: Pick<Keyring, 'openAny' | 'seal'>
  readonly clock: Pick<Clock, 'now'>
  readonly log: { warn(fields: object, message: string): void }
}

export interface StoredAuthority {
  readonly id: number
  readonly authority: Authority
}

/** The intermediates for certificates of one profile: how they are stored and named. */
export const LINES = {
  server: { role: 'intermediate', purpose: 'serverAuth', title: 'Intermediate CA' },
  client: { role: 'client-intermediate', purpose: 'clientAuth', title: 'Client Intermediate CA' },
} as const
export type Line = (typeof LINES)[Profile]

/** Opens the key of a row; `undefined` if it is not stored. */
export async function openKey(
  { sealedKey, certificate }: AuthorityRecord,
  keyring: Pick<Keyring, 'openAny'>,
): Promise<KeyObject | undefined> {
  if (!sealedKey) return undefined
  const key = await keyring.openAny(sealedKey, certificate)
  return createPrivateKey({ key, format: 'der', type: 'pkcs8' })
}

/** Stores the certificate of an operator's authority; its key stays in its file. */
export async function adopt(
  role: AuthorityRecord['role'],
  authority: Authority,
  store: AuthorityDeps['store'],
): Promise<StoredAuthority> {
  const record = recordWithoutKey(role, authority)
  for (;;) {
    const rows = await store.listAuthorities()
    const existing = rows.find(
      (row) => row.role === role && authority.certificate.equals(row.certificate),
    )
    const { id } = existing ?? (await store.addAuthority(record, newestOf(role, rows))) ?? {}
    if (id !== undefined) return { id, authority }
  }
}

/** The record of an authority whose key is kept elsewhere. */
export function recordWithoutKey(
  role: AuthorityRecord['role'],
  { certificate, info }: Authority,
): Omit<AuthorityRecord, 'id'> {
  return { role, certificate, sealedKey: null, notAfter: info.notAfter }
}

/** Returns the intermediates that a root has signed itself, DER: not those that it comes to by a cross certificate. */
export function intermediatesBelow(
  rows: readonly AuthorityRecord[],
  root: Uint8Array,
): readonly Uint8Array[] {
  return rows
    .filter(({ role }) => role === LINES.server.role || role === LINES.client.role)
    .map(({ certificate }) => certificate)
    .filter((certificate) => isSignedBy(certificate, root))
}

/** The record of a new authority, with its key sealed. */
export function recordOf(
  role: AuthorityRecord['role'],
  authority: Authority,
  keyring: Pick<Keyring, 'seal'>,
): Omit<AuthorityRecord, 'id'> {
  const pkcs8 = (authority.key as KeyObject).export({ format: 'der', type: 'pkcs8' })
  const purpose = role === 'root' ? role : 'intermediate'
  const sealedKey = keyring.seal(purpose, pkcs8, authority.certificate)
  return { ...recordWithoutKey(role, authority), sealedKey }
}

/** Stores an authority that follows those of `rows`. Gives its id unless another replica was faster. */
export async function save(
  role: AuthorityRecord['role'],
  authority: Authority,
  rows: readonly AuthorityRecord[],
  { store, keyring }: AuthorityDeps,
): Promise<number | undefined> {
  const record = recordOf(role, authority, keyring)
  return (await store.addAuthority(record, newestOf(role, rows)))?.id
}

/** Warns of authorities that were created by a clock that was ahead. */
export function warnOfFuture(
  stored: readonly StoredAuthority[],
  chosen: StoredAuthority,
  { clock, log }: AuthorityDeps,
): void {
  for (const { id, authority } of stored) {
    const { subject, notBefore } = authority.info
    if (hasBegun(authority.info, clock.now())) continue
    const fields = { ca: subject, notBefore: new Date(notBefore).toISOString() }
    if (id === chosen.id) log.warn(fields, 'this CA begins in the future: is the clock behind?')
    else log.warn(fields, 'this CA begins in the future and is skipped')
  }
}

function newestOf(role: AuthorityRecord['role'], rows: readonly AuthorityRecord[]): number | null {
  return rows.find((row) => row.role === role)?.id ?? null
}

/** Loads an operator's authority from PEM; an expired one only if `mayBeOver`. @throws PkiError */
export function loadOwnAuthority(
  { certificate, key }: { readonly certificate: string; readonly key?: string | undefined },
  now: number,
  { mayBeOver }: { readonly mayBeOver: boolean },
): Authority {
  // A wrong clock must not prevent the start: validity is clamped to the CA whenever one signs.
  const chain = fromPem(certificate, 'CERTIFICATE').map(parseCertificate)
  const begun = Math.max(now, ...chain.map(({ notBefore }) => notBefore))
  return loadAuthority({
    certificate,
    ...(key !== undefined && { key }),
    now: mayBeOver ? Math.min(begun, ...chain.map(({ notAfter }) => notAfter)) : begun,
  })
}

export function isValid({ info, ends }: Authority, now: number): boolean {
  return hasBegun(info, now) && ends > now
}

/** Loads the authority of a row, valid or not. */
export function restore(
  { id, role, certificate }: AuthorityRecord,
  key?: KeyObject,
): StoredAuthority {
  const now = parseCertificate(certificate).notBefore
  const purpose = role === LINES.client.role ? 'clientAuth' : 'serverAuth'
  return { id, authority: loadAuthority({ certificate, now, purpose, ...(key && { key }) }) }
}

/** @throws ConfigError CONFIG_FILE_UNUSABLE; PkiError */
export function readAuthority(
  name: 'ca.root' | 'ca.intermediate',
  { certFile, keyFile }: { readonly certFile: string; readonly keyFile?: string },
  now: number,
): Authority {
  const certificate = requireNamedFile(`${name}.certFile`, certFile)
  const key = keyFile === undefined ? undefined : requireNamedFile(`${name}.keyFile`, keyFile)
  return loadOwnAuthority({ certificate, key }, now, { mayBeOver: true })
}

export function isSignedBy(certificate: Uint8Array, signer: Uint8Array): boolean {
  return new X509Certificate(certificate).verify(new X509Certificate(signer).publicKey)
}

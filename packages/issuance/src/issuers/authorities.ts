import { createPrivateKey, hash, type KeyObject, X509Certificate } from 'node:crypto'
import { existsSync } from 'node:fs'
import type { Keyring } from '@gatehouse/cert-store'
import type { AuthorityRecord, CrlRecord, Store } from '@gatehouse/cert-store/port'
import type { Clock } from '@gatehouse/net'
import {
  type Authority,
  createCrl,
  createIntermediate,
  createRoot,
  fromPem,
  isAsConfigured,
  loadAuthority,
  type NameRule,
  type Profile,
  parseCertificate,
  placeBelow,
} from '@gatehouse/pki'
import { requireNamedFile } from '@gatehouse/service-kit/config'
import { IssuanceError } from '../errors.ts'
import type { CaConfig } from '../options/ca.ts'
import { DAY, HOUR, hasBegun } from '../times.ts'

export const YEAR = 365 * DAY

export interface AuthorityOptions extends Omit<CaConfig, 'permitted'> {
  readonly permitted: readonly NameRule[]
  /** The digest of its configuration. */
  readonly configuration?: string
}

export interface AuthorityDeps {
  readonly store: Pick<
    Store,
    'addAuthority' | 'findCrl' | 'isShared' | 'listAuthorities' | 'replaceCrl'
  >
  readonly keyring: Pick<Keyring, 'openAny' | 'seal'>
  readonly clock: Pick<Clock, 'now'>
  readonly log: { warn(fields: object, message: string): void }
}

type NextCrl = Parameters<typeof createCrl>[0]

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

/**
 * Opens and creates the root and the intermediates of one line of the embedded CA. No authority is refused for its
 * dates alone, as the clock may be the one that is wrong.
 */
export class Authorities {
  readonly #options: AuthorityOptions
  readonly #deps: AuthorityDeps
  readonly #line: Line
  #root: StoredAuthority | undefined

  constructor(
    options: AuthorityOptions,
    deps: AuthorityDeps,
    line: Line = LINES.server,
    root?: StoredAuthority,
  ) {
    this.#options = options
    this.#deps = deps
    this.#line = line
    this.#root = root
  }

  /** `undefined` for an intermediate of the operator without its root. */
  get root(): StoredAuthority | undefined {
    return this.#root
  }

  /** Opens the operator's root or the stored one, which is made at need. */
  async openRoot(): Promise<void> {
    this.#root = await this.#openRoot()
  }

  async #openRoot(): Promise<StoredAuthority | undefined> {
    const { name, root: files, intermediate } = this.#options
    const now = this.#deps.clock.now()
    // The key is not read here: it may be offline until an intermediate has to be signed.
    if (files)
      return this.#adopt('root', readAuthority('ca.root', { certFile: files.certFile }, now))
    if (intermediate) return undefined
    const rows = (await this.#deps.store.listAuthorities()).filter(({ role }) => role === 'root')
    const stored = rootsOf(rows)
    const chosen = stored.find(({ authority }) => isValid(authority, now)) ?? stored[0]
    if (chosen) {
      this.#warnOfFuture(stored, chosen)
      return chosen
    }
    const root = await createRoot({ commonName: `${name} Root CA`, now })
    const id = await this.#save('root', root, rows)
    // Another replica was faster, and its root counts.
    if (id === undefined) return this.#openRoot()
    // Without the key: from here on it is only opened to be used.
    return { id, authority: loadAuthority({ certificate: root.certificate, now }) }
  }

  /** The operator's, or the newest stored one that fits, or a new one. @throws IssuanceError CERT_ROOT_KEY_ABSENT */
  async openIntermediate(): Promise<StoredAuthority> {
    const { root: rootFiles, intermediate: files } = this.#options
    const now = this.#deps.clock.now()
    if (files && this.#line === LINES.server)
      return this.#adopt('intermediate', readAuthority('ca.intermediate', files, now))
    const stored = await this.listIntermediates()
    const chosen =
      this.choose(stored) ??
      (await this.#createUnlessRootIsInvalid(stored)) ??
      leastUnfit(stored, now)
    if (!chosen)
      throw new IssuanceError('CERT_ROOT_KEY_ABSENT', absenceOf(this.#line, rootFiles?.keyFile))
    this.#warnOfFuture(stored, chosen)
    return chosen
  }

  /** The intermediates whose keys are stored, newest first, valid or not. */
  async listIntermediates(): Promise<readonly StoredAuthority[]> {
    return this.#intermediatesOf(await this.#deps.store.listAuthorities())
  }

  /** The roots of today and before, without their keys. */
  async listRoots(): Promise<readonly StoredAuthority[]> {
    return rootsOf(await this.#deps.store.listAuthorities())
  }

  /** The newest intermediate that is valid and than which a new one would be no better. */
  choose(stored: readonly StoredAuthority[]): StoredAuthority | undefined {
    const now = this.#deps.clock.now()
    return stored.find(({ authority }) => isValid(authority, now) && !this.isReplaceable(authority))
  }

  /**
   * Whether a new intermediate would be better: it would live longer, or be as the configuration says.
   * One that ends with its root is as good as it gets.
   */
  isReplaceable(authority: Authority): boolean {
    const root = this.#root?.authority
    if (!root) return false
    const { leafLifetime, maxLifetime = leafLifetime } = this.#options
    const now = this.#deps.clock.now()
    const gain = Math.min(now + YEAR, root.ends) - authority.ends
    return (
      (isEnding(authority, maxLifetime, now) && gain >= DAY) ||
      !isAsConfigured(authority.certificate, this.#configuredBelow(root)) ||
      !isSignedBy(authority.certificate, root.certificate)
    )
  }

  #configuredBelow(root: Authority) {
    const { permitted, crlUrl } = this.#options
    return { permitted, ...(crlUrl !== undefined && { crlUrl: crlUrlOf(crlUrl, root) }) }
  }

  /** Recreates the CRL of the root if a clock that was ahead dated it and the root's key is available. */
  async repairRootCrl(intermediate: Authority): Promise<void> {
    const { store, clock } = this.#deps
    const root = this.#root
    const list = root && (await store.findCrl(root.id))
    if (!list || hasBegun({ notBefore: list.thisUpdate ?? 0 }, clock.now())) return
    if (!hasBegun(root.authority.info, clock.now())) return
    const signer = await this.#withKey(root)
    if (signer) await replaceRootCrl(signer, clock.now(), intermediate.ends, store)
  }

  /** A new intermediate; none while the root is invalid and there are others. */
  async #createUnlessRootIsInvalid(stored: readonly StoredAuthority[]) {
    const root = this.#root?.authority
    const now = this.#deps.clock.now()
    const isInvalid = root && !(hasBegun(root.info, now) && root.ends > now + HOUR)
    return isInvalid && stored.length > 0 ? undefined : this.#createIntermediate()
  }

  /** A new intermediate, or `undefined` while the key of the root is offline. */
  async #createIntermediate(): Promise<StoredAuthority | undefined> {
    const signer = this.#root && (await this.#withKey(this.#root))
    if (!signer) return undefined
    const { name } = this.#options
    const now = this.#deps.clock.now()
    const rows = await this.#deps.store.listAuthorities()
    // Another replica may have stored one since this one looked for it.
    const existing = this.choose(await this.#intermediatesOf(rows))
    if (existing) return existing
    const authority = await createIntermediate({
      root: signer.authority,
      commonName: `${name} ${this.#line.title}`,
      purpose: this.#line.purpose,
      now,
      lifetimeMs: YEAR,
      ...this.#configuredBelow(signer.authority),
    })
    // The CRL of the root is created while its key is open, and lasts as long as the intermediate.
    await replaceRootCrl(signer, now, authority.ends, this.#deps.store)
    const id = await this.#save(this.#line.role, authority, rows)
    // Another replica was faster, and its intermediate counts.
    return id === undefined ? this.choose(await this.listIntermediates()) : { id, authority }
  }

  async #intermediatesOf(rows: readonly AuthorityRecord[]): Promise<readonly StoredAuthority[]> {
    const roots = [...(this.#root ? [this.#root] : []), ...rootsOf(rows)]
    const kept = rows.filter(({ role, sealedKey }) => role === this.#line.role && sealedKey)
    return Promise.all(
      kept.map(async (row) => {
        const { id, authority } = restore(row, await this.#openKey(row))
        const root = roots.find((candidate) =>
          isSignedBy(row.certificate, candidate.authority.certificate),
        )
        return { id, authority: root ? placeBelow(root.authority, authority) : authority }
      }),
    )
  }

  /** The root with its key from the operator's file or the store; `undefined` while it is offline. */
  async #withKey({ id }: StoredAuthority): Promise<StoredAuthority | undefined> {
    const { root: files } = this.#options
    if (files?.keyFile !== undefined)
      return existsSync(files.keyFile)
        ? { id, authority: readAuthority('ca.root', files, this.#deps.clock.now()) }
        : undefined
    const record = (await this.#deps.store.listAuthorities()).find((row) => row.id === id)
    const key = record && (await this.#openKey(record))
    return key && restore(record, key)
  }

  async #openKey({ sealedKey, certificate }: AuthorityRecord): Promise<KeyObject | undefined> {
    if (!sealedKey) return undefined
    const key = await this.#deps.keyring.openAny(sealedKey, certificate)
    return createPrivateKey({ key, format: 'der', type: 'pkcs8' })
  }

  /** Stores the certificate of an operator's authority; its key stays in its file. */
  async #adopt(role: AuthorityRecord['role'], authority: Authority): Promise<StoredAuthority> {
    const { store } = this.#deps
    const { certificate, info } = authority
    const record = { role, certificate, sealedKey: null, notAfter: info.notAfter }
    for (;;) {
      const rows = await store.listAuthorities()
      const existing = rows.find((row) => row.role === role && certificate.equals(row.certificate))
      const { id } = existing ?? (await store.addAuthority(record, newestOf(role, rows))) ?? {}
      if (id !== undefined) return { id, authority }
    }
  }

  /** Stores an authority that follows those of `rows`. Gives its id unless another replica was faster. */
  async #save(
    role: AuthorityRecord['role'],
    { certificate, info, key }: Authority,
    rows: readonly AuthorityRecord[],
  ): Promise<number | undefined> {
    const { store, keyring } = this.#deps
    const pkcs8 = (key as KeyObject).export({ format: 'der', type: 'pkcs8' })
    const sealedKey = keyring.seal(role === 'root' ? role : 'intermediate', pkcs8, certificate)
    const record = { role, certificate, sealedKey, notAfter: info.notAfter }
    return (await store.addAuthority(record, newestOf(role, rows)))?.id
  }

  #warnOfFuture(stored: readonly StoredAuthority[], chosen: StoredAuthority): void {
    const { clock, log } = this.#deps
    for (const { id, authority } of stored) {
      const { subject, notBefore } = authority.info
      if (hasBegun(authority.info, clock.now())) continue
      const fields = { ca: subject, notBefore: new Date(notBefore).toISOString() }
      if (id === chosen.id) log.warn(fields, 'this CA begins in the future: is the clock behind?')
      else log.warn(fields, 'this CA begins in the future and is skipped')
    }
  }
}

/** The CRL of an authority that follows the stored one. */
export function nextCrl(
  { id, authority }: StoredAuthority,
  stored: CrlRecord | undefined,
  { thisUpdate, nextUpdate, revoked }: Pick<NextCrl, 'thisUpdate' | 'nextUpdate' | 'revoked'>,
): CrlRecord {
  // By the clock too, so that none goes back with the store.
  const storedNumber = stored?.number ?? 0n
  const seconds = BigInt(Math.floor(thisUpdate / 1000))
  const number = seconds > storedNumber ? seconds : storedNumber + 1n
  const crl = createCrl({ authority, number, revoked, thisUpdate, nextUpdate })
  return { authorityId: id, number, crl, thisUpdate, nextUpdate, entries: digestOf(revoked) }
}

/** Tells one list of revoked certificates from another. */
export function digestOf(revoked: NextCrl['revoked']): string {
  return hash('sha256', revoked.map(({ serialNumber }) => serialNumber).join())
}

/** Callers read it for the line of clients, and they must not know files. */
function absenceOf(line: Line, keyFile: string | undefined): string {
  if (line === LINES.client)
    return 'an intermediate for client certificates has to be created, but the key of the root is not available'
  const where = keyFile === undefined ? '.' : `: ${keyFile}`
  return `An intermediate has to be created, but the key of the root is not available${where}`
}

/** No intermediate is ever revoked by its root: it is replaced. */
async function replaceRootCrl(
  root: StoredAuthority,
  thisUpdate: number,
  nextUpdate: number,
  store: AuthorityDeps['store'],
): Promise<void> {
  const { id, authority } = root
  await store.replaceCrl({ id, certificate: authority.certificate }, thisUpdate, (stored) =>
    nextCrl(root, stored, { thisUpdate, nextUpdate, revoked: [] }),
  )
}

function newestOf(role: AuthorityRecord['role'], rows: readonly AuthorityRecord[]): number | null {
  return rows.find((row) => row.role === role)?.id ?? null
}

/** Whether an authority is due for replacement: 30 days before it ends, or before leaves get shorter. */
export function isEnding({ ends }: Authority, longest: number, now: number): boolean {
  return ends - now < Math.max(30 * DAY, longest + 15 * DAY)
}

/** The CRL distribution point of an authority; several authorities share one path. */
export function crlUrlOf(base: string, authority: Authority): string {
  const url = new URL(base)
  url.searchParams.set('issuer', authority.info.skid ?? '')
  return url.href
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

/** The best authority if none fits: one that is valid, else the next to become valid, else the newest. */
function leastUnfit(stored: readonly StoredAuthority[], now: number): StoredAuthority | undefined {
  const notBefore = ({ authority }: StoredAuthority) => authority.info.notBefore
  return (
    stored.find(({ authority }) => isValid(authority, now)) ??
    stored
      .filter(({ authority }) => authority.info.notAfter > now)
      .toSorted((a, b) => notBefore(a) - notBefore(b))[0] ??
    stored[0]
  )
}

function isValid({ info, ends }: Authority, now: number): boolean {
  return hasBegun(info, now) && ends > now
}

function rootsOf(rows: readonly AuthorityRecord[]): readonly StoredAuthority[] {
  return rows.filter(({ role }) => role === 'root').map((row) => restore(row))
}

/** Loads the authority of a row, valid or not. */
function restore({ id, role, certificate }: AuthorityRecord, key?: KeyObject): StoredAuthority {
  const now = parseCertificate(certificate).notBefore
  const purpose = role === LINES.client.role ? 'clientAuth' : 'serverAuth'
  return { id, authority: loadAuthority({ certificate, now, purpose, ...(key && { key }) }) }
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

export function isSignedBy(certificate: Uint8Array, signer: Uint8Array): boolean {
  return new X509Certificate(certificate).verify(new X509Certificate(signer).publicKey)
}

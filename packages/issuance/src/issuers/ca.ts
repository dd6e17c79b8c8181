import type { CertificateRecord, CrlRecord } from '@gatehouse/cert-store/port'
import { attempt } from '@gatehouse/net'
import { type Authority, parseCertificate } from '@gatehouse/pki'
import { IssuanceError } from '../errors.ts'
import { DAY, hasBegun } from '../times.ts'
import {
  type AuthorityDeps,
  type AuthorityOptions,
  digestOf,
  isEnding,
  isSignedBy,
  nextCrl,
  type StoredAuthority,
  YEAR,
} from './authorities.ts'
import type { SignedCertificate } from './issuer.ts'
import { type LeafRequest, SigningLine } from './line.ts'

const SECOND = 1_000
const CRL_LIFETIME = 7 * DAY
const CRL_REBUILD_AFTER = DAY

/** Opens the embedded CA; creates root and intermediate at the first start. */
export async function openCa(options: AuthorityOptions, deps: AuthorityDeps): Promise<Ca> {
  const servers = new SigningLine(options, deps, 'server')
  await servers.authorities.openRoot()
  await servers.open()
  const clients = new SigningLine(options, deps, 'client', servers.authorities.root)
  const ca = new Ca(options, deps, { servers, clients })
  await ca.track()
  return ca
}

type Lines = Pick<Ca, 'servers' | 'clients'>

/** The embedded CA: a root, the intermediates that sign, and their revocation lists. */
export class Ca {
  /** The lines for TLS servers and for TLS clients. */
  readonly servers: SigningLine
  readonly clients: SigningLine
  readonly crls: Crls
  readonly #options: AuthorityOptions
  readonly #deps: AuthorityDeps
  /** Root and intermediates by key identifier. */
  readonly #byKeyId = new Map<string, StoredAuthority>()
  #trackedAt = 0

  constructor(options: AuthorityOptions, deps: AuthorityDeps, lines: Lines) {
    this.#options = options
    this.#deps = deps
    this.servers = lines.servers
    this.clients = lines.clients
    this.crls = new Crls(deps, (keyId) => this.#authorityOf(keyId))
  }

  /** Issues as {@link servers} does. */
  issue = (request: LeafRequest): SignedCertificate =>
    this.servers.issue(request) as SignedCertificate

  /** Issues within the validity of the CA, as near to now as possible: for a CA that has expired. */
  issueNearest = (request: LeafRequest): SignedCertificate => {
    const { info, ends } = this.#current.authority
    const latest = ends - this.#options.leafLifetime
    const signingTime = Math.max(info.notBefore, Math.min(latest, this.#deps.clock.now()))
    return this.servers.sign(this.#current, request, signingTime)
  }

  /** The trust anchor, DER; `undefined` if the operator brought an intermediate without its root. */
  root = (): Uint8Array | undefined =>
    this.#current.authority.anchor ?? this.#root?.authority.certificate

  /** The roots to trust, DER: first the one that signs. None if the operator brought an intermediate without its root. */
  roots = (): readonly Uint8Array[] => {
    const root = this.root()
    return root ? [root] : []
  }

  /** Returns the root that has signed the last certificate of a chain, DER; `undefined` for that of another CA. */
  rootAbove = ({ certificate, chain }: Pick<CertificateRecord, 'certificate' | 'chain'>) => {
    const root = this.root()
    const top = chain.at(-1) ?? certificate
    const isAbove = root && attempt(() => isSignedBy(top, root))
    return isAbove ? root : undefined
  }

  /** Returns the end of the root, in ms since the epoch. */
  rootEnds = (): number | undefined => {
    const root = this.root()
    return this.#root?.authority.ends ?? (root && parseCertificate(root).notAfter)
  }

  intermediate = (): Authority => this.#current.authority

  /**
   * Returns the authorities that verify certificates of clients, DER: the root if it is known, with those before it that
   * still count, then the intermediates.
   */
  clientAuthorities = async (): Promise<readonly Buffer[]> => {
    const valid = await this.#clientIntermediates()
    const roots = [this.#root?.authority.certificate, ...valid.map(({ anchor }) => anchor)]
    return distinct([...roots, ...valid.map(({ certificate }) => certificate)])
  }

  /** Returns the intermediates that sign certificates of clients and are valid, DER. */
  clientIntermediates = async (): Promise<readonly Buffer[]> =>
    distinct((await this.#clientIntermediates()).map(({ certificate }) => certificate))

  async #clientIntermediates(): Promise<readonly Authority[]> {
    await this.#refresh()
    const now = this.#deps.clock.now()
    return this.clients.all
      .map(({ authority }) => authority)
      .filter(({ info, ends }) => hasBegun(info, now) && ends > now)
  }

  /**
   * The parts that need an operator: `ca-root` ends within a year; `ca-intermediate` or
   * `ca-client-intermediate` is to be replaced, but not from here; `clock` is behind the CA, or was
   * ahead when the CA was created.
   */
  degraded = (): readonly string[] => {
    const now = this.#deps.clock.now()
    const root = this.#root?.authority
    const current = this.#current.authority
    const client = this.clients.current?.authority
    const isBehind = [current, client, root].some((part) => part && !hasBegun(part.info, now))
    const isRootEnding = (this.rootEnds() ?? Infinity) - now < YEAR
    const isDue = this.#options.intermediate
      ? isEnding(current, this.servers.longest, now)
      : this.servers.authorities.isReplaceable(current)
    const isClientDue = client && this.clients.authorities.isReplaceable(client)
    return [
      ...(isRootEnding ? ['ca-root'] : []),
      ...(isDue ? ['ca-intermediate'] : []),
      ...(isClientDue ? ['ca-client-intermediate'] : []),
      ...(isBehind ? ['clock'] : []),
    ]
  }

  /** Replaces the intermediates when it is time, and keeps the CRLs current. */
  upkeep = async (): Promise<void> => {
    await this.servers.upkeep()
    await this.clients.upkeep()
    this.#index()
    for (const [keyId, { authority }] of this.#byKeyId)
      if (authority.key) await this.crls.get(keyId)
    await this.servers.authorities.repairRootCrl(this.#current.authority)
  }

  /** Takes up the stored intermediates, whose CRLs go on. */
  async track(): Promise<void> {
    const roots = await this.servers.authorities.listRoots()
    await this.servers.track()
    await this.clients.track()
    // A line for clients that was created before is kept current from the start.
    if (!this.clients.current && this.clients.all.length > 0) await this.clients.open()
    this.#index(roots)
  }

  get #current() {
    // The CA does not open without a current authority.
    return this.servers.current as NonNullable<SigningLine['current']>
  }

  get #root(): StoredAuthority | undefined {
    return this.servers.authorities.root
  }

  #index(roots: readonly StoredAuthority[] = []): void {
    for (const stored of [...roots, ...this.servers.all, ...this.clients.all, this.#root])
      if (stored) this.#byKeyId.set(stored.authority.info.skid ?? '', stored)
  }

  /**
   * Finds an authority by its key. Another replica may have created one that this one has not read, and so may a
   * request.
   */
  async #authorityOf(keyId: string): Promise<StoredAuthority | undefined> {
    const stored = this.#byKeyId.get(keyId)
    if (stored) return stored
    await this.#refresh()
    return this.#byKeyId.get(keyId)
  }

  /** Reads at most once a second what other replicas have created. */
  async #refresh(): Promise<void> {
    const { store, clock } = this.#deps
    // A clock that was ahead may have been set back.
    const isFresh = Math.abs(clock.now() - this.#trackedAt) < SECOND
    if (!store.isShared || isFresh) return this.#index()
    this.#trackedAt = clock.now()
    await this.track()
  }
}

function distinct(certificates: readonly (Buffer | undefined)[]): readonly Buffer[] {
  const entries = certificates.flatMap((der) =>
    der ? [[der.toString('base64'), der] as const] : [],
  )
  return [...new Map(entries).values()]
}

class Crls {
  readonly #deps: AuthorityDeps
  readonly #find: (keyId: string) => Promise<StoredAuthority | undefined>
  /** Lists that were complete at that count of revocations. */
  readonly #latest = new Map<number, { record: CrlRecord; revocation: number }>()
  readonly #replacing = new Map<number, Promise<CrlRecord>>()
  #revocation = 0

  constructor(deps: AuthorityDeps, find: (keyId: string) => Promise<StoredAuthority | undefined>) {
    this.#deps = deps
    this.#find = find
  }

  /** The CRL of this key identifier, at most a day old and complete. @throws IssuanceError `CERT_NOT_FOUND` */
  async get(keyId: string): Promise<Uint8Array> {
    const stored = await this.#find(keyId)
    const record = stored && (await this.#current(stored))
    if (!record) throw new IssuanceError('CERT_NOT_FOUND', 'this service has no CRL of that issuer')
    return record.crl
  }

  /** Outdates the CRLs. Call it after each revocation, also of another replica. */
  outdate(): void {
    this.#revocation += 1
  }

  async #current(stored: StoredAuthority): Promise<CrlRecord | undefined> {
    // The CRL of the root is created with each intermediate, while the key of the root is open.
    if (!stored.authority.key) return this.#deps.store.findCrl(stored.id)
    const latest = this.#latest.get(stored.id)
    if (latest?.revocation === this.#revocation && !this.#isOld(latest.record)) return latest.record
    let replacing = this.#replacing.get(stored.id)
    if (!replacing) {
      replacing = this.#replace(stored).finally(() => this.#replacing.delete(stored.id))
      this.#replacing.set(stored.id, replacing)
    }
    return replacing
  }

  /** A day old, or created by a clock that was ahead. */
  #isOld({ nextUpdate }: CrlRecord): boolean {
    const now = this.#deps.clock.now()
    const thisUpdate = nextUpdate - CRL_LIFETIME
    return thisUpdate + CRL_REBUILD_AFTER <= now || !hasBegun({ notBefore: thisUpdate }, now)
  }

  /** Keeps the stored CRL if it is complete and new: another replica may have created it. */
  async #replace(authority: StoredAuthority): Promise<CrlRecord> {
    const revocation = this.#revocation
    const now = this.#deps.clock.now()
    const { id } = authority
    const { certificate } = authority.authority
    const record = await this.#deps.store.replaceCrl({ id, certificate }, now, (stored, rows) => {
      const revoked = rows.map(({ serialNumber, revokedAt, reason }) => {
        // A clock that was ahead may have dated a revocation in the future.
        return { serialNumber, revokedAt: Math.min(revokedAt, now), reason }
      })
      const newest = this.#newerOf(stored, this.#latest.get(id)?.record)
      const isComplete = stored?.entries === digestOf(revoked)
      if (stored && newest === stored && isComplete && !this.#isOld(stored)) return stored
      const times = { thisUpdate: now, nextUpdate: now + CRL_LIFETIME }
      return nextCrl(authority, newest, { ...times, revoked })
    })
    this.#latest.set(id, { record, revocation })
    return record
  }

  /** A store that was restored, or whose standby took over, may be behind what clients have seen. */
  #newerOf(stored: CrlRecord | undefined, latest: CrlRecord | undefined): CrlRecord | undefined {
    if (!latest || (stored && stored.number >= latest.number)) return stored
    const numbers = { stored: String(stored?.number ?? 0), known: String(latest.number) }
    this.#deps.log.warn(numbers, 'the store lost its last writes: it is behind an issued CRL')
    return latest
  }
}

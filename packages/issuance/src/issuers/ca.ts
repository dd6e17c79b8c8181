import type { CertificateRecord } from '@gatehouse/cert-store/port'
import { attempt } from '@gatehouse/net'
import { type Authority, parseCertificate } from '@gatehouse/pki'
import { shareNext } from '@gatehouse/store'
import { hasBegun } from '../times.ts'
import { isEnding } from './authorities.ts'
import {
  type AuthorityDeps,
  type AuthorityOptions,
  intermediatesBelow,
  isSignedBy,
  type StoredAuthority,
  YEAR,
} from './authority-rows.ts'
import { Crls } from './crls.ts'
import type { SignedCertificate } from './issuer.ts'
import { type LeafRequest, SigningLine } from './line.ts'
import { type CaParts, RootRoll } from './root-roll.ts'
import { Roots } from './roots.ts'

const SECOND = 1_000

/** Opens the embedded CA; creates root and intermediate at the first start. */
export async function openCa(options: AuthorityOptions, deps: AuthorityDeps): Promise<Ca> {
  const roots = new Roots(options, deps)
  await roots.open()
  const servers = new SigningLine(options, deps, 'server', roots)
  await servers.open()
  const clients = new SigningLine(options, deps, 'client', roots)
  const ca = new Ca(options, deps, { roots, servers, clients })
  await ca.track()
  return ca
}

/** The embedded CA: a root, the intermediates that sign, and their revocation lists. */
export class Ca {
  /** The lines for TLS servers and for TLS clients. */
  readonly servers: SigningLine
  readonly clients: SigningLine
  readonly crls: Crls
  /** Replaces the root while certificates are in force. */
  readonly roll: RootRoll
  readonly #options: AuthorityOptions
  readonly #deps: AuthorityDeps
  /** Root and intermediates by key identifier. */
  readonly #byKeyId = new Map<string, StoredAuthority>()
  #trackedAt = 0
  readonly #roots: Roots
  readonly #listeners: (() => Promise<void>)[] = []
  /** Takes up the stored authorities, whose CRLs go on, and signs as the stage of a roll says. */
  readonly track = shareNext(() => this.#track())

  constructor(options: AuthorityOptions, deps: AuthorityDeps, parts: CaParts) {
    this.#options = options
    this.#deps = deps
    this.servers = parts.servers
    this.clients = parts.clients
    this.#roots = parts.roots
    this.roll = new RootRoll(options, deps, parts, this.track)
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
  root = (): Uint8Array | undefined => this.roots()[0]

  /** The roots to trust, DER: first the one that signs. None if the operator brought an intermediate without its root. */
  roots = (): readonly Uint8Array[] => {
    const { roll, anchors } = this.#roots
    if (roll) return anchors.map(({ authority }) => authority.certificate)
    const root = this.#current.authority.anchor ?? this.#root?.authority.certificate
    return root ? [root] : []
  }

  /** Has a function called once another root signs. */
  onRoot(listener: () => Promise<void>): void {
    this.#listeners.push(listener)
  }

  /** Returns the root to trust that a chain leads to first, DER; `undefined` for that of another CA. */
  rootAbove = ({ certificate, chain }: Pick<CertificateRecord, 'certificate' | 'chain'>) => {
    const links = chain.length > 0 ? chain : [certificate]
    const roots = this.roots()
    const signerOf = (der: Uint8Array) => roots.find((root) => attempt(() => isSignedBy(der, root)))
    return links.flatMap((der) => signerOf(der) ?? [])[0]
  }

  /** Returns the end of the root, in ms since the epoch. */
  rootEnds = (): number | undefined => {
    const root = this.root()
    return this.#root?.authority.ends ?? (root && parseCertificate(root).notAfter)
  }

  intermediate = (): Authority => this.#current.authority

  /**
   * Returns the authorities that verify certificates of clients, DER: the roots if they are known, with those before
   * them that still count, then the intermediates.
   */
  clientAuthorities = async (): Promise<readonly Buffer[]> => {
    const valid = await this.#clientIntermediates()
    const trusted = valid.filter(({ anchor }) => !anchor || !this.#roots.isReplaced(anchor))
    const anchors = this.#roots.anchors.map(({ authority }) => authority.certificate)
    const roots = [...anchors, ...trusted.map(({ anchor }) => anchor)]
    return distinct([...roots, ...trusted.map(({ certificate }) => certificate)])
  }

  /**
   * Returns the revocation lists, DER, of the authorities that verify certificates of clients, also for those who trust
   * only the root before. None if this CA signs no certificates of clients.
   */
  clientLists = async (): Promise<readonly Uint8Array[]> => {
    const valid = await this.#clientIntermediates()
    const roots = this.#roots.verifiers().map(({ authority }) => authority.certificate)
    const authorities = valid.flatMap(({ anchor = [], certificate }) =>
      [certificate, anchor].flat(),
    )
    const keyIds = new Set(
      [...roots, ...authorities].map((der) => parseCertificate(der).skid ?? ''),
    )
    return Promise.all([...keyIds].map((keyId) => this.crls.get(keyId)))
  }

  /** Returns the intermediates that sign certificates of clients and are valid, DER. */
  clientIntermediates = async (): Promise<readonly Buffer[]> =>
    distinct((await this.#clientIntermediates()).map(({ certificate }) => certificate))

  /**
   * Returns the authorities that sign leaves below the one with this key identifier or SHA-256, in hexadecimal: the
   * intermediates of a root, or an intermediate itself. DER; `undefined` if there is no such authority.
   */
  signersBelow = async (identifier: string): Promise<readonly Uint8Array[] | undefined> => {
    const rows = await this.#deps.store.listAuthorities()
    const authority = rows.find(({ role, certificate }) => {
      const { skid, fingerprint256 } = parseCertificate(certificate)
      return role !== 'cross' && [skid, fingerprint256].includes(identifier)
    })
    if (authority?.role !== 'root') return authority && [authority.certificate]
    return intermediatesBelow(rows, authority.certificate)
  }

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
   * ahead when the CA was created; `ca-root-configuration` names a root that a roll has replaced.
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
      ...(this.#roots.isConfigurationBehind ? ['ca-root-configuration'] : []),
    ]
  }

  /** Replaces the intermediates when it is time, and keeps the CRLs current. */
  upkeep = async (): Promise<void> => {
    await this.track()
    await this.servers.upkeep()
    await this.clients.upkeep()
    this.#index()
    for (const [keyId, { authority }] of this.#byKeyId)
      if (authority.key) await this.crls.get(keyId)
    await this.servers.authorities.repairRootCrl(this.#current.authority)
  }

  async #track(): Promise<void> {
    const previous = this.#roots.signer?.id
    await this.#roots.track()
    await this.servers.track()
    await this.clients.track()
    // A line for clients that was created before is kept current from the start.
    if (!this.clients.current && this.clients.all.length > 0) await this.clients.open()
    this.#index()
    if (previous !== this.#roots.signer?.id)
      await Promise.all(this.#listeners.map((listener) => listener()))
  }

  get #current() {
    // The CA does not open without a current authority.
    return this.servers.current as NonNullable<SigningLine['current']>
  }

  get #root(): StoredAuthority | undefined {
    return this.#roots.signer
  }

  #index(): void {
    for (const stored of [...this.#roots.history, ...this.servers.all, ...this.clients.all])
      this.#byKeyId.set(stored.authority.info.skid ?? '', stored)
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

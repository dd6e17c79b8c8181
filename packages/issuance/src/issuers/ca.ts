import type { CrlRecord } from '@gatehouse/cert-store/port'
import {
  type Authority,
  BACKDATE,
  clampValidity,
  compileRules,
  createLeafSigner,
  createSerial,
  type Name,
  parseCertificate,
  readConstraints,
} from '@gatehouse/pki'
import { IssuanceError } from '../errors.ts'
import { hasBegun } from '../times.ts'
import {
  Authorities,
  type AuthorityDeps,
  type AuthorityOptions,
  crlUrlOf,
  digestOf,
  isEnding,
  nextCrl,
  type StoredAuthority,
  YEAR,
} from './authorities.ts'
import type { Issued, Issuer, IssuerRequest } from './issuer.ts'

const WIDE = 'browsers refuse the wildcard of a whole top-level domain: use one below it'
const SECOND = 1_000
const DAY = 86_400_000
const CRL_LIFETIME = 7 * DAY
const CRL_REBUILD_AFTER = DAY

type LeafRequest = Pick<IssuerRequest, 'names' | 'keyType' | 'spki'>

/** Opens the embedded CA; creates root and intermediate at the first start. */
export async function openCa(options: AuthorityOptions, deps: AuthorityDeps): Promise<Ca> {
  const authorities = new Authorities(options, deps)
  await authorities.openRoot()
  const ca = new Ca(options, deps, authorities, await authorities.openIntermediate())
  await ca.track()
  return ca
}

/** The embedded CA: a root, the intermediate that signs, and their revocation lists. */
export class Ca implements Issuer {
  readonly name = 'ca'
  readonly crls: Crls
  /** Whether `ca.permitted` has a name, and what signs now may sign it. */
  permits: ((name: Name) => boolean) | undefined
  readonly #options: AuthorityOptions
  readonly #deps: AuthorityDeps
  readonly #authorities: Authorities
  /** Root and intermediates by key identifier. */
  readonly #byKeyId = new Map<string, StoredAuthority>()
  #intermediates: readonly StoredAuthority[] = []
  #current: Signing
  readonly #isPermitted: ((name: Name) => boolean) | undefined
  #trackedAt = 0

  constructor(
    options: AuthorityOptions,
    deps: AuthorityDeps,
    authorities: Authorities,
    intermediate: StoredAuthority,
  ) {
    this.#options = options
    this.#deps = deps
    this.#authorities = authorities
    const { permitted } = options
    this.#isPermitted = permitted.length > 0 ? compileRules(permitted) : undefined
    this.#current = signingBy(intermediate, options)
    this.permits = this.#permittedBy(this.#current)
    this.crls = new Crls(deps, (keyId) => this.#authorityOf(keyId))
  }

  /** A description of the names that it may sign, for a name that it may not. */
  scopeFor = (name: Name): string =>
    (this.#isPermitted?.(name) ?? true)
      ? `the name constraints of ${this.#current.authority.info.subject} (${this.#current.constraints.text})`
      : '`ca.permitted`'

  issue = (request: LeafRequest): Issued => {
    this.#skipFuture()
    const wide = request.names.find(
      ({ kind, labels }) => kind === 'wildcard' && labels.length === 1,
    )
    if (wide) this.#deps.log.warn({ name: wide.text }, WIDE)
    return this.#sign(request, this.#deps.clock.now())
  }

  /** Issues within the validity of the CA, as near to now as possible: for a CA that has expired. */
  issueNearest = (request: LeafRequest): Issued => {
    const { info, ends } = this.#current.authority
    const latest = ends - this.#options.leafLifetime
    return this.#sign(request, Math.max(info.notBefore, Math.min(latest, this.#deps.clock.now())))
  }

  /** The trust anchor, DER; `undefined` if the operator brought an intermediate without its root. */
  root = (): Uint8Array | undefined =>
    this.#current.authority.anchor ?? this.#authorities.root?.authority.certificate

  /** When that ends. */
  rootEnds = (): number | undefined => {
    const root = this.root()
    return this.#authorities.root?.authority.ends ?? (root && parseCertificate(root).notAfter)
  }

  intermediate = (): Authority => this.#current.authority

  /**
   * The parts that need an operator: `ca-root` ends within a year; `ca-intermediate` is to be
   * replaced, but not from here; `clock` is behind the CA, or was ahead when the CA was created.
   */
  degraded = (): readonly string[] => {
    const now = this.#deps.clock.now()
    const root = this.#authorities.root?.authority
    const current = this.#current.authority
    const isBehind = [current, root].some((one) => one && !hasBegun(one.info, now))
    const isRootEnding = (this.rootEnds() ?? Infinity) - now < YEAR
    const isDue = this.#options.intermediate
      ? isEnding(current, this.#options.leafLifetime, now)
      : this.#authorities.isReplaceable(current)
    return [
      ...(isRootEnding ? ['ca-root'] : []),
      ...(isDue ? ['ca-intermediate'] : []),
      ...(isBehind ? ['clock'] : []),
    ]
  }

  /** Replaces the intermediate when it is time, and keeps the CRLs current. */
  upkeep = async (): Promise<void> => {
    this.#skipFuture()
    const { authority } = this.#current
    const hasCome = hasBegun(authority.info, this.#deps.clock.now())
    if (!hasCome || this.#authorities.isReplaceable(authority)) {
      this.#signBy(await this.#authorities.openIntermediate())
      await this.track()
    }
    for (const [keyId, { authority }] of this.#byKeyId)
      if (authority.key) await this.crls.get(keyId)
    await this.#authorities.repairRootCrl(this.#current.authority)
  }

  /** Takes up the stored intermediates, whose CRLs go on. */
  async track(): Promise<void> {
    this.#intermediates = await this.#authorities.listIntermediates()
    for (const one of [...this.#intermediates, this.#authorities.root, this.#current])
      if (one) this.#byKeyId.set(one.authority.info.skid ?? '', one)
  }

  /** Another replica may have created the one that is not known here. */
  async #authorityOf(keyId: string): Promise<StoredAuthority | undefined> {
    const known = this.#byKeyId.get(keyId)
    const { store, clock } = this.#deps
    if (known || !store.isShared || clock.now() < this.#trackedAt + SECOND) return known
    this.#trackedAt = clock.now()
    await this.track()
    return this.#byKeyId.get(keyId)
  }

  /** Passes over an intermediate that was created by a clock that was ahead, once that is known. */
  #skipFuture(): void {
    if (this.#options.intermediate) return
    if (hasBegun(this.#current.authority.info, this.#deps.clock.now())) return
    const other = this.#authorities.choose(this.#intermediates)
    if (other) this.#signBy(other)
  }

  #signBy(intermediate: StoredAuthority): void {
    this.#current = signingBy(intermediate, this.#options)
    this.permits = this.#permittedBy(this.#current)
  }

  /** Most have no constraints, and each request asks. */
  #permittedBy({ constraints: { permits, text } }: Signing): Issuer['permits'] {
    const isPermitted = this.#isPermitted
    if (text === '') return isPermitted
    return (name) => (isPermitted?.(name) ?? true) && permits(name)
  }

  #sign({ names, keyType, spki }: LeafRequest, now: number): Issued {
    const { authority, signer } = this.#current
    const validity = clampValidity(authority, {
      notBefore: now - BACKDATE,
      notAfter: now + this.#options.leafLifetime,
    })
    const serial = createSerial(this.#deps.clock.now())
    const certificate = signer.sign({ spki, keyType, names, serial, ...validity })
    const serialNumber = Buffer.from(serial).toString('hex')
    return { certificate, chain: authority.chain, serialNumber, ...validity }
  }
}

type Signing = ReturnType<typeof signingBy>

/** An intermediate with what it takes to sign by it. */
function signingBy(
  { id, authority }: StoredAuthority,
  { crlUrl }: Pick<AuthorityOptions, 'crlUrl'>,
) {
  const { chain, anchor } = authority
  const constraints = readConstraints([...chain, ...(anchor ? [anchor] : [])])
  const signer = createLeafSigner(authority, {
    ...(crlUrl && { crlUrl: crlUrlOf(crlUrl, authority) }),
    withoutSubject: constraints.isSubjectLimited,
  })
  return { id, authority, constraints, signer }
}

class Crls {
  readonly #deps: Pick<AuthorityDeps, 'clock' | 'log' | 'store'>
  readonly #find: (keyId: string) => Promise<StoredAuthority | undefined>
  /** Lists that were complete at that count of revocations. */
  readonly #known = new Map<number, { record: CrlRecord; revocation: number }>()
  readonly #replacing = new Map<number, Promise<CrlRecord>>()
  #revocation = 0

  constructor(
    deps: Pick<AuthorityDeps, 'clock' | 'log' | 'store'>,
    find: (keyId: string) => Promise<StoredAuthority | undefined>,
  ) {
    this.#deps = deps
    this.#find = find
  }

  /** The CRL of this key identifier, at most a day old and complete. @throws IssuanceError `CERT_CRL_UNKNOWN` */
  async get(keyId: string): Promise<Uint8Array> {
    const stored = await this.#find(keyId)
    const record = stored && (await this.#current(stored))
    if (!record)
      throw new IssuanceError('CERT_CRL_UNKNOWN', 'this service has no list of that issuer')
    return record.crl
  }

  /** To be called after each revocation, also of another replica. */
  outdate(): void {
    this.#revocation += 1
  }

  async #current(stored: StoredAuthority): Promise<CrlRecord | undefined> {
    // The CRL of the root is created with each intermediate, while the key of the root is open.
    if (!stored.authority.key) return this.#deps.store.findCrl(stored.id)
    const last = this.#known.get(stored.id)
    if (last?.revocation === this.#revocation && !this.#isOld(last.record)) return last.record
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
        return { serialNumber, at: Math.min(revokedAt, now), reason }
      })
      const last = this.#newerOf(stored, this.#known.get(id)?.record)
      if (stored && last === stored && stored.entries === digestOf(revoked) && !this.#isOld(stored))
        return stored
      return nextCrl(authority, last, {
        thisUpdate: now,
        nextUpdate: now + CRL_LIFETIME,
        revoked,
      })
    })
    this.#known.set(id, { record, revocation })
    return record
  }

  /** A store that was restored, or whose standby took over, may be behind what clients have seen. */
  #newerOf(stored: CrlRecord | undefined, known: CrlRecord | undefined): CrlRecord | undefined {
    if (!known || (stored && stored.number >= known.number)) return stored
    const numbers = { stored: String(stored?.number ?? 0), known: String(known.number) }
    this.#deps.log.warn(numbers, 'the store went back in time: what was written last is lost')
    return known
  }
}

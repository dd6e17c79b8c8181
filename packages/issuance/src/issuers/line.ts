import { CLIENT_ISSUER } from '@gatehouse/cert-store/port'
import {
  type Authority,
  BACKDATE,
  clampValidity,
  compileRules,
  createLeafSigner,
  createSerial,
  type Name,
  type Profile,
  readConstraints,
} from '@gatehouse/pki'
import { IssuanceError } from '../errors.ts'
import { hasBegun } from '../times.ts'
import { Authorities } from './authorities.ts'
import {
  type AuthorityDeps,
  type AuthorityOptions,
  LINES,
  type StoredAuthority,
} from './authority-rows.ts'
import { crlUrlOf } from './crls.ts'
import type { Issuer, IssuerRequest, SignedCertificate } from './issuer.ts'
import type { Roots } from './roots.ts'

export type LeafRequest = Omit<IssuerRequest, 'csr' | 'replaces' | 'askedBy'>

/** How far the clocks of those who ask for an end may be ahead. */
const SKEW = 300_000
const WIDE = 'browsers refuse the wildcard of a whole top-level domain: use one below it'

/** Issues the certificates of one profile, by the intermediates for it, one of which signs now. */
export class SigningLine implements Issuer {
  readonly name: string
  readonly profile: Profile
  readonly configuration: string | undefined
  readonly objection?: NonNullable<Issuer['objection']>
  readonly authorities: Authorities
  readonly longest: number
  /** Whether `ca.permitted` has a name, and what signs now may sign it. */
  permits: Issuer['permits']
  readonly #options: AuthorityOptions
  readonly #deps: AuthorityDeps
  readonly #isPermitted: ((name: Name) => boolean) | undefined
  #intermediates: readonly StoredAuthority[] = []
  #current: Signing | undefined

  constructor(options: AuthorityOptions, deps: AuthorityDeps, profile: Profile, roots: Roots) {
    this.#options = options
    this.#deps = deps
    this.name = profile === 'client' ? CLIENT_ISSUER : 'ca'
    this.profile = profile
    this.configuration = options.configuration
    this.longest = options.maxLifetime ?? options.leafLifetime
    if (profile === 'client') this.objection = twoIds
    this.authorities = new Authorities(options, deps, roots, LINES[profile])
    const { permitted } = options
    this.#isPermitted = permitted.length > 0 ? compilePermitted(permitted) : undefined
    this.permits = this.#isPermitted
  }

  /** The intermediate that signs now; `undefined` before the first is opened. */
  get current(): Signing | undefined {
    return this.#current
  }

  /** All that are stored, and the one of the operator. */
  get all(): readonly StoredAuthority[] {
    return [...this.#intermediates, ...(this.#current ? [this.#current] : [])]
  }

  /** Opens the one that signs, which is made at need. @throws IssuanceError `CERT_ROOT_KEY_ABSENT` */
  async open(): Promise<Signing> {
    const signing = this.#signBy(await this.authorities.openIntermediate())
    await this.track()
    return signing
  }

  /** Takes up the stored intermediates, whose CRLs go on, and signs below the root that signs now. */
  async track(): Promise<void> {
    this.#intermediates = await this.authorities.listIntermediates()
    const current = this.#current
    if (!current || this.#isBrought) return
    const next = this.authorities.isReplaceable(current.authority)
      ? this.authorities.choose(this.#intermediates)
      : this.#intermediates.find(({ id }) => id === current.id)
    const isSame =
      next?.id === current.id && next.authority.chain.length === current.authority.chain.length
    if (next && !isSame) this.#signBy(next)
  }

  /** Replaces the one that signs when it is time. */
  async upkeep(): Promise<void> {
    this.skipFuture()
    const authority = this.#current?.authority
    if (!authority) return
    const hasCome = hasBegun(authority.info, this.#deps.clock.now())
    if (!hasCome || this.authorities.isReplaceable(authority)) await this.open()
  }

  /** Whether the operator has brought the intermediate. */
  get #isBrought(): boolean {
    return this.profile === 'server' && this.#options.intermediate !== undefined
  }

  /** Passes over an intermediate that was created by a clock that was ahead, once that is known. */
  skipFuture(): void {
    if (!this.#current || this.#isBrought) return
    if (hasBegun(this.#current.authority.info, this.#deps.clock.now())) return
    const intermediate = this.authorities.choose(this.#intermediates)
    if (intermediate) this.#signBy(intermediate)
  }

  /** A description of the names that it may sign, for a name that it may not. */
  scopeFor = (name: Name): string =>
    this.#current && (this.#isPermitted?.(name) ?? true)
      ? `the name constraints of ${this.#current.authority.info.subject} (${this.#current.constraints.text})`
      : '`ca.permitted`'

  latestEnd = (lifetime: number = this.longest): number => {
    const end = this.#deps.clock.now() + Math.min(lifetime, this.longest) + SKEW
    return Math.min(end, this.#current?.authority.ends ?? end)
  }

  issue = (request: LeafRequest): SignedCertificate | Promise<SignedCertificate> => {
    this.skipFuture()
    const now = this.#deps.clock.now()
    const wide = request.names.find(
      ({ kind, labels }) => kind === 'wildcard' && labels.length === 1,
    )
    if (wide) this.#deps.log.warn({ name: wide.text }, WIDE)
    return this.#current
      ? this.sign(this.#current, request, now)
      : this.open().then((signing) => this.sign(signing, request, now))
  }

  refusal = (request: Pick<LeafRequest, 'notAfter' | 'lifetime'>): Error | undefined => {
    this.skipFuture()
    try {
      const { authority } = this.#current ?? {}
      if (authority) this.#validityOf(authority, request, this.#deps.clock.now())
      return undefined
    } catch (error) {
      return error as Error
    }
  }

  sign({ authority, signer }: Signing, request: LeafRequest, now: number): SignedCertificate {
    const { names, keyType, spki } = request
    const validity = this.#validityOf(authority, request, now)
    const serial = createSerial(this.#deps.clock.now())
    const certificate = signer.sign({ spki, keyType, names, serial, ...validity })
    const serialNumber = Buffer.from(serial).toString('hex')
    return { certificate, chain: authority.chain, serialNumber, ...validity }
  }

  /** @throws PkiError PKI_CA_EXPIRED; IssuanceError CERT_NOT_PERMITTED */
  #validityOf(
    authority: Authority,
    { notAfter, lifetime = this.#options.leafLifetime }: Pick<LeafRequest, 'notAfter' | 'lifetime'>,
    now: number,
  ) {
    const validity = clampValidity(authority, {
      notBefore: now - BACKDATE,
      notAfter: notAfter ?? now + Math.min(lifetime, this.longest),
    })
    if (notAfter !== undefined && validity.notAfter < notAfter)
      throw new IssuanceError('CERT_NOT_PERMITTED', 'the CA expires before the requested end')
    return validity
  }

  #signBy(intermediate: StoredAuthority): Signing {
    this.#current = signingBy(intermediate, this.#options, this.profile)
    this.permits = this.#permittedBy(this.#current)
    return this.#current
  }

  /** Most have no constraints, and each request asks. */
  #permittedBy({ constraints: { permits, isLimited } }: Signing): Issuer['permits'] {
    const isPermitted = this.#isPermitted
    if (!isLimited) return isPermitted
    return (name) => (isPermitted?.(name) ?? true) && permits(name)
  }
}

/** The objection to more SPIFFE IDs than X509-SVID section 2 allows. */
function twoIds(names: readonly Name[]): string | undefined {
  const isOfOne = names.filter(({ kind }) => kind === 'uri').length < 2
  return isOfOne ? undefined : 'a client certificate has one SPIFFE ID at most'
}

type Signing = ReturnType<typeof signingBy>

/** An intermediate with what it takes to sign by it. */
function signingBy(
  { id, authority }: StoredAuthority,
  { crlUrl }: Pick<AuthorityOptions, 'crlUrl'>,
  profile: Profile,
) {
  const { chain, anchor } = authority
  const constraints = readConstraints([...chain, ...(anchor ? [anchor] : [])])
  const signer = createLeafSigner(authority, {
    ...(crlUrl && { crlUrl: crlUrlOf(crlUrl, authority) }),
    withoutSubject: constraints.isSubjectLimited,
    purpose: LINES[profile].purpose,
  })
  return { id, authority, constraints, signer }
}

/** Compiles `ca.permitted`: a rule for a domain is about its e-mail addresses and its SPIFFE IDs too. */
function compilePermitted(permitted: AuthorityOptions['permitted']): (name: Name) => boolean {
  const holds = compileRules(permitted)
  return (name) => {
    if (holds(name)) return true
    const { kind, labels } = name
    if (kind !== 'email' && kind !== 'uri') return false
    return holds({ kind: 'dns', text: labels.join('.'), labels })
  }
}

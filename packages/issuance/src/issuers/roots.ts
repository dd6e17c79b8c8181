import { existsSync } from 'node:fs'
import type { AuthorityRecord, RollRecord } from '@gatehouse/cert-store/port'
import { type Authority, createRoot, parseCertificate, placeBelow } from '@gatehouse/pki'
import {
  type AuthorityDeps,
  type AuthorityOptions,
  adopt,
  isSignedBy,
  isValid,
  openKey,
  readAuthority,
  restore,
  type StoredAuthority,
  save,
  warnOfFuture,
} from './authority-rows.ts'
import { rollInForce, rootsAt } from './roll.ts'

/** A cross certificate with both roots: those who trust `signer` trust `root` by it. */
interface Cross {
  readonly certificate: Buffer
  readonly notAfter: number
  readonly root: StoredAuthority
  readonly signer: StoredAuthority
}

/** The roots of the embedded CA: the one that signs, those to be trusted, and those of before. */
export class Roots {
  readonly #options: AuthorityOptions
  readonly #deps: AuthorityDeps
  #configured: StoredAuthority | undefined
  #signer: StoredAuthority | undefined
  #anchors: readonly StoredAuthority[] = []
  #history: readonly StoredAuthority[] = []
  #crosses: readonly Cross[] = []
  #roll: RollRecord | undefined
  /** The ids of those that are no longer to be trusted, as a roll is finished. */
  #replacedIds: ReadonlySet<number> = new Set()

  constructor(options: AuthorityOptions, deps: AuthorityDeps) {
    this.#options = options
    this.#deps = deps
  }

  /** The one that signs; `undefined` for an intermediate of the operator without its root. */
  get signer(): StoredAuthority | undefined {
    return this.#signer
  }

  /** All to be trusted, the one that signs first. */
  get anchors(): readonly StoredAuthority[] {
    return this.#anchors
  }

  /** Those of today and before, without their keys. */
  get history(): readonly StoredAuthority[] {
    return this.#history
  }

  /** The roll that says which one signs. */
  get roll(): RollRecord | undefined {
    return this.#roll
  }

  /** Whether the configuration still names a root that a roll has replaced. */
  get isConfigurationBehind(): boolean {
    return this.#configured !== undefined && this.#replacedIds.has(this.#configured.id)
  }

  /** Opens the operator's root or the stored one, which is made at need. */
  async open(): Promise<void> {
    const { name, root: files, intermediate } = this.#options
    const now = this.#deps.clock.now()
    // The key is not read here: it may be offline until an intermediate has to be signed.
    if (files) {
      const root = readAuthority('ca.root', { certFile: files.certFile }, now)
      this.#configured = await adopt('root', root, this.#deps.store)
    }
    await this.track()
    if (this.#signer && !files) warnOfFuture(this.#history, this.#signer, this.#deps)
    if (this.#signer || intermediate) return
    // If another replica is faster, its root counts.
    await save('root', await createRoot({ commonName: `${name} Root CA`, now }), [], this.#deps)
    await this.track()
  }

  /** Takes up the stored roots, and how far a roll has come. */
  async track(): Promise<void> {
    const { store, clock } = this.#deps
    // In this order: a root that is new comes with its roll.
    const rows = await store.listAuthorities()
    const rolls = await store.listRolls()
    this.#history = rows
      .filter(({ role }) => role === 'root')
      .map((row) => (row.id === this.#configured?.id ? this.#configured : restore(row)))
    this.#crosses = rows.filter(({ role }) => role === 'cross').flatMap((row) => this.#crossOf(row))
    const [newest] = this.#history
    const isElsewhere = this.#options.intermediate && !this.#configured
    if (!newest || isElsewhere) return
    this.#roll = rollInForce(rolls, { newest: newest.id, configured: this.#configured?.id })
    const now = clock.now()
    const chosen =
      this.#configured ?? this.#history.find(({ authority }) => isValid(authority, now)) ?? newest
    const { signer, anchors } = this.#roll
      ? rootsAt(this.#roll)
      : { signer: chosen.id, anchors: [chosen.id] }
    this.#signer = this.find(signer) ?? chosen
    this.#anchors = anchors.flatMap((id) => this.find(id) ?? [])
    const finished = rolls.filter(({ stage }) => stage === 'finished')
    const ids = finished.map(({ fromRoot }) => fromRoot).filter((id) => !anchors.includes(id))
    this.#replacedIds = new Set(ids)
  }

  find(id: number): StoredAuthority | undefined {
    return this.#history.find((root) => root.id === id)
  }

  /** Returns the root that has signed a certificate, today's first. */
  issuerOf(certificate: Uint8Array): StoredAuthority | undefined {
    const roots = [...(this.#signer ? [this.#signer] : []), ...this.#history]
    return roots.find(({ authority }) => isSignedBy(certificate, authority.certificate))
  }

  /** Completes an intermediate by what is known of its root: the chain has the cross certificate until that ends. */
  place(authority: Authority): Authority {
    const root = this.issuerOf(authority.certificate)
    if (!root) return authority
    const cross = this.#crossInForce(root.id)
    if (!cross) return placeBelow(root.authority, authority)
    const { chain, anchor } = cross.signer.authority
    const issuers = chain.filter((der) => !anchor?.equals(der))
    return placeBelow(root.authority, authority, [cross.certificate, ...issuers])
  }

  /** Whether clients that trust only the root before this one accept what it signs. */
  isCrossed(id: number): boolean {
    return this.#crossInForce(id) !== undefined
  }

  /**
   * The root before the one from which a roll begins, if chains lead to it still. They no longer do once the new root signs,
   * as they have one cross certificate alone: GnuTLS accepts none that go on after the second.
   */
  lostBy({ fromRoot, toRoot }: RollRecord): Authority | undefined {
    return this.isCrossed(toRoot) ? this.#crossInForce(fromRoot)?.signer.authority : undefined
  }

  /** Whether a roll has replaced a root, DER: nobody is to trust it any more. */
  isReplaced(certificate: Buffer): boolean {
    const root = this.#history.find(({ authority }) => authority.certificate.equals(certificate))
    return root !== undefined && this.#replacedIds.has(root.id)
  }

  /** The roots that certificates are verified by, also by way of a cross certificate. */
  verifiers(): readonly StoredAuthority[] {
    return [...this.#anchors, ...this.#crossesInForce().map(({ signer }) => signer)]
  }

  /** A root with its key from the operator's file or the store; `undefined` while it is offline. */
  async unlock({ id }: StoredAuthority): Promise<StoredAuthority | undefined> {
    const { store, keyring, clock } = this.#deps
    const { root: files } = this.#options
    if (files?.keyFile !== undefined && id === this.#configured?.id)
      return existsSync(files.keyFile)
        ? { id, authority: readAuthority('ca.root', files, clock.now()) }
        : undefined
    const record = (await store.listAuthorities()).find((row) => row.id === id)
    const key = record && (await openKey(record, keyring))
    return key && restore(record, key)
  }

  /** The cross certificate for a root. */
  #crossInForce(id: number): Cross | undefined {
    return this.#crossesInForce().find(({ root }) => root.id === id)
  }

  #crossesInForce(): readonly Cross[] {
    const now = this.#deps.clock.now()
    return this.#crosses.filter(({ notAfter }) => notAfter > now)
  }

  #crossOf({ certificate: bytes, notAfter }: AuthorityRecord): readonly Cross[] {
    const certificate = Buffer.from(bytes)
    const { spki } = parseCertificate(certificate)
    const root = this.#history.find(({ authority }) => authority.info.spki.equals(spki))
    const signer = this.#history.find(({ authority }) =>
      isSignedBy(certificate, authority.certificate),
    )
    return root && signer ? [{ certificate, notAfter, root, signer }] : []
  }
}

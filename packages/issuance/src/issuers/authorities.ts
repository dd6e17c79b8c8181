import type { AuthorityRecord, NewAuthority } from '@gatehouse/cert-store/port'
import { type Authority, createIntermediate, isAsConfigured } from '@gatehouse/pki'
import { IssuanceError } from '../errors.ts'
import { DAY, HOUR, hasBegun } from '../times.ts'
import {
  type AuthorityDeps,
  type AuthorityOptions,
  adopt,
  isSignedBy,
  isValid,
  LINES,
  type Line,
  openKey,
  readAuthority,
  recordOf,
  restore,
  type StoredAuthority,
  save,
  warnOfFuture,
  YEAR,
} from './authority-rows.ts'
import { crlUrlOf, firstCrl, replaceRootCrl } from './crls.ts'
import type { Roots } from './roots.ts'

/**
 * Opens and creates the intermediates of one line of the embedded CA. No authority is refused for its
 * dates alone, as the clock may be the one that is wrong.
 */
export class Authorities {
  readonly #options: AuthorityOptions
  readonly #deps: AuthorityDeps
  readonly #line: Line
  readonly #roots: Roots

  constructor(options: AuthorityOptions, deps: AuthorityDeps, roots: Roots, line: Line) {
    this.#options = options
    this.#deps = deps
    this.#line = line
    this.#roots = roots
  }

  /** The operator's, or the newest stored one that fits, or a new one. @throws IssuanceError CERT_ROOT_KEY_ABSENT */
  async openIntermediate(): Promise<StoredAuthority> {
    const { root: rootFiles, intermediate: files } = this.#options
    const now = this.#deps.clock.now()
    if (files && this.#line === LINES.server)
      return adopt('intermediate', readAuthority('ca.intermediate', files, now), this.#deps.store)
    const stored = await this.listIntermediates()
    const chosen =
      this.choose(stored) ??
      (await this.#createUnlessRootIsInvalid(stored)) ??
      leastUnfit(stored.filter(this.#isBelowSigning), now) ??
      leastUnfit(stored, now)
    if (!chosen)
      throw new IssuanceError('CERT_ROOT_KEY_ABSENT', absenceOf(this.#line, rootFiles?.keyFile))
    warnOfFuture(stored, chosen, this.#deps)
    return chosen
  }

  /** The intermediates whose keys are stored, newest first, valid or not. */
  async listIntermediates(): Promise<readonly StoredAuthority[]> {
    return this.#intermediatesOf(await this.#deps.store.listAuthorities())
  }

  /** The newest intermediate below a root that is valid and than which a new one would be no better. */
  choose(
    stored: readonly StoredAuthority[],
    root: StoredAuthority | undefined = this.#roots.signer,
  ): StoredAuthority | undefined {
    const now = this.#deps.clock.now()
    return stored.find(
      ({ authority }) => isValid(authority, now) && !this.isReplaceable(authority, root),
    )
  }

  /** Sees to it that there is an intermediate below a root that may sign next. False if that needs the root's key, which is absent. */
  async prepare(root: StoredAuthority): Promise<boolean> {
    const stored = await this.listIntermediates()
    return (this.choose(stored, root) ?? (await this.#createIntermediate(root))) !== undefined
  }

  /**
   * Whether a new intermediate would be better: it would live longer, or be as the configuration says.
   * One that ends with its root is as good as it gets.
   */
  isReplaceable(
    authority: Authority,
    { authority: root }: Partial<StoredAuthority> = this.#roots.signer ?? {},
  ): boolean {
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

  #isBelowSigning = ({ authority }: StoredAuthority): boolean => {
    const root = this.#roots.signer?.authority
    return root !== undefined && isSignedBy(authority.certificate, root.certificate)
  }

  #configuredBelow(root: Authority) {
    const { permitted, crlUrl } = this.#options
    return { permitted, ...(crlUrl !== undefined && { crlUrl: crlUrlOf(crlUrl, root) }) }
  }

  /** Recreates the CRL of the root if a clock that was ahead dated it and the root's key is available. */
  async repairRootCrl(intermediate: Authority): Promise<void> {
    const { store, clock } = this.#deps
    const root = this.#roots.signer
    const list = root && (await store.findCrl(root.id))
    if (!list || hasBegun({ notBefore: list.thisUpdate ?? 0 }, clock.now())) return
    if (!hasBegun(root.authority.info, clock.now())) return
    const signer = await this.#roots.unlock(root)
    if (signer) await replaceRootCrl(signer, clock.now(), intermediate.ends, store)
  }

  /** A new intermediate; none while the root is invalid and there are others. */
  async #createUnlessRootIsInvalid(stored: readonly StoredAuthority[]) {
    const root = this.#roots.signer
    const now = this.#deps.clock.now()
    const isValidRoot =
      root && hasBegun(root.authority.info, now) && root.authority.ends > now + HOUR
    if (!root || (!isValidRoot && stored.length > 0)) return undefined
    return this.#createIntermediate(root)
  }

  /** A new intermediate, or `undefined` while the key of the root is offline. */
  async #createIntermediate(root: StoredAuthority): Promise<StoredAuthority | undefined> {
    const signer = await this.#roots.unlock(root)
    if (!signer) return undefined
    const now = this.#deps.clock.now()
    const rows = await this.#deps.store.listAuthorities()
    // Another replica may have stored one since this one looked for it.
    const existing = this.choose(await this.#intermediatesOf(rows), root)
    if (existing) return existing
    const authority = await this.#create(signer.authority, now)
    // The CRL of the root is created while its key is open, and lasts as long as the intermediate.
    await replaceRootCrl(signer, now, authority.ends, this.#deps.store)
    const id = await save(this.#line.role, authority, rows, this.#deps)
    // Another replica was faster, and its intermediate counts.
    if (id === undefined) return this.choose(await this.listIntermediates(), root)
    return { id, authority: this.#roots.place(authority) }
  }

  /** Creates an intermediate below a root with its key to be stored with the root, with its first CRL. */
  async draft(root: Authority, now: number): Promise<NewAuthority> {
    const authority = await this.#create(root, now)
    const record = recordOf(this.#line.role, authority, this.#deps.keyring)
    return { ...record, crl: firstCrl(authority, now) }
  }

  #create(root: Authority, now: number): Promise<Authority> {
    return createIntermediate({
      root,
      commonName: `${this.#options.name} ${this.#line.title}`,
      purpose: this.#line.purpose,
      now,
      lifetimeMs: YEAR,
      ...this.#configuredBelow(root),
    })
  }

  async #intermediatesOf(rows: readonly AuthorityRecord[]): Promise<readonly StoredAuthority[]> {
    const kept = rows.filter(({ role, sealedKey }) => role === this.#line.role && sealedKey)
    return Promise.all(
      kept.map(async (row) => {
        const { id, authority } = restore(row, await openKey(row, this.#deps.keyring))
        return { id, authority: this.#roots.place(authority) }
      }),
    )
  }
}

/** Callers read it for the line of clients, and they must not know files. */
function absenceOf(line: Line, keyFile: string | undefined): string {
  if (line === LINES.client)
    return 'an intermediate for client certificates has to be created, but the key of the root is not available'
  const where = keyFile === undefined ? '.' : `: ${keyFile}`
  return `An intermediate has to be created, but the key of the root is not available${where}`
}

/** Whether an authority is due for replacement: 30 days before it ends, or before leaves get shorter. */
export function isEnding({ ends }: Authority, longest: number, now: number): boolean {
  return ends - now < Math.max(30 * DAY, longest + 15 * DAY)
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

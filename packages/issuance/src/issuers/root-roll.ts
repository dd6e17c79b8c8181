import type { AuditEntry, InForce, RollRecord } from '@gatehouse/cert-store/port'
import { type Authority, loadAuthority, PkiError } from '@gatehouse/pki'
import { IssuanceError } from '../errors.ts'
import {
  type AuthorityDeps,
  type AuthorityOptions,
  isSignedBy,
  isValid,
  type StoredAuthority,
} from './authority-rows.ts'
import { replaceRootCrl } from './crls.ts'
import type { SigningLine } from './line.ts'
import {
  authoritiesBelow,
  crossOf,
  type NextRoot,
  nameOf,
  openNextRoot,
  refuseRoot,
} from './next-root.ts'
import { earliest, type RollStep, rootsAt, stepOf } from './roll.ts'
import type { Roots } from './roots.ts'

/** What is known of who trusts a root. */
export interface RootTrust {
  /** The clients that do not trust it, as they say. */
  readonly lacking: readonly string[]
  /** The addresses that have fetched it. */
  readonly fetchedFrom: readonly string[]
}

/** How far a roll has come, for operators. */
export interface RollStatus extends RootTrust, Partial<Pick<RollRecord, 'begunAt' | 'usedAt'>> {
  readonly stage: 'none' | RollRecord['stage']
  /** Of a root that signs, or from which it rolls. */
  readonly from: Authority | undefined
  readonly to: Authority | undefined
  readonly inForce: InForce
  readonly next: { readonly step: Exclude<RollStep, 'back'>; readonly from: number } | undefined
}

/** What the CA is made of: its roots, and the lines for TLS servers and for TLS clients. */
export interface CaParts {
  readonly roots: Roots
  readonly servers: SigningLine
  readonly clients: SigningLine
}

type Tracked = CaParts & { readonly track: () => Promise<void> }

type Requester = Pick<AuditEntry, 'actor' | 'remoteAddress' | 'requestId'>

const NONE: InForce = { total: 0, names: [], until: null }
const NOBODY: RootTrust = { lacking: [], fetchedFrom: [] }

/** Replaces the root of the embedded CA by another one, in stages that all replicas follow. */
export class RootRoll {
  /** Says who trusts a root, by what was seen since then. Set by what asks clients. */
  rootHolders: { find(root: Uint8Array, since: number): Promise<RootTrust> } = {
    find: async () => NOBODY,
  }
  readonly #options: AuthorityOptions
  readonly #deps: AuthorityDeps
  readonly #parts: Tracked

  constructor(options: AuthorityOptions, deps: AuthorityDeps, parts: Tracked) {
    this.#options = options
    this.#deps = deps
    this.#parts = parts
  }

  /** Says how far the roll has come. */
  async status(): Promise<RollStatus> {
    const { roots, track } = this.#parts
    await track()
    const { roll, signing } = roots
    if (!roll) {
      const from = signing?.authority
      return { stage: 'none', from, to: undefined, inForce: NONE, ...NOBODY, next: undefined }
    }
    const { stage, begunAt, usedAt } = roll
    const { inForce, lacking, fetchedFrom } = await this.#factsOf(roll)
    const step = stage === 'begun' ? 'use' : 'finish'
    return {
      ...{ stage, begunAt, usedAt, inForce, lacking, fetchedFrom },
      from: this.#find(roll.fromRoot)?.authority,
      to: this.#find(roll.toRoot)?.authority,
      next: stage === 'finished' ? undefined : { step, from: earliest(roll, inForce.until) },
    }
  }

  /**
   * Begins a roll: stores the next root with its intermediates, and a list of each. The root of now goes on signing.
   * @throws IssuanceError CERT_ROLL_STAGE, CERT_ROLL_ROOT
   */
  async begin(input: NextRoot, requester: Requester): Promise<void> {
    const { store, clock } = this.#deps
    const { track } = this.#parts
    await track()
    const now = clock.now()
    const signing = this.#requireFree()
    const { next, signer, authorities } = await this.#nextOf(signing, input, now)
    // Nothing else signs by its key from now on, and what is below the next root needs its list.
    if (signer) await replaceRootCrl(signer, now, signer.authority.ends, store)
    const entry = this.#entry('begin', signing.authority, next, requester)
    if (!(await store.beginRoll(authorities, { fromRoot: signing.id, begunAt: now }, entry)))
      throw new IssuanceError('CERT_ROLL_STAGE', 'another replica has begun a roll just now')
    await track()
  }

  /**
   * Goes on with a roll, or back.
   * @throws IssuanceError CERT_ROLL_STAGE, CERT_ROLL_TOO_SOON, CERT_ROLL_ROOT, CERT_ROOT_KEY_ABSENT
   */
  async step(
    step: RollStep,
    { isForced, forgetsKey }: { readonly isForced: boolean; readonly forgetsKey: boolean },
    requester: Requester,
  ): Promise<void> {
    const { store } = this.#deps
    const { roots, track } = this.#parts
    await track()
    const { roll } = roots
    const facts = roll ? await this.#factsOf(roll) : { now: 0, inForce: NONE, lacking: [] }
    const next = stepOf(roll, step, facts, isForced)
    if (!roll) return
    if (next) {
      if (step !== 'finish') await this.#prepare(rootsAt({ ...roll, ...next }).signing)
      const [from, to] = [this.#find(roll.fromRoot), this.#find(roll.toRoot)]
      const entry = this.#entry(step, from?.authority, to?.authority, requester)
      if (!(await store.changeRoll(roll, next, entry)))
        throw new IssuanceError('CERT_ROLL_STAGE', 'another replica has changed the stage just now')
      await track()
    }
    if (forgetsKey) await store.dropAuthorityKey(roll.fromRoot)
  }

  /** The next root, and what is added with it. */
  async #nextOf(signing: StoredAuthority, input: NextRoot, now: number) {
    const { roots, servers, clients } = this.#parts
    const lines = clients.all.length > 0 ? [servers, clients] : [servers]
    try {
      const next = await openNextRoot(input, { ...this.#options, roots: roots.all }, now)
      const signer = input.isCrossed
        ? await this.#signerOf(signing, input.signerKey, now)
        : undefined
      const cross = signer && crossOf(next, signer.authority, this.#options, now)
      const isStored = input.root === undefined
      const authorities = await authoritiesBelow(next, { lines, isStored, cross }, this.#deps)
      return { next, signer, authorities }
    } catch (error) {
      if (!(error instanceof PkiError)) throw error
      return refuseRoot(`${error.message} (${error.code})`, error)
    }
  }

  /** The root of now with its key, for the cross certificate. */
  async #signerOf(
    { id, authority }: StoredAuthority,
    key: string | undefined,
    now: number,
  ): Promise<StoredAuthority> {
    const subject = nameOf(authority)
    if (!isValid(authority, now))
      refuseRoot(`${subject} is not valid now: begin without a cross certificate`)
    const certificate = [authority.certificate, ...authority.chain.slice(1)]
    if (key !== undefined) return { id, authority: loadAuthority({ certificate, key, now }) }
    const signer = await this.#parts.roots.withKey({ id, authority })
    if (signer) return signer
    return refuseRoot(
      `the key of ${subject} is not here: send it along as \`signerKey\`, or begin without a cross certificate`,
    )
  }

  #find(id: number): StoredAuthority | undefined {
    return this.#parts.roots.all.find((root) => root.id === id)
  }

  #entry(
    step: RollStep | 'begin',
    from: Authority | undefined,
    to: Authority | undefined,
    requester: Requester,
  ): AuditEntry {
    const detail = `${step}: from ${nameOf(from)} to ${nameOf(to)}`
    return { ...requester, at: this.#deps.clock.now(), action: 'ca-roll', names: [], detail }
  }

  /** The root that signs, from which a roll may begin. */
  #requireFree(): StoredAuthority {
    const { roll, signing, isConfigurationBehind } = this.#parts.roots
    if (this.#options.intermediate || !signing)
      refuseRoot(
        'the intermediate of `ca.intermediate` is yours, and so is its root: put an intermediate of the next root there',
      )
    if (roll && roll.stage !== 'finished')
      throw new IssuanceError(
        'CERT_ROLL_STAGE',
        `a roll is under way, and its stage is ${roll.stage}`,
      )
    if (isConfigurationBehind)
      throw new IssuanceError(
        'CERT_ROLL_STAGE',
        `\`ca.root.certFile\` names a root that was replaced: name ${nameOf(signing.authority)} first`,
      )
    return signing
  }

  /** Sees to it that a root can sign. */
  async #prepare(id: number): Promise<void> {
    const { servers, clients } = this.#parts
    const root = this.#find(id)
    if (!root || !isValid(root.authority, this.#deps.clock.now()))
      return refuseRoot(
        `${nameOf(root?.authority)} has ended, or has not begun by the clock of this machine`,
      )
    await servers.authorities.prepare(root)
    if (clients.all.length > 0) await clients.authorities.prepare(root)
  }

  async #factsOf({ fromRoot, toRoot, begunAt }: RollRecord) {
    const { store, clock } = this.#deps
    const now = clock.now()
    const [from, to] = [this.#find(fromRoot), this.#find(toRoot)]
    const below = (await store.listAuthorities())
      .filter(({ role }) => role !== 'root' && role !== 'cross')
      .map(({ certificate }) => certificate)
      .filter((certificate) => from && isSignedBy(certificate, from.authority.certificate))
    const inForce = await store.findInForce(below, now)
    const trust = to ? await this.rootHolders.find(to.authority.certificate, begunAt) : NOBODY
    return { now, inForce, ...trust }
  }
}

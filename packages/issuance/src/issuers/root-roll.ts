import type { AuditEntry, NewAuthority, RollRecord } from '@gatehouse/cert-store/port'
import { type Authority, createCross, loadAuthority, PkiError } from '@gatehouse/pki'
import {
  type AuthorityDeps,
  type AuthorityOptions,
  intermediatesBelow,
  isValid,
  recordOf,
  recordWithoutKey,
  type StoredAuthority,
} from './authority-rows.ts'
import { crlUrlOf, firstCrl, replaceRootCrl } from './crls.ts'
import type { SigningLine } from './line.ts'
import { type NextRoot, nameOf, openNextRoot, refuseRoot } from './next-root.ts'
import { type RollFacts, type RollStep, type RootTrust, refusal, rootsAt, stepOf } from './roll.ts'
import type { Roots } from './roots.ts'

/** What the CA is made of: its roots, and the lines for TLS servers and for TLS clients. */
export interface CaParts {
  readonly roots: Roots
  readonly servers: SigningLine
  readonly clients: SigningLine
}

/** How far a roll has come, for operators. */
export interface RollStatus {
  /** The root that signs, or from which it rolls. */
  readonly oldRoot: Authority | undefined
  readonly newRoot?: Authority | undefined
  readonly roll?: RollRecord
  readonly facts?: RollFacts
}

const NOBODY: RootTrust = { lacking: [], fetchedFrom: [] }

/** Replaces the root of the embedded CA by another one, in stages that all replicas follow. */
export class RootRoll {
  /** Says who trusts a root, by what was seen since then. Set by what asks clients. */
  rootHolders: { find(root: Uint8Array, since: number): Promise<RootTrust> } = {
    find: async () => NOBODY,
  }
  readonly #options: AuthorityOptions
  readonly #deps: AuthorityDeps
  readonly #parts: CaParts
  readonly #track: () => Promise<void>

  constructor(
    options: AuthorityOptions,
    deps: AuthorityDeps,
    parts: CaParts,
    track: () => Promise<void>,
  ) {
    this.#options = options
    this.#deps = deps
    this.#parts = parts
    this.#track = track
  }

  /** Says how far the roll has come. */
  async status(): Promise<RollStatus> {
    await this.#track()
    const { roots } = this.#parts
    const { roll, signer } = roots
    if (!roll) return { oldRoot: signer?.authority }
    const [oldRoot, newRoot] = [roll.fromRoot, roll.toRoot].map((id) => roots.find(id)?.authority)
    return { oldRoot, newRoot, roll, facts: await this.#factsOf(roll) }
  }

  /**
   * Begins a roll: stores the new root with its intermediates, and a list of each. The old root goes on signing.
   * @param entry - of the audit trail, for all steps
   * @throws IssuanceError CERT_ROLL_REFUSED, CERT_ROLL_ROOT
   */
  async begin(input: NextRoot, entry: AuditEntry): Promise<void> {
    const { store, clock } = this.#deps
    await this.#track()
    const now = clock.now()
    const oldRoot = this.#requireFree()
    const { newRoot, signer, authorities } = await this.#newRootOf(oldRoot, input, now)
    // Its key may not be here again, and whoever verifies the cross certificate needs its list.
    if (signer) await replaceRootCrl(signer, now, signer.authority.ends, store)
    const detail = `begin: from ${nameOf(oldRoot.authority)} to ${nameOf(newRoot)}`
    const roll = { fromRoot: oldRoot.id, begunAt: now }
    if (!(await store.beginRoll(authorities, roll, { ...entry, detail })))
      throw refusal('another replica has begun a roll just now')
    await this.#track()
  }

  /**
   * Goes on with a roll, or back.
   * @throws IssuanceError CERT_ROLL_REFUSED, CERT_ROLL_ROOT
   */
  async step(
    step: RollStep,
    { isForced, forgetsKey }: { readonly isForced: boolean; readonly forgetsKey: boolean },
    entry: AuditEntry,
  ): Promise<void> {
    const { store } = this.#deps
    const { roll, oldRoot, newRoot, facts } = await this.status()
    if (!roll || !facts) throw refusal('no roll has begun: begin one first')
    const next = stepOf(roll, step, facts, isForced)
    if (next) {
      if (step !== 'finish') await this.#prepare(rootsAt({ ...roll, ...next }).signer)
      const detail = `${step}: from ${nameOf(oldRoot)} to ${nameOf(newRoot)}`
      if (!(await store.changeRoll(roll, next, { ...entry, detail })))
        throw refusal('another replica has changed the stage just now')
      await this.#track()
    }
    if (!forgetsKey) return
    const detail = `forget-key: of ${nameOf(oldRoot)}`
    await store.dropAuthorityKey(roll.fromRoot, { ...entry, detail })
  }

  /** The root that signs, from which a roll may begin. */
  #requireFree(): StoredAuthority {
    const { roll, signer, isConfigurationBehind } = this.#parts.roots
    if (this.#options.intermediate || !signer)
      refuseRoot('`ca.intermediate` is your own: put one there that your new root has signed')
    if (roll && roll.stage !== 'finished' && roll.stage !== 'cancelled')
      throw refusal(`a roll is under way, and its stage is ${roll.stage}`)
    const name = nameOf(signer.authority)
    if (isConfigurationBehind)
      throw refusal(`\`ca.root.certFile\` names a root that was replaced: name ${name} first`)
    return signer
  }

  /** The new root, and what is added with it. */
  async #newRootOf(oldRoot: StoredAuthority, input: NextRoot, now: number) {
    const { roots } = this.#parts
    try {
      const newRoot = await openNextRoot(input, this.#options, roots.history, now)
      const signer = input.isCrossed
        ? await this.#signerOf(oldRoot, input.signerKey, now)
        : undefined
      const drafts = this.#lines().map(({ authorities }) => authorities.draft(newRoot, now))
      const intermediates = await Promise.all(drafts)
      const cross = signer ? [this.#crossOf(newRoot, signer.authority, now)] : []
      const nextUpdate = Math.max(...intermediates.map(({ notAfter }) => notAfter))
      // The key of one that was brought is not stored.
      const record =
        input.root === undefined
          ? recordOf('root', newRoot, this.#deps.keyring)
          : recordWithoutKey('root', newRoot)
      const root = { ...record, crl: firstCrl(newRoot, now, nextUpdate) }
      return { newRoot, signer, authorities: [root, ...cross, ...intermediates] as const }
    } catch (error) {
      if (!(error instanceof PkiError)) throw error
      return refuseRoot(`${error.message} (${error.code})`, error)
    }
  }

  /** The old root with its key, for the cross certificate. */
  async #signerOf(
    { id, authority }: StoredAuthority,
    key: string | undefined,
    now: number,
  ): Promise<StoredAuthority> {
    const name = nameOf(authority)
    if (!isValid(authority, now))
      refuseRoot(`${name} is not valid now: begin without a cross certificate`)
    const certificate = [authority.certificate, ...authority.chain.slice(1)]
    if (key !== undefined) return { id, authority: loadAuthority({ certificate, key, now }) }
    const signer = await this.#parts.roots.unlock({ id, authority })
    const advice = 'send it along, or begin without a cross certificate'
    return signer ?? refuseRoot(`the key of ${name} is not here: ${advice}`)
  }

  #crossOf(root: Authority, signer: Authority, now: number): NewAuthority {
    const { crlUrl } = this.#options
    const list = crlUrl === undefined ? {} : { crlUrl: crlUrlOf(crlUrl, signer) }
    const certificate = createCross({ signer, root, now, ...list })
    return { role: 'cross', certificate, sealedKey: null, notAfter: signer.ends }
  }

  /** The lines that sign: that of clients once it is needed. */
  #lines(): readonly SigningLine[] {
    const { servers, clients } = this.#parts
    return clients.all.length > 0 ? [servers, clients] : [servers]
  }

  /** Sees to it that a root can sign. */
  async #prepare(id: number): Promise<void> {
    const root = this.#parts.roots.find(id)
    if (!root || !isValid(root.authority, this.#deps.clock.now()))
      return refuseRoot(`${nameOf(root?.authority)} has ended, or has not begun by our clock`)
    const why = `a new intermediate is due below ${nameOf(root.authority)}: name this root by \`ca.root\`, with its \`keyFile\``
    for (const { authorities } of this.#lines())
      if (!(await authorities.prepare(root))) refuseRoot(why)
  }

  async #factsOf(roll: RollRecord): Promise<RollFacts> {
    const { fromRoot, toRoot, begunAt } = roll
    const { store, clock } = this.#deps
    const now = clock.now()
    const { roots } = this.#parts
    const [oldRoot, newRoot] = [fromRoot, toRoot].map((id) => roots.find(id)?.authority)
    const authorities = await store.listAuthorities()
    const useOf = async (root: Authority | undefined) => {
      const intermediates = root ? intermediatesBelow(authorities, root.certificate) : []
      const inForce = await store.findInForce(intermediates, now)
      return { inForce, keyId: root?.info.skid ?? '' }
    }
    const trust = newRoot ? await this.rootHolders.find(newRoot.certificate, begunAt) : NOBODY
    const [isCrossed, lostRoot] = [roots.isCrossed(toRoot), roots.lostBy(roll)]
    const uses = { ...(await useOf(oldRoot)), newRootUse: await useOf(newRoot) }
    return { now, ...uses, isCrossed, lostRoot, ...trust }
  }
}

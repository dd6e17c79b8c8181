import {
  type Authority,
  clampValidity,
  compileRules,
  createLeafSigner,
  createSerial,
  type LeafSigner,
  type Name,
} from '@gatehouse/pki'
import { hasBegun } from '../clocks.ts'
import {
  type AuthorityDeps,
  type AuthorityOptions,
  chooseIntermediate,
  crlUrlOf,
  isEnding,
  mendRootList,
  openIntermediate,
  openRoot,
  restoreIntermediates,
  type StoredAuthority,
} from './authorities.ts'
import { type Crls, createCrls } from './crl.ts'
import type { Issued, Issuer, IssuerRequest } from './issuer.ts'

const BACKDATE_MS = 60_000

/** The embedded CA: a root, the intermediate that signs, and their revocation lists. */
export interface Ca extends Issuer {
  issue(request: Pick<IssuerRequest, 'names' | 'keyType' | 'spki'>): Issued
  /** A certificate of the part of the CA's validity that is nearest to now: for a CA that is over. */
  issueNearest(request: Pick<IssuerRequest, 'names' | 'keyType' | 'spki'>): Issued
  /** The trust anchor, DER; undefined where the operator brought an intermediate without it. */
  root(): Uint8Array | undefined
  /** The authority that signs now. */
  intermediate(): Authority
  readonly crls: Crls
  /**
   * What an operator has to see to: `ca-intermediate` ends and cannot be replaced from here, `clock`
   * is behind the CA or was ahead when it was made.
   */
  degraded(): readonly string[]
  /** Takes another intermediate into service when it is time, and keeps the lists young. */
  upkeep(): Promise<void>
}

/** Opens the CA; makes root and intermediate at first start. */
export async function openCa(options: AuthorityOptions, deps: AuthorityDeps): Promise<Ca> {
  const root = await openRoot(options, deps)
  const permitted = options.permitted.length > 0 ? compileRules(options.permitted) : () => true
  const signing = new Map<string, StoredAuthority>()
  let intermediates: readonly StoredAuthority[] = []
  let current: StoredAuthority
  let signer: LeafSigner

  async function open(): Promise<void> {
    const opened = await openIntermediate(options, root, deps)
    intermediates = await restoreIntermediates(deps)
    for (const one of intermediates) remember(one)
    if (root) remember(root)
    use(opened)
  }

  /** Passes over an intermediate that a clock made which was ahead, as soon as that is seen. */
  function passOverFuture(): void {
    const now = deps.now()
    if (options.intermediate || hasBegun(current.authority.info, now)) return
    const other = chooseIntermediate(intermediates, options, root, now)
    if (other) use(other)
  }

  function use(intermediate: StoredAuthority): void {
    const { crlUrl } = options
    current = intermediate
    signer = createLeafSigner(intermediate.authority, {
      ...(crlUrl && { crlUrl: crlUrlOf(crlUrl, intermediate.authority) }),
    })
    remember(intermediate)
  }

  function remember(stored: StoredAuthority): void {
    signing.set(stored.authority.info.skid ?? '', stored)
  }

  function issue(request: Pick<IssuerRequest, 'names' | 'keyType' | 'spki'>) {
    passOverFuture()
    return sign(request, deps.now())
  }

  function issueNearest(request: Pick<IssuerRequest, 'names' | 'keyType' | 'spki'>) {
    const { notBefore, notAfter } = current.authority.info
    const latest = notAfter - options.leafLifetime
    return sign(request, Math.max(notBefore, Math.min(latest, deps.now())))
  }

  function sign(
    { names, keyType, spki }: Pick<IssuerRequest, 'names' | 'keyType' | 'spki'>,
    now: number,
  ) {
    const { authority } = current
    const validity = clampValidity(authority, {
      notBefore: now - BACKDATE_MS,
      notAfter: now + options.leafLifetime,
    })
    const serial = createSerial(deps.now())
    const certificate = signer.sign({ spki, keyType, names, serial, ...validity })
    const serialNumber = Buffer.from(serial).toString('hex')
    return { certificate, chain: authority.chain, serialNumber, ...validity }
  }

  /** Nobody else can replace it, and what is held is answered meanwhile. */
  function tellOver(): void {
    for (const one of new Set([root, current])) {
      if (!one || one.authority.info.notAfter > deps.now()) continue
      const { subject, notAfter } = one.authority.info
      deps.log.warn(
        { ca: subject, notAfter: new Date(notAfter).toISOString() },
        'this CA has ended and nothing is issued: set the clock, or replace the files of ca.root or ca.intermediate and restart',
      )
    }
  }

  await open()
  tellOver()
  const crls = createCrls({
    store: deps.store,
    now: deps.now,
    find: (keyId) => signing.get(keyId),
  })
  return {
    name: 'ca',
    permits: (name: Name) => permitted(name),
    issue,
    issueNearest,
    root: () => root?.authority.certificate,
    intermediate: () => current.authority,
    crls,
    degraded() {
      const now = deps.now()
      const isBehind = [current, root].some((one) => one && !hasBegun(one.authority.info, now))
      const isRootOver = root && root.authority.info.notAfter <= now
      const isOver = isRootOver || isEnding(current.authority, options.leafLifetime, now)
      return [...(isOver ? ['ca-intermediate'] : []), ...(isBehind ? ['clock'] : [])]
    },
    async upkeep() {
      passOverFuture()
      const { authority } = current
      const isDue = isEnding(authority, options.leafLifetime, deps.now())
      if (isDue || !hasBegun(authority.info, deps.now())) await open()
      for (const [keyId, { authority }] of signing) if (authority.key) await crls.get(keyId)
      if (root) await mendRootList(root, current.authority, options, deps)
    },
  }
}

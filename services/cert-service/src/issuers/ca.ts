import {
  type Authority,
  clampValidity,
  compileRules,
  createLeafSigner,
  createSerial,
  type LeafSigner,
  type Name,
} from '@gatehouse/pki'
import {
  type AuthorityDeps,
  type AuthorityOptions,
  crlUrlOf,
  isEnding,
  openIntermediate,
  openKey,
  openRoot,
  restore,
  type StoredAuthority,
} from './authorities.ts'
import { type Crls, createCrls } from './crl.ts'
import type { Issued, Issuer, IssuerRequest } from './issuer.ts'

const BACKDATE_MS = 60_000

/** The embedded CA: a root, the intermediate that signs, and their revocation lists. */
export interface Ca extends Issuer {
  issue(request: Pick<IssuerRequest, 'names' | 'keyType' | 'spki'>): Issued
  /** The trust anchor, DER; undefined where the operator brought an intermediate without it. */
  root(): Uint8Array | undefined
  /** The authority that signs now. */
  intermediate(): Authority
  readonly crls: Crls
  /** What an operator has to see to: `ca-intermediate` ends and cannot be replaced from here. */
  degraded(): readonly string[]
  /** Takes a new intermediate into service when it is time, and keeps the lists young. */
  upkeep(): Promise<void>
}

/** Opens the CA; makes root and intermediate at first start. */
export async function openCa(options: AuthorityOptions, deps: AuthorityDeps): Promise<Ca> {
  const root = await openRoot(options, deps)
  const permitted = options.permitted.length > 0 ? compileRules(options.permitted) : () => true
  const signing = new Map<string, StoredAuthority>()
  let current: StoredAuthority
  let signer: LeafSigner

  async function open(): Promise<void> {
    use(await openIntermediate(options, root, deps))
    for (const record of await deps.store.listAuthorities()) {
      const key = record.role === 'intermediate' && openKey(record, deps.keyring)
      if (key && record.notAfter > deps.now()) remember(restore(record, deps, key))
    }
    if (root) remember(root)
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

  function issue({ names, keyType, spki }: Pick<IssuerRequest, 'names' | 'keyType' | 'spki'>) {
    const { authority } = current
    const now = deps.now()
    const validity = clampValidity(authority, {
      notBefore: now - BACKDATE_MS,
      notAfter: now + options.leafLifetime,
    })
    const serial = createSerial(now)
    const certificate = signer.sign({ spki, keyType, names, serial, ...validity })
    const serialNumber = Buffer.from(serial).toString('hex')
    return { certificate, chain: authority.chain, serialNumber, ...validity }
  }

  await open()
  const crls = createCrls({
    store: deps.store,
    now: deps.now,
    find: (keyId) => signing.get(keyId),
  })
  return {
    name: 'ca',
    permits: (name: Name) => permitted(name),
    issue,
    root: () => root?.authority.certificate,
    intermediate: () => current.authority,
    crls,
    degraded() {
      return isEnding(current.authority, options.leafLifetime, deps.now())
        ? ['ca-intermediate']
        : []
    },
    async upkeep() {
      if (isEnding(current.authority, options.leafLifetime, deps.now())) await open()
      for (const [keyId, { authority }] of signing) if (authority.key) await crls.get(keyId)
    },
  }
}

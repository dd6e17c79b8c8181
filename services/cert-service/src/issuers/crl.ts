import { createCrl } from '@gatehouse/pki'
import { hasBegun } from '../clocks.ts'
import { CertError } from '../errors.ts'
import type { CrlRecord, Store } from '../store/store.ts'
import type { StoredAuthority } from './authorities.ts'

const DAY = 86_400_000
const LIFETIME = 7 * DAY
const REBUILD_AFTER = DAY

/** The revocation lists of the embedded CA. */
export interface Crls {
  /**
   * The list of the authority with this key identifier, made anew where it is a day old or does
   * not know the last revocation.
   *
   * @throws CertError `CERT_CRL_UNKNOWN`
   */
  get(keyId: string): Promise<Uint8Array>
  /** To be called after each revocation. */
  outdate(): void
}

export function createCrls(deps: {
  readonly store: Store
  now(): number
  /** By key identifier: intermediates with their key, and the root. */
  find(keyId: string): StoredAuthority | undefined
}): Crls {
  // The list as made here and at which revocation; what an earlier process made is not trusted.
  const made = new Map<number, { record: CrlRecord; revocation: number }>()
  const making = new Map<number, Promise<CrlRecord>>()
  let revocation = 0

  async function get(keyId: string): Promise<Uint8Array> {
    const stored = deps.find(keyId)
    const record = stored && (await current(stored))
    if (!record) throw new CertError('CERT_CRL_UNKNOWN', 'this service has no list of that issuer')
    return record.crl
  }

  async function current(stored: StoredAuthority): Promise<CrlRecord | undefined> {
    // The root's list is made with each intermediate, while its key is open.
    if (!stored.authority.key) return deps.store.findCrl(stored.id)
    const last = made.get(stored.id)
    if (last?.revocation === revocation && !isOld(last.record)) return last.record
    let building = making.get(stored.id)
    if (!building) {
      building = build(stored).finally(() => making.delete(stored.id))
      making.set(stored.id, building)
    }
    return building
  }

  /** A day old, or made by a clock that was ahead. */
  function isOld({ nextUpdate }: CrlRecord): boolean {
    const thisUpdate = nextUpdate - LIFETIME
    return (
      thisUpdate + REBUILD_AFTER <= deps.now() || !hasBegun({ notBefore: thisUpdate }, deps.now())
    )
  }

  async function build({ id, authority }: StoredAuthority): Promise<CrlRecord> {
    const asOf = revocation
    const thisUpdate = deps.now()
    const nextUpdate = thisUpdate + LIFETIME
    const revoked = (await deps.store.listRevoked(authority.certificate, thisUpdate)).map(
      // A clock that was ahead may have dated a revocation in the future.
      ({ serialNumber, revokedAt, reason }) => {
        return { serialNumber, at: Math.min(revokedAt, thisUpdate), reason }
      },
    )
    const number = ((await deps.store.findCrl(id))?.number ?? 0n) + 1n
    const crl = createCrl({ authority, number, revoked, thisUpdate, nextUpdate })
    const record = { authorityId: id, number, crl, thisUpdate, nextUpdate }
    await deps.store.saveCrl(record)
    made.set(id, { record, revocation: asOf })
    return record
  }

  return {
    get,
    outdate() {
      revocation += 1
    },
  }
}

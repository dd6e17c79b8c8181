import { hash } from 'node:crypto'
import type { CrlRecord, Store } from '@gatehouse/cert-store/port'
import { type Authority, createCrl } from '@gatehouse/pki'
import { IssuanceError } from '../errors.ts'
import { DAY, hasBegun } from '../times.ts'
import type { AuthorityDeps, StoredAuthority } from './authority-rows.ts'

const CRL_LIFETIME = 7 * DAY
const CRL_REBUILD_AFTER = DAY

type NextCrl = Parameters<typeof createCrl>[0]

/** The CRL of an authority that follows the stored one. */
function nextCrl(
  { id, authority }: StoredAuthority,
  stored: CrlRecord | undefined,
  { thisUpdate, nextUpdate, revoked }: Pick<NextCrl, 'thisUpdate' | 'nextUpdate' | 'revoked'>,
): CrlRecord {
  // By the clock too, so that none goes back with the store.
  const storedNumber = stored?.number ?? 0n
  const seconds = BigInt(Math.floor(thisUpdate / 1000))
  const number = seconds > storedNumber ? seconds : storedNumber + 1n
  const crl = createCrl({ authority, number, revoked, thisUpdate, nextUpdate })
  return { authorityId: id, number, crl, thisUpdate, nextUpdate, entries: digestOf(revoked) }
}

/** The first CRL of a new authority. */
export function firstCrl(
  authority: Authority,
  thisUpdate: number,
  nextUpdate: number = thisUpdate + CRL_LIFETIME,
): Omit<CrlRecord, 'authorityId'> {
  const times = { thisUpdate, nextUpdate, revoked: [] }
  const { authorityId: _, ...crl } = nextCrl({ id: 0, authority }, undefined, times)
  return crl
}

/** Tells one list of revoked certificates from another. */
function digestOf(revoked: NextCrl['revoked']): string {
  return hash('sha256', revoked.map(({ serialNumber }) => serialNumber).join())
}

/**
 * Replaces the CRL of a root, which lasts until then, or for as long as the one before. No authority is ever revoked by
 * its root: it is replaced.
 */
export async function replaceRootCrl(
  root: StoredAuthority,
  thisUpdate: number,
  until: number,
  store: Pick<Store, 'replaceCrl'>,
): Promise<void> {
  const { id, authority } = root
  await store.replaceCrl({ id, certificate: authority.certificate }, thisUpdate, (stored) => {
    const nextUpdate = Math.min(Math.max(until, stored?.nextUpdate ?? 0), authority.ends)
    return nextCrl(root, stored, { thisUpdate, nextUpdate, revoked: [] })
  })
}

/** The CRL distribution point of an authority; several authorities share one path. */
export function crlUrlOf(base: string, authority: Authority): string {
  const url = new URL(base)
  url.searchParams.set('issuer', authority.info.skid ?? '')
  return url.href
}

/** The revocation lists of the authorities. */
export class Crls {
  readonly #deps: AuthorityDeps
  readonly #find: (keyId: string) => Promise<StoredAuthority | undefined>
  /** Lists that were complete at that count of revocations. */
  readonly #latest = new Map<number, { record: CrlRecord; revocation: number }>()
  readonly #replacing = new Map<number, Promise<CrlRecord>>()
  #revocation = 0

  constructor(deps: AuthorityDeps, find: (keyId: string) => Promise<StoredAuthority | undefined>) {
    this.#deps = deps
    this.#find = find
  }

  /** The CRL of this key identifier, at most a day old and complete. @throws IssuanceError `CERT_NOT_FOUND` */
  async get(keyId: string): Promise<Uint8Array> {
    const stored = await this.#find(keyId)
    const record = stored && (await this.#current(stored))
    if (!record) throw new IssuanceError('CERT_NOT_FOUND', 'this service has no CRL of that issuer')
    return record.crl
  }

  /** Outdates the CRLs. Call it after each revocation, also of another replica. */
  outdate(): void {
    this.#revocation += 1
  }

  async #current(stored: StoredAuthority): Promise<CrlRecord | undefined> {
    // The CRL of the root is created with each intermediate, while the key of the root is open.
    if (!stored.authority.key) return this.#deps.store.findCrl(stored.id)
    const latest = this.#latest.get(stored.id)
    if (latest?.revocation === this.#revocation && !this.#isOld(latest.record)) return latest.record
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
        return { serialNumber, revokedAt: Math.min(revokedAt, now), reason }
      })
      const newest = this.#newerOf(stored, this.#latest.get(id)?.record)
      const isComplete = stored?.entries === digestOf(revoked)
      if (stored && newest === stored && isComplete && !this.#isOld(stored)) return stored
      const times = { thisUpdate: now, nextUpdate: now + CRL_LIFETIME }
      return nextCrl(authority, newest, { ...times, revoked })
    })
    this.#latest.set(id, { record, revocation })
    return record
  }

  /** A store that was restored, or whose standby took over, may be behind what clients have seen. */
  #newerOf(stored: CrlRecord | undefined, latest: CrlRecord | undefined): CrlRecord | undefined {
    if (!latest || (stored && stored.number >= latest.number)) return stored
    const numbers = { stored: String(stored?.number ?? 0), known: String(latest.number) }
    this.#deps.log.warn(numbers, 'the store lost its last writes: it is behind an issued CRL')
    return latest
  }
}

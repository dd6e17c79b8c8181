import type { Age } from '../bounds.ts'
import { spkiSha256sOf } from '../compromised.ts'
import { columns } from '../rows.ts'
import type {
  AuditEntry,
  CertificateRecord,
  Counted,
  Lease,
  NewCertificate,
  RevokedCertificate,
  Store,
} from '../store.ts'
import type { AuditLog } from './audit.ts'
import { type Chains, IS_LIVE, issuerDigest, LIFETIME } from './certificates.ts'
import type { Database } from './database.ts'
import type { Leases } from './leases.ts'
import type { Orders } from './orders.ts'

/** The certificates of the lineages of `:ids`, a JSON array; by first name, which has an index. */
const OF_LINEAGES = `
  domain IN (SELECT domain FROM certificates WHERE id IN (SELECT value FROM json_each(:ids)))
  AND lineage IN (SELECT lineage FROM certificates WHERE id IN (SELECT value FROM json_each(:ids)))`

const ASKED_BY =
  'SELECT id, asked_by AS askedBy FROM certificates WHERE lineage = ? AND current = 1'
const RETIRE_LINEAGE = `
  UPDATE certificates SET current = 0, sealed_key = NULL WHERE lineage = ? AND current = 1
  RETURNING fetched_at AS fetchedAt, fetched_ran AS fetchedRan`
const RETIRE = 'UPDATE certificates SET current = 0, sealed_key = NULL WHERE id = ?'
const MARK_REVOKED = `
  UPDATE certificates
  SET revoked_at = :now, revocation_reason = :reason, current = 0, sealed_key = NULL
  WHERE ${OF_LINEAGES} AND revoked_at IS NULL AND ${IS_LIVE}
  RETURNING serial_number AS serialNumber`
const REVOKED = `
  SELECT ${columns('serialNumber, revokedAt')}, revocation_reason AS reason
  FROM certificates
  WHERE revoked_at IS NOT NULL AND ${IS_LIVE}
    AND chain IN (SELECT id FROM chains WHERE issuer = :issuer)
  ORDER BY revoked_at`
const IS_COMPROMISED = 'SELECT 1 FROM compromised_keys WHERE spki_sha256 = ?'
const COUNT_NAMES = `
  SELECT coalesce(sum(json_array_length(names)), 0) AS count, min(not_after) AS until
  FROM certificates WHERE asked_by = ? AND not_after > ?`
const COUNT_IN_USE = `
  SELECT count(*) AS count, min(not_after) AS until FROM certificates
  WHERE current = 1 AND domain = ?1 AND not_after > ?2
    AND (sealed_key IS NOT NULL OR fetched_at + not_after - not_before > ?2)`
// The newest row stays, so that ids are never reused.
const DELETE_EXPIRED = `
  DELETE FROM certificates WHERE id IN (
    SELECT id FROM certificates
    WHERE not_after < :before AND made_ran + ${LIFETIME} <= :ranBefore
      AND id < (SELECT max(id) FROM certificates)
    ORDER BY not_after LIMIT :limit)`

interface Parts {
  readonly chains: Chains
  readonly orders: Orders
  readonly audit: AuditLog
  readonly leases: Leases
}

/** Puts certificates into service and takes them out of it, and counts what callers hold. */
export class Lifecycle {
  readonly #db: Database
  readonly #chains: Chains
  readonly #orders: Orders
  readonly #audit: AuditLog
  readonly #leases: Leases

  constructor(db: Database, { chains, orders, audit, leases }: Parts) {
    this.#db = db
    this.#chains = chains
    this.#orders = orders
    this.#audit = audit
    this.#leases = leases
  }

  addCertificate: Store['addCertificate'] = async (certificate, entry, { lease } = {}) => {
    const added = await this.#db.write(() => {
      if (lease) this.#leases.assertInForce(lease)
      return this.#add(certificate, entry)
    })
    if (lease) this.#leases.end(lease)
    return added
  }

  revoke: Store['revoke'] = (ids, at, reason, entry) =>
    this.#db.write(() => {
      this.#audit.add(entry)
      if (reason === 'keyCompromise') this.#addCompromisedKeys(ids, at)
      this.#retire(ids)
      return this.#db
        .prepare(MARK_REVOKED)
        .all({ now: at, reason, ids: JSON.stringify(ids), ran: this.#db.runTime() })
        .map(({ serialNumber }) => serialNumber as string)
    })

  remove = (ids: readonly number[], entry: AuditEntry): Promise<void> =>
    this.#db.write(() => {
      this.#retire(ids)
      this.#audit.add(entry)
    })

  listRevoked = (issuer: Uint8Array, now: number) =>
    this.#db.read(() => listRevoked(this.#db, issuer, now))

  isCompromised = async (spkiSha256: string) =>
    (await this.#db.get(IS_COMPROMISED, spkiSha256)) !== undefined

  countNames = (askedBy: string, now: number, upTo?: Lease) =>
    this.#count(COUNT_NAMES, askedBy, now, this.#leases.namesFor(askedBy, upTo))

  countInUse = (domain: string, now: number, upTo?: Lease) =>
    this.#count(COUNT_IN_USE, domain, now, this.#leases.worksFor(domain, upTo))

  async #count(sql: string, of: string, now: number, underWay: number): Promise<Counted> {
    const { count = 0, until = null } = (await this.#db.get<Counted>(sql, of, now)) ?? {}
    return { count: count + underWay, until }
  }

  prune({ before, ranBefore, limit }: Age): number {
    return Number(this.#db.prepare(DELETE_EXPIRED).run({ before, ranBefore, limit }).changes)
  }

  #add({ askedBy, ...certificate }: NewCertificate, entry: AuditEntry): CertificateRecord {
    const { lineage, names, fetchedAt, checkAt = null } = certificate
    const [domain = ''] = names
    const askedBefore = this.#release(lineage)
    const [replaced] = this.#db.prepare(RETIRE_LINEAGE).all(lineage)
    this.#orders.end(lineage)
    this.#audit.add(entry)
    const ran = this.#db.runTime()
    const isUnfetched = replaced?.fetchedAt === fetchedAt
    const fetchedRan = isUnfetched ? (replaced.fetchedRan as number) : ran
    const made = { madeAt: entry.at, fetchedRan }
    const id = this.#db.insert('certificates', {
      ...certificate,
      ...made,
      current: 1,
      domain,
      names: JSON.stringify(names),
      chain: this.#chains.save(certificate.chain),
      checkAt,
      madeRan: ran,
      askedBy: askedBy ?? askedBefore,
    })
    return { ...certificate, id, ...made }
  }

  /** The certificate about to be replaced stops counting for its caller. Gives who that is. */
  #release(lineage: string): string | null {
    const row = this.#db.prepare(ASKED_BY).get(lineage)
    if (typeof row?.askedBy !== 'string') return null
    this.#db.prepare('UPDATE certificates SET asked_by = NULL WHERE id = ?').run(row.id as number)
    return row.askedBy
  }

  #retire(ids: readonly number[]): void {
    for (const id of ids) {
      this.#orders.forget(id)
      this.#db.prepare(RETIRE).run(id)
    }
  }

  /** The keys of these certificates and of those that they replaced. */
  #addCompromisedKeys(ids: readonly number[], at: number): void {
    const ofLineages = this.#db.prepare(`SELECT certificate FROM certificates WHERE ${OF_LINEAGES}`)
    const rows = ofLineages.all({ ids: JSON.stringify(ids) })
    for (const spkiSha256 of spkiSha256sOf(rows.map((row) => row.certificate as Uint8Array)))
      this.#db.insert('compromised_keys', { spkiSha256, at }, 'IGNORE')
  }
}

/** The unexpired revoked certificates that `issuer`, the DER of their direct issuer, signed. */
export function listRevoked(
  db: Database,
  issuer: Uint8Array,
  now: number,
): readonly RevokedCertificate[] {
  const of = { now, ran: db.runTime(), issuer: issuerDigest(issuer) }
  // SQLite's rows have no prototype.
  return db
    .prepare(REVOKED)
    .all(of)
    .map((row) => ({ ...row }) as unknown as RevokedCertificate)
}

import { PostgresError, type Transaction } from '@gatehouse/postgres'
import type { Age } from '../bounds.ts'
import { spkiSha256sOf } from '../compromised.ts'
import { columns } from '../rows.ts'
import type {
  AuditEntry,
  CertificateRecord,
  Counted,
  Lease,
  RevokedCertificate,
  Store,
} from '../store.ts'
import { type Addition, addedOf, additionOf, issuerDigest } from './additions.ts'
import { ADD_AUDIT, auditParams } from './audit.ts'
import type { Changes } from './changes.ts'
import { type Database, deleteOld } from './database.ts'
import type { Leases } from './leases.ts'
import { isLive, LIFETIME, LINEAGE } from './records.ts'
import { indexable, itemsOf } from './text.ts'

/** Of writers without a lease one may be faster between the lines of another. */
const MAX_TRIES = 5

/** The certificates of the lineages of $1, ids; by first name, which has an index. */
const OF_LINEAGES = `
  domain IN (SELECT domain FROM certificates WHERE id = ANY ($1::bigint[]))
  AND lineage IN (SELECT lineage FROM certificates WHERE id = ANY ($1::bigint[]))`
const LOCK = `SELECT id, ${LINEAGE} FROM certificates WHERE ${OF_LINEAGES} ORDER BY id FOR UPDATE`
const KEYS = `SELECT certificate FROM certificates WHERE ${OF_LINEAGES}`
const FORGET_ORDERS = `
  UPDATE orders SET state = NULL, url = NULL, sealed_key = NULL
  WHERE status = 'failed'
    AND lineage IN (SELECT lineage FROM certificates WHERE id = ANY ($1::bigint[]))`
const RETIRE = `
  UPDATE certificates SET is_current = false, sealed_key = NULL WHERE id = ANY ($1::bigint[])`
const MARK_REVOKED = `
  UPDATE certificates
  SET revoked_at = $2, revocation_reason = $3, is_current = false, sealed_key = NULL
  WHERE ${OF_LINEAGES} AND revoked_at IS NULL AND ${isLive('$2', '$4')}
  RETURNING serial_number AS "serialNumber"`
const ADD_COMPROMISED = `
  INSERT INTO compromised_keys (spki_sha256, at) SELECT key, $2 FROM unnest($1::text[]) AS key
  ORDER BY key ON CONFLICT DO NOTHING`
const REVOKED = `
  SELECT ${columns('serialNumber, revokedAt')}, revocation_reason AS reason
  FROM certificates
  WHERE revoked_at IS NOT NULL AND ${isLive('$2', '$3')}
    AND chain IN (SELECT id FROM chains WHERE issuer = $1)
  ORDER BY revoked_at, id`
const COMPROMISED =
  'SELECT spki_sha256 AS key FROM compromised_keys WHERE spki_sha256 = ANY ($1::text[])'
// In one statement: a lease becomes a certificate in one commit, and counts once.
const COUNT_NAMES = `
  SELECT held.count + (
    SELECT coalesce(sum(names), 0)::bigint FROM leases
    WHERE asked_by = $1 AND until > clock_timestamp() AND ($3::bigint IS NULL OR token <= $3)
  ) AS count, held.until
  FROM (
    SELECT coalesce(sum(name_count), 0)::bigint AS count, min(not_after) AS until
    FROM certificates WHERE asked_by = $1 AND not_after > $2) AS held`
const OF_NAME = itemsOf<OfName>({
  domain: ['text', ({ domain }) => domain],
  at: ['bigint', ({ now }) => now],
  up_to: ['bigint', ({ upTo }) => upTo?.token],
})
const COUNT_IN_USE = `
  SELECT held.count + (
    SELECT count(*) FROM leases
    WHERE domain = item.domain AND asked_by IS NOT NULL AND until > clock_timestamp()
      AND (up_to IS NULL OR token <= up_to)
  ) AS count, held.until
  FROM ${OF_NAME.sql}, LATERAL (
    SELECT count(*) AS count, min(not_after) AS until FROM certificates
    WHERE is_current AND domain = item.domain AND not_after > at
      AND (sealed_key IS NOT NULL OR fetched_at + not_after - not_before > at)) AS held
  ORDER BY n`
// The newest row stays, as it does in SQLite.
const EXPIRED = `
  SELECT id FROM certificates
  WHERE $1::bigint IS NOT NULL AND not_after < $2 AND made_ran + ${LIFETIME} <= $3
    AND id < (SELECT max(id) FROM certificates)
  ORDER BY not_after LIMIT $4`

interface OfName {
  readonly domain: string
  readonly now: number
  readonly upTo: Lease | undefined
}

interface Parts {
  readonly changes: Changes
  readonly leases: Leases
}

/** Puts certificates into service and takes them out of it, and counts what callers hold. */
export class Lifecycle {
  readonly #db: Database
  readonly #changes: Changes
  readonly #leases: Leases
  readonly #add: (addition: Addition) => Promise<CertificateRecord>
  readonly #countInUse: (of: OfName) => Promise<Counted>
  readonly isCompromised: (spkiSha256: string) => Promise<boolean>

  constructor(db: Database, { changes, leases }: Parts) {
    this.#db = db
    this.#changes = changes
    this.#leases = leases
    this.#add = db.turn<Addition, CertificateRecord>({
      statements: (items) => additionOf(items, { replica: db.replica, ran: db.runTime() }),
      settle: addedOf,
    })
    this.#countInUse = db.turn<OfName, Counted>({
      readOnly: true,
      statements: (items) => [{ sql: COUNT_IN_USE, params: OF_NAME.params(items) }],
      settle: ([rows]) => rows as unknown as Counted[],
    })
    this.isCompromised = db.turn<string, boolean>({
      readOnly: true,
      statements: (keys) => [{ sql: COMPROMISED, params: [keys] }],
      settle: ([rows = []], keys) => {
        const found = new Set(rows.map(({ key }) => key))
        return keys.map((key) => found.has(key))
      },
    })
  }

  addCertificate: Store['addCertificate'] = async (certificate, entry, { lease } = {}) => {
    const addition = { certificate, entry, lease }
    const added = await this.#leases.ending(lease, () => this.#addOne(addition))
    this.#changes.notify()
    return added
  }

  revoke: Store['revoke'] = (ids, at, reason, entry) =>
    this.#withdraw(ids, entry, async (tx) => {
      if (reason === 'keyCompromise') await addCompromisedKeys(tx, ids, at)
      const ran = this.#db.runTime()
      const rows = await tx.all<{ serialNumber: string }>(MARK_REVOKED, [ids, at, reason, ran])
      return rows.map(({ serialNumber }) => serialNumber)
    })

  remove = (ids: readonly number[], entry: AuditEntry): Promise<void> =>
    this.#withdraw(ids, entry, async () => {})

  listRevoked = (issuer: Uint8Array, now: number) =>
    listRevoked((sql, params = []) => this.#db.all(sql, ...params), issuer, {
      now,
      ran: this.#db.runTime(),
    })

  countNames = async (askedBy: string, now: number, upTo?: Lease): Promise<Counted> => {
    const params = [indexable(askedBy), now, upTo?.token ?? null]
    return (await this.#db.get<Counted>(COUNT_NAMES, ...params)) as Counted
  }

  countInUse = (domain: string, now: number, upTo?: Lease) =>
    this.#countInUse({ domain, now, upTo })

  /** Part of a write. */
  prune(age: Age) {
    return deleteOld('certificates', 'id', EXPIRED, age)
  }

  async #addOne(addition: Addition): Promise<CertificateRecord> {
    for (let tries = 1; ; tries++)
      try {
        return await this.#add(addition)
      } catch (error) {
        if (tries === MAX_TRIES || !isOvertaken(error)) throw error
      }
  }

  /** Takes certificates out of service, and has the others confirm it. */
  async #withdraw<T>(
    ids: readonly number[],
    entry: AuditEntry,
    change: (tx: Transaction) => Promise<T>,
  ): Promise<T> {
    const { result, urgent } = await this.#db.transaction(async (tx) => {
      const locked = await tx.all<{ lineage: string }>(LOCK, [ids])
      await tx.all(ADD_AUDIT, auditParams([entry], this.#db))
      await tx.all(FORGET_ORDERS, [ids])
      await tx.all(RETIRE, [ids])
      const result = await change(tx)
      const lineages = new Set(locked.map(({ lineage }) => lineage))
      return { result, urgent: await this.#changes.noteUrgent(tx, [...lineages]) }
    })
    this.#changes.expect(urgent)
    return result
  }
}

/** Whether a certificate of the lineage came into service meanwhile. */
function isOvertaken(error: unknown): boolean {
  return error instanceof PostgresError && error.constraint === 'certificates_current'
}

/** The keys of these certificates and of those that they replaced. */
async function addCompromisedKeys(
  tx: Transaction,
  ids: readonly number[],
  at: number,
): Promise<void> {
  const rows = await tx.all<{ certificate: Buffer }>(KEYS, [ids])
  const keys = spkiSha256sOf(rows.map(({ certificate }) => certificate))
  await tx.all(ADD_COMPROMISED, [[...keys], at])
}

/** The unexpired revoked certificates that `issuer`, the DER of their direct issuer, signed. */
export function listRevoked(
  all: Transaction['all'],
  issuer: Uint8Array,
  { now, ran }: { readonly now: number; readonly ran: number },
): Promise<readonly RevokedCertificate[]> {
  return all<RevokedCertificate>(REVOKED, [issuerDigest(issuer), now, ran])
}

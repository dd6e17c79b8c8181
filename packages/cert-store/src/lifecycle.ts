import { hash } from 'node:crypto'
import {
  type Engine,
  groupCommit,
  indexable,
  type Queries,
  type Transaction,
} from '@gatehouse/store'
import type { AuditLog } from './audit.ts'
import {
  type Certificates,
  chainId,
  isLive,
  issuerDigest,
  LIFETIME,
  searchable,
} from './certificates.ts'
import { spkiSha256sOf } from './compromised.ts'
import { leaseLost } from './errors.ts'
import { type Leases, NOW } from './leases.ts'
import type { Orders } from './orders.ts'
import type { SharedChanges } from './replicas/changes.ts'
import { type Age, IDS, MAX_ROWS, TEXTS } from './sql.ts'
import type {
  AuditEntry,
  CertificateRecord,
  Counted,
  Lease,
  NewCertificate,
  RevokedCertificate,
  Store,
} from './store.ts'
import { CERTIFICATES, COMPROMISED_KEYS } from './tables.ts'

const REPLACED = `
  SELECT id, lineage, fetched_at AS "fetchedAt", fetched_ran AS "fetchedRan", asked_by AS "askedBy"
  FROM certificates WHERE is_current AND lineage IN (${TEXTS}) ORDER BY id FOR UPDATE`
const REPLACE = `
  UPDATE certificates SET is_current = false, sealed_key = NULL, asked_by = NULL WHERE id = $1`
const ADD_NAMES = `
  INSERT INTO certificate_names (name, certificate)
  SELECT DISTINCT value, $2::bigint FROM json_array_elements_text($1::json) WHERE value <> $3::text`
const FORGET_NAMES = 'DELETE FROM certificate_names WHERE certificate = $1'
/** The certificates of the lineages of ids; by first name, which has an index. */
const OF_LINEAGES = `
  domain IN (SELECT domain FROM certificates WHERE id IN (${IDS}))
  AND lineage IN (SELECT lineage FROM certificates WHERE id IN (${IDS}))`
const LOCK = `SELECT id, lineage FROM certificates WHERE ${OF_LINEAGES} ORDER BY id FOR UPDATE`
const KEYS = `SELECT certificate FROM certificates WHERE ${OF_LINEAGES}`
const RETIRE = `
  UPDATE certificates SET is_current = false, sealed_key = NULL WHERE id IN (${IDS})`
/** Of what is out of service by now: a certificate that was renewed meanwhile is revoked as well. */
const FORGET_NAMES_OF = `
  DELETE FROM certificate_names
  WHERE certificate IN (SELECT id FROM certificates WHERE ${OF_LINEAGES} AND NOT is_current)`
const MARK_REVOKED = `
  UPDATE certificates
  SET revoked_at = $2, revocation_reason = $3, is_current = false, sealed_key = NULL
  WHERE ${OF_LINEAGES} AND revoked_at IS NULL AND ${isLive('$2', '$4')}
  RETURNING serial_number AS "serialNumber"`
const REVOKED = `
  SELECT serial_number AS "serialNumber", revoked_at AS "revokedAt", revocation_reason AS reason
  FROM certificates
  WHERE revoked_at IS NOT NULL AND ${isLive('$2', '$3')}
    AND chain IN (SELECT id FROM chains WHERE issuer = $1)
  ORDER BY revoked_at, id`
// In one statement: a lease becomes a certificate in one commit, and counts once.
const countNamesBy = (now: string) => `
  SELECT held.count + (
    SELECT coalesce(sum(names), 0)::bigint FROM leases
    WHERE asked_by = $1 AND until > ${now} AND ($3::bigint IS NULL OR token <= $3)
  ) AS count, held.until
  FROM (
    SELECT coalesce(sum(name_count), 0)::bigint AS count, min(not_after) AS until
    FROM certificates WHERE asked_by = $1 AND not_after > $2) AS held`
const countInUseBy = (now: string) => `
  SELECT held.count + (
    SELECT count(*) FROM leases
    WHERE domain = $1 AND asked_by IS NOT NULL AND until > ${now}
      AND ($3::bigint IS NULL OR token <= $3)
  ) AS count, held.until
  FROM (
    SELECT count(*) AS count, min(not_after) AS until FROM certificates
    WHERE is_current AND domain = $1 AND not_after > $2::bigint
      AND (sealed_key IS NOT NULL OR fetched_at + not_after - not_before > $2)) AS held`
// The newest row stays.
const DELETE_EXPIRED = `
  DELETE FROM certificates WHERE id IN (
    SELECT id FROM certificates
    WHERE not_after < $1 AND made_ran + ${LIFETIME} <= $2 AND id < (SELECT max(id) FROM certificates)
    ORDER BY not_after LIMIT ${MAX_ROWS})`

interface Replaced {
  readonly id: number
  readonly lineage: string
  readonly fetchedAt: number
  readonly fetchedRan: number
  readonly askedBy: string | null
}

interface Addition {
  readonly certificate: NewCertificate
  /** The id of its chain. */
  readonly chain: string
  readonly entry: AuditEntry
  readonly lease: Lease | undefined
}

interface Parts {
  readonly certificates: Certificates
  readonly orders: Orders
  readonly audit: AuditLog
  readonly leases: Leases
  readonly changes: SharedChanges | undefined
}

/** Puts certificates into service and takes them out of it, and counts what callers hold. */
export class Lifecycle {
  readonly #db: Engine
  readonly #parts: Parts
  readonly #sql: Readonly<Record<'countNames' | 'countInUse', string>>
  readonly #addOne: (addition: Addition) => Promise<CertificateRecord>

  constructor(db: Engine, parts: Parts) {
    this.#db = db
    this.#parts = parts
    const now = NOW[db.dialect]
    this.#sql = { countNames: countNamesBy(now), countInUse: countInUseBy(now) }
    this.#addOne = groupCommit(db, (tx, additions: readonly Addition[]) =>
      this.#addAll(tx, additions),
    )
  }

  addCertificate: Store['addCertificate'] = async (certificate, entry, { lease } = {}) => {
    const { leases, changes } = this.#parts
    const addition = { certificate, chain: chainId(certificate.chain), entry, lease }
    const added = await leases.ending(lease, () => this.#addOne(addition))
    changes?.notify()
    return added
  }

  revoke: Store['revoke'] = (ids, at, reason, entry) =>
    this.#withdraw(ids, entry, async (tx, list) => {
      if (reason === 'keyCompromise') await addCompromisedKeys(tx, list, at)
      const params = [list, at, reason, this.#db.runTime()]
      const rows = await tx.all<{ serialNumber: string }>(MARK_REVOKED, ...params)
      return rows.map(({ serialNumber }) => serialNumber)
    })

  remove = (ids: readonly number[], entry: AuditEntry): Promise<void> =>
    this.#withdraw(ids, entry, async () => {})

  listRevoked = (issuer: Uint8Array, now: number) => this.revokedOf(this.#db, issuer, now)

  isCompromised = async (spkiSha256: string) =>
    (await COMPROMISED_KEYS.find(this.#db, 'WHERE spki_sha256 = $1', spkiSha256)) !== undefined

  countNames = async (askedBy: string, now: number, upTo?: Lease): Promise<Counted> =>
    this.#count(this.#sql.countNames, indexable(askedBy), now, upTo)

  countInUse = (domain: string, now: number, upTo?: Lease) =>
    this.#count(this.#sql.countInUse, domain, now, upTo)

  /** The unexpired revoked certificates that `issuer`, the DER of their direct issuer, signed. */
  revokedOf(on: Queries, issuer: Uint8Array, now: number): Promise<readonly RevokedCertificate[]> {
    return on.all<RevokedCertificate>(REVOKED, issuerDigest(issuer), now, this.#db.runTime())
  }

  /** Part of a write. */
  prune(tx: Transaction, { before, ranBefore }: Age): Promise<number> {
    return tx.run(DELETE_EXPIRED, before, ranBefore)
  }

  async #count(sql: string, of: string, now: number, upTo?: Lease): Promise<Counted> {
    return (await this.#db.get<Counted>(sql, of, now, upTo?.token ?? null)) as Counted
  }

  async #addAll(tx: Transaction, additions: readonly Addition[]) {
    const { certificates, orders, leases, changes } = this.#parts
    const lineages = additions.map(({ certificate }) => certificate.lineage)
    const chains = additions.map(({ chain, certificate }) => [chain, certificate.chain] as const)
    const held = additions.flatMap(({ lease }) => lease ?? [])
    const list = JSON.stringify(lineages)
    const [, rows] = await Promise.all([leases.end(tx, held), tx.all<Replaced>(REPLACED, list)])
    const replaced = new Map(rows.map((row) => [row.lineage, row]))
    const [, , , added] = await Promise.all([
      certificates.saveChains(tx, new Map(chains)),
      orders.end(tx, list),
      changes?.note(tx, lineages),
      Promise.all(additions.map((one, i) => this.#add(tx, one, replaced.get(lineages[i] ?? '')))),
    ])
    return added
  }

  async #add(
    tx: Transaction,
    { certificate: { askedBy, ...certificate }, chain, entry, lease }: Addition,
    replaced: Replaced | undefined,
  ): Promise<CertificateRecord> {
    const { lineage, names, fetchedAt, checkAt = null } = certificate
    if (lease && replaced && replaced.id !== lease.currentId) throw leaseLost(lineage)
    const ran = this.#db.runTime()
    const isUnfetched = replaced?.fetchedAt === fetchedAt
    const made = { madeAt: entry.at, fetchedRan: isUnfetched ? replaced.fetchedRan : ran }
    const [domain = ''] = names
    const row = {
      ...certificate,
      ...made,
      isCurrent: true,
      domain,
      nameCount: names.length,
      searched: searchable(names),
      fingerprint: hash('sha256', certificate.certificate),
      chain,
      checkAt,
      madeRan: ran,
      askedBy: askedBy ?? replaced?.askedBy,
    }
    const [, , id] = await Promise.all([
      replaced && tx.run(REPLACE, replaced.id),
      replaced && tx.run(FORGET_NAMES, replaced.id),
      CERTIFICATES.addNumbered(tx, row),
      this.#parts.audit.add(tx, entry),
    ])
    if (names.length > 1) await tx.run(ADD_NAMES, JSON.stringify(names), id, domain)
    return { ...certificate, id: id as number, ...made }
  }

  /** Takes certificates out of service, and has the others confirm it. */
  async #withdraw<T>(
    ids: readonly number[],
    entry: AuditEntry,
    change: (tx: Transaction, list: string) => Promise<T>,
  ): Promise<T> {
    const { orders, audit, changes } = this.#parts
    const list = JSON.stringify(ids)
    const { result, urgent } = await this.#db.transaction(async (tx) => {
      const locked = await tx.all<{ lineage: string }>(LOCK, list)
      await audit.add(tx, entry)
      await orders.forget(tx, ids)
      await tx.run(RETIRE, list)
      const result = await change(tx, list)
      await tx.run(FORGET_NAMES_OF, list)
      const lineages = new Set(locked.map(({ lineage }) => lineage))
      return { result, urgent: await changes?.noteUrgent(tx, [...lineages]) }
    })
    if (urgent !== undefined) changes?.expect(urgent)
    return result
  }
}

/** The keys of these certificates and of those that they replaced. */
async function addCompromisedKeys(tx: Transaction, list: string, at: number): Promise<void> {
  const rows = await tx.all<{ certificate: Uint8Array }>(KEYS, list)
  const keys = [...spkiSha256sOf(rows.map(({ certificate }) => certificate))].sort()
  for (const spkiSha256 of keys)
    await COMPROMISED_KEYS.add(tx, { spkiSha256, at }, ' ON CONFLICT DO NOTHING')
}

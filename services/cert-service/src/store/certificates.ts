import type { AuditLog } from './audit-log.ts'
import { createChains, digest } from './chains.ts'
import { type CompromisedKeys, OF_LINEAGES } from './compromised-keys.ts'
import type { Database } from './database.ts'
import type { Orders } from './orders.ts'
import type { Age } from './prune.ts'
import type { Quotas } from './quotas.ts'
import type { RunTime } from './run-time.ts'
import type {
  CertificateRecord,
  Ending,
  IssuedCertificate,
  RenewalWindow,
  RevokedCertificate,
  Store,
} from './store.ts'

const MINUTE = 60_000
const DAY = 86_400_000
/** Certificates of a name that are read at once. */
export const NAME_PAGE = 100
/** Certificates of a name that are taken out of service at once. */
const MAX_ISSUED = 10_000

type Methods = Pick<
  Store,
  | 'findCurrent'
  | 'findByDomain'
  | 'findByName'
  | 'listIssued'
  | 'list'
  | 'listUpcoming'
  | 'listDue'
  | 'nextDue'
  | 'addCertificate'
  | 'setRenewAt'
  | 'bringForward'
  | 'makeFutureDue'
  | 'hasFuture'
  | 'setFetchedAt'
  | 'revoke'
  | 'remove'
  | 'listRevoked'
  | 'listUnchecked'
  | 'setRenewalWindow'
  | 'listUnexpired'
  | 'listEnding'
  | 'listLate'
>

type Row = Omit<CertificateRecord, 'names' | 'chain' | 'madeAt' | keyof RenewalWindow> &
  RenewalWindow & { names: string; chain: number; madeAt: number | null }

type IssuedRow = Omit<IssuedCertificate, 'names'> & { names: string }

const SELECT_ALL = `
  SELECT id, lineage, issuer, names, key_type AS keyType, serial_number AS serialNumber, certificate,
    chain, sealed_key AS sealedKey, csr, not_before AS notBefore, not_after AS notAfter,
    renew_at AS renewAt, fetched_at AS fetchedAt, check_at AS checkAt,
    window_start AS windowStart, window_end AS windowEnd,
    explanation_url AS explanationUrl, made_at AS madeAt, fetched_ran AS fetchedRan
  FROM certificates WHERE`
const SELECT = `${SELECT_ALL} current = 1 AND`
/** How long a certificate had to last when it was stored, or longer: one of the two clocks was right. */
const LASTS = '(not_after - min(not_before, coalesce(made_at, not_before)))'
/** Not ended by the clock, or not by the run time of the store since. */
const IS_LIVE = `(not_after >= :now OR made_ran + ${LASTS} > :ran)`

interface Parts {
  readonly audit: AuditLog
  readonly orders: Orders
  readonly quotas: Quotas
  readonly compromisedKeys: CompromisedKeys
  readonly runTime: RunTime
}

export function createCertificates(
  db: Database,
  { audit, orders, quotas, compromisedKeys, runTime }: Parts,
) {
  const chains = createChains(db)
  const byLineage = db.prepare(`${SELECT} lineage = ?`)
  const byDomain = db.prepare(
    `${SELECT} domain = ? ORDER BY sealed_key IS NULL, id DESC LIMIT ${NAME_PAGE} OFFSET ?`,
  )
  const byName = db.prepare(`${SELECT}
    (domain = ?1 OR id IN (SELECT certificate FROM certificate_names WHERE name = ?1))
    ORDER BY sealed_key IS NULL, id DESC LIMIT ${NAME_PAGE} OFFSET ?2`)
  const issuedFor = db.prepare(`
    SELECT id, lineage, issuer, names, serial_number AS serialNumber FROM certificates
    WHERE domain = :domain AND (current = 1 OR :isOut AND asked_by IS NOT NULL AND ${IS_LIVE})
      AND revoked_at IS NULL
    ORDER BY id DESC LIMIT ${MAX_ISSUED}`)
  const afterId = db.prepare(`${SELECT} id > ? ORDER BY id LIMIT ?`)
  const upcoming = db.prepare(`${SELECT} (instr(names, ?1) OR serial_number = ?1)
    AND coalesce(renew_at, not_after) >= ?2 AND (coalesce(renew_at, not_after) > ?2 OR id > ?3)
    ORDER BY coalesce(renew_at, not_after), id LIMIT ?4`)
  const due = db.prepare(`${SELECT} renew_at <= ? ORDER BY renew_at LIMIT ?`)
  const unchecked = db.prepare(
    `${SELECT} check_at <= ? AND renew_at IS NOT NULL ORDER BY check_at LIMIT ?`,
  )
  const setWindow = db.prepare(`
    UPDATE certificates
    SET check_at = ?, window_start = ?, window_end = ?, explanation_url = ?, renew_at = ?
    WHERE id = ? AND renew_at IS NOT NULL`)
  const earliest = db.prepare(
    'SELECT min(renew_at) AS at FROM certificates WHERE current = 1 AND renew_at IS NOT NULL',
  )
  const retireLineage = db.prepare(`
    UPDATE certificates SET current = 0, sealed_key = NULL WHERE lineage = ? AND current = 1
    RETURNING fetched_at AS fetchedAt, fetched_ran AS fetchedRan`)
  const retire = db.prepare('UPDATE certificates SET current = 0, sealed_key = NULL WHERE id = ?')
  const markRevoked = db.prepare(`
    UPDATE certificates
    SET revoked_at = :now, revocation_reason = :reason, current = 0, sealed_key = NULL
    WHERE ${OF_LINEAGES} AND revoked_at IS NULL AND ${IS_LIVE}
    RETURNING serial_number AS serialNumber`)
  const insert = db.prepare(`
    INSERT INTO certificates (lineage, current, issuer, domain, names, key_type, serial_number,
      certificate, chain, sealed_key, csr, not_before, not_after, renew_at, fetched_at, check_at,
      made_at, made_ran, fetched_ran)
    VALUES (?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
  const unexpired = db.prepare(`${SELECT_ALL}
    domain = :domain AND lineage = :lineage AND revoked_at IS NULL AND ${IS_LIVE}`)
  const ending = db.prepare(`
    SELECT domain, issuer, not_before AS notBefore, not_after AS notAfter FROM certificates
    WHERE current = 1 AND renew_at IS NOT NULL ORDER BY not_after LIMIT ?`)
  const countEnding = db.prepare(
    'SELECT count(*) AS total FROM certificates WHERE current = 1 AND renew_at IS NOT NULL',
  )
  const late = db.prepare(`${SELECT} renew_at IS NOT NULL
    AND not_after - ? < (not_after - not_before) / 3 ORDER BY not_after LIMIT ?`)
  const setRenewAt = db.prepare('UPDATE certificates SET renew_at = ? WHERE id = ?')
  // Nothing else is planned for later than its window or two thirds of its life, but for a day.
  const renewSooner = db.prepare(`
    UPDATE certificates SET renew_at = ?1
    WHERE current = 1 AND renew_at > ?1 + ${DAY}
      AND renew_at > coalesce(window_end, not_before + (not_after - not_before) * 2 / 3)`)
  const checkSooner = db.prepare(
    `UPDATE certificates SET check_at = ?1 WHERE current = 1 AND check_at > ?1 + ${DAY}`,
  )
  // Those that a clock dated which was ahead, and those that a CA did, but not one after the other.
  // A renewal within a day is another try after a failure, and keeps its time.
  const makeDue = db.prepare(`
    UPDATE certificates SET renew_at = ?1
    WHERE current = 1 AND renew_at IS NOT NULL AND not_before > ?1 + ${MINUTE}
      AND (renew_at > not_before OR renew_at > ?1 + ${DAY}) AND (
        coalesce(made_at, not_before) > ?1 + ${MINUTE}
        OR made_at + min((not_after - not_before) / 10, ${DAY}) <= ?1)
    RETURNING lineage`)
  const future = db.prepare(`
    SELECT 1 FROM certificates
    WHERE current = 1 AND renew_at IS NOT NULL AND not_before > ?1 + ${MINUTE} LIMIT 1`)
  const setFetchedAt = db.prepare(
    'UPDATE certificates SET fetched_at = ?, fetched_ran = ? WHERE id = ?',
  )
  const revoked = db.prepare(`
    SELECT serial_number AS serialNumber, revoked_at AS revokedAt, revocation_reason AS reason
    FROM certificates
    WHERE revoked_at IS NOT NULL AND ${IS_LIVE}
      AND chain IN (SELECT id FROM chains WHERE issuer = :issuer)
    ORDER BY revoked_at`)
  // The newest row stays, so that no id is ever given out twice.
  const deleteExpired = db.prepare(`
    DELETE FROM certificates WHERE id IN (
      SELECT id FROM certificates
      WHERE not_after < :before AND made_ran + ${LASTS} <= :ranBefore
        AND id < (SELECT max(id) FROM certificates)
      ORDER BY not_after LIMIT :limit)`)

  const toRecord = (row: unknown): CertificateRecord => {
    const { names, chain, checkAt, windowStart, windowEnd, explanationUrl, madeAt, ...rest } =
      row as Row
    return {
      ...rest,
      names: JSON.parse(names),
      chain: chains.get(chain),
      ...(checkAt !== null && { checkAt, windowStart, windowEnd, explanationUrl }),
      ...(madeAt !== null && { madeAt }),
    }
  }

  const methods: Methods = {
    findCurrent: (lineage) =>
      db.read(() => {
        const row = byLineage.get(lineage)
        return row && toRecord(row)
      }),
    findByDomain: (domain, skip = 0) => db.read(() => byDomain.all(domain, skip).map(toRecord)),
    findByName: (name, skip = 0) => db.read(() => byName.all(name, skip).map(toRecord)),
    listIssued: (domain, { now, isOut }) =>
      db.read(() =>
        issuedFor.all({ domain, isOut: isOut ? 1 : 0, now, ran: runTime.now() }).map((row) => {
          const { names, ...rest } = row as unknown as IssuedRow
          return { ...rest, names: JSON.parse(names) }
        }),
      ),
    list: ({ after, limit }) => db.read(() => afterId.all(after, limit).map(toRecord)),
    listUpcoming: ({ text, after, limit }) =>
      db.read(() => upcoming.all(text, after.at, after.id, limit).map(toRecord)),
    listDue: (now, limit) => db.read(() => due.all(now, limit).map(toRecord)),
    nextDue: () => db.read(() => (earliest.get()?.at as number | null) ?? undefined),

    async addCertificate({ askedBy, ...certificate }, entry, perName = Number.MAX_SAFE_INTEGER) {
      const { lineage, names, chain, ...rest } = certificate
      const [domain = ''] = names
      const chainId = chains.idOf(chain) ?? (await chains.add(chain))
      const madeAt = entry.at
      return db.write(() => {
        const askedBefore = quotas.release(lineage)
        const replaced = retireLineage.all(lineage)[0]
        orders.end(lineage)
        audit.add(entry)
        const ran = runTime.now()
        const isFetched = replaced?.fetchedAt !== rest.fetchedAt
        const fetchedRan = isFetched ? ran : (replaced.fetchedRan as number)
        const { lastInsertRowid } = insert.run(
          lineage,
          rest.issuer,
          names[0] ?? null,
          JSON.stringify(names),
          rest.keyType,
          rest.serialNumber,
          rest.certificate,
          chainId,
          rest.sealedKey,
          rest.csr,
          rest.notBefore,
          rest.notAfter,
          rest.renewAt,
          rest.fetchedAt,
          rest.checkAt ?? null,
          madeAt,
          ran,
          fetchedRan,
        )
        const id = Number(lastInsertRowid)
        quotas.charge(id, askedBy ?? askedBefore)
        const pushedOut = quotas.makeRoom(id, domain, perName, entry)
        const added = { ...certificate, id, madeAt, fetchedRan }
        return pushedOut.length > 0 ? { ...added, pushedOut } : added
      })
    },

    listUnchecked: (now, limit) => db.read(() => unchecked.all(now, limit).map(toRecord)),
    setRenewalWindow: (id, { checkAt, windowStart, windowEnd, explanationUrl, renewAt }) =>
      db.write(
        () => void setWindow.run(checkAt, windowStart, windowEnd, explanationUrl, renewAt, id),
      ),
    listUnexpired: ({ names: [domain = ''], lineage }, now) =>
      db.read(() => unexpired.all({ domain, lineage, now, ran: runTime.now() }).map(toRecord)),
    listEnding: (limit) =>
      db.read(() => ({
        soonest: ending.all(limit).map((row) => ({ ...row }) as unknown as Ending),
        total: countEnding.get()?.total as number,
      })),
    listLate: (now, limit) => db.read(() => late.all(now, limit).map(toRecord)),
    setRenewAt: (id, renewAt) => db.write(() => void setRenewAt.run(renewAt, id)),
    bringForward: (now) =>
      db.write(() => {
        renewSooner.run(now)
        checkSooner.run(now)
      }),
    makeFutureDue: (now) =>
      db.write(() => makeDue.all(now).map(({ lineage }) => lineage as string)),
    hasFuture: (now) => db.read(() => future.get(now) !== undefined),
    setFetchedAt: (fetched) =>
      db.write(() => {
        for (const [id, at] of fetched) setFetchedAt.run(at, runTime.now(), id)
      }),
    revoke: (ids, at, reason, entry) =>
      db.write(() => {
        audit.add(entry)
        if (reason === 'keyCompromise') compromisedKeys.add(ids, at)
        for (const id of ids) {
          orders.forget(id)
          retire.run(id)
        }
        const rows = markRevoked.all({
          now: at,
          reason,
          ids: JSON.stringify(ids),
          ran: runTime.now(),
        })
        return rows.map(({ serialNumber }) => serialNumber as string)
      }),
    remove: (ids, entry) =>
      db.write(() => {
        for (const id of ids) {
          orders.forget(id)
          retire.run(id)
        }
        audit.add(entry)
      }),
    listRevoked: (issuer, now) =>
      db.read(() => {
        const rows = revoked.all({ now, ran: runTime.now(), issuer: digest(issuer) })
        return rows as unknown as RevokedCertificate[]
      }),
  }

  return {
    methods,
    prune: ({ before, ranBefore }: Age, limit: number) =>
      Number(deleteExpired.run({ before, ranBefore, limit }).changes),
  }
}

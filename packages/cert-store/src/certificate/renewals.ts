import { type Engine, indexable, type RowOf, type Transaction } from '@gatehouse/store'
import {
  type CertificateRecord,
  NAME_PAGE,
  type RenewalScope,
  type Renewals,
} from '../port/store.ts'
import { CLIENT_ISSUER } from '../schema/coverage.ts'
import { DAY, IDS, MAX_ROWS, TEXTS } from '../schema/sql.ts'
import { type CERTIFICATES, IS_PROBED, PUT_OFF } from '../schema/tables.ts'
import {
  addTransitions,
  BEGINNING,
  type CertificateParts,
  issuerDigest,
  type SelectCertificates,
} from './certificates.ts'

const MINUTE = 60_000
/** A claim of what another replica has just claimed gives nothing. */
const MAX_TRIES = 3

const BY_IDS = `WHERE id IN (${IDS})`
const UNCHECKED = `
  SELECT id, check_at AS "checkAt" FROM certificates
  WHERE is_current AND check_at IS NOT NULL AND check_at <= $1 AND renew_at IS NOT NULL
  ORDER BY check_at LIMIT $2 FOR UPDATE SKIP LOCKED`
const CHECK_LATER = `UPDATE certificates SET check_at = $2 ${BY_IDS}`
const UNPROBED = `
  SELECT id FROM certificates WHERE ${IS_PROBED} AND probe_at <= $1 AND issuer <> '${CLIENT_ISSUER}'
  ORDER BY probe_at, id LIMIT $2 FOR UPDATE SKIP LOCKED`
const PROBE_LATER = `UPDATE certificates SET probe_at = $2 ${BY_IDS}`
const SET_RENEW_AT =
  'UPDATE certificates SET renew_at = $2 WHERE id = $1 RETURNING request_key AS "requestKey"'
/** A claim ends when its renewal is moved, and work on it does not. */
const END_CLAIM = 'DELETE FROM leases WHERE request_key = $1 AND holder = $2 AND is_claim'
const SET_WINDOW = `
  UPDATE certificates
  SET check_at = $2, window_start = $3, window_end = $4, explanation_url = $5, renew_at = $6
  WHERE id = $1 AND renew_at IS NOT NULL RETURNING request_key AS "requestKey"`
// Excludes what a CA keeps dating in the future, and retries after a failure, which keep their time.
const IS_MISDATED = `
  renew_at IS NOT NULL AND (renew_at > not_before OR renew_at > $3::bigint + ${DAY}) AND (
    made_at > $3::bigint + ${MINUTE}
    OR made_at + least((not_after - not_before) / 10, ${DAY}) <= $3)`
const IS_CHECKED = 'renew_at IS NOT NULL AND check_at IS NOT NULL'
const FUTURE = `
  SELECT 1 AS found FROM certificates
  WHERE is_current AND renew_at IS NOT NULL AND not_before > $1::bigint + ${MINUTE}
  ORDER BY not_before LIMIT 1`
const SET_FETCHED = 'UPDATE certificates SET fetched_at = $2, fetched_ran = $3 WHERE id = $1'
const SET_READ = 'UPDATE certificates SET renewal_info_read_at = $2 WHERE id = $1'
// The time is never later than an earlier request says.
const REQUEST = `
  UPDATE certificates SET renewal_requested_at = least(coalesce(renewal_requested_at, $2), $2)
  WHERE id = $1 AND is_current AND account IS NOT NULL`

type Moved = Pick<RowOf<typeof CERTIFICATES>, 'requestKey'>
type Due = Pick<RowOf<typeof CERTIFICATES>, 'id' | 'requestKey' | 'domain'>

/** A change of many certificates: found by an index of one column, to set that one or another. */
interface Bulk {
  readonly condition: string
  /** Its parameters, from `$3` on. */
  readonly values?: readonly number[]
  readonly column: 'renew_at' | 'check_at' | 'probe_at' | 'not_before'
  /** Only times later than this count. */
  readonly from: number
  readonly set: 'renew_at' | 'check_at' | 'probe_at'
}

interface ColumnPosition {
  readonly time: number
  readonly id: number
}

interface RenewalParts extends CertificateParts {
  readonly select: SelectCertificates
}

export function renewalsOn(db: Engine, { audit, select, leases, changes }: RenewalParts): Renewals {
  async function setEach(
    times: ReadonlyMap<number, number>,
    set: (tx: Transaction, id: number, time: number) => Promise<number>,
  ): Promise<void> {
    if (times.size === 0) return
    await db.transaction((tx) => Promise.all(byId(times).map(([id, time]) => set(tx, id, time))), {
      durable: false,
    })
  }

  async function claim(tx: Transaction, now: number, limit: number) {
    const sql = `
      SELECT id, request_key AS "requestKey", domain FROM certificates
      WHERE is_current AND renew_at IS NOT NULL AND renew_at <= $2 AND account IS NULL
        AND ${leases.isFree('certificates')}
      ORDER BY renew_at LIMIT $3 FOR UPDATE OF certificates SKIP LOCKED`
    const due = await tx.all<Due>(sql, leases.replica, now, limit)
    const works = due.map(({ requestKey, domain }) => ({ requestKey, domain, names: 0 }))
    const claimed = await leases.claim(tx, works)
    return { due, claimed: due.filter(({ requestKey }) => claimed.has(requestKey)) }
  }

  /** Claims what a statement finds by moving its time, by another one, to when others may have it. */
  async function claimUntil(
    find: string,
    moveTo: string,
    [now, limit, until]: Parameters<Renewals['claimUnchecked']>,
  ): Promise<readonly CertificateRecord[]> {
    const claimSome = async (tx: Transaction) => {
      const due = await tx.all<Pick<CertificateRecord, 'id' | 'checkAt'>>(find, now, limit)
      if (due.length > 0) await tx.run(moveTo, listOf(due), until)
      return due
    }
    return recordsOf(await db.transaction(claimSome, { durable: false }))
  }

  async function move(change: (tx: Transaction) => Promise<readonly Moved[]>): Promise<void> {
    await db.transaction(async (tx) => {
      const moved = await change(tx)
      await changes?.note(tx, requestKeysOf(moved))
    })
    changes?.notify()
  }

  /**
   * Sets a time of all current certificates that meet a condition, to `now`: a bounded number at a time, so that
   * others go on meanwhile, and each is looked at once. Gives their request keys.
   */
  async function changeAll({ condition, values = [], column, from, set }: Bulk, now: number) {
    const some = `SELECT id, ${column} AS time FROM certificates
      WHERE is_current AND ${condition} AND (${column}, id) > ($1, $2)
      ORDER BY ${column}, id LIMIT ${MAX_ROWS} FOR UPDATE`
    const change = `UPDATE certificates SET ${set} = $2 ${BY_IDS} RETURNING request_key AS "requestKey"`
    const changeSome = (after: ColumnPosition) =>
      db.transaction(async (tx) => {
        const rows = await tx.all<ColumnPosition>(some, after.time, after.id, ...values)
        const moved = requestKeysOf(await tx.all<Moved>(change, listOf(rows), now))
        await changes?.note(tx, moved)
        return { moved, end: rows[MAX_ROWS - 1] }
      })
    const changed: string[] = []
    let after: ColumnPosition | undefined = { time: from, id: Number.MAX_SAFE_INTEGER }
    while (after) {
      const { moved, end }: Awaited<ReturnType<typeof changeSome>> = await changeSome(after)
      changed.push(...moved)
      after = end
    }
    if (changed.length > 0) changes?.notify()
    return changed
  }

  /** The certificates of these ids, in their order, with what else was read before. */
  async function recordsOf(
    rows: readonly (Pick<CertificateRecord, 'id'> & Partial<CertificateRecord>)[],
  ): Promise<readonly CertificateRecord[]> {
    if (rows.length === 0) return []
    const records = await select(BY_IDS, listOf(rows))
    const byId = new Map(records.map((record) => [record.id, record]))
    return rows.flatMap(({ id, checkAt }) => {
      const record = byId.get(id)
      return record ? { ...record, ...(checkAt !== undefined && { checkAt }) } : []
    })
  }

  return {
    async claimDue(now, limit) {
      for (let tries = 1; ; tries++) {
        const { due, claimed } = await db.transaction((tx) => claim(tx, now, limit), {
          durable: false,
        })
        if (claimed.length > 0 || due.length === 0 || tries === MAX_TRIES) return recordsOf(claimed)
      }
    },
    claimUnchecked: (...claim) => claimUntil(UNCHECKED, CHECK_LATER, claim),
    claimUnprobed: (...claim) => claimUntil(UNPROBED, PROBE_LATER, claim),
    setRenewAt: (id, renewAt) =>
      move(async (tx) => {
        const moved = await tx.all<Moved>(SET_RENEW_AT, id, renewAt)
        for (const { requestKey } of moved) await tx.run(END_CLAIM, requestKey, leases.replica)
        return moved
      }),
    setRenewalWindow: (id, window) => {
      const { checkAt, windowStart, windowEnd, explanationUrl, renewAt } = window
      const values = [checkAt, windowStart, windowEnd, explanationUrl, renewAt]
      return move((tx) => tx.all<Moved>(SET_WINDOW, id, ...values))
    },
    async bringForward(now) {
      const from = now + DAY
      await changeAll({ condition: PUT_OFF, column: 'renew_at', from, set: 'renew_at' }, now)
      await changeAll({ condition: IS_CHECKED, column: 'check_at', from, set: 'check_at' }, now)
      const late = now + 2 * DAY
      await changeAll(
        { condition: IS_PROBED, column: 'probe_at', from: late, set: 'probe_at' },
        now,
      )
    },
    makeFutureDue: (now) => {
      const which = { condition: IS_MISDATED, values: [now], from: now + MINUTE } as const
      return changeAll({ ...which, column: 'not_before', set: 'renew_at' }, now)
    },
    hasFuture: async (now) => (await db.get(FUTURE, now)) !== undefined,
    setFetchedAt: (fetched) => {
      const ran = db.runTime()
      return setEach(fetched, (tx, id, time) => tx.run(SET_FETCHED, id, time, ran))
    },
    setRenewalInfoRead: (read) => setEach(read, (tx, id, time) => tx.run(SET_READ, id, time)),
    async listInService(scope, { notAfter, id } = BEGINNING) {
      const params: (number | string)[] = [notAfter, id]
      const conditions = conditionsOf(scope, (value) => `$${params.push(value)}`)
      // The ids alone, as few of many large rows may be of the scope.
      const sql = `
        SELECT id FROM certificates
        WHERE ${['is_current AND not_after >= $1 AND (not_after > $1 OR id > $2)', ...conditions].join(' AND ')}
        ORDER BY not_after, id LIMIT ${NAME_PAGE}`
      return recordsOf(await db.reports.all<Pick<CertificateRecord, 'id'>>(sql, ...params))
    },
    requestRenewals: (moments, entry) =>
      db.transaction(async (tx) => {
        await audit.add(tx, entry)
        const { at, actor } = entry
        for (const [certificate, from] of byId(moments))
          if ((await tx.run(REQUEST, certificate, from)) > 0)
            await addTransitions(tx, [
              { certificate, at, action: 'request-renewal', actor, account: null },
            ])
      }),
  }
}

/** SQL: what a scope demands. `add` gives the parameter that stands for a value. */
function conditionsOf(
  { askedBy, domain, issuer, keyType, signers, madeBefore }: RenewalScope,
  add: (value: number | string) => string,
): readonly string[] {
  const digests = signers && JSON.stringify(signers.map(issuerDigest))
  const below = (digests: string) =>
    `chain IN (SELECT id FROM chains WHERE issuer IN (${TEXTS.replace('$1', add(digests))}))`
  return [
    ...(askedBy === undefined ? [] : [`asked_by = ${add(indexable(askedBy))}`]),
    ...(domain === undefined ? [] : [`domain = ${add(domain)}`]),
    ...(issuer === undefined ? [] : [`issuer = ${add(issuer)}`]),
    ...(keyType === undefined ? [] : [`key_type = ${add(keyType)}`]),
    ...(digests === undefined ? [] : [below(digests)]),
    ...(madeBefore === undefined ? [] : [`made_at < ${add(madeBefore)}`]),
  ]
}

/** Sorts by id, so that two transactions never wait for each other. */
function byId(times: ReadonlyMap<number, number>): [id: number, time: number][] {
  return [...times].sort(([a], [b]) => a - b)
}

function listOf(rows: readonly { readonly id: number }[]): string {
  return JSON.stringify(rows.map(({ id }) => id))
}

function requestKeysOf(rows: readonly Moved[]): readonly string[] {
  return rows.map(({ requestKey }) => requestKey)
}

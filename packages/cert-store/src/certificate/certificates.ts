import { hash } from 'node:crypto'
import {
  type Engine,
  groupCommit,
  indexable,
  MAX_INDEXED,
  type Parameter,
  type Queries,
  type Row,
  type RowOf,
  StoreError,
  type Transaction,
} from '@gatehouse/store'
import { LRUCache } from 'lru-cache'
import { END_SERVED_ORDER, keepAccounts } from '../acme-server.ts'
import type { AuditLog } from '../audit.ts'
import { CertStoreError, leaseLost } from '../errors.ts'
import { type Leases, NOW } from '../orders/leases.ts'
import { END_ORDERS } from '../orders/orders.ts'
import { EXPIRY, HEAD, ISSUED, PAST } from '../port/records.ts'
import {
  type AuditEntry,
  type CertificateRecord,
  type Certificates,
  type Counted,
  type Coverage,
  type Expiry,
  type Head,
  type InService,
  type IssuedCertificate,
  type Lease,
  MAX_FOLLOWED,
  NAME_PAGE,
  type NewCertificate,
  type PastCertificate,
  type Predecessor,
  type Transition,
} from '../port/store.ts'
import type { SharedChanges } from '../replicas/changes.ts'
import { CLIENT_ISSUER, isCovered } from '../schema/coverage.ts'
import { type Age, MAX_ROWS, TEXTS } from '../schema/sql.ts'
import { CERTIFICATES, CHAINS, LIFETIME, TRANSITIONS } from '../schema/tables.ts'

/** Chains that are kept in memory: there is one for each issuing certificate. */
const MAX_CHAINS = 1_000

/** The SQL condition that a certificate has not expired by the clock, or not by the run time since it was stored. */
export function isLive(now: string, ran: string): string {
  return `(not_after >= ${now} OR made_ran + ${LIFETIME} > ${ran})`
}

const PAGE_OF_NAME = `ORDER BY sealed_key IS NULL, id DESC LIMIT ${NAME_PAGE} OFFSET $2`
const BY_DOMAIN = `WHERE is_current AND domain = $1 ${PAGE_OF_NAME}`
const BY_NAME = `
  WHERE id IN (
    SELECT id FROM certificates WHERE is_current AND domain = $1
    UNION ALL SELECT certificate FROM certificate_names WHERE name = $1)
  ${PAGE_OF_NAME}`
// The sum keeps planners from reading all certificates backwards until they find those of the name.
const NEWEST = 'ORDER BY id + 0 DESC LIMIT'
// In the order of the index, so that a page reads no more than it gives. What is renewed meanwhile comes later.
const ISSUED_FOR = `
  WHERE domain = $1 AND not_after >= $5 AND (not_after > $5 OR id > $6)
    AND (is_current OR $2 AND ${isLive('$3', '$4')}) AND revoked_at IS NULL
  ORDER BY not_after, id LIMIT ${NAME_PAGE}`
// Those of the same client first, then those at its address, then the oldest.
const HEADS = `
  WHERE is_current AND account IS NOT NULL AND revoked_at IS NULL
    AND (asked_by = $1 OR account = $3) AND domain IN (${TEXTS.replace('$1', '$2')})
  ORDER BY CASE WHEN address = $4 THEN CASE WHEN account = $3 THEN 0 ELSE 1 END ELSE 2 END, id LIMIT ${NAME_PAGE}`
const ISSUED_TO = `
  WHERE account = $1 AND not_after >= $4 AND (not_after > $4 OR id > $5)
    AND ${isLive('$2', '$3')} AND revoked_at IS NULL
  ORDER BY not_after, id LIMIT ${NAME_PAGE}`
const REQUESTED_BY = `
  WHERE asked_by = $1 AND not_after >= $4 AND (not_after > $4 OR id > $5) AND ${isLive('$2', '$3')}
  ORDER BY not_after, id LIMIT ${NAME_PAGE}`
const REVOKED_OF_CLIENT = `
  SELECT 1 FROM certificates
  WHERE domain = $1 AND issuer = '${CLIENT_ISSUER}' AND revoked_at >= $2 AND revocation_reason <> 'superseded' LIMIT 1`
const HISTORY = `WHERE domain = $1 ${NEWEST} ${NAME_PAGE}`
const BY_SERIAL = `WHERE domain = $1 AND serial_number = $2 ${NEWEST} 1`
// An index finds the few that are late. The index of the next expiry would lead through all the others.
const RENEWED = 'WHERE is_current AND renew_at IS NOT NULL'
const LATE = `${RENEWED} AND late_at < $1`
const LATE_UNCOVERED = `${LATE} AND NOT ${isCovered('any')} ORDER BY not_after + 0 LIMIT $2`
const LATE_COVERED = `
  ${LATE} AND ${isCovered('any')} AND NOT ${isCovered('caller')} ORDER BY not_after + 0 LIMIT $2`
const COUNT_COVERED = `
  SELECT count(*) AS total, count(CASE WHEN ${isCovered('caller')} THEN 1 END) AS caller
  FROM certificates ${LATE} AND ${isCovered('any')}`
const FIND_COVERAGE = `
  SELECT CASE WHEN ${isCovered('caller')} THEN 'caller' ELSE 'other' END AS by
  FROM certificates WHERE id = $1 AND is_current AND ${isCovered('any')}`
const ENDING = `
  ${RENEWED} AND NOT (late_at < $1 AND ${isCovered('any')}) ORDER BY not_after LIMIT $2`

/** The place before the first of a listing by the end. */
export const BEGINNING = { notAfter: 0, id: 0 }

/** The members of a record, without what is only searched by or counted. */
const RECORD =
  'id, requestKey, issuer, names, keyType, serialNumber, certificate, chain, sealedKey, csr, notBefore, notAfter, ' +
  'renewAt, fetchedAt, fetchedRan, madeAt, lifetime, way, client, account, servedOrder, address, ' +
  'renewalRequestedAt, renewalInfoReadAt, checkAt, windowStart, windowEnd, explanationUrl'
const IN_SERVICE = 'isCurrent, askedBy, revokedAt, revocationReason, replacedBy, downloadedAt'

const REPLACED = `
  SELECT id, request_key AS "requestKey", fetched_at AS "fetchedAt", fetched_ran AS "fetchedRan", asked_by AS "askedBy"
  FROM certificates WHERE is_current AND request_key IN (${TEXTS}) ORDER BY id FOR UPDATE`
const RETIRE = `
  UPDATE certificates SET is_current = false, sealed_key = NULL, asked_by = NULL WHERE id = $1`
const SET_REPLACED = `
  UPDATE certificates SET replaced_by = $2, replacement_reason = $3
  WHERE id = $1 AND replaced_by IS NULL`
/** SQL: what followed a certificate, if its client never fetched it. */
const FOLLOWING = `
  SELECT next.id FROM certificates JOIN certificates AS next ON next.id = certificates.replaced_by
  WHERE certificates.id = $1 AND next.downloaded_at IS NULL AND next.id <> $2`
const SET_DOWNLOADED = `
  UPDATE certificates SET downloaded_at = $2 WHERE id = $1 AND downloaded_at IS NULL`
const REINSTATE = `
  UPDATE certificates
  SET is_current = true, asked_by = $3, downloaded_at = $2, replaced_by = NULL, replacement_reason = NULL
  WHERE id = $1 AND NOT is_current AND downloaded_at IS NULL AND revoked_at IS NULL
    AND EXISTS (
      SELECT 1 FROM certificates AS next
      WHERE next.id = certificates.replaced_by AND (next.is_current OR next.replaced_by IS NOT NULL))
    AND NOT EXISTS (
      SELECT 1 FROM certificates AS head WHERE head.is_current AND head.request_key = certificates.request_key)`
const ADD_NAMES = `
  INSERT INTO certificate_names (name, certificate, not_after)
  SELECT DISTINCT value, $2::bigint, $4::bigint FROM json_array_elements_text($1::json) WHERE value <> $3::text`
const FORGET_NAMES = 'DELETE FROM certificate_names WHERE certificate = $1'
// One statement turns a lease into a certificate, so that it counts once.
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
    ORDER BY made_ran + ${LIFETIME} LIMIT ${MAX_ROWS})`

type CertificateRow = RowOf<typeof CERTIFICATES>

type Replaced = Pick<CertificateRow, 'id' | 'requestKey' | 'fetchedAt' | 'fetchedRan' | 'askedBy'>

interface Addition {
  readonly certificate: NewCertificate
  /** The id of its chain. */
  readonly chain: string
  readonly entry: AuditEntry
  readonly lease: Lease | undefined
  readonly predecessor: Predecessor | undefined
}

/** The parts that certificates are changed with. */
export interface CertificateParts {
  readonly audit: AuditLog
  readonly leases: Leases
  readonly changes: SharedChanges | undefined
}

/** Reads records. `clause` is SQL after `SELECT … FROM certificates`. */
export type SelectCertificates = (
  clause: string,
  ...params: readonly Parameter[]
) => Promise<readonly CertificateRecord[]>

export function certificatesOn(
  db: Engine,
  { audit, leases, changes }: CertificateParts,
): Certificates & { readonly select: SelectCertificates } {
  const loadChains = chainLoader(db)
  const now = NOW[db.dialect]
  const [namesBy, inUseBy] = [countNamesBy(now), countInUseBy(now)]
  const addOne = groupCommit(db, (tx, additions: readonly Addition[]) => addAll(tx, additions))
  const download = groupCommit(
    db,
    (tx, downloads: readonly (readonly [id: number, time: number])[]) =>
      // In the order of their ids, so that two transactions never wait for each other.
      Promise.all(
        downloads.toSorted(([a], [b]) => a - b).map((values) => tx.run(SET_DOWNLOADED, ...values)),
      ),
    { durable: false, repeatable: true },
  )

  const select: SelectCertificates = (clause, ...params) => records(RECORD, clause, ...params)

  async function count(sql: string, key: string, now: number, upTo?: Lease): Promise<Counted> {
    return (await db.get<Counted>(sql, key, now, upTo?.token ?? null)) as Counted
  }

  async function addAll(tx: Transaction, additions: readonly Addition[]) {
    const requestKeys = additions.map(({ certificate }) => certificate.requestKey)
    const chains = additions.map(({ chain, certificate }) => [chain, certificate.chain] as const)
    const endedLeases = additions.flatMap(({ lease }) => lease ?? [])
    const ofClients = additions.flatMap(({ certificate }) =>
      certificate.account ? certificate : [],
    )
    const followed = additions.flatMap(({ predecessor }) => predecessor?.requestKey ?? [])
    const list = JSON.stringify(requestKeys)
    const [, rows] = await Promise.all([
      leases.end(tx, endedLeases),
      tx.all<Replaced>(REPLACED, list),
    ])
    const replaced = new Map(rows.map((row) => [row.requestKey, row]))
    const made = additions.map((addition, i) => rowOf(addition, replaced.get(requestKeys[i] ?? '')))
    const [, , , , ids] = await Promise.all([
      Promise.all(rows.map(({ id }) => retire(tx, id))),
      saveChains(tx, new Map(chains)),
      tx.run(END_ORDERS, list),
      changes?.note(tx, [...requestKeys, ...followed]),
      CERTIFICATES.addAll(tx, made, ' RETURNING id'),
      audit.add(tx, ...additions.map(({ entry }) => entry)),
      ofClients.length > 0 && keepAccounts(tx, ofClients, db.runTime()),
    ])
    const added = additions.map(({ certificate: { askedBy: _, ...certificate } }, i) => {
      const { madeAt, fetchedRan } = made[i] as (typeof made)[number]
      return { ...certificate, id: ids[i] as number, madeAt, fetchedRan }
    })
    await Promise.all(
      added.map((certificate) => settle(tx, certificate, replaced.get(certificate.requestKey)?.id)),
    )
    // In the order of their ids, so that two transactions never wait for each other.
    const successions = additions
      .flatMap(({ predecessor, entry, certificate: { account = null } }, i) =>
        predecessor ? { predecessor, id: added[i]?.id ?? 0, cause: { ...entry, account } } : [],
      )
      .toSorted((a, b) => a.predecessor.id - b.predecessor.id)
    for (const { id, predecessor, cause } of successions) await follow(tx, id, predecessor, cause)
    return added
  }

  function rowOf(
    { certificate: { askedBy, ...certificate }, chain, entry, lease }: Addition,
    replaced: Replaced | undefined,
  ) {
    const { requestKey, names, fetchedAt, checkAt = null } = certificate
    if (lease && replaced && replaced.id !== lease.currentId) throw leaseLost(requestKey)
    // An operator who has it tried again is not the requester.
    const isOfClient = certificate.account && entry.account === certificate.account
    const ran = db.runTime()
    const isUnfetched = replaced?.fetchedAt === fetchedAt
    return {
      ...certificate,
      madeAt: entry.at,
      fetchedRan: isUnfetched ? replaced.fetchedRan : ran,
      isCurrent: true,
      domain: names[0] ?? '',
      nameCount: names.length,
      searched: searchable(names),
      fingerprint: hash('sha256', certificate.certificate),
      chain,
      checkAt,
      madeRan: ran,
      probeAt: entry.at,
      // An ACME client that renews may be of another caller than the one before.
      askedBy: askedBy ?? (isOfClient ? entry.actor : replaced?.askedBy),
    }
  }

  async function some<T>(members: string, clause: string, ...params: readonly Parameter[]) {
    const rows = await db.all<Row>(CERTIFICATES.select(clause, members), ...params)
    return rows.map((row) => CERTIFICATES.recordOf(row)) as readonly T[]
  }

  async function records<T = CertificateRecord>(
    members: string,
    clause: string,
    ...params: readonly Parameter[]
  ) {
    const rows = await some<CertificateRow>(members, clause, ...params)
    const chains = await loadChains(rows.map(({ chain }) => chain))
    return rows.map((row, i) => ({ ...toRecord(row), chain: chains[i] }) as T)
  }

  const inService = (clause: string, ...params: readonly Parameter[]) =>
    records<CertificateRecord & InService>(`${RECORD}, ${IN_SERVICE}`, clause, ...params)

  return {
    select,
    setDownloaded: async (id, time) => void (await download([id, time])),
    findCurrent: async (requestKey) =>
      (await select('WHERE is_current AND request_key = $1', requestKey))[0],
    findByDomain: (domain, skip = 0) => select(BY_DOMAIN, domain, skip),
    findByName: (name, skip = 0) => select(BY_NAME, name, skip),
    listIssued(domain, { now, isOut, after: { notAfter, id } = BEGINNING }) {
      const params = [domain, isOut, now, db.runTime(), notAfter, id]
      return some<IssuedCertificate>(ISSUED, ISSUED_FOR, ...params)
    },
    listIssuedTo: (account, { now, after: { notAfter, id } = BEGINNING }) =>
      some<IssuedCertificate>(ISSUED, ISSUED_TO, account, now, db.runTime(), notAfter, id),
    listRequested(askedBy, { now, after: { notAfter, id } = BEGINNING }) {
      const params = [indexable(askedBy), now, db.runTime(), notAfter, id]
      return some<IssuedCertificate>(ISSUED, REQUESTED_BY, ...params)
    },
    listHistory: (domain) => some<PastCertificate>(`${PAST}, ${IN_SERVICE}`, HISTORY, domain),
    hasRevokedOfClient: async (name, since) =>
      (await db.get(REVOKED_OF_CLIENT, name, since)) !== undefined,
    findBySerial: async (domain, serialNumber) =>
      (await inService(BY_SERIAL, domain, serialNumber))[0],
    findIssued: async (sha256) => (await inService('WHERE fingerprint = $1', sha256))[0],
    listBySerial: (serialNumber) => inService('WHERE serial_number = $1 LIMIT 10', serialNumber),
    findById: async (id) => (await inService('WHERE id = $1', id))[0],
    listHeads: (askedBy, names, { account, address }) =>
      some<Head>(HEAD, HEADS, indexable(askedBy), JSON.stringify(names), account, address),
    listTransitions: async (id) =>
      (await TRANSITIONS.list(
        db,
        `WHERE certificate = $1 ORDER BY id DESC LIMIT ${NAME_PAGE}`,
        id,
      )) as readonly Transition[],
    async reinstate({ id, names, requestKey, notAfter }, { at, actor, account }) {
      await db.transaction(async (tx) => {
        if ((await tx.run(REINSTATE, id, at, indexable(actor))) === 0) return
        const [domain = ''] = names
        if (names.length > 1) await tx.run(ADD_NAMES, JSON.stringify(names), id, domain, notAfter)
        await addTransitions(tx, [{ certificate: id, at, action: 'reinstate', actor, account }])
        await changes?.note(tx, [requestKey])
      })
      changes?.notify()
    },
    list: ({ after, limit }) =>
      select('WHERE is_current AND id > $1 ORDER BY id LIMIT $2', after, limit),
    listLate: (now, limit, isCovered = false) =>
      select(isCovered ? LATE_COVERED : LATE_UNCOVERED, now, limit),
    async countCovered(now) {
      const { total = 0, caller = 0 } =
        (await db.reports.get<{ total: number; caller: number }>(COUNT_COVERED, now)) ?? {}
      return { caller, other: total - caller }
    },
    findCoverage: async (id) => (await db.get<{ by: Coverage }>(FIND_COVERAGE, id))?.by,
    async listEnding(now, limit) {
      const [soonest, counted] = await Promise.all([
        db.reports.all<Expiry>(CERTIFICATES.select(ENDING, EXPIRY), now, limit),
        db.reports.get<{ total: number }>(`SELECT count(*) AS total FROM certificates ${RENEWED}`),
      ])
      return { soonest, total: counted?.total ?? 0 }
    },
    async addCertificate(certificate, entry, options = {}) {
      const { lease, predecessor } = options
      const chain = hash('sha256', Buffer.concat(certificate.chain))
      const addition = { certificate, chain, entry, lease, predecessor }
      const added = await leases.ending(lease, () => addOne(addition))
      changes?.notify()
      return added
    },
    countNames: async (askedBy, now, upTo) => count(namesBy, indexable(askedBy), now, upTo),
    countInUse: (domain, now, upTo) => count(inUseBy, domain, now, upTo),
  }
}

/** Writes what refers to a new certificate by its id. */
async function settle(
  tx: Transaction,
  { id, names, notAfter, certificate, servedOrder }: CertificateRecord,
  replaced: number | undefined,
): Promise<void> {
  const [, , ended] = await Promise.all([
    replaced !== undefined && tx.run(SET_REPLACED, replaced, id, 'key'),
    names.length > 1 && tx.run(ADD_NAMES, JSON.stringify(names), id, names[0] ?? '', notAfter),
    servedOrder &&
      tx.run(END_SERVED_ORDER, servedOrder, 'valid', hash('sha256', certificate), null),
  ])
  if (ended === 0)
    throw new CertStoreError('CERT_ORDER_ENDED', `The order ${servedOrder} has ended before.`)
}

function retire(tx: Transaction, id: number) {
  return Promise.all([tx.run(RETIRE, id), tx.run(FORGET_NAMES, id)])
}

/** Has a certificate follow its predecessor, or what followed that and nobody uses. */
async function follow(
  tx: Transaction,
  successor: number,
  { id, reason }: Predecessor,
  cause: Pick<Transition, 'at' | 'actor' | 'account'>,
): Promise<void> {
  let next: number | undefined = id
  for (let tries = 0; tries < MAX_FOLLOWED && next !== undefined; tries += 1) {
    if ((await tx.run(SET_REPLACED, next, successor, reason)) === 1) {
      await retire(tx, next)
      await addTransitions(tx, [{ ...cause, certificate: next, action: 'replace' }])
      return
    }
    if (reason !== 'named') return
    next = (await tx.get<{ id: number }>(FOLLOWING, next, successor))?.id
  }
}

export const pruneCertificates = (db: Engine, [, latest, ranLatest]: Age) =>
  db.run(DELETE_EXPIRED, latest, ranLatest)

/** Leaves out what a certificate has no value for at all. */
function toRecord(row: CertificateRow) {
  const { lifetime, way, client, account, servedOrder, ...others } = row
  const { address, renewalRequestedAt, renewalInfoReadAt, ...more } = others
  const { checkAt, windowStart, windowEnd, explanationUrl, ...members } = more
  return {
    ...members,
    ...(lifetime !== null && { lifetime }),
    ...(way !== null && { way, client, account, servedOrder }),
    ...(account !== null && { address, renewalRequestedAt, renewalInfoReadAt }),
    ...(checkAt !== null && { checkAt, windowStart, windowEnd, explanationUrl }),
  }
}

/** Loads the chains of certificates, which are shared and never change, by their ids. */
function chainLoader(db: Queries) {
  const cache = new LRUCache<string, Promise<readonly Uint8Array[]>>({
    max: MAX_CHAINS,
    memoMethod(id) {
      const chain = read(id)
      chain.catch(() => cache.delete(id))
      return chain
    },
  })

  /** @throws StoreError STORE_CORRUPT */
  async function read(id: string): Promise<readonly Uint8Array[]> {
    const row = await CHAINS.find(db, 'WHERE id = $1', id)
    if (!row) throw new StoreError('STORE_CORRUPT', 'The chain of a certificate is missing.')
    return row.certificates.map((text) => Buffer.from(text, 'base64'))
  }

  return (ids: readonly string[]) => Promise.all(ids.map((id) => cache.memo(id)))
}

/** Part of a write: also of chains that are known, as a database that failed over may have lost them. */
function saveChains(tx: Transaction, chains: ReadonlyMap<string, readonly Uint8Array[]>) {
  // Sorted, so that two transactions never wait for each other.
  const added = [...chains]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([id, chain]) => {
      const certificates = chain.map((der) => Buffer.from(der).toString('base64'))
      const row = { id, issuer: issuerDigest(chain[0] ?? ''), certificates }
      return CHAINS.add(tx, row, ' ON CONFLICT DO NOTHING')
    })
  return Promise.all(added)
}

/** Part of a write. */
export async function addTransitions(
  tx: Transaction,
  transitions: readonly Transition[],
): Promise<void> {
  await Promise.all(
    transitions.map(({ certificate, at, action, actor, account }) =>
      TRANSITIONS.add(tx, { certificate, at, action, actor, account }),
    ),
  )
}

/** The digest by which chains refer to their direct issuer. */
export function issuerDigest(der: Uint8Array | string): string {
  return hash('sha256', der)
}

/** Names as they are searched by an index, unless they are too long for one. */
function searchable(names: readonly string[]): string | null {
  const text = JSON.stringify(names)
  return Buffer.byteLength(text) > MAX_INDEXED ? null : text
}

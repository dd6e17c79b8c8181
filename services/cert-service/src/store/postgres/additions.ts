import type { Row, Statement } from '@gatehouse/postgres'
import { leaseLost } from '../../errors.ts'
import { columns } from '../rows.ts'
import type { AuditEntry, CertificateRecord, Lease, NewCertificate } from '../store.ts'
import { AUDIT_COLUMNS } from './audit.ts'
import { noteChange } from './changes.ts'
import { chainId } from './records.ts'
import { bytesArray, digestOf, ifLong, indexable, itemsOf, searchable, textArray } from './text.ts'

/** A certificate to be stored, with all that this brings about. */
export interface Addition {
  readonly certificate: NewCertificate
  readonly entry: AuditEntry
  readonly lease: Lease | undefined
}

const CHAINS = itemsOf<readonly Uint8Array[]>({
  id: ['bytea', chainId],
  issuer: ['bytea', (chain) => issuerDigest(chain[0] ?? '')],
  certificates: ['text', bytesArray],
})
const ADD_CHAINS = `
  INSERT INTO chains (id, issuer, certificates)
  SELECT id, issuer, certificates::bytea[] FROM ${CHAINS.sql}
  WHERE NOT EXISTS (SELECT FROM chains WHERE chains.id = item.id) ORDER BY id
  ON CONFLICT (id) DO NOTHING`

const of = <T>(member: (certificate: NewCertificate) => T) => {
  return ({ certificate }: Addition): T => member(certificate)
}
const NEW = itemsOf<Addition>({
  lineage: ['text', of(({ lineage }) => indexable(lineage))],
  long_lineage: ['text', of(({ lineage }) => ifLong(lineage))],
  issuer: ['text', of(({ issuer }) => issuer)],
  domain: ['text', of(({ names }) => names[0] ?? '')],
  names: ['text', of(({ names }) => textArray(names))],
  name_count: ['bigint', of(({ names }) => names.length)],
  searched: ['text', of(({ names }) => searchable(names))],
  key_type: ['text', of(({ keyType }) => keyType)],
  serial_number: ['text', of(({ serialNumber }) => serialNumber)],
  certificate: ['bytea', of(({ certificate }) => certificate)],
  chain: ['bytea', of(({ chain }) => chainId(chain))],
  sealed_key: ['bytea', of(({ sealedKey }) => sealedKey)],
  csr: ['bytea', of(({ csr }) => csr)],
  not_before: ['bigint', of(({ notBefore }) => notBefore)],
  not_after: ['bigint', of(({ notAfter }) => notAfter)],
  renew_at: ['bigint', of(({ renewAt }) => renewAt)],
  fetched_at: ['bigint', of(({ fetchedAt }) => fetchedAt)],
  check_at: ['bigint', of(({ checkAt }) => checkAt)],
  asked_by: ['text', of(({ askedBy }) => askedBy && indexable(askedBy))],
  token: ['bigint', ({ lease }) => lease?.token],
  current_id: ['bigint', ({ lease }) => lease?.currentId],
  at: ['bigint', ({ entry }) => entry.at],
  action: ['text', ({ entry }) => entry.action],
  actor: ['text', ({ entry }) => entry.actor],
  audit_names: ['text', ({ entry }) => textArray(entry.names)],
  audit_serial: ['text', ({ entry }) => entry.serialNumber],
  remote_address: ['text', ({ entry }) => entry.remoteAddress],
  request_id: ['text', ({ entry }) => entry.requestId],
  detail: ['text', ({ entry }) => entry.detail],
  count: ['bigint', ({ entry }) => entry.count ?? 1],
})
const [REPLICA, RAN] = [`${NEW.next(1)}::uuid`, `${NEW.next(2)}::bigint`]
const COPIED = `lineage, long_lineage, issuer, domain, name_count, searched, key_type, serial_number, certificate,
  chain, sealed_key, csr, not_before, not_after, renew_at, check_at`
/**
 * A lease is in force as long as its row is there, also after its time: whoever takes it over replaces the
 * token. The row is locked until the commit. Parts find each other by arrays, since a join of rows that
 * the planner cannot count would compare each with each; and certificates are found by LATERAL, since a
 * join that was planned while they were few would go on to read all of them.
 */
const ADD = `
  WITH held AS (
    SELECT lineage, token FROM leases
    WHERE holder = ${REPLICA} AND lineage = ANY ($1::text[]) ORDER BY lineage FOR UPDATE
  ), accepted AS (
    SELECT item.*, replaced.id AS replaced, replaced.fetched_at AS fetched_before,
      replaced.fetched_ran AS ran_before, replaced.asked_by AS asked_before
    FROM ${NEW.sql}
    LEFT JOIN LATERAL (
      SELECT * FROM certificates WHERE lineage = item.lineage AND is_current LIMIT 1
    ) AS replaced ON true
    WHERE item.token IS NULL OR (replaced.id IS NULL OR replaced.id = item.current_id) AND EXISTS (
      SELECT FROM held WHERE held.lineage = item.lineage AND held.token = item.token)
  ), retired AS (
    UPDATE certificates SET is_current = false, sealed_key = NULL, asked_by = NULL
    FROM accepted WHERE certificates.id = accepted.replaced AND certificates.is_current
    RETURNING certificates.id
  ), added AS (
    INSERT INTO certificates (${COPIED}, names, is_current, fetched_at, fetched_ran, asked_by,
      made_at, made_ran)
    SELECT ${COPIED}, names::text[], true, fetched_at,
      CASE WHEN replaced = ANY (ids) AND fetched_at = fetched_before THEN ran_before ELSE ${RAN} END,
      coalesce(asked_by, CASE WHEN replaced = ANY (ids) THEN asked_before END), at, ${RAN}
    FROM accepted CROSS JOIN (SELECT array_agg(id) AS ids FROM retired) AS all_retired ORDER BY n
    RETURNING id, lineage, serial_number, fetched_ran
  ), ended AS (
    UPDATE orders SET status = 'done', failures = 0, last_error = NULL, next_try_at = NULL,
      state = NULL, url = NULL, sealed_key = NULL
    WHERE lineage = ANY (ARRAY (SELECT lineage FROM accepted))
  ), audited AS (
    INSERT INTO audit (${AUDIT_COLUMNS}, ran)
    SELECT at, action, actor, audit_names::text[], audit_serial, remote_address, request_id, detail,
      count, ${RAN} FROM accepted ORDER BY n
  ), released AS (
    DELETE FROM leases WHERE holder = ${REPLICA}
      AND lineage = ANY (ARRAY (SELECT lineage FROM accepted WHERE token IS NOT NULL))
  ), noted AS (${noteChange('accepted', REPLICA)}), kept AS (
    SELECT ${columns('id, lineage, serialNumber, fetchedRan')} FROM added
  ) SELECT * FROM kept`

/** The statements that store certificates, each with all that this brings about, by this replica. */
export function additionOf(
  additions: readonly Addition[],
  { replica, ran }: { readonly replica: string; readonly ran: number },
): readonly Statement[] {
  const chains = new Map(
    additions.map(({ certificate: { chain } }) => [chainId(chain).toString('latin1'), chain]),
  )
  return [
    { sql: ADD_CHAINS, params: CHAINS.params([...chains.values()]) },
    { sql: ADD, params: [...NEW.params(additions), replica, ran], keep: true },
  ]
}

/** What came of each, from the rows of the statements. */
export function addedOf(
  [, added = []]: readonly (readonly Row[])[],
  additions: readonly Addition[],
): (CertificateRecord | Error)[] {
  // One lineage may be in here twice, once with a lease that is lost.
  const byKey = new Map(added.map((row) => [`${row.lineage} ${row.serialNumber}`, row]))
  return additions.map(({ certificate: { askedBy: _, ...certificate }, entry }) => {
    const { lineage, serialNumber } = certificate
    const row = byKey.get(`${indexable(lineage)} ${serialNumber}`)
    if (!row) return leaseLost(lineage)
    const { id, fetchedRan } = row as { id: number; fetchedRan: number }
    return { ...certificate, id, madeAt: entry.at, fetchedRan }
  })
}

/** How chains refer to their direct issuer. */
export function issuerDigest(der: Uint8Array | string): Buffer {
  return digestOf(der)
}

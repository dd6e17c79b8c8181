// What is there at the end: at the ACME CA, in the database, and in the audit trails.
import { hash } from 'node:crypto'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { parseCertificate } from '@gatehouse/pki'
import { type AcmeCa, type CaCertificate, plainSerial } from './acme-ca.ts'
import type { Cluster } from './cluster.ts'
import { type Replica, readSignInAudit } from './replicas.ts'

export interface StoredCertificate {
  readonly id: number
  readonly issuer: string
  readonly name: string
  readonly serial: string
  readonly fingerprint: string
  /** By the clock of the machine, ms. */
  readonly notBefore: number
  readonly notAfter: number
  readonly renewAt: number | null
  /** The key identifier of what has signed it, hexadecimal. */
  readonly authority: string | undefined
  /** The order of an ACME client that it was issued for. */
  readonly servedOrder: string | null
}

/** An order of an ACME client. */
interface ServedOrder {
  readonly id: string
  readonly status: string
  /** Of its certificate. */
  readonly fingerprint: string | null
}

interface AuditRow {
  readonly action: string
  readonly names: readonly string[]
  readonly serial: string | null
}

interface SignInRow {
  readonly event: string
  /** `demo:<person>`. */
  readonly person?: string
}

export interface Evidence {
  readonly atCa: readonly CaCertificate[]
  readonly stored: readonly StoredCertificate[]
  readonly orders: readonly ServedOrder[]
  readonly audit: readonly AuditRow[]
  readonly signIns: readonly SignInRow[]
  /** What the clock of the machine showed when the monotonic one was 0. */
  readonly timeOrigin: number
}

/** Rows of a query. */
type Query = <Row>(sql: string) => Promise<readonly Row[]>

interface RawCertificate extends Omit<StoredCertificate, 'fingerprint' | 'authority'> {
  /** DER, hexadecimal. */
  readonly der: string
}

interface RawAudit extends Omit<AuditRow, 'names'> {
  /** A JSON array. */
  readonly names: string
}

const certificates = (table: string, hex: string) => `
  SELECT id, issuer, domain AS name, serial_number AS serial, ${hex} AS der,
    not_before AS "notBefore", not_after AS "notAfter", renew_at AS "renewAt",
    served_order AS "servedOrder"
  FROM ${table} ORDER BY id`
const auditRows = (table: string) =>
  `SELECT action, names, serial_number AS serial FROM ${table} ORDER BY id`

/** Reads everything. The cert-service of a folder must have ended. */
export async function gather(
  acmeCa: AcmeCa,
  cluster: Cluster | undefined,
  certReplica: Replica,
  authReplica: Replica,
): Promise<Evidence> {
  const sqlite = cluster
    ? undefined
    : new DatabaseSync(join(certReplica.folder, 'data/store.db'), { readOnly: true })
  const query: Query = cluster
    ? (sql) => cluster.rows(sql)
    : async <Row>(sql: string) => sqlite?.prepare(sql).all() as Row[]
  const schema = cluster ? 'gatehouse_certs.' : ''
  const hex = cluster ? `encode(certificate, 'hex')` : 'hex(certificate)'
  const raw = await query<RawCertificate>(certificates(`${schema}certificates`, hex))
  const orders = await query<ServedOrder>(
    `SELECT id, status, fingerprint FROM ${schema}served_orders`,
  )
  const audit = await query<RawAudit>(auditRows(`${schema}audit`))
  sqlite?.close()
  return {
    atCa: await acmeCa.issued(),
    stored: raw.map(({ der, serial, ...rest }) => {
      const certificate = Buffer.from(der, 'hex')
      return {
        ...rest,
        serial: plainSerial(serial),
        fingerprint: hash('sha256', certificate),
        authority: parseCertificate(certificate).akid,
      }
    }),
    orders,
    audit: audit.map(({ names, serial, action }) => ({
      action,
      names: JSON.parse(names),
      serial: serial === null ? null : plainSerial(serial),
    })),
    signIns: await readSignInAudit<SignInRow>(authReplica),
    timeOrigin: performance.timeOrigin,
  }
}

import { hash } from 'node:crypto'
import type { KeyType } from '@gatehouse/pki'
import {
  type Engine,
  MAX_INDEXED,
  type Parameter,
  type Queries,
  type Row,
  type Transaction,
} from '@gatehouse/store'
import { LRUCache } from 'lru-cache'
import { CertStoreError } from './errors.ts'
import {
  type CertificateRecord,
  type Expiry,
  type InService,
  type IssuedCertificate,
  NAME_PAGE,
  type PastCertificate,
  type Store,
} from './store.ts'
import { CERTIFICATES, CHAINS } from './tables.ts'

/** How many certificates of a name one request can take out of service. */
const MAX_ISSUED = 10_000
/** Chains that are kept in memory: there is one for each issuing certificate. */
const MAX_CHAINS = 1_000

/** The longer of the lifetimes by the certificate and by the clock: one of the two clocks was right. */
export const LIFETIME = '(not_after - least(not_before, made_at))'

/** Not expired by the clock, or not by the run time since it was stored. The arguments are parameters. */
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
const ISSUED_FOR = `
  WHERE domain = $1 AND (is_current OR $2 AND asked_by IS NOT NULL AND ${isLive('$3', '$4')})
    AND revoked_at IS NULL
  ${NEWEST} ${MAX_ISSUED}`
const HISTORY = `WHERE domain = $1 ${NEWEST} ${NAME_PAGE}`
const BY_SERIAL = `WHERE domain = $1 AND serial_number = $2 ${NEWEST} 1`
// Few are late, and an index finds those. That of the next expiry would lead through all the others.
const LATE = `
  WHERE is_current AND renew_at IS NOT NULL AND late_at < $1 ORDER BY not_after + 0 LIMIT $2`
const UNEXPIRED = `
  WHERE domain = $1 AND lineage = $2 AND revoked_at IS NULL AND ${isLive('$3', '$4')}`
const RENEWED = 'WHERE is_current AND renew_at IS NOT NULL'

type CertificateRow = Awaited<ReturnType<typeof CERTIFICATES.list>>[number]

/** Finds certificates. */
export class Certificates {
  readonly #db: Engine
  readonly #chains: Chains

  constructor(db: Engine) {
    this.#db = db
    this.#chains = new Chains(db)
  }

  findCurrent = async (lineage: string) =>
    (await this.select('WHERE is_current AND lineage = $1', lineage))[0]

  findByDomain = (domain: string, skip = 0) => this.select(BY_DOMAIN, domain, skip)

  findByName = (name: string, skip = 0) => this.select(BY_NAME, name, skip)

  listIssued: Store['listIssued'] = (domain, { now, isOut }) =>
    this.#some<IssuedCertificate>(
      'id, lineage, issuer, names, serialNumber',
      ISSUED_FOR,
      ...[domain, isOut, now, this.#db.runTime()],
    )

  listHistory = (domain: string): Promise<readonly PastCertificate[]> =>
    this.#some<PastCertificate>(
      'id, lineage, isCurrent, issuer, names, keyType, serialNumber, notBefore, notAfter, madeAt, revokedAt, revocationReason',
      HISTORY,
      domain,
    )

  findBySerial = async (domain: string, serialNumber: string) => {
    const row = await CERTIFICATES.find(this.#db, BY_SERIAL, domain, serialNumber)
    if (!row) return undefined
    const { isCurrent, revokedAt, revocationReason } = row
    const [record] = await this.#records([row])
    return (
      record &&
      ({ ...record, isCurrent, revokedAt, revocationReason } as CertificateRecord & InService)
    )
  }

  list: Store['list'] = ({ after, limit }) =>
    this.select('WHERE is_current AND id > $1 ORDER BY id LIMIT $2', after, limit)

  listLate = (now: number, limit: number) => this.select(LATE, now, limit)

  listEnding = async (limit: number) => {
    const [soonest, counted] = await Promise.all([
      this.#some<Expiry>(
        'domain, issuer, notBefore, notAfter',
        `${RENEWED} ORDER BY not_after LIMIT $1`,
        limit,
      ),
      this.#db.get<{ total: number }>(`SELECT count(*) AS total FROM certificates ${RENEWED}`),
    ])
    return { soonest, total: counted?.total ?? 0 }
  }

  listUnexpired: Store['listUnexpired'] = ({ names: [domain = ''], lineage }, now) =>
    this.select(UNEXPIRED, domain, lineage, now, this.#db.runTime())

  /** @param rest - SQL after `SELECT … FROM certificates` */
  async select(
    rest: string,
    ...params: readonly Parameter[]
  ): Promise<readonly CertificateRecord[]> {
    return this.#records(await CERTIFICATES.list(this.#db, rest, ...params))
  }

  /** Part of a write: chains that are new are added. @param chains - by the ids that {@link chainId} gives */
  saveChains(tx: Transaction, chains: ReadonlyMap<string, readonly Uint8Array[]>) {
    return this.#chains.save(tx, chains)
  }

  async #some<T>(members: string, rest: string, ...params: readonly Parameter[]) {
    const rows = await this.#db.all<Row>(CERTIFICATES.select(rest, members), ...params)
    return rows.map((row) => CERTIFICATES.recordOf(row)) as readonly T[]
  }

  async #records(rows: readonly CertificateRow[]): Promise<readonly CertificateRecord[]> {
    const chains = await this.#chains.load(rows.map(({ chain }) => chain))
    return rows.map((row, i) => toRecord(row, chains[i] as readonly Uint8Array[]))
  }
}

function toRecord(row: CertificateRow, chain: readonly Uint8Array[]): CertificateRecord {
  const { checkAt, windowStart, windowEnd, explanationUrl } = row
  const { id, lineage, issuer, names, serialNumber, certificate, sealedKey, csr } = row
  const { notBefore, notAfter, renewAt, fetchedAt, fetchedRan, madeAt } = row
  return {
    ...{ id, lineage, issuer, names, serialNumber, certificate, chain, sealedKey, csr },
    ...{ notBefore, notAfter, renewAt, fetchedAt, fetchedRan, madeAt },
    keyType: row.keyType as KeyType,
    ...(checkAt !== null && { checkAt, windowStart, windowEnd, explanationUrl }),
  }
}

/** The chains of certificates, which are shared and never change. */
class Chains {
  readonly #db: Queries
  readonly #known = new LRUCache<string, Promise<readonly Uint8Array[]>>({ max: MAX_CHAINS })

  constructor(db: Queries) {
    this.#db = db
  }

  /** @throws CertStoreError CERT_STORE_CORRUPT */
  async load(ids: readonly string[]): Promise<readonly (readonly Uint8Array[])[]> {
    return Promise.all(ids.map((id) => this.#known.get(id) ?? this.#load(id)))
  }

  /** Also of one that is known: a database that failed over may have lost it. */
  save(tx: Transaction, chains: ReadonlyMap<string, readonly Uint8Array[]>) {
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

  #load(id: string): Promise<readonly Uint8Array[]> {
    const chain = this.#read(id)
    this.#known.set(id, chain)
    chain.catch(() => this.#known.delete(id))
    return chain
  }

  async #read(id: string): Promise<readonly Uint8Array[]> {
    const row = await CHAINS.find(this.#db, 'WHERE id = $1', id)
    if (!row)
      throw new CertStoreError('CERT_STORE_CORRUPT', 'The chain of a certificate is missing.')
    return row.certificates.map((text) => Buffer.from(text, 'base64'))
  }
}

/** How certificates refer to their chain. */
export function chainId(chain: readonly Uint8Array[]): string {
  return hash('sha256', Buffer.concat(chain))
}

/** How chains refer to their direct issuer. */
export function issuerDigest(der: Uint8Array | string): string {
  return hash('sha256', der)
}

/** Names as they are searched by an index, unless they are too long for one. */
export function searchable(names: readonly string[]): string | null {
  const text = JSON.stringify(names)
  return Buffer.byteLength(text) > MAX_INDEXED ? null : text
}

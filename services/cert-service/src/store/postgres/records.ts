import { LRUCache } from 'lru-cache'
import { CertError } from '../../errors.ts'
import { MAX_CHAINS } from '../bounds.ts'
import { columns } from '../rows.ts'
import type { CertificateRecord, RenewalWindow } from '../store.ts'
import type { Database } from './database.ts'
import { digestOf } from './text.ts'

export const LINEAGE = 'coalesce(long_lineage, lineage) AS lineage'
export const COLUMNS = `${LINEAGE}, ${columns(
  'id, issuer, names, keyType, serialNumber, certificate, chain, sealedKey, csr, notBefore, notAfter, renewAt, fetchedAt, checkAt, windowStart, windowEnd, explanationUrl, madeAt, fetchedRan',
)}`
export const SELECT_ALL = `SELECT ${COLUMNS} FROM certificates WHERE`
export const SELECT = `${SELECT_ALL} is_current AND`
/** The longer of the lifetimes by the certificate and by the clock: one of the two clocks was right. */
export const LIFETIME = '(not_after - least(not_before, made_at))'
/** Not expired by the clock, or not by the run time since it was stored. The arguments are parameters. */
export function isLive(now: string, ran: string): string {
  return `(not_after >= ${now} OR made_ran + ${LIFETIME} > ${ran})`
}

export type CertificateRow = Omit<CertificateRecord, 'chain' | keyof RenewalWindow> &
  RenewalWindow & { readonly chain: Buffer }

/** Reads certificates with their chains. */
export class Records {
  readonly #db: Database
  readonly #chains: Chains

  constructor(db: Database) {
    this.#db = db
    this.#chains = new Chains(db)
  }

  /** @param sql - begins with {@link SELECT} or {@link SELECT_ALL} */
  async list(
    sql: string,
    ...params: readonly (number | string | readonly number[])[]
  ): Promise<readonly CertificateRecord[]> {
    return this.withChains(await this.#db.all<CertificateRow>(sql, ...params))
  }

  async withChains(rows: readonly CertificateRow[]): Promise<readonly CertificateRecord[]> {
    const chains = await this.#chains.load(rows.map(({ chain }) => chain))
    return rows.map((row, i) => toRecord(row, chains[i] as readonly Uint8Array[]))
  }
}

function toRecord(
  { checkAt, windowStart, windowEnd, explanationUrl, ...rest }: CertificateRow,
  chain: readonly Uint8Array[],
): CertificateRecord {
  const window = checkAt === null ? undefined : { checkAt, windowStart, windowEnd, explanationUrl }
  return { ...rest, chain, ...window }
}

/** The chains of certificates, which are shared and never change. */
class Chains {
  readonly #db: Database
  readonly #loaded = new LRUCache<string, readonly Uint8Array[]>({ max: MAX_CHAINS })

  constructor(db: Database) {
    this.#db = db
  }

  /** @throws CertError CERT_STORE_CORRUPT */
  async load(ids: readonly Buffer[]): Promise<readonly (readonly Uint8Array[])[]> {
    const keys = ids.map((id) => id.toString('latin1'))
    const found = new Map(keys.map((key) => [key, this.#loaded.get(key)]))
    const missing = new Map(keys.map((key, i) => [key, ids[i] as Buffer]))
    for (const [key, chain] of found) if (chain) missing.delete(key)
    if (missing.size > 0)
      for (const { id, certificates } of await this.#read([...missing.values()])) {
        const key = id.toString('latin1')
        found.set(key, certificates)
        this.#loaded.set(key, certificates)
      }
    return keys.map((key) => found.get(key) ?? refuse())
  }

  #read(ids: readonly Buffer[]) {
    return this.#db.all<{ id: Buffer; certificates: readonly Buffer[] }>(
      'SELECT id, certificates FROM chains WHERE id = ANY ($1::bytea[])',
      ids,
    )
  }
}

function refuse(): never {
  throw new CertError('CERT_STORE_CORRUPT', 'The chain of a certificate is missing.')
}

/** How certificates refer to their chain. */
export function chainId(chain: readonly Uint8Array[]): Buffer {
  return digestOf(...chain)
}

import type { Age } from '../bounds.ts'
import { countFailed, orderQuery } from '../listing.ts'
import { columns, type OrderRow, toOrder } from '../rows.ts'
import type { AccountRecord, Lease, Listing, ListPage, OrderRecord } from '../store.ts'
import { type Database, isOld, type Parameters } from './database.ts'
import type { Leases } from './leases.ts'
import { DIALECT } from './listings.ts'

const DAY = 86_400_000

const SELECT = `
  SELECT ${columns(
    'id, lineage, issuer, names, keyType, csr, status, step, since, failures, lastError, nextTryAt, state, sealedKey, askedBy',
  )} FROM orders WHERE`
const BY_ID = `${SELECT} id = ?`
const BY_LINEAGE = `${SELECT} lineage = ?`
const BY_URL = `${SELECT} state IS NOT NULL AND json_extract(state, '$.orderUrl') = ?`
const PENDING = `${SELECT} status = 'pending'`
const RESUMABLE = `${SELECT} status = 'failed' AND state IS NOT NULL
  AND (next_try_at <= ?1 OR next_try_at > ?1 + ${DAY})`
const END = `
  UPDATE orders SET status = 'done', failures = 0, last_error = NULL, next_try_at = NULL,
    state = NULL, sealed_key = NULL
  WHERE lineage = ?`
const FORGET = `
  UPDATE orders SET state = NULL, sealed_key = NULL
  WHERE status = 'failed' AND lineage IN (SELECT lineage FROM certificates WHERE id = ?)`
const DELETE_OLD = `
  DELETE FROM orders WHERE id IN (
    SELECT id FROM orders
    WHERE status <> 'pending' AND ${isOld('coalesce(next_try_at, since)', 'ran')}
    LIMIT :limit)`
const ACCOUNT = `
  SELECT ${columns('directory, sealedKey, nextKey, url, contact')} FROM acme_accounts
  WHERE directory = ?`
const DELETE_OLD_CHALLENGES = `
  DELETE FROM challenges WHERE key IN (
    SELECT key FROM challenges WHERE ${isOld('at', 'ran')} LIMIT :limit)`

/** Orders, and what ACME needs beside them: accounts at CAs and responses to their challenges. */
export class Orders {
  readonly #db: Database
  readonly #leases: Leases

  constructor(db: Database, leases: Leases) {
    this.#db = db
    this.#leases = leases
  }

  saveOrder = (order: OrderRecord, lease?: Lease): Promise<string> =>
    this.#db.write(() => {
      if (lease) this.#leases.assertInForce(lease)
      return this.#save(order)
    })

  fileOrder = (order: OrderRecord): Promise<OrderRecord> =>
    this.#db.write(() => {
      const row = this.#db.prepare(BY_LINEAGE).get(order.lineage) as unknown as Row | undefined
      return row && row.status !== 'done' ? orderOf(row) : { ...order, id: this.#save(order) }
    })

  findOrder = async (id: string) => (await this.#list(BY_ID, id))[0]

  findOrderByLineage = async (lineage: string) => (await this.#list(BY_LINEAGE, lineage))[0]

  findOrderByUrl = async (url: string) => (await this.#list(BY_URL, url))[0]

  listFailedOrders = (listing: Listing, page: ListPage) => {
    const { where, params } = orderQuery(DIALECT, listing, page)
    return this.#list(`${SELECT} ${where}`, ...params)
  }

  countFailedOrders = () => countFailed((sql) => this.#db.all(sql))

  listPendingOrders = () => this.#list(PENDING)

  listResumableOrders = (now: number) => this.#list(RESUMABLE, now)

  addAccount = (account: AccountRecord): Promise<AccountRecord> =>
    this.#db.write(() => {
      this.#db.insert('acme_accounts', { ...account }, 'IGNORE')
      return { ...this.#db.prepare(ACCOUNT).get(account.directory) } as unknown as AccountRecord
    })

  findAccount = (directory: string) => this.#db.get<AccountRecord>(ACCOUNT, directory)

  saveAccount = ({ directory, sealedKey, nextKey, url, contact }: AccountRecord): Promise<void> =>
    this.#db.write(() => {
      const row = { directory, sealedKey, nextKey, url, contact }
      this.#db.insert('acme_accounts', row, 'REPLACE')
    })

  putChallenge = (key: string, value: string, at: number): Promise<void> =>
    this.#db.write(() => {
      this.#db.insert('challenges', { key, value, at, ran: this.#db.runTime() }, 'REPLACE')
    })

  findChallenge = async (key: string): Promise<string | undefined> =>
    (await this.#db.get<{ value: string }>('SELECT value FROM challenges WHERE key = ?', key))
      ?.value

  deleteChallenge = (key: string) => this.#db.run('DELETE FROM challenges WHERE key = ?', key)

  #save({ checkpoint, askedBy, ...order }: OrderRecord): string {
    const known = this.#db.prepare('SELECT id FROM orders WHERE lineage = ?').get(order.lineage)
    const id = (known?.id as string | undefined) ?? order.id
    const row = {
      ...order,
      id,
      names: JSON.stringify(order.names),
      lastError: order.lastError && JSON.stringify(order.lastError),
      state: checkpoint ? JSON.stringify(checkpoint.state) : null,
      sealedKey: checkpoint?.sealedKey ?? null,
      askedBy: askedBy ?? null,
      ran: this.#db.runTime(),
    }
    this.#db.insert('orders', row, 'REPLACE')
    return id
  }

  /** Part of a write: the lineage has its certificate. */
  end(lineage: string): void {
    this.#db.prepare(END).run(lineage)
  }

  /** Part of a write: a failed order for the lineage of this certificate is not resumed. */
  forget(certificate: number): void {
    this.#db.prepare(FORGET).run(certificate)
  }

  prune(age: Age): number {
    return Number(this.#db.prepare(DELETE_OLD).run({ ...age }).changes)
  }

  pruneChallenges(age: Age): number {
    return Number(this.#db.prepare(DELETE_OLD_CHALLENGES).run({ ...age }).changes)
  }

  async #list(sql: string, ...parameters: Parameters): Promise<readonly OrderRecord[]> {
    return (await this.#db.all<Row>(sql, ...parameters)).map(orderOf)
  }
}

type Row = Omit<OrderRow, 'names'> & { readonly names: string }

function orderOf(row: Row): OrderRecord {
  return toOrder({ ...row, names: JSON.parse(row.names) })
}

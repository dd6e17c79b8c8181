import { leaseLost } from '../../errors.ts'
import type { Age } from '../bounds.ts'
import { countFailed, orderQuery } from '../listing.ts'
import { columns, type OrderRow, toOrder } from '../rows.ts'
import type { AccountRecord, Lease, Listing, ListPage, OrderRecord } from '../store.ts'
import { type Database, deleteOld, isOld } from './database.ts'
import { DIALECT } from './listings.ts'
import { ifLong, indexable, itemsOf, rowOfLineage, textArray } from './text.ts'

const DAY = 86_400_000

const SELECT = `
  SELECT coalesce(long_lineage, lineage) AS lineage, ${columns(
    'id, issuer, names, keyType, csr, status, step, since, failures, lastError, nextTryAt, state, sealedKey, askedBy',
  )} FROM orders WHERE`
const BY_ID = `${SELECT} id = $1`
const BY_LINEAGE = `${SELECT} orders.lineage = ANY ($1::text[])`
const BY_URL = `${SELECT} url = $1`
const IS_FREE = `NOT EXISTS (
  SELECT FROM leases
  WHERE leases.lineage = orders.lineage AND holder <> $1::uuid AND until > clock_timestamp())`
const PENDING = `${SELECT} status = 'pending' AND ${IS_FREE} ORDER BY since, id`
const RESUMABLE = `${SELECT} status = 'failed' AND state IS NOT NULL
  AND (next_try_at <= $2 OR next_try_at > $2::bigint + ${DAY}) AND ${IS_FREE}
  ORDER BY next_try_at, id`

interface Saved {
  readonly order: OrderRecord
  readonly lease?: Lease | undefined
}

const SAVED = itemsOf<Saved>({
  id: ['text', ({ order }) => order.id],
  lineage: ['text', ({ order }) => indexable(order.lineage)],
  long_lineage: ['text', ({ order }) => ifLong(order.lineage)],
  issuer: ['text', ({ order }) => order.issuer],
  names: ['text', ({ order }) => textArray(order.names)],
  key_type: ['text', ({ order }) => order.keyType],
  csr: ['bytea', ({ order }) => order.csr],
  status: ['text', ({ order }) => order.status],
  step: ['text', ({ order }) => order.step],
  since: ['bigint', ({ order }) => order.since],
  failures: ['bigint', ({ order }) => order.failures],
  last_error: ['text', ({ order }) => order.lastError && JSON.stringify(order.lastError)],
  next_try_at: ['bigint', ({ order }) => order.nextTryAt],
  state: ['text', ({ order }) => order.checkpoint && JSON.stringify(order.checkpoint.state)],
  url: ['text', ({ order }) => urlOf(order.checkpoint?.state)],
  sealed_key: ['bytea', ({ order }) => order.checkpoint?.sealedKey],
  asked_by: ['text', ({ order }) => order.askedBy],
  token: ['bigint', ({ lease }) => lease?.token],
})
const KEPT = `long_lineage, issuer, key_type, csr, status, step, since, failures, last_error,
  next_try_at, state, url, sealed_key, asked_by`
const INSERT = (where: string) => `
  INSERT INTO orders (id, lineage, names, ran, ${KEPT})
  SELECT id, lineage, names::text[], ${SAVED.next(1)}::bigint, ${KEPT} FROM ${SAVED.sql} ${where}
  ORDER BY lineage
  ON CONFLICT (lineage) DO UPDATE SET names = excluded.names, ran = excluded.ran,
    ${KEPT.replace(/\w+/g, '$& = excluded.$&')}`
const SAVE = `
  WITH held AS (
    SELECT lineage, token FROM leases
    WHERE holder = ${SAVED.next(2)}::uuid AND lineage = ANY ($2::text[]) ORDER BY lineage FOR UPDATE
  ), saved AS (${INSERT(`
    WHERE token IS NULL OR EXISTS (
      SELECT FROM held WHERE held.lineage = item.lineage AND held.token = item.token)`)}
    RETURNING lineage, id
  ), kept AS (
    SELECT lineage, id, token FROM saved LEFT JOIN held USING (lineage)
  ) SELECT * FROM kept`
const FILE = `${INSERT('')} WHERE orders.status = 'done'`
const OLD = `
  SELECT id FROM orders
  WHERE status <> 'pending' AND ${isOld('coalesce(next_try_at, since)', 'ran')} LIMIT $4`

const ACCOUNT = `
  SELECT ${columns('directory, sealedKey, nextKey, url, contact')} FROM acme_accounts
  WHERE directory = $1`
const ADD_ACCOUNT = `
  INSERT INTO acme_accounts (directory, sealed_key, next_key, url, contact)
  VALUES ($1, $2, $3, $4, $5) ON CONFLICT (directory)`
const SAVE_ACCOUNT = `${ADD_ACCOUNT} DO UPDATE SET sealed_key = excluded.sealed_key,
  next_key = excluded.next_key, url = excluded.url, contact = excluded.contact`
const PUT_CHALLENGE = `
  INSERT INTO challenges (key, value, at, ran) VALUES ($1, $2, $3, $4)
  ON CONFLICT (key) DO UPDATE SET value = excluded.value, at = excluded.at, ran = excluded.ran`
const OLD_CHALLENGES = `SELECT key FROM challenges WHERE ${isOld('at', 'ran')} LIMIT $4`

/** Orders, and what ACME needs beside them: accounts at CAs and responses to their challenges. */
export class Orders {
  readonly #db: Database
  readonly #save: (saved: Saved) => Promise<string>
  readonly #findByLineage: (lineage: string) => Promise<OrderRow | undefined>

  constructor(db: Database) {
    this.#db = db
    this.#findByLineage = db.turn(rowOfLineage<OrderRow>(BY_LINEAGE))
    this.#save = db.turn<Saved, string>({
      statements: (items) => {
        const latest = [...new Map(items.map((item) => [keyOf(item), item])).values()]
        const params = [...SAVED.params(latest), db.runTime(), db.replica]
        return [{ sql: SAVE, params, keep: true }]
      },
      settle: ([saved = []], items) => {
        const rows = new Map(saved.map((row) => [row.lineage, row]))
        return items.map(({ order: { lineage }, lease }) => {
          const row = rows.get(indexable(lineage))
          const isSaved = row && (!lease || row.token === lease.token)
          return isSaved ? (row.id as string) : leaseLost(lineage)
        })
      },
    })
  }

  saveOrder = (order: OrderRecord, lease?: Lease): Promise<string> => this.#save({ order, lease })

  fileOrder = async (order: OrderRecord): Promise<OrderRecord> => {
    await this.#db.run(FILE, ...SAVED.params([{ order }]), this.#db.runTime())
    return (await this.findOrderByLineage(order.lineage)) ?? order
  }

  findOrder = async (id: string) => (await this.#list(BY_ID, id))[0]

  findOrderByLineage = async (lineage: string) => {
    const row = await this.#findByLineage(lineage)
    return row && toOrder(row)
  }

  findOrderByUrl = async (url: string) => (await this.#list(BY_URL, url))[0]

  listFailedOrders = (listing: Listing, page: ListPage) => {
    const { where, params } = orderQuery(DIALECT, listing, page)
    return this.#list(`${SELECT} ${where}`, ...params)
  }

  countFailedOrders = () => countFailed((sql) => this.#db.all(sql))

  listPendingOrders = () => this.#list(PENDING, this.#db.replica)

  listResumableOrders = (now: number) => this.#list(RESUMABLE, this.#db.replica, now)

  addAccount = async (account: AccountRecord): Promise<AccountRecord> => {
    await this.#db.run(`${ADD_ACCOUNT} DO NOTHING`, ...membersOf(account))
    return (await this.findAccount(account.directory)) ?? account
  }

  findAccount = (directory: string) => this.#db.get<AccountRecord>(ACCOUNT, directory)

  saveAccount = (account: AccountRecord): Promise<void> =>
    this.#db.run(SAVE_ACCOUNT, ...membersOf(account))

  putChallenge = (key: string, value: string, at: number): Promise<void> =>
    this.#db.run(PUT_CHALLENGE, key, value, at, this.#db.runTime())

  findChallenge = async (key: string): Promise<string | undefined> =>
    (await this.#db.get<{ value: string }>('SELECT value FROM challenges WHERE key = $1', key))
      ?.value

  deleteChallenge = (key: string) => this.#db.run('DELETE FROM challenges WHERE key = $1', key)

  /** Part of a write. */
  prune(age: Age) {
    return deleteOld('orders', 'id', OLD, age)
  }

  /** Part of a write. */
  pruneChallenges(age: Age) {
    return deleteOld('challenges', 'key', OLD_CHALLENGES, age)
  }

  async #list(
    sql: string,
    ...params: readonly (string | number)[]
  ): Promise<readonly OrderRecord[]> {
    return (await this.#db.all<OrderRow>(sql, ...params)).map(toOrder)
  }
}

/** One statement changes a row once: of two states of an order, the later one is written. */
function keyOf({ order, lease }: Saved): string {
  return `${lease?.token ?? ''} ${order.lineage}`
}

/** Of the order at the CA, by the state that its issuer keeps. */
export function urlOf(state: unknown): string | undefined {
  const { orderUrl } = (state ?? {}) as { orderUrl?: unknown }
  return typeof orderUrl === 'string' ? orderUrl : undefined
}

function membersOf({ directory, sealedKey, nextKey, url, contact }: AccountRecord) {
  return [directory, sealedKey, nextKey, url, contact]
}

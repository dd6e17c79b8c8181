import { type Engine, indexable, type Parameter, type Transaction } from '@gatehouse/store'
import type { Leases } from './leases.ts'
import { type OrderRow, orderOf } from './order-record.ts'
import { type Age, deleteOld, MAX_ROWS, TEXTS } from './sql.ts'
import type { AccountRecord, Lease, OrderRecord, Waiting } from './store.ts'
import { ACCOUNTS, CHALLENGES, ORDERS } from './tables.ts'

const DAY = 86_400_000

const BY_REQUEST_KEY = 'WHERE request_key = $1'
const OF_REQUEST_KEYS = `WHERE request_key IN (${TEXTS})`
const RESUMABLE = `
  WHERE status = 'failed' AND state IS NOT NULL
    AND (next_try_at <= $2 OR next_try_at > $2::bigint + ${DAY})`
const WAITS = `status = 'failed' AND next_try_at > $2`
const OF_THESE = `request_key IN (${TEXTS})`
const OF_OTHERS = `configuration NOT IN (${TEXTS})`
const VOID = `UPDATE orders SET next_try_at = $2 WHERE id IN (${TEXTS}) AND ${WAITS}`
const IF_DONE = ` WHERE orders.status = 'done'`
/** SQL: these request keys, a JSON array, have their certificates. */
export const END_ORDERS = `
  UPDATE orders SET status = 'done', failures = 0, last_error = NULL, next_try_at = NULL,
    state = NULL, url = NULL, sealed_key = NULL
  ${OF_REQUEST_KEYS}`
// A join could be planned to read all certificates.
const FORGET = `
  UPDATE orders SET state = NULL, url = NULL, sealed_key = NULL
  WHERE status = 'failed' AND request_key IN (
    SELECT (SELECT request_key FROM certificates WHERE id = value::bigint)
    FROM json_array_elements_text($1::json))`
const DELETE = `DELETE FROM orders ${BY_REQUEST_KEY}`
// What is being saved is not done with.
const ENDED = `status <> 'pending'`
const DELETE_OLD = deleteOld('orders', 'id', 'coalesce(next_try_at, since)', 'ran', ENDED)
const DELETE_OLD_CHALLENGES = deleteOld('challenges', 'key', 'at', 'ran')

/** Orders, and what ACME needs beside them: accounts at CAs and responses to their challenges. */
export class Orders {
  readonly #db: Engine
  readonly #leases: Leases
  /** The last write of each request key: of states that are saved at once, the last one stays. */
  readonly #saving = new Map<string, Promise<unknown>>()

  constructor(db: Engine, leases: Leases) {
    this.#db = db
    this.#leases = leases
  }

  saveOrder = async (order: OrderRecord, lease?: Lease, ended?: Lease): Promise<string> =>
    (await this.#leases.ending(ended, () => this.#save(order, '', lease, ended))).id

  fileOrder = (order: OrderRecord): Promise<OrderRecord> => this.#save(order, IF_DONE)

  findOrder = (id: string) => this.#find('WHERE id = $1', id)

  findOrderByRequestKey = (requestKey: string) => this.#find(BY_REQUEST_KEY, requestKey)

  findOrders = async (requestKeys: readonly string[]) => {
    const rows = await ORDERS.list(this.#db, OF_REQUEST_KEYS, JSON.stringify(requestKeys))
    return new Map(rows.map((row) => [row.requestKey, orderOf(row)]))
  }

  findOrderByUrl = (url: string) => this.#find('WHERE url = $1', indexable(url))

  listPendingOrders = () => this.#listFree(`WHERE status = 'pending'`, 'since')

  listResumableOrders = (now: number) => this.#listFree(RESUMABLE, 'next_try_at', now)

  voidWaits = (of: Waiting, now: number): Promise<readonly OrderRecord[]> =>
    this.#db.transaction(async (tx) => {
      const isNamed = 'requestKeys' in of
      const where = `WHERE ${WAITS} AND ${isNamed ? OF_THESE : OF_OTHERS} LIMIT ${MAX_ROWS}`
      const values = JSON.stringify(isNamed ? of.requestKeys : of.configurations)
      const rows = await ORDERS.list(tx, where, values, now)
      await tx.run(VOID, JSON.stringify(rows.map(({ id }) => id)), now)
      return rows.map(orderOf)
    })

  findAccount = (directory: string): Promise<AccountRecord | undefined> =>
    ACCOUNTS.find(this.#db, 'WHERE directory = $1', directory)

  addAccount = (account: AccountRecord): Promise<AccountRecord> =>
    this.#db.transaction(async (tx) => {
      const [, stored] = await Promise.all([
        ACCOUNTS.add(tx, { ...account }, ' ON CONFLICT (directory) DO NOTHING'),
        ACCOUNTS.find(tx, 'WHERE directory = $1', account.directory),
      ])
      return stored as AccountRecord
    })

  saveAccount = (account: AccountRecord): Promise<void> => ACCOUNTS.put(this.#db, { ...account })

  putChallenge = (key: string, value: string, at: number): Promise<void> =>
    CHALLENGES.put(this.#db, { key, value, at, ran: this.#db.runTime() })

  findChallenge = async (key: string): Promise<string | undefined> =>
    (await CHALLENGES.find(this.#db, 'WHERE key = $1', key))?.value

  deleteChallenge = async (key: string): Promise<void> => {
    await this.#db.run('DELETE FROM challenges WHERE key = $1', key)
  }

  /** Part of a write: failed orders of the request keys of these certificates are not resumed. */
  async forget(tx: Transaction, certificates: readonly number[]): Promise<void> {
    await tx.run(FORGET, JSON.stringify(certificates))
  }

  prune(age: Age): Promise<number> {
    return this.#db.run(DELETE_OLD, ...age)
  }

  pruneChallenges(age: Age): Promise<number> {
    return this.#db.run(DELETE_OLD_CHALLENGES, ...age)
  }

  /** After what is being saved of the request key, whose order keeps its id. @param where - which orders make room */
  async #save(
    order: OrderRecord,
    where: string,
    lease?: Lease,
    ended?: Lease,
  ): Promise<OrderRecord> {
    const { requestKey } = order
    const before = Promise.resolve(this.#saving.get(requestKey)).catch(() => {})
    const saving = before.then(() =>
      this.#db.transaction(async (tx) => {
        const inForce = lease && this.#leases.assertInForce(tx, lease)
        const [row] = await Promise.all([
          this.#put(tx, order, where),
          inForce,
          ended && this.#leases.end(tx, [ended]),
          ended && tx.run(DELETE, ended.requestKey),
        ])
        return orderOf(row)
      }),
    )
    this.#saving.set(requestKey, saving)
    try {
      return await saving
    } finally {
      if (this.#saving.get(requestKey) === saving) this.#saving.delete(requestKey)
    }
  }

  async #put(tx: Transaction, order: OrderRecord, where: string): Promise<OrderRow> {
    const { id, checkpoint, askedBy, lifetime, ...rest } = order
    const { state, sealedKey } = checkpoint ?? {}
    const issuing = { state, url: urlOf(state), sealedKey, askedBy, lifetime }
    const row = { ...rest, ...issuing, ran: this.#db.runTime() }
    const conflict = `${ORDERS.replacing(['requestKey'], row)}${where}`
    const [, stored] = await Promise.all([
      ORDERS.add(tx, { id, ...row }, conflict),
      ORDERS.find(tx, BY_REQUEST_KEY, order.requestKey),
    ])
    return stored as OrderRow
  }

  async #find(where: string, value: string): Promise<OrderRecord | undefined> {
    const row = await ORDERS.find(this.#db, where, value)
    return row && orderOf(row)
  }

  /** Lists orders that no other replica works on. */
  async #listFree(where: string, order: string, ...params: readonly Parameter[]) {
    const sql = `${where} AND ${this.#leases.isFree('orders')} ORDER BY ${order}, id`
    return (await ORDERS.list(this.#db, sql, this.#leases.replica, ...params)).map(orderOf)
  }
}

/** Reads the URL of the order at the CA from the state that its issuer keeps. */
function urlOf(state: unknown): string | undefined {
  const { orderUrl } = (state ?? {}) as { orderUrl?: unknown }
  return typeof orderUrl === 'string' ? orderUrl : undefined
}

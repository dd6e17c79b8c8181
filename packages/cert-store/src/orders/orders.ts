import { createTurns } from '@gatehouse/net'
import { type Engine, indexable, type Parameter, type Transaction } from '@gatehouse/store'
import type { AccountRecord, Lease, OrderRecord, Orders } from '../port/store.ts'
import { type Age, DAY, deleteOld, MAX_ROWS, TEXTS } from '../schema/sql.ts'
import { ACCOUNTS, CHALLENGES, ORDERS } from '../schema/tables.ts'
import type { Leases } from './leases.ts'
import { type OrderRow, orderOf } from './order-record.ts'

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
const ABANDON = `
  UPDATE orders SET state = NULL, url = NULL, sealed_key = NULL
  WHERE status = 'failed' AND state IS NOT NULL AND asked_by = $1`
const DELETE = `DELETE FROM orders ${BY_REQUEST_KEY}`
// An order that is being saved is still under way.
const ENDED = `status <> 'pending'`
const DELETE_OLD = deleteOld('orders', 'id', 'coalesce(next_try_at, since)', 'ran', ENDED)
const DELETE_OLD_CHALLENGES = deleteOld('challenges', 'key', 'at', 'ran')

export function ordersOn(db: Engine, leases: Leases): Orders {
  /** By request key: of states that are saved at once, the last one stays. */
  const inTurn = createTurns()

  /**
   * Saves an order after what is being saved for its request key, whose order keeps its id.
   * @param where - which orders make room
   */
  function save(order: OrderRecord, where: string, lease?: Lease, ended?: Lease) {
    const write = async (tx: Transaction): Promise<OrderRecord> => {
      const inForce = lease && leases.assertInForce(tx, lease)
      const [row] = await Promise.all([
        put(tx, order, where),
        inForce,
        ended && leases.end(tx, [ended]),
        ended && tx.run(DELETE, ended.requestKey),
      ])
      return orderOf(row)
    }
    return inTurn(order.requestKey, () => db.transaction(write))
  }

  async function put(tx: Transaction, order: OrderRecord, where: string): Promise<OrderRow> {
    const { id, checkpoint, askedBy, lifetime, ...columns } = order
    const { state, sealedKey } = checkpoint ?? {}
    const issuing = { state, url: urlOf(state), sealedKey, askedBy, lifetime }
    const row = { ...columns, ...issuing, ran: db.runTime() }
    const conflict = `${ORDERS.replacing(['requestKey'], row)}${where}`
    const [, stored] = await Promise.all([
      ORDERS.add(tx, { id, ...row }, conflict),
      ORDERS.find(tx, BY_REQUEST_KEY, order.requestKey),
    ])
    return stored as OrderRow
  }

  async function find(where: string, value: string): Promise<OrderRecord | undefined> {
    const row = await ORDERS.find(db, where, value)
    return row && orderOf(row)
  }

  /** Lists orders that no other replica works on. */
  async function listFree(where: string, order: string, ...params: readonly Parameter[]) {
    const sql = `${where} AND ${leases.isFree('orders')} ORDER BY ${order}, id`
    return (await ORDERS.list(db, sql, leases.replica, ...params)).map(orderOf)
  }

  return {
    saveOrder: async (order, lease, ended) =>
      (await leases.ending(ended, () => save(order, '', lease, ended))).id,
    fileOrder: (order) => save(order, IF_DONE),
    findOrder: (id) => find('WHERE id = $1', id),
    findOrderByRequestKey: (requestKey) => find(BY_REQUEST_KEY, requestKey),
    async findOrders(requestKeys) {
      const rows = await ORDERS.list(db, OF_REQUEST_KEYS, JSON.stringify(requestKeys))
      return new Map(rows.map((row) => [row.requestKey, orderOf(row)]))
    },
    findOrderByUrl: (url) => find('WHERE url = $1', indexable(url)),
    listPendingOrders: () => listFree(`WHERE status = 'pending'`, 'since'),
    listResumableOrders: (now) => listFree(RESUMABLE, 'next_try_at', now),
    voidWaits: (waiting, now) =>
      db.transaction(async (tx) => {
        const isNamed = 'requestKeys' in waiting
        const where = `WHERE ${WAITS} AND ${isNamed ? OF_THESE : OF_OTHERS} LIMIT ${MAX_ROWS}`
        const values = JSON.stringify(isNamed ? waiting.requestKeys : waiting.configurations)
        const rows = await ORDERS.list(tx, where, values, now)
        await tx.run(VOID, JSON.stringify(rows.map(({ id }) => id)), now)
        return rows.map(orderOf)
      }),
    abandonOrders: (askedBy) =>
      db.transaction(async (tx) => {
        await tx.run(ABANDON, askedBy)
        const orders = await ORDERS.list(tx, `WHERE status = 'pending' AND asked_by = $1`, askedBy)
        return orders.map(({ names }) => names)
      }),
    findAccount: (directory) => ACCOUNTS.find(db, 'WHERE directory = $1', directory),
    addAccount: (account) =>
      db.transaction(async (tx) => {
        const [, stored] = await Promise.all([
          ACCOUNTS.add(tx, { ...account }, ' ON CONFLICT (directory) DO NOTHING'),
          ACCOUNTS.find(tx, 'WHERE directory = $1', account.directory),
        ])
        return stored as AccountRecord
      }),
    saveAccount: (account) => ACCOUNTS.put(db, { ...account }),
    putChallenge: (key, value, now) =>
      CHALLENGES.put(db, { key, value, at: now, ran: db.runTime() }),
    findChallenge: async (key) => (await CHALLENGES.find(db, 'WHERE key = $1', key))?.value,
    async deleteChallenge(key) {
      await db.run('DELETE FROM challenges WHERE key = $1', key)
    },
  }
}

/** Part of a write: failed orders of the request keys of these certificates are not resumed. */
export const forgetOrders = (tx: Transaction, certificates: readonly number[]) =>
  tx.run(FORGET, JSON.stringify(certificates))

export const pruneOrders = (db: Engine, age: Age) => db.run(DELETE_OLD, ...age)

export const pruneChallenges = (db: Engine, age: Age) => db.run(DELETE_OLD_CHALLENGES, ...age)

/** Reads the URL of the order at the CA from the state that its issuer keeps. */
function urlOf(state: unknown): string | undefined {
  const { orderUrl } = (state ?? {}) as { orderUrl?: unknown }
  return typeof orderUrl === 'string' ? orderUrl : undefined
}

import { type Engine, groupCommit, indexable, type Transaction } from '@gatehouse/store'
import { type Age, isOld, MAX_ROWS, TEXTS } from './sql.ts'
import type { AcmeServerStore, ServedAccount, ServedOrder } from './store.ts'
import { EXTERNAL_ACCOUNTS, SERVED_ACCOUNTS, SERVED_ORDERS } from './tables.ts'

/** Orders that one client may have open at a time, and accounts that one caller may have. */
const MAX_OPEN = 1_000
const MAX_ACCOUNTS = 10_000
/** Milliseconds after which an account that nobody uses is deleted. */
const ACCOUNT_KEPT = 90 * 86_400_000

const OPEN = `status IN ('pending', 'ready')`
const END_OPEN = `
  UPDATE served_orders SET status = 'invalid' WHERE account = $1 AND wanted = $2 AND ${OPEN} AND expires_at <= $3`
const SAME = `WHERE account = $1 AND wanted = $2 AND ${OPEN}`
const COUNT_OPEN = `SELECT count(*) AS count FROM served_orders WHERE account = $1 AND ${OPEN}`
const COUNT_ACCOUNTS = `
  SELECT count(*) AS count FROM served_accounts WHERE coalesce(caller, '') = coalesce($1, '')`
const CLAIM = `
  UPDATE served_orders SET status = 'processing', csr = $2 WHERE id = $1 AND status = 'ready'`
/** SQL: the order, unless it has ended, has this status and certificate. */
export const END_SERVED_ORDER = `
  UPDATE served_orders SET status = $2, fingerprint = $3
  WHERE id = $1 AND status NOT IN ('valid', 'invalid')`
const END = END_SERVED_ORDER.replace('$3', '$3, error = $4')
const CHANGE = 'UPDATE served_orders SET status = $2, proofs = $3, error = $4 WHERE id = $1'
const RENEW = `
  INSERT INTO external_accounts (caller, counter) VALUES ($1, 2)
  ON CONFLICT (caller) DO UPDATE SET counter = external_accounts.counter + 1`
const END_OTHERS = `
  UPDATE served_accounts SET status = 'revoked'
  WHERE caller = $1 AND status = 'valid' AND id NOT IN (${TEXTS.replace('$1', '$2')})`
const TOUCH = `
  UPDATE served_accounts SET used_at = $2, used_ran = $3, client = $4, remote_address = $5
  WHERE id = $1`
const DELETE_OLD_ACCOUNTS = `
  DELETE FROM served_accounts WHERE id IN (
    SELECT id FROM served_accounts WHERE ${isOld('used_at', 'used_ran')} LIMIT ${MAX_ROWS})`
const DELETE_OLD_ORDERS = `
  DELETE FROM served_orders WHERE id IN (
    SELECT id FROM served_orders WHERE ${isOld('at', 'ran')} ORDER BY at LIMIT ${MAX_ROWS})`

interface Ended {
  readonly id: string
  readonly outcome: Parameters<AcmeServerStore['endOrder']>[1]
}

/** The accounts and orders of ACME clients. */
export class AcmeServer implements AcmeServerStore {
  readonly #db: Engine
  readonly #addOrder: (order: ServedOrder) => Promise<ServedOrder | undefined>
  readonly #claim: (claimed: Pick<ServedOrder, 'id' | 'csr'>) => Promise<boolean>
  readonly #end: (ended: Ended) => Promise<boolean>

  constructor(db: Engine) {
    this.#db = db
    this.#addOrder = groupCommit(db, (tx, orders: readonly ServedOrder[]) =>
      each(orders, (order) => this.#add(tx, order)),
    )
    // A certificate is committed after the claim, and durably: what it needs is not lost before it.
    this.#claim = groupCommit(
      db,
      (tx, claims: readonly Pick<ServedOrder, 'id' | 'csr'>[]) =>
        each(claims, async ({ id, csr }) => (await tx.run(CLAIM, id, csr)) === 1),
      { durable: false },
    )
    // The client is told of it, and no certificate is committed after it.
    this.#end = groupCommit(db, (tx, ended: readonly Ended[]) =>
      each(ended, async ({ id, outcome }) => (await tx.run(END, id, ...outcomeOf(outcome))) === 1),
    )
  }

  async counterOf(caller: string): Promise<number> {
    const row = await EXTERNAL_ACCOUNTS.find(this.#db, 'WHERE caller = $1', indexable(caller))
    return row?.counter ?? 1
  }

  async renewExternalAccount(caller: string, kept: readonly string[]): Promise<number> {
    return this.#db.transaction(async (tx) => {
      await tx.run(RENEW, indexable(caller))
      await tx.run(END_OTHERS, caller, JSON.stringify(kept))
      const row = await EXTERNAL_ACCOUNTS.find(tx, 'WHERE caller = $1', indexable(caller))
      return row?.counter ?? 1
    })
  }

  addAccount(account: ServedAccount): Promise<ServedAccount | undefined> {
    return this.#db.transaction(async (tx) => {
      const { thumbprint, caller } = account
      const known = await SERVED_ACCOUNTS.find(tx, 'WHERE thumbprint = $1 FOR UPDATE', thumbprint)
      if (known?.status === 'valid') return known as ServedAccount
      const { count } = (await tx.get<{ count: number }>(COUNT_ACCOUNTS, caller)) ?? { count: 0 }
      if (!known && count >= MAX_ACCOUNTS) return undefined
      // One that has ended keeps its id, which its certificates have.
      const row = { ...account, id: known?.id ?? account.id, usedRan: this.#db.runTime() }
      const conflict = known ? SERVED_ACCOUNTS.replacing(['id'], row) : ' ON CONFLICT DO NOTHING'
      if ((await SERVED_ACCOUNTS.add(tx, row, conflict)) === 1) return { ...account, id: row.id }
      // Another replica was faster.
      return (await SERVED_ACCOUNTS.find(tx, 'WHERE thumbprint = $1', thumbprint)) as ServedAccount
    })
  }

  findAccount(id: string) {
    return SERVED_ACCOUNTS.find(this.#db, 'WHERE id = $1', id) as Promise<ServedAccount | undefined>
  }

  findAccountByKey(thumbprint: string) {
    const found = SERVED_ACCOUNTS.find(this.#db, 'WHERE thumbprint = $1', thumbprint)
    return found as Promise<ServedAccount | undefined>
  }

  async listAccounts(caller: string | undefined, limit: number) {
    const rows =
      caller === undefined
        ? await SERVED_ACCOUNTS.list(this.#db, 'ORDER BY used_at DESC, id LIMIT $1', limit)
        : await SERVED_ACCOUNTS.list(
            this.#db,
            'WHERE caller = $1 ORDER BY used_at DESC, id LIMIT $2',
            caller,
            limit,
          )
    return rows as readonly ServedAccount[]
  }

  async endAccount(id: string, status: 'deactivated' | 'revoked'): Promise<void> {
    const sql = `UPDATE served_accounts SET status = $2 WHERE id = $1 AND status = 'valid'`
    await this.#db.transaction((tx) => tx.run(sql, id, status))
  }

  changeKey: AcmeServerStore['changeKey'] = (id, from, to) =>
    this.#db.transaction(async (tx) => {
      const other = await SERVED_ACCOUNTS.find(tx, 'WHERE thumbprint = $1', to.thumbprint)
      if (other) return other.id
      const sql = `UPDATE served_accounts SET thumbprint = $3, jwk = $4
        WHERE id = $1 AND thumbprint = $2 AND status = 'valid'`
      return (await tx.run(sql, id, from, to.thumbprint, to.jwk)) === 1 ? undefined : id
    })

  async touchAccounts(used: Parameters<AcmeServerStore['touchAccounts']>[0]): Promise<void> {
    const ran = this.#db.runTime()
    // Sorted, so that two transactions never wait for each other.
    const sorted = [...used].sort(([a], [b]) => (a < b ? -1 : 1))
    await this.#db.transaction(
      (tx) =>
        each(sorted, ([id, { usedAt, client, remoteAddress }]) =>
          tx.run(TOUCH, id, usedAt, ran, client, remoteAddress),
        ),
      { durable: false },
    )
  }

  addOrder(order: ServedOrder): Promise<ServedOrder | undefined> {
    return this.#addOrder(order)
  }

  findOrder(id: string) {
    return SERVED_ORDERS.find(this.#db, 'WHERE id = $1', id) as Promise<ServedOrder | undefined>
  }

  async listOrders(account: string, after: string, limit: number): Promise<readonly string[]> {
    const sql = `SELECT id FROM served_orders WHERE account = $1 AND id > $2 ORDER BY id LIMIT $3`
    const rows = await this.#db.all<{ id: string }>(sql, account, after, limit)
    return rows.map(({ id }) => id)
  }

  claimOrder(id: string, csr: Uint8Array): Promise<boolean> {
    return this.#claim({ id, csr })
  }

  endOrder(id: string, outcome: Ended['outcome']): Promise<boolean> {
    return this.#end({ id, outcome })
  }

  changeOrder: AcmeServerStore['changeOrder'] = (id, change) =>
    this.#db.transaction(async (tx) => {
      const order = await SERVED_ORDERS.find(tx, 'WHERE id = $1 FOR UPDATE', id)
      if (order?.status !== 'pending') return
      const { status, proofs, error } = change(order as ServedOrder)
      const values = [proofs, error].map((value) => (value === null ? null : JSON.stringify(value)))
      await tx.run(CHANGE, id, status, ...values)
    })

  /** Part of a write. */
  async prune(tx: Transaction, orders: Age, ageOf: (ms: number) => Age): Promise<number> {
    const of = ({ now, before, ranBefore }: Age) => [now, before, ranBefore]
    const pruned = await Promise.all([
      tx.run(DELETE_OLD_ORDERS, ...of(orders)),
      tx.run(DELETE_OLD_ACCOUNTS, ...of(ageOf(ACCOUNT_KEPT))),
    ])
    return pruned.reduce((sum, rows) => sum + rows, 0)
  }

  /** The open order of the account for the same, or this one; undefined if too many are open. */
  async #add(tx: Transaction, order: ServedOrder): Promise<ServedOrder | undefined> {
    const { account, wanted, at } = order
    await tx.run(END_OPEN, account, wanted, at)
    const row = { ...order, ran: this.#db.runTime() }
    const { count } = (await tx.get<{ count: number }>(COUNT_OPEN, account)) ?? { count: 0 }
    const mayAdd = count < MAX_OPEN
    if (mayAdd && (await SERVED_ORDERS.add(tx, row, ' ON CONFLICT DO NOTHING'))) return order
    const same = await SERVED_ORDERS.find(tx, SAME, account, wanted)
    // Another replica may have finalized it just now.
    return same ? (same as ServedOrder) : mayAdd ? this.#add(tx, order) : undefined
  }
}

function outcomeOf(outcome: Ended['outcome']) {
  if ('fingerprint' in outcome) return ['valid', outcome.fingerprint, null]
  return ['invalid', null, JSON.stringify(outcome.error)]
}

/** Writes all at once: statements that need not wait for each other share a round trip. */
function each<T, R>(items: readonly T[], write: (item: T) => Promise<R>): Promise<R[]> {
  return Promise.all(items.map(write))
}

import { type Age, type Database, isOld } from './database.ts'
import type { AccountRecord, OrderRecord } from './records.ts'

const DAY = 86_400_000

const SELECT = `
  SELECT id, lineage, issuer, names, key_type AS keyType, csr, status, step, since, failures,
    last_error AS lastError, next_try_at AS nextTryAt, state, sealed_key AS sealedKey,
    asked_by AS askedBy
  FROM orders WHERE`
const BY_ID = `${SELECT} id = ?`
const BY_LINEAGE = `${SELECT} lineage = ?`
const BY_URL = `${SELECT} state IS NOT NULL AND json_extract(state, '$.orderUrl') = ?`
const PENDING = `${SELECT} status = 'pending'`
const FAILED = `${SELECT} status = 'failed' ORDER BY next_try_at DESC LIMIT ?`
const RESUMABLE = `${SELECT} status = 'failed' AND state IS NOT NULL
  AND (next_try_at <= ?1 OR next_try_at > ?1 + ${DAY})`
const REPLACE = `
  INSERT OR REPLACE INTO orders (id, lineage, issuer, names, key_type, csr, status, step, since,
    failures, last_error, next_try_at, state, sealed_key, asked_by, ran)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
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
const DELETE_OLD_CHALLENGES = `
  DELETE FROM challenges WHERE key IN (
    SELECT key FROM challenges WHERE ${isOld('at', 'ran')} LIMIT :limit)`

/** Orders, and what ACME needs beside them: accounts at CAs and responses to their challenges. */
export class Orders {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  /** Creates or overwrites the order of a lineage. */
  saveOrder = (order: OrderRecord): Promise<void> =>
    this.#db.write(() => {
      const { checkpoint, lastError } = order
      this.#db
        .prepare(REPLACE)
        .run(
          order.id,
          order.lineage,
          order.issuer,
          JSON.stringify(order.names),
          order.keyType,
          order.csr,
          order.status,
          order.step,
          order.since,
          order.failures,
          lastError && JSON.stringify(lastError),
          order.nextTryAt,
          checkpoint ? JSON.stringify(checkpoint.state) : null,
          checkpoint?.sealedKey ?? null,
          order.askedBy ?? null,
          this.#db.runTime(),
        )
    })

  findOrder = async (id: string) => (await this.#list(BY_ID, id))[0]

  findOrderByLineage = async (lineage: string) => (await this.#list(BY_LINEAGE, lineage))[0]

  /** The order whose checkpoint has this URL of an order at a CA. */
  findOrderByUrl = async (url: string) => (await this.#list(BY_URL, url))[0]

  /** Failed orders, the latest next try first. */
  listFailedOrders = (limit: number) => this.#list(FAILED, limit)

  /** Orders that were in progress when the process ended. */
  listPendingOrders = () => this.#list(PENDING)

  /** Failed orders with a checkpoint whose next try is due. */
  listResumableOrders = (now: number) => this.#list(RESUMABLE, now)

  findAccount = (directory: string): Promise<AccountRecord | undefined> =>
    this.#db.read(() => {
      const row = this.#db
        .prepare(`SELECT directory, sealed_key AS sealedKey, next_key AS nextKey, url, contact
          FROM acme_accounts WHERE directory = ?`)
        .get(directory)
      return row && ({ ...row } as unknown as AccountRecord)
    })

  saveAccount = ({ directory, sealedKey, nextKey, url, contact }: AccountRecord): Promise<void> =>
    this.#db.write(() => {
      this.#db
        .prepare(`INSERT OR REPLACE INTO acme_accounts (directory, sealed_key, next_key, url, contact)
          VALUES (?, ?, ?, ?, ?)`)
        .run(directory, sealedKey, nextKey, url, contact)
    })

  putChallenge = (key: string, value: string, at: number): Promise<void> =>
    this.#db.write(() => {
      this.#db
        .prepare('INSERT OR REPLACE INTO challenges (key, value, at, ran) VALUES (?, ?, ?, ?)')
        .run(key, value, at, this.#db.runTime())
    })

  findChallenge = (key: string): Promise<string | undefined> =>
    this.#db.read(() => {
      const row = this.#db.prepare('SELECT value FROM challenges WHERE key = ?').get(key)
      return row?.value as string | undefined
    })

  deleteChallenge = (key: string): Promise<void> =>
    this.#db.write(() => void this.#db.prepare('DELETE FROM challenges WHERE key = ?').run(key))

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

  #list(sql: string, ...parameters: (string | number)[]): Promise<readonly OrderRecord[]> {
    return this.#db.read(() =>
      this.#db
        .prepare(sql)
        .all(...parameters)
        .map(toOrder),
    )
  }
}

type Row = Omit<OrderRecord, 'names' | 'lastError' | 'checkpoint' | 'askedBy'> & {
  names: string
  lastError: string | null
  state: string | null
  sealedKey: Uint8Array | null
  askedBy: string | null
}

function toOrder(row: unknown): OrderRecord {
  const { names, lastError, state, sealedKey, askedBy, ...rest } = row as Row
  return {
    ...rest,
    names: JSON.parse(names),
    lastError: lastError && JSON.parse(lastError),
    ...(state !== null && { checkpoint: { state: JSON.parse(state), sealedKey } }),
    ...(askedBy !== null && { askedBy }),
  }
}

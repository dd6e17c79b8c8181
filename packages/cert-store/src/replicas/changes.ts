import { setTimeout as pause } from 'node:timers/promises'
import { type Feed, type Postgres, shareNext, type Transaction } from '@gatehouse/store'
import type { ReplicaChange, Store } from '../port/store.ts'

/** Milliseconds for which changes are kept. A replica that has not read for longer has missed some. */
const KEPT_MS = 3_600_000
/** Rows that are deleted at once. */
const MAX_DELETED = 10_000
/** Request keys that one change lists. More of them are all. */
const MAX_LISTED = 1_000
/** Milliseconds to wait for the confirmations of other replicas. */
const CONFIRMED_WITHIN = 2_000
/** Milliseconds between two looks at them. */
const LOOK_EVERY = 10

/** The beginning of the name that the connections of a replica have in the database. */
export function sessionsOf(replica: string): string {
  return `gatehouse-certs ${replica.slice(0, 8)}`
}

const CONFIRM = `
  INSERT INTO confirmations (change, replica) VALUES ($1, $2) ON CONFLICT DO NOTHING`
const IS_LIVE = `replica.seen_at > clock_timestamp() - interval '5 seconds'`
/**
 * Condition on a row `replica`: the process was killed, and another one has taken its place. That one has
 * its name, joined after its last beat, and it has no connection, which one that is only paused still has.
 */
export const WAS_REPLACED = `
  NOT (${IS_LIVE})
  AND EXISTS (
    SELECT FROM replicas AS later
    WHERE later.name = replica.name AND later.id <> replica.id AND later.joined_at > replica.seen_at)
  AND NOT EXISTS (
    SELECT FROM pg_stat_activity
    WHERE application_name LIKE '${sessionsOf('')}' || left(replica.id, 8) || ' %')`
const UNCONFIRMED = `
  SELECT name, ${IS_LIVE} AS "isLive" FROM replicas AS replica
  WHERE id <> $1 AND seen_at > clock_timestamp() - interval '1 day' AND EXISTS (
    SELECT FROM json_array_elements_text($2::json) WHERE NOT EXISTS (
      SELECT FROM confirmations
      WHERE confirmations.change = value::bigint AND confirmations.replica = replica.id))
    AND NOT (${WAS_REPLACED})
  ORDER BY name`

// The oldest have the lowest ids.
const DELETE_OLD = `
  DELETE FROM changes WHERE id IN (
    SELECT id FROM (SELECT id, at FROM changes ORDER BY id LIMIT ${MAX_DELETED}) AS first
    WHERE at < clock_timestamp() - interval '${KEPT_MS} ms')`
const DELETE_CONFIRMED = `
  DELETE FROM confirmations
  WHERE change < coalesce((SELECT min(id) FROM changes), ${Number.MAX_SAFE_INTEGER})`

interface ChangeRow {
  readonly id: number
  /** A JSON array. */
  readonly requestKeys: string | null
  readonly isUrgent: boolean
}

const NOTE = `
  INSERT INTO changes (origin, request_keys, is_urgent) VALUES ($1, $2, $3) RETURNING id`
const NOTIFY = 'SELECT pg_notify($1, $2)'

interface ReplicaOptions {
  readonly replica: string
  readonly schema: string
}

/** Tells all replicas what one of them changes. */
export class SharedChanges {
  readonly #db: Postgres
  readonly #replica: string
  readonly #channel: string
  readonly #listeners: Parameters<Store['onChange']>[0][] = []
  /** Own urgent changes that {@link awaitReplicas} has not waited for yet. */
  readonly #urgent = new Set<number>()
  readonly #feed: Feed
  /** The changes of the last read, some of which come again in the next one. */
  #seen: ReadonlySet<number> = new Set()
  /** A time on the monotonic clock of the process. */
  #readAt = Number.POSITIVE_INFINITY
  #hasListeners = true
  readonly #sendNotification = shareNext(async () => {
    await this.#db.all(NOTIFY, this.#channel, '')
  })

  constructor(db: Postgres, { replica, schema }: ReplicaOptions) {
    this.#db = db
    this.#replica = replica
    this.#channel = `${schema}_changes`
    // A full read follows on a lost connection: all that is remembered is out of date, whatever changed.
    // What is urgent is confirmed as well.
    const sql = `
      SELECT id, request_keys AS "requestKeys", is_urgent AS "isUrgent" FROM changes
      WHERE xid >= $1::xid8 AND origin <> '${replica}' AND (
        $1::xid8 > '0'::xid8 OR is_urgent AND at > clock_timestamp() - interval '1 minute')
      ORDER BY id`
    const apply = (rows: readonly ChangeRow[], full: boolean) => this.#apply(rows, full)
    this.#feed = db.follow<ChangeRow>({ channel: this.#channel, sql, apply })
  }

  onChange: Store['onChange'] = (listener) => {
    this.#listeners.push(listener)
  }

  awaitReplicas = async (): Promise<readonly string[]> => {
    const urgent = [...this.#urgent]
    if (urgent.length === 0) return []
    const deadline = performance.now() + CONFIRMED_WITHIN
    try {
      for (;;) {
        const missing = await this.#unconfirmed(urgent)
        const isOver = performance.now() > deadline
        if (isOver || !missing.some(({ isLive }) => isLive)) return missing.map(({ name }) => name)
        await pause(LOOK_EVERY)
      }
    } catch {
      // The change that they confirm is committed, whatever happened to the database since.
      return ['*']
    } finally {
      for (const id of urgent) this.#urgent.delete(id)
    }
  }

  /** Whether there are other replicas, as far as is known: a new one looks each second anyway. */
  expectListeners(areThere: boolean): void {
    this.#hasListeners = areThere
  }

  async deleteOld(): Promise<void> {
    const remove = async (tx: Transaction) => {
      const deleted = await tx.run(DELETE_OLD)
      await tx.run(DELETE_CONFIRMED)
      return deleted
    }
    for (let deleted = MAX_DELETED; deleted === MAX_DELETED; )
      deleted = await this.#db.transaction(remove, { durable: false })
  }

  /** Resolves once all that was committed by now is known here. */
  read(): Promise<void> {
    return this.#feed.read()
  }

  /**
   * Tells the others that there is something to read; without it, they look each second. Not part of the
   * write itself, since all commits with notifications wait for each other.
   */
  notify(): void {
    if (this.#hasListeners) this.#sendNotification().catch(() => {})
  }

  /** Part of a write: the request keys that it changes. */
  async note(tx: Transaction, requestKeys: readonly string[]): Promise<void> {
    if (requestKeys.length > 0) await this.#note(tx, requestKeys, false)
  }

  /** Part of a write: a change that each replica is to confirm. Gives its number for {@link expect}. */
  async noteUrgent(tx: Transaction, requestKeys: readonly string[]): Promise<number> {
    const id = await this.#note(tx, requestKeys, true)
    await tx.all(NOTIFY, this.#channel, '')
    return id
  }

  /** Expects confirmations of a change that is committed. */
  expect(id: number): void {
    this.#urgent.add(id)
  }

  async #apply(rows: readonly ChangeRow[], full: boolean): Promise<void> {
    const unseen = full ? rows : rows.filter(({ id }) => !this.#seen.has(id))
    const isFirst = this.#readAt === Number.POSITIVE_INFINITY
    const isLate = performance.now() - this.#readAt > KEPT_MS
    const urgent = unseen.filter(({ isUrgent }) => isUrgent).map(({ id }) => id)
    if ((full && !isFirst) || isLate) await this.#tell({ requestKeys: 'all', isUrgent: true })
    else if (!full && unseen.length > 0)
      await this.#tell({ requestKeys: requestKeysOf(unseen), isUrgent: urgent.length > 0 })
    this.#readAt = performance.now()
    if (urgent.length > 0)
      await this.#db.transaction(
        (tx) => Promise.all(urgent.map((id) => tx.run(CONFIRM, id, this.#replica))),
        { durable: false },
      )
    this.#seen = new Set(rows.map(({ id }) => id))
  }

  async #note(tx: Transaction, requestKeys: readonly string[], isUrgent: boolean) {
    const isListed = requestKeys.length <= MAX_LISTED
    const listed = isListed ? JSON.stringify(requestKeys) : null
    const row = await tx.get<{ id: number }>(NOTE, this.#replica, listed, isUrgent)
    return row?.id as number
  }

  /** Confirms an urgent change when all have taken note of it. */
  async #tell(change: ReplicaChange): Promise<void> {
    await Promise.all(this.#listeners.map((listener) => listener(change)))
  }

  #unconfirmed(urgent: readonly number[]) {
    const ids = JSON.stringify(urgent)
    return this.#db.all<{ name: string; isLive: boolean }>(UNCONFIRMED, this.#replica, ids)
  }
}

function requestKeysOf(rows: readonly ChangeRow[]): ReplicaChange['requestKeys'] {
  const requestKeys = new Set<string>()
  for (const row of rows) {
    if (row.requestKeys === null) return 'all'
    for (const requestKey of JSON.parse(row.requestKeys)) requestKeys.add(requestKey)
  }
  return [...requestKeys]
}

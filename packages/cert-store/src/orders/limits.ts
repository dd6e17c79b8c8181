import { type Engine, groupCommit, indexable, type Transaction } from '@gatehouse/store'
import type { Limits } from '../port/store.ts'
import { type Reservation, Usage } from '../port/usage.ts'
import { DAY, MAX_ROWS, repeat, TEXTS } from '../schema/sql.ts'
import { RESERVATIONS, USAGE } from '../schema/tables.ts'

/** Expired usage is kept this long by the run time, as the clock may be wrong. */
const USAGE_KEPT_MS = 7 * DAY
/** The use of callers is counted for minutes only, so a crash of the database may forget its last second. */
const OF_CALLERS = 'caller '

// Sorted, so that two transactions never wait for each other. The number tells them from other locks.
const LOCK = `
  SELECT pg_advisory_xact_lock(1734440041, lock) FROM (
    SELECT DISTINCT hashtext(value) AS lock FROM json_array_elements_text($1::json)
    ORDER BY lock) AS locks`
// By a subquery for each key, which no planner turns into a read of all rows.
const USED = `
  SELECT value AS key, (SELECT until FROM usage WHERE key = value) AS until
  FROM json_array_elements_text($1::json)`
const RESERVED = `
  SELECT order_id AS "order", key, since FROM reservations
  WHERE key IN (${TEXTS}) ORDER BY order_id`
const LIST_ENDING = "SELECT key FROM usage WHERE key LIKE $1 ESCAPE '!'"
const END = 'DELETE FROM reservations WHERE order_id = $1'
const some = (which: string, order: string) => `
  WHERE key IN (SELECT key FROM usage WHERE ${which} ORDER BY ${order} LIMIT ${MAX_ROWS})`
const UNMARK_ENDED = `
  UPDATE usage SET ended_ran = NULL ${some('ended_ran IS NOT NULL AND until > $1', 'until')}`
const MARK_ENDED = `
  UPDATE usage SET ended_ran = $2 ${some('ended_ran IS NULL AND until <= $1', 'until')}`
const DELETE_ENDED = `
  DELETE FROM usage ${some('ended_ran IS NOT NULL AND ended_ran <= $1', 'ended_ran')}`
const DELETE_ABANDONED = 'DELETE FROM reservations WHERE since <= $1'

interface UsageChange {
  readonly keys: readonly string[]
  change(usage: Usage): unknown
}

/** The used share of limits. Who changes it has its keys alone until the commit. */
export function limitsOn(db: Engine): Limits {
  const changeAll = async (tx: Transaction, changes: readonly UsageChange[]) => {
    const keys = new Set(changes.flatMap((change) => change.keys.map(indexable)))
    const list = JSON.stringify([...keys])
    const [, used, reserved] = await Promise.all([
      db.dialect === 'postgres' && tx.get(LOCK, list),
      tx.all<{ key: string; until: number | null }>(USED, list),
      tx.all<Reservation>(RESERVED, list),
    ])
    const usage = new Usage(used, reserved)
    const results = changes.map(({ change }) => change(usage))
    // Not awaited: the locks last until the commit, which goes with it.
    save(tx, usage).catch(() => {})
    return results
  }
  const durably = groupCommit(db, changeAll)
  const fast = groupCommit(db, changeAll, { durable: false })
  return {
    async changeUsage<T>(keys: readonly string[], change: (usage: Usage) => T) {
      const isOfCallers = keys.every((key) => key.startsWith(OF_CALLERS))
      return (await (isOfCallers ? fast : durably)({ keys, change })) as T
    },
    async listUsage(word) {
      const pattern = `% ${word.replace(/[!%_]/g, '!$&')}`
      const rows = await db.reports.all<{ key: string }>(LIST_ENDING, pattern)
      // SQLite also finds those in another case.
      return rows.map(({ key }) => key).filter((key) => key.endsWith(` ${word}`))
    },
    async pruneUsage(now) {
      const ran = db.runTime()
      await repeat(db, UNMARK_ENDED, now)
      await repeat(db, MARK_ENDED, now, ran)
      await repeat(db, DELETE_ENDED, ran - USAGE_KEPT_MS)
      await db.run(DELETE_ABANDONED, now - DAY)
    },
  }
}

/** Writes first what ended, because an order may begin again. */
function save(tx: Transaction, { changed, ended, begun }: Usage): Promise<unknown> {
  return Promise.all([
    ...[...changed].map(([key, until]) => USAGE.put(tx, { key, until, endedRan: null })),
    ...[...ended].sort().map((order) => tx.run(END, order)),
    ...begun.map(({ order: orderId, key, since }) => RESERVATIONS.put(tx, { orderId, key, since })),
  ])
}

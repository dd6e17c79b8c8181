import type { Database } from './database.ts'
import { type Age, isOver } from './prune.ts'
import type { RunTime } from './run-time.ts'
import type { OrderRecord, Store } from './store.ts'

const DAY = 86_400_000

type Methods = Pick<
  Store,
  | 'saveOrder'
  | 'findOrder'
  | 'findOrderByLineage'
  | 'listFailedOrders'
  | 'listPendingOrders'
  | 'listResumableOrders'
  | 'findOrderByUrl'
>

export type Orders = ReturnType<typeof createOrders>

const SELECT = `
  SELECT id, lineage, issuer, names, key_type AS keyType, csr, status, step, since, failures,
    last_error AS lastError, next_try_at AS nextTryAt, state, sealed_key AS sealedKey,
    asked_by AS askedBy
  FROM orders WHERE`

export function createOrders(db: Database, runTime: RunTime) {
  const replace = db.prepare(`
    INSERT OR REPLACE INTO orders (id, lineage, issuer, names, key_type, csr, status, step, since,
      failures, last_error, next_try_at, state, sealed_key, asked_by, ran)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
  const byId = db.prepare(`${SELECT} id = ?`)
  const byLineage = db.prepare(`${SELECT} lineage = ?`)
  const pending = db.prepare(`${SELECT} status = 'pending'`)
  const byUrl = db.prepare(`${SELECT} state IS NOT NULL AND json_extract(state, '$.orderUrl') = ?`)
  const resumable = db.prepare(
    `${SELECT} status = 'failed' AND state IS NOT NULL
      AND (next_try_at <= ?1 OR next_try_at > ?1 + ${DAY})`,
  )
  const failed = db.prepare(`${SELECT} status = 'failed' ORDER BY next_try_at DESC LIMIT ?`)
  const end = db.prepare(`
    UPDATE orders SET status = 'done', failures = 0, last_error = NULL, next_try_at = NULL,
      state = NULL, sealed_key = NULL
    WHERE lineage = ?`)
  const forget = db.prepare(`
    UPDATE orders SET state = NULL, sealed_key = NULL
    WHERE status = 'failed' AND lineage IN (SELECT lineage FROM certificates WHERE id = ?)`)
  const deleteOld = db.prepare(`
    DELETE FROM orders WHERE id IN (
      SELECT id FROM orders
      WHERE status <> 'pending' AND ${isOver('coalesce(next_try_at, since)', 'ran')}
      LIMIT :limit)`)

  const methods: Methods = {
    saveOrder: (order) =>
      db.write(
        () =>
          void replace.run(
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
            order.lastError && JSON.stringify(order.lastError),
            order.nextTryAt,
            order.checkpoint ? JSON.stringify(order.checkpoint.state) : null,
            order.checkpoint?.sealedKey ?? null,
            order.askedBy ?? null,
            runTime.now(),
          ),
      ),
    findOrder: (id) => db.read(() => toOrder(byId.get(id))),
    findOrderByLineage: (lineage) => db.read(() => toOrder(byLineage.get(lineage))),
    listFailedOrders: (limit) =>
      db.read(() => failed.all(limit).flatMap((row) => toOrder(row) ?? [])),
    listPendingOrders: () => db.read(() => pending.all().flatMap((row) => toOrder(row) ?? [])),
    findOrderByUrl: (url) => db.read(() => toOrder(byUrl.get(url))),
    listResumableOrders: (now) =>
      db.read(() => resumable.all(now).flatMap((row) => toOrder(row) ?? [])),
  }

  return {
    methods,
    /** Part of a write: the lineage has its certificate. */
    end: (lineage: string) => void end.run(lineage),
    /** Part of a write: what failed for the lineage of a certificate is not gone on with. */
    forget: (certificate: number) => void forget.run(certificate),
    prune: (age: Age, limit: number) => Number(deleteOld.run({ ...age, limit }).changes),
  }
}

type Row = Omit<OrderRecord, 'names' | 'lastError' | 'checkpoint' | 'askedBy'> & {
  names: string
  lastError: string | null
  state: string | null
  sealedKey: Uint8Array | null
  askedBy: string | null
}

function toOrder(row: unknown): OrderRecord | undefined {
  if (row === undefined) return undefined
  const { names, lastError, state, sealedKey, askedBy, ...rest } = row as Row
  return {
    ...rest,
    names: JSON.parse(names),
    lastError: lastError && JSON.parse(lastError),
    ...(state !== null && { checkpoint: { state: JSON.parse(state), sealedKey } }),
    ...(askedBy !== null && { askedBy }),
  }
}

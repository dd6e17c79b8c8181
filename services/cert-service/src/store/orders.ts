import type { Database } from './database.ts'
import type { Order, Store } from './store.ts'

type Methods = Pick<Store, 'saveOrder' | 'findOrder' | 'findOrderByLineage' | 'listPendingOrders'>

export type Orders = ReturnType<typeof createOrders>

const SELECT = `
  SELECT id, lineage, issuer, names, key_type AS keyType, csr, status, step, since, failures,
    last_error AS lastError, next_try_at AS nextTryAt
  FROM orders WHERE`

export function createOrders(db: Database) {
  const replace = db.prepare(`
    INSERT OR REPLACE INTO orders (id, lineage, issuer, names, key_type, csr, status, step, since,
      failures, last_error, next_try_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
  const byId = db.prepare(`${SELECT} id = ?`)
  const byLineage = db.prepare(`${SELECT} lineage = ?`)
  const pending = db.prepare(`${SELECT} status = 'pending'`)
  const end = db.prepare(`
    UPDATE orders SET status = 'done', failures = 0, last_error = NULL, next_try_at = NULL
    WHERE lineage = ?`)
  const deleteOld = db.prepare(`
    DELETE FROM orders WHERE id IN (
      SELECT id FROM orders
      WHERE status <> 'pending' AND coalesce(next_try_at, since) < ? LIMIT ?)`)

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
          ),
      ),
    findOrder: (id) => db.read(() => toOrder(byId.get(id))),
    findOrderByLineage: (lineage) => db.read(() => toOrder(byLineage.get(lineage))),
    listPendingOrders: () => db.read(() => pending.all().flatMap((row) => toOrder(row) ?? [])),
  }

  return {
    methods,
    /** Part of a write: the lineage has its certificate. */
    end: (lineage: string) => void end.run(lineage),
    prune: (before: number, limit: number) => Number(deleteOld.run(before, limit).changes),
  }
}

type Row = Omit<Order, 'names' | 'lastError'> & { names: string; lastError: string | null }

function toOrder(row: unknown): Order | undefined {
  if (row === undefined) return undefined
  const { names, lastError, ...rest } = row as Row
  return { ...rest, names: JSON.parse(names), lastError: lastError && JSON.parse(lastError) }
}

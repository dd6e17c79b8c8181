import { type Engine, indexable } from '@gatehouse/store'
import type { RootHolder, Store } from './port/store.ts'
import { DAY } from './schema/sql.ts'
import { ROOT_HOLDERS } from './schema/tables.ts'

const HOUR = 3_600_000
const KEY = ['caller', 'address']
const MAX_HOLDERS = 10_000
const MAX_ADDRESSES = 1_000
/** Whoever was not seen for so long is gone, or asks at another address. */
const KEPT_MS = 90 * DAY

/** SQL: a word that is new, or that was last heard an hour ago. */
const IF_NEW = `
  WHERE root_holders.roots <> excluded.roots OR abs(excluded.seen_at - root_holders.seen_at) >= ${HOUR}`
const DELETE_ADDRESSES = `
  DELETE FROM root_holders WHERE caller = $1 AND address IN (
    SELECT address FROM root_holders WHERE caller = $1
    ORDER BY seen_at DESC LIMIT 1000000 OFFSET ${MAX_ADDRESSES})`
const DELETE_EXCESS = `
  DELETE FROM root_holders WHERE (caller, address) IN (
    SELECT caller, address FROM root_holders ORDER BY seen_at DESC LIMIT 1000000 OFFSET ${MAX_HOLDERS})`
const DELETE_OLD = `
  DELETE FROM root_holders
  WHERE seen_at < $1::bigint - ${KEPT_MS} OR seen_at > $1::bigint + ${DAY}`

/** What is known of the roots that others trust. */
export function rootHoldersOn(db: Engine): Pick<Store, 'addRootHolders' | 'listRootHolders'> {
  return {
    addRootHolders: (holders) =>
      db.transaction(
        async (tx) => {
          // Sorted, so that two transactions never wait for each other.
          for (const holder of holders.toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1)))
            await ROOT_HOLDERS.add(tx, holder, `${ROOT_HOLDERS.replacing(KEY, holder)}${IF_NEW}`)
          for (const caller of new Set(holders.map(({ caller }) => caller)))
            await tx.run(DELETE_ADDRESSES, indexable(caller))
          await tx.run(DELETE_EXCESS)
        },
        { durable: false },
      ),
    listRootHolders: async (since) =>
      (await ROOT_HOLDERS.list(
        db,
        'WHERE seen_at >= $1 ORDER BY seen_at DESC, caller, address',
        since,
      )) as readonly RootHolder[],
  }
}

const keyOf = ({ caller, address }: RootHolder) => `${caller} ${address}`

export const pruneRootHolders = (db: Engine, now: number) => db.run(DELETE_OLD, now)

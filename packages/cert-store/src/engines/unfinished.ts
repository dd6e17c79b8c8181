import { type Engine, StoreError, Table } from '@gatehouse/store'

/** The table that a store has while another one is moved there. It names the other by its keyring. */
export const UNFINISHED = new Table('unfinished_move', { source: 'bytes' }, { key: ['source'] })
const EXISTS = {
  postgres: 'SELECT 1 FROM pg_class WHERE oid = to_regclass($1)',
  sqlite: 'SELECT 1 FROM sqlite_schema WHERE name = $1',
}

export async function noteUnfinished(db: Engine, source: Uint8Array): Promise<void> {
  await db.transaction(async (tx) => {
    await tx.run(UNFINISHED.createdBy(db.dialect))
    await UNFINISHED.add(tx, { source })
  })
}

/** The keyring of the store whose rows are still to come. */
export async function findUnfinished(on: Engine): Promise<Uint8Array | undefined> {
  if (!(await on.get(EXISTS[on.dialect], UNFINISHED.name))) return undefined
  return (await UNFINISHED.find(on, ''))?.source
}

/** @throws StoreError STORE_UNFINISHED for a store that was not moved completely */
export async function refuseUnfinished(on: Engine): Promise<void> {
  if (!(await findUnfinished(on))) return
  throw new StoreError('STORE_UNFINISHED', 'A store is being moved here, and is not complete.')
}

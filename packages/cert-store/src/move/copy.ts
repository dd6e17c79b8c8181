import { asStoreError, type Engine, type Row, StoreError, type Table } from '@gatehouse/store'
import { UNFINISHED } from '../engines/unfinished.ts'
import { TABLES } from '../schema/tables.ts'

/** A store that is to be moved. It is only read. */
export interface Source extends AsyncDisposable {
  readonly db: Engine
  /** Identifies its keyring. */
  readonly check: Uint8Array
  /** @throws StoreError STORE_LOCKED if somebody has used it since it was opened */
  assertUnused(): Promise<void>
}

/** The content of a target: a store that was moved there, completely or in part. */
export interface TargetStore {
  readonly db: Engine
  /** Identifies the keyring of that store. */
  readonly check: Uint8Array
  readonly isFinished: boolean
}

/** The target of a move. No service uses it before it is finished. */
export interface Target extends AsyncDisposable {
  /** `undefined` for an empty one. */
  readonly existing: TargetStore | undefined
  /** Empties it, and notes in {@link UNFINISHED} what is to be there. */
  begin(check: Uint8Array): Promise<TargetStore>
  /** Gives what is finished its place. */
  publish(): Promise<void>
}

/** The number of rows of a table in the target, after each batch. */
export interface Progress {
  readonly table: string
  readonly rows: number
  readonly isComplete: boolean
}

/** The target contains something that the source does not, or no longer, contain. */
class Contradiction extends StoreError {
  constructor(message: string) {
    super('STORE_CORRUPT', message)
  }
}

/** Keys that are counted at once. */
const MANY = 10_000
/** The last id that was given in a table, also if its row is gone. */
const LAST_ID: Record<Engine['dialect'], (table: string) => string> = {
  postgres: (table) => `SELECT last_value AS last FROM ${table}_id_seq WHERE is_called`,
  sqlite: (table) => `SELECT seq AS last FROM sqlite_sequence WHERE name = '${table}'`,
}
const SET_LAST_ID: Record<Engine['dialect'], (table: string, id: number) => readonly string[]> = {
  postgres: (table, id) => [`SELECT setval('${table}_id_seq', ${id})`],
  sqlite: (table, id) => [
    `DELETE FROM sqlite_sequence WHERE name = '${table}'`,
    `INSERT INTO sqlite_sequence (name, seq) VALUES ('${table}', ${id})`,
  ],
}

/**
 * Copies a store, in batches of which each is read back and compared. What an earlier move of the same
 * store left behind is compared and completed; if the store was used since then, it is copied anew.
 * @throws StoreError STORE_NOT_EMPTY, STORE_LOCKED, STORE_UNAVAILABLE
 */
export async function* copyStore(
  source: Source,
  target: Target,
  batch: number,
): AsyncGenerator<Progress> {
  let into = target.existing
  if (into && !isSame(into.check, source.check)) throw notEmpty()
  if (into)
    try {
      yield* copyTables(source, into, batch)
    } catch (error) {
      if (!(error instanceof Contradiction)) throw error
      if (into.isFinished) throw notEmpty()
      into = undefined
    }
  if (!into) {
    into = await target.begin(source.check).catch(explain)
    yield* copyTables(source, into, batch)
  }
  await source.assertUnused()
  if (into.isFinished) return
  await finish(source.db, into.db)
  await target.publish().catch(explain)
}

function notEmpty(): StoreError {
  return new StoreError('STORE_NOT_EMPTY', 'The target holds another store.')
}

async function* copyTables(
  { db }: Source,
  into: TargetStore,
  batch: number,
): AsyncGenerator<Progress> {
  for (const table of TABLES) {
    let rows = 0
    let page: readonly Row[] = []
    do {
      page = await table.page(db, page.at(-1), batch)
      await copyRows(table, page, into)
      rows += page.length
      const isComplete = page.length < batch
      if (isComplete && (await count(into.db, table)) !== rows)
        throw new Contradiction(`The target has other ${table.name} than the store.`)
      yield { table: table.name, rows, isComplete }
    } while (page.length === batch)
  }
}

async function copyRows(table: Table, rows: readonly Row[], into: TargetStore): Promise<void> {
  const { db, isFinished } = into
  const missing = await missingOf(db, table, rows)
  if (missing.length === 0) return
  if (isFinished) throw new Contradiction(`The target lacks ${table.name}.`)
  try {
    await db.transaction((tx) => Promise.all(missing.map((row) => table.addRow(tx, row))))
  } catch (error) {
    if (!(error instanceof StoreError) || error.constraint === undefined) throw error
    throw new Contradiction(`The ${table.name} of the target cannot be completed.`)
  }
  if ((await missingOf(db, table, missing)).length > 0)
    throw new Contradiction(`The target does not have ${table.name} that were stored.`)
}

/** The rows that are not in the target. @throws Contradiction if one of them is there with other values */
async function missingOf(db: Engine, table: Table, rows: readonly Row[]): Promise<readonly Row[]> {
  if (rows.length === 0) return []
  const idOf = (row: Row) => JSON.stringify(table.keyOf(row))
  const there = new Map((await table.alike(db, rows)).map((row) => [idOf(row), row]))
  return rows.filter((row) => {
    const copy = there.get(idOf(row))
    if (copy && !table.members.every((member) => isSame(row[member], copy[member])))
      throw new Contradiction(`A row of ${table.name} differs in the target.`)
    return !copy
  })
}

function explain(error: unknown): never {
  throw asStoreError(error)
}

/** SQLite has numbers for what is true or false. */
function isSame(value: unknown, copy: unknown): boolean {
  if (value instanceof Uint8Array && copy instanceof Uint8Array)
    return Buffer.compare(value, copy) === 0
  const isTruth = typeof value === 'boolean' || typeof copy === 'boolean'
  return isTruth ? Number(value) === Number(copy) : value === copy
}

async function count(db: Engine, table: Table): Promise<number> {
  let total = 0
  let keys: readonly Row[] = []
  do {
    keys = await table.page(db, keys.at(-1), MANY, table.key.join())
    total += keys.length
  } while (keys.length === MANY)
  return total
}

/** Makes the target a store of its own. */
async function finish(from: Engine, to: Engine): Promise<void> {
  const ran = await from.get<{ ms: number }>('SELECT ms FROM run_time')
  const statements = [`UPDATE run_time SET ms = ${ran?.ms}`, `DROP TABLE ${UNFINISHED.name}`]
  for (const { name } of TABLES.filter(({ isNumbered }) => isNumbered)) {
    const highest = await from.get<{ last: number }>(LAST_ID[from.dialect](name))
    if (highest) statements.push(...SET_LAST_ID[to.dialect](name, highest.last))
  }
  await to.transaction(async (tx) => {
    for (const sql of statements) await tx.run(sql)
  })
}

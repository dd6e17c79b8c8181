import { isDeepStrictEqual } from 'node:util'
import { CertError } from '../../errors.ts'
import type { Page, Source, Target } from './side.ts'
import { type Row, TABLES, type Table } from './tables.ts'

/** After each batch: how many rows of a table are in the target. */
export interface Progress {
  readonly table: string
  readonly rows: number
  readonly isComplete: boolean
}

/** What is in the target is not, or no longer, what is in the source. */
class Contradiction extends CertError {
  constructor(message: string) {
    super('CERT_STORE_CORRUPT', message)
  }
}

/**
 * Copies a store, in batches of which each is read back and compared. What an earlier move of the same
 * store left behind is compared and completed; if the store was used since then, it is copied anew.
 * @throws CertError CERT_STORE_NOT_EMPTY, CERT_STORE_LOCKED, CERT_STORE_UNAVAILABLE
 */
export async function* copyStore(
  source: Source,
  target: Target,
  batch: number,
): AsyncGenerator<Progress> {
  const { found } = target
  if (found && !found.check.equals(source.check)) throw notEmpty()
  try {
    if (found) yield* copyTables(source, target, { batch, isNew: false })
    else yield* copyAnew(source, target, batch)
  } catch (error) {
    if (!(error instanceof Contradiction) || !found) throw error
    if (found.isFinished) throw notEmpty()
    yield* copyAnew(source, target, batch)
  }
  await source.assertUnused()
  if (!found?.isFinished) await target.finish(await source.counters())
}

async function* copyAnew(source: Source, target: Target, batch: number): AsyncGenerator<Progress> {
  await target.begin(source.check)
  yield* copyTables(source, target, { batch, isNew: true })
}

function notEmpty(): CertError {
  return new CertError('CERT_STORE_NOT_EMPTY', 'The target holds another store.')
}

interface Manner {
  readonly batch: number
  /** Whether the target was empty. */
  readonly isNew: boolean
}

async function* copyTables(
  source: Source,
  target: Target,
  manner: Manner,
): AsyncGenerator<Progress> {
  for (const table of TABLES) {
    let rows = 0
    let page: Page<unknown> | undefined
    do {
      page = await source.page(table, page, manner.batch)
      await copyRows(target, table, page.rows, manner.isNew)
      rows += page.rows.length
      const isComplete = page.rows.length < manner.batch
      if (isComplete && (await target.count(table)) !== rows)
        throw new Contradiction(`The target has other ${table.name} than the store.`)
      yield { table: table.name, rows, isComplete }
    } while (page.rows.length === manner.batch)
  }
}

async function copyRows(
  target: Target,
  table: Table,
  rows: readonly Row[],
  isNew: boolean,
): Promise<void> {
  if (rows.length === 0) return
  const missing = isNew ? rows : await missingOf(target, table, rows)
  if (missing.length === 0) return
  if (target.found?.isFinished || !(await target.insert(table, missing)))
    throw new Contradiction(`The ${table.name} of the target cannot be completed.`)
  if ((await missingOf(target, table, missing)).length > 0)
    throw new Contradiction(`The target does not have ${table.name} that were stored.`)
}

/** The rows that are not in the target. @throws Contradiction if one of them is there with other values */
async function missingOf(
  target: Target,
  table: Table,
  rows: readonly Row[],
): Promise<readonly Row[]> {
  const idOf = (row: Row) => {
    const key = row[table.key]
    return Buffer.isBuffer(key) ? key.toString('latin1') : key
  }
  const there = new Map((await target.find(table, rows)).map((row) => [idOf(row), row]))
  return rows.filter((row) => {
    const other = there.get(idOf(row))
    if (other && !isDeepStrictEqual(other, row))
      throw new Contradiction(`A row of ${table.name} differs in the target.`)
    return !other
  })
}

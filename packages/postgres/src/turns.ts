import { PostgresError } from './errors.ts'
import { unavailable } from './failures.ts'
import type { Row, Statement } from './statement.ts'

/**
 * A kind of writes, or reads, that share round trips: what is added in one turn of the event loop, and all
 * that comes while one is under way, is sent together, with the items of all other kinds. Writes share a
 * transaction as well.
 */
export interface Turn<Item, Result> {
  /** The statements for all items, such as an INSERT from `unnest($1::text[])`. Sort by key, against deadlocks. */
  statements(items: readonly Item[]): readonly Statement[]
  /** The result of each item, in order, from the rows of each statement. An Error rejects that item. */
  settle(rows: readonly (readonly Row[])[], items: readonly Item[]): readonly (Result | Error)[]
  /** `false`: may be lost if the database's machine crashes within a second. Default: true. */
  readonly durable?: boolean
  /** The statements only read. They may run twice. Default: false. */
  readonly readOnly?: boolean
}

interface Entry {
  readonly kind: Turn<unknown, unknown>
  readonly item: unknown
  resolve(result: unknown): void
  reject(error: unknown): void
}

/** The items of one kind, and their statements. */
interface Group {
  readonly kind: Turn<unknown, unknown>
  readonly entries: readonly Entry[]
  readonly items: readonly unknown[]
  readonly statements: readonly Statement[]
}

const MAX_WAITING = 4096
/** Items of one round trip. More only make the first of them wait longer. */
const MAX_TOGETHER = 1024

type Run = (statements: readonly Statement[]) => Promise<readonly (readonly Row[])[]>

/** Collects items of all kinds, and runs their statements in one round trip after the other. */
export class Turns {
  readonly #run: Run
  readonly #kinds = new Set<Turn<unknown, unknown>>()
  #waiting: Entry[] = []
  #work: Promise<void> | undefined

  /** @param run - gives the rows of each statement, or rejects for all of them */
  constructor(run: Run) {
    this.#run = run
  }

  register<Item, Result>(kind: Turn<Item, Result>): (item: Item) => Promise<Result> {
    const known = kind as unknown as Turn<unknown, unknown>
    this.#kinds.add(known)
    return (item) =>
      new Promise<Result>((resolve, reject) => {
        if (this.#waiting.length >= MAX_WAITING) throw unavailable('too much waits for it')
        this.#waiting.push({ kind: known, item, resolve: resolve as Entry['resolve'], reject })
        this.#work ??= this.#settleAll()
      })
  }

  /** Resolves when nothing waits. */
  async idle(): Promise<void> {
    await this.#work
  }

  async #settleAll(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve))
    while (this.#waiting.length > 0) {
      const entries = this.#waiting.slice(0, MAX_TOGETHER)
      this.#waiting = this.#waiting.slice(MAX_TOGETHER)
      await this.#settle(entries)
    }
    this.#work = undefined
  }

  /** If it is rejected, an item is at fault: it is tried by halves, until only that one fails. */
  async #settle(entries: readonly Entry[]): Promise<void> {
    let groups: readonly Group[]
    let rows: readonly (readonly Row[])[]
    try {
      groups = this.#group(entries)
      rows = await this.#run(groups.flatMap(({ statements }) => statements))
    } catch (error) {
      if (entries.length === 1 || isUnavailable(error))
        for (const { reject } of entries) reject(error)
      else {
        const half = Math.ceil(entries.length / 2)
        await this.#settle(entries.slice(0, half))
        await this.#settle(entries.slice(half))
      }
      return
    }
    let start = 0
    for (const group of groups) {
      settle(group, rows.slice(start, start + group.statements.length))
      start += group.statements.length
    }
  }

  /** In the order in which the kinds were registered, so that all replicas lock in the same one. */
  #group(entries: readonly Entry[]): readonly Group[] {
    const byKind = Map.groupBy(entries, ({ kind }) => kind)
    return [...this.#kinds].flatMap((kind) => {
      const own = byKind.get(kind)
      if (!own) return []
      const items = own.map(({ item }) => item)
      return [{ kind, entries: own, items, statements: kind.statements(items) }]
    })
  }
}

function isUnavailable(error: unknown): boolean {
  return error instanceof PostgresError && error.code !== 'POSTGRES_STATEMENT_FAILED'
}

function settle({ kind, entries, items }: Group, rows: readonly (readonly Row[])[]): void {
  try {
    const results = kind.settle(rows, items)
    entries.forEach(({ resolve, reject }, i) => {
      const result = results[i]
      if (result instanceof Error) reject(result)
      else resolve(result)
    })
  } catch (error) {
    // What it wrote stays.
    for (const { reject } of entries) reject(error)
  }
}

import { PostgresError } from './errors.ts'
import { unavailable } from './failures.ts'
import type { Row, Statement } from './statement.ts'
import type { Writes } from './writes.ts'

/**
 * A kind of writes that share transactions: what is added in one turn of the event loop, and all that
 * comes while a write is under way, is committed together, with the items of all other kinds.
 */
export interface Turn<Item, Result> {
  /** The statements that write all items, such as an INSERT from `unnest($1::text[])`. Sort by key, against deadlocks. */
  statements(items: readonly Item[]): readonly Statement[]
  /** The result of each item, in order, from the rows of each statement. An Error rejects that item. */
  settle(rows: readonly (readonly Row[])[], items: readonly Item[]): readonly (Result | Error)[]
  /** `false`: may be lost if the database's machine crashes within a second. Default: true. */
  readonly durable?: boolean
}

interface Entry {
  readonly kind: Turn<unknown, unknown>
  readonly item: unknown
  resolve(result: unknown): void
  reject(error: unknown): void
}

/** The items of one kind, and what writes them. */
interface Group {
  readonly kind: Turn<unknown, unknown>
  readonly entries: readonly Entry[]
  readonly items: readonly unknown[]
  readonly statements: readonly Statement[]
}

const MAX_WAITING = 4096
/** Items of one transaction. More only make the first of them wait longer. */
const MAX_TOGETHER = 1024

/** Collects items of all kinds, and writes them one transaction after the other. */
export class Turns {
  readonly #writes: Writes
  readonly #durable: boolean
  readonly #kinds = new Set<Turn<unknown, unknown>>()
  #waiting: Entry[] = []
  #work: Promise<void> | undefined

  constructor(writes: Writes, durable: boolean) {
    this.#writes = writes
    this.#durable = durable
  }

  register<Item, Result>(kind: Turn<Item, Result>): (item: Item) => Promise<Result> {
    const known = kind as unknown as Turn<unknown, unknown>
    this.#kinds.add(known)
    return (item) =>
      new Promise<Result>((resolve, reject) => {
        if (this.#waiting.length >= MAX_WAITING) throw unavailable('too many writes wait')
        this.#waiting.push({ kind: known, item, resolve: resolve as Entry['resolve'], reject })
        this.#work ??= this.#writeAll()
      })
  }

  /** Resolves when nothing waits. */
  async idle(): Promise<void> {
    await this.#work
  }

  async #writeAll(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve))
    while (this.#waiting.length > 0) {
      const entries = this.#waiting.slice(0, MAX_TOGETHER)
      this.#waiting = this.#waiting.slice(MAX_TOGETHER)
      await this.#write(entries)
    }
    this.#work = undefined
  }

  /** If the write is rejected, an item is at fault: it is written by halves, until only that one fails. */
  async #write(entries: readonly Entry[]): Promise<void> {
    let groups: readonly Group[]
    let rows: readonly (readonly Row[])[]
    try {
      groups = this.#group(entries)
      rows = await this.#writes.pipeline(
        groups.flatMap(({ statements }) => statements),
        this.#durable,
      )
    } catch (error) {
      if (entries.length === 1 || isUnavailable(error))
        for (const { reject } of entries) reject(error)
      else {
        const half = Math.ceil(entries.length / 2)
        await this.#write(entries.slice(0, half))
        await this.#write(entries.slice(half))
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
    // It is written.
    for (const { reject } of entries) reject(error)
  }
}

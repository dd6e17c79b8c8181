import type { Engine, Transaction, WriteOptions } from './engine.ts'

/** Items of one transaction, so that none takes long. */
const MAX_ITEMS = 64

interface Call<Item, Result> {
  readonly item: Item
  resolve(result: Result): void
  reject(error: unknown): void
}

/**
 * Group commit: gives what writes one item. All that waits when a transaction begins shares it; if it fails
 * before its commit, each is written alone, so that none fails for another.
 * @param write - part of a write: gives a result for each item
 */
export function groupCommit<Item, Result>(
  db: Engine,
  write: (tx: Transaction, items: readonly Item[]) => Promise<readonly Result[]>,
  options?: WriteOptions,
): (item: Item) => Promise<Result> {
  const waiting: Call<Item, Result>[] = []
  const take = () => {
    const taken = waiting.splice(0, MAX_ITEMS)
    if (waiting.length > 0) void run([])
    return taken
  }
  const run = async (calls: Call<Item, Result>[]) => {
    let mayBeCommitted = false
    const writeAll = async (tx: Transaction) => {
      // It may run again.
      if (calls.length === 0) calls.push(...take())
      const results = await write(
        tx,
        calls.map(({ item }) => item),
      )
      mayBeCommitted = true
      return results
    }
    try {
      const results = await db.transaction(writeAll, options)
      for (const [i, { resolve }] of calls.entries()) resolve(results[i] as Result)
    } catch (error) {
      if (calls.length > 1 && !mayBeCommitted) for (const call of calls) void run([call])
      else for (const { reject } of calls.length > 0 ? calls : take()) reject(error)
    }
  }
  return (item) =>
    new Promise((resolve, reject) => {
      waiting.push({ item, resolve, reject })
      if (waiting.length === 1) void run([])
    })
}

import type { Engine, Transaction, WriteOptions } from './engine.ts'

/** Items of one transaction, so that none takes long. */
const MAX_ITEMS = 64

interface GroupedWrite<Item, Result> {
  readonly item: Item
  resolve(result: Result): void
  reject(error: unknown): void
}

/**
 * Group commit: gives what writes one item. One transaction runs at a time, so that none waits for the locks of
 * another. All that waits when it begins shares it; if it fails before its commit, each is written alone, so that
 * none fails for another.
 * @param write - part of a write: gives a result for each item
 */
export function groupCommit<Item, Result>(
  db: Engine,
  write: (tx: Transaction, items: readonly Item[]) => Promise<readonly Result[]>,
  options?: WriteOptions,
): (item: Item) => Promise<Result> {
  const waiting: GroupedWrite<Item, Result>[] = []
  let previous: Promise<unknown> = Promise.resolve()
  const take = () => {
    const taken = waiting.splice(0, MAX_ITEMS)
    if (waiting.length > 0) void run([])
    return taken
  }
  const run = async (calls: GroupedWrite<Item, Result>[]) => {
    const isGroup = calls.length === 0
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
      const turn = db.transaction(writeAll, isGroup ? { ...options, after: previous } : options)
      if (isGroup) previous = turn.catch(() => {})
      const results = await turn
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

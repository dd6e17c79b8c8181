/** Makes a function that runs tasks with the same key one after another. */
export function createTurns() {
  const turns = new Map<string, Promise<unknown>>()
  return async function inTurn<T>(key: string, run: () => Promise<T>): Promise<T> {
    const turn = Promise.resolve(turns.get(key)).then(run, run)
    turns.set(key, turn)
    try {
      return await turn
    } finally {
      if (turns.get(key) === turn) turns.delete(key)
    }
  }
}

/** Makes a function that runs tasks with the same key one after another. */
export function createTurns() {
  const last = new Map<string, Promise<unknown>>()
  return async function inTurn<T>(key: string, run: () => Promise<T>): Promise<T> {
    const turn = Promise.resolve(last.get(key)).then(run, run)
    last.set(key, turn)
    try {
      return await turn
    } finally {
      if (last.get(key) === turn) last.delete(key)
    }
  }
}

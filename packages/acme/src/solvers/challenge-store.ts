/**
 * Where answers are kept for whoever is asked: several replicas share one. What is put may be
 * forgotten after an hour.
 */
export interface ChallengeStore {
  put(key: string, value: string): Promise<void>
  get(key: string): Promise<string | undefined>
  delete(key: string): Promise<void>
}

/** For one process. */
export function createMemoryStore(): ChallengeStore {
  const values = new Map<string, string>()
  return {
    put: async (key, value) => void values.set(key, value),
    get: async (key) => values.get(key),
    delete: async (key) => void values.delete(key),
  }
}

import type { ChallengeStore } from '../src/index.ts'

/** A store of challenges in memory. */
export function createMemoryStore(): ChallengeStore {
  const values = new Map<string, string>()
  return {
    put: async (key, value) => void values.set(key, value),
    get: async (key) => values.get(key),
    delete: async (key) => void values.delete(key),
  }
}

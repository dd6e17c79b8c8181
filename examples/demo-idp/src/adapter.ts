import { LRUCache } from 'lru-cache'

const MAX_ENTRIES = 50_000

type Payload = Readonly<Record<string, unknown>> & {
  readonly uid?: string
  readonly grantId?: string
}

/** Stores the sessions, codes and tokens of one provider in memory. */
export function memoryAdapter() {
  const entries = new LRUCache<string, Payload>({ max: MAX_ENTRIES })

  return (model: string) => {
    const keyOf = (id: string) => `${model}:${id}`
    return {
      async upsert(id: string, payload: Payload, seconds = 0) {
        entries.set(keyOf(id), payload, { ttl: seconds * 1_000 })
        if (payload.uid !== undefined)
          entries.set(keyOf(`uid:${payload.uid}`), payload, { ttl: seconds * 1_000 })
      },
      find: async (id: string) => entries.get(keyOf(id)),
      findByUid: async (uid: string) => entries.get(keyOf(`uid:${uid}`)),
      async consume(id: string) {
        const consumed = Math.floor(Date.now() / 1_000)
        entries.set(keyOf(id), { ...entries.get(keyOf(id)), consumed }, { noUpdateTTL: true })
      },
      async destroy(id: string) {
        entries.delete(keyOf(`uid:${entries.get(keyOf(id))?.uid}`))
        entries.delete(keyOf(id))
      },
      async revokeByGrantId(grantId: string) {
        for (const [key, payload] of entries)
          if (key.startsWith(keyOf('')) && payload.grantId === grantId) entries.delete(key)
      },
    }
  }
}

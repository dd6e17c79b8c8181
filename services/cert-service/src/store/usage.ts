import type { Database } from './database.ts'
import type { Store } from './store.ts'

/** What was used of the limits of CAs, and what came of it. */
export function createUsage(db: Database): Pick<Store, 'listUsage' | 'saveUsage' | 'pruneUsage'> {
  const latest = db.prepare('SELECT key, until FROM usage ORDER BY until DESC LIMIT ?')
  const replace = db.prepare('INSERT OR REPLACE INTO usage (key, until) VALUES (?, ?)')
  const deleteOld = db.prepare('DELETE FROM usage WHERE until <= ?')

  return {
    listUsage: (limit) =>
      db.read(() =>
        latest.all(limit).map(({ key, until }) => [key as string, until as number] as const),
      ),
    saveUsage: (rows) =>
      db.write(() => {
        for (const [key, until] of rows) replace.run(key, until)
      }),
    pruneUsage: (now) => db.write(() => void deleteOld.run(now)),
  }
}

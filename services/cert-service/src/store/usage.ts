import type { Database } from './database.ts'
import type { RunTime } from './run-time.ts'
import type { Store } from './store.ts'

/** What has come back is kept for as long by the run time: the clock may be wrong. */
const KEPT_MS = 7 * 86_400_000

/** What was used of the limits of CAs, and what came of it. */
export function createUsage(
  db: Database,
  runTime: RunTime,
): Pick<Store, 'listUsage' | 'saveUsage' | 'pruneUsage'> {
  const latest = db.prepare('SELECT key, until FROM usage ORDER BY until DESC LIMIT ?')
  const replace = db.prepare('INSERT OR REPLACE INTO usage (key, until) VALUES (?, ?)')
  const revive = db.prepare(
    'UPDATE usage SET ended_ran = NULL WHERE ended_ran IS NOT NULL AND until > ?',
  )
  const end = db.prepare('UPDATE usage SET ended_ran = ? WHERE ended_ran IS NULL AND until <= ?')
  const deleteOld = db.prepare('DELETE FROM usage WHERE ended_ran <= ? RETURNING key')

  return {
    listUsage: (limit) =>
      db.read(() =>
        latest.all(limit).map(({ key, until }) => [key as string, until as number] as const),
      ),
    saveUsage: (rows) =>
      db.write(() => {
        for (const [key, until] of rows) replace.run(key, until)
      }),
    pruneUsage: (now) =>
      db.write(() => {
        revive.run(now)
        end.run(runTime.now(), now)
        return deleteOld.all(runTime.now() - KEPT_MS).map(({ key }) => key as string)
      }),
  }
}

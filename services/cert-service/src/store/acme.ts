import type { Database } from './database.ts'
import { type Age, isOver } from './prune.ts'
import type { RunTime } from './run-time.ts'
import type { AccountRecord, Store } from './store.ts'

type Methods = Pick<
  Store,
  'findAccount' | 'saveAccount' | 'putChallenge' | 'findChallenge' | 'deleteChallenge'
>

/** Accounts at CAs, and the answers to their challenges. */
export function createAcme(db: Database, runTime: RunTime) {
  const accountOf = db.prepare(`
    SELECT directory, sealed_key AS sealedKey, next_key AS nextKey, url, contact
    FROM acme_accounts WHERE directory = ?`)
  const replaceAccount = db.prepare(`
    INSERT OR REPLACE INTO acme_accounts (directory, sealed_key, next_key, url, contact)
    VALUES (?, ?, ?, ?, ?)`)
  const replaceChallenge = db.prepare(
    'INSERT OR REPLACE INTO challenges (key, value, at, ran) VALUES (?, ?, ?, ?)',
  )
  const challengeOf = db.prepare('SELECT value FROM challenges WHERE key = ?')
  const deleteChallenge = db.prepare('DELETE FROM challenges WHERE key = ?')
  const deleteOld = db.prepare(`
    DELETE FROM challenges WHERE key IN (
      SELECT key FROM challenges WHERE ${isOver('at', 'ran')} LIMIT :limit)`)

  const methods: Methods = {
    findAccount: (directory) =>
      db.read(() => {
        const row = accountOf.get(directory)
        return row && ({ ...row } as unknown as AccountRecord)
      }),
    saveAccount: ({ directory, sealedKey, nextKey, url, contact }) =>
      db.write(() => void replaceAccount.run(directory, sealedKey, nextKey, url, contact)),

    putChallenge: (key, value, at) =>
      db.write(() => void replaceChallenge.run(key, value, at, runTime.now())),
    findChallenge: (key) => db.read(() => challengeOf.get(key)?.value as string | undefined),
    deleteChallenge: (key) => db.write(() => void deleteChallenge.run(key)),
  }

  return {
    methods,
    prune: (age: Age, limit: number) => Number(deleteOld.run({ ...age, limit }).changes),
  }
}

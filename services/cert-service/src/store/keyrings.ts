import type { Database } from './database.ts'
import type { DataKeyRecord, Store } from './store.ts'

export function createKeyrings(db: Database): Pick<Store, 'loadKeyring' | 'saveKeyring'> {
  const check = db.prepare('SELECT check_value FROM master_key')
  const dataKeys = db.prepare('SELECT id, purpose, wrapped, seals FROM data_keys ORDER BY id')
  const replaceCheck = db.prepare(
    'INSERT OR REPLACE INTO master_key (id, check_value) VALUES (1, ?)',
  )
  const replaceDataKey = db.prepare(
    'INSERT OR REPLACE INTO data_keys (id, purpose, wrapped, seals) VALUES (?, ?, ?, ?)',
  )

  return {
    loadKeyring: () =>
      db.read(() => {
        const row = check.get()
        return (
          row && {
            check: row.check_value as Uint8Array,
            dataKeys: dataKeys.all() as unknown as DataKeyRecord[],
          }
        )
      }),
    saveKeyring: (keyring) =>
      db.write(() => {
        replaceCheck.run(keyring.check)
        for (const key of keyring.dataKeys)
          replaceDataKey.run(key.id, key.purpose, key.wrapped, key.seals)
      }),
  }
}

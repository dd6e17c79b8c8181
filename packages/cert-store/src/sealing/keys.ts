import type { Engine } from '@gatehouse/store'
import type { KeyStore } from '../port/store.ts'
import { DATA_KEYS, MASTER_KEY } from '../schema/tables.ts'

const IF_ABSENT = ' ON CONFLICT (id) DO NOTHING'
// The master key stays the same until the commit.
const SHARE = 'SELECT 1 FROM master_key WHERE check_value = $1 FOR SHARE'
const LOCK = 'SELECT 1 FROM master_key FOR UPDATE'
/** A data key that was added meanwhile would stay under the old master key, and what it sealed be lost. */
const REPLACE_MASTER = `
  UPDATE master_key SET check_value = $1
  WHERE check_value = $2 AND NOT EXISTS (
    SELECT 1 FROM data_keys
    WHERE id NOT IN (SELECT value::bigint FROM json_array_elements_text($3::json)))`
const REWRAP = 'UPDATE data_keys SET wrapped = $2 WHERE id = $1'
const COUNT = 'UPDATE data_keys SET seals = seals + $2 WHERE id = $1 RETURNING seals'

export function keysOn(db: Engine): KeyStore {
  return {
    async loadKeyring() {
      const master = await MASTER_KEY.find(db, '')
      const dataKeys = () => DATA_KEYS.list(db, 'ORDER BY id')
      return master && { check: master.checkValue, dataKeys: await dataKeys() }
    },
    createKeyring: async (check) =>
      (await MASTER_KEY.add(db, { id: 1, checkValue: check }, IF_ABSENT)) > 0,
    addDataKey: (key, check) =>
      db.transaction(async (tx) => {
        if (!(await tx.get(SHARE, check))) return false
        return (await DATA_KEYS.add(tx, { ...key }, IF_ABSENT)) > 0
      }),
    async countSeals(id, seals) {
      const row = await db.transaction((tx) => tx.get<{ seals: number }>(COUNT, id, seals))
      return Number(row?.seals)
    },
    replaceKeyring: ({ check, dataKeys }, replacedCheck) =>
      db.transaction(async (tx) => {
        const ids = JSON.stringify(dataKeys.map(({ id }) => id))
        const [, replaced] = await Promise.all([
          tx.get(LOCK),
          tx.run(REPLACE_MASTER, check, replacedCheck, ids),
        ])
        if (replaced === 0) return false
        await Promise.all(dataKeys.map(({ id, wrapped }) => tx.run(REWRAP, id, wrapped)))
        return true
      }),
  }
}

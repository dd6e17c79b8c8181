import type { DataKeyRecord, KeyringRecord, Store } from '../store.ts'
import type { Database } from './database.ts'

const CHECK = 'SELECT check_value AS "check" FROM master_key'
const DATA_KEYS = 'SELECT id, purpose, wrapped, seals FROM data_keys ORDER BY id'
const CREATE = `
  INSERT INTO master_key (id, check_value) VALUES (1, $1) ON CONFLICT DO NOTHING RETURNING id`
// The master key stays the same until the commit.
const ADD = `
  WITH master AS (
    SELECT FROM master_key WHERE check_value = $5 FOR SHARE
  ), kept AS (
    INSERT INTO data_keys (id, purpose, wrapped, seals)
    SELECT $1::bigint, $2::text, $3::bytea, $4::bigint FROM master
    ON CONFLICT DO NOTHING RETURNING id
  ) SELECT * FROM kept`
const COUNT = 'UPDATE data_keys SET seals = seals + $2 WHERE id = $1 RETURNING seals'
const LOCK = 'SELECT FROM master_key FOR UPDATE'
/** A data key that was added meanwhile would stay under the old master key, and what it sealed be lost. */
const REPLACE_MASTER = `
  UPDATE master_key SET check_value = $1
  WHERE check_value = $2 AND NOT EXISTS (SELECT FROM data_keys WHERE id <> ALL ($3::bigint[]))
  RETURNING id`
const REWRAP = `
  UPDATE data_keys SET wrapped = item.wrapped
  FROM unnest($1::bigint[], $2::bytea[]) AS item (id, wrapped)
  WHERE data_keys.id = item.id`

/** The keyring. */
export class Keys {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  loadKeyring = async (): Promise<KeyringRecord | undefined> => {
    const row = await this.#db.get<Pick<KeyringRecord, 'check'>>(CHECK)
    return row && { ...row, dataKeys: await this.#db.all<DataKeyRecord>(DATA_KEYS) }
  }

  createKeyring = async (check: Uint8Array): Promise<boolean> =>
    (await this.#db.change(CREATE, [check])).length > 0

  addDataKey: Store['addDataKey'] = async ({ id, purpose, wrapped, seals }, check) =>
    (await this.#db.change(ADD, [id, purpose, wrapped, seals, check])).length > 0

  countSeals = async (id: number, seals: number): Promise<number> => {
    const [row] = await this.#db.change<{ seals: number }>(COUNT, [id, seals])
    return Number(row?.seals)
  }

  replaceKeyring = ({ check, dataKeys }: KeyringRecord, before: Uint8Array): Promise<boolean> =>
    this.#db.transaction(async (tx) => {
      await tx.all(LOCK)
      const ids = dataKeys.map(({ id }) => id)
      const replaced = await tx.all(REPLACE_MASTER, [check, before, ids])
      if (replaced.length === 0) return false
      await tx.all(REWRAP, [ids, dataKeys.map(({ wrapped }) => wrapped)])
      return true
    })
}

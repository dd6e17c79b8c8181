import { timingSafeEqual } from 'node:crypto'
import type { DataKeyRecord, KeyringRecord, Store } from '../store.ts'
import type { Database } from './database.ts'

const CHECK = 'SELECT check_value AS "check" FROM master_key'
const DATA_KEYS = 'SELECT id, purpose, wrapped, seals FROM data_keys ORDER BY id'
const COUNT = 'UPDATE data_keys SET seals = seals + ? WHERE id = ? RETURNING seals'

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

  createKeyring = (check: Uint8Array): Promise<boolean> =>
    this.#db.write(() => {
      if (this.#db.prepare(CHECK).get()) return false
      this.#db.insert('master_key', { id: 1, checkValue: check })
      return true
    })

  addDataKey: Store['addDataKey'] = ({ id, purpose, wrapped, seals }, check) =>
    this.#db.write(() => {
      const isTaken = this.#db.prepare('SELECT 1 FROM data_keys WHERE id = ?').get(id)
      if (isTaken || !this.#isUnder(check)) return false
      this.#db.insert('data_keys', { id, purpose, wrapped, seals })
      return true
    })

  countSeals = (id: number, seals: number): Promise<number> =>
    this.#db.write(() => Number(this.#db.prepare(COUNT).get(seals, id)?.seals))

  replaceKeyring = ({ check, dataKeys }: KeyringRecord, before: Uint8Array): Promise<boolean> =>
    this.#db.write(() => {
      if (!this.#isUnder(before)) return false
      this.#db.insert('master_key', { id: 1, checkValue: check }, 'REPLACE')
      const update = this.#db.prepare('UPDATE data_keys SET wrapped = ? WHERE id = ?')
      for (const { id, wrapped } of dataKeys) update.run(wrapped, id)
      return true
    })

  #isUnder(check: Uint8Array): boolean {
    const stored = this.#db.prepare(CHECK).get() as Pick<KeyringRecord, 'check'> | undefined
    return stored !== undefined && timingSafeEqual(stored.check, check)
  }
}

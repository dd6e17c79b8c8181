import { MAX_SIGN_INS, SIGN_IN_KEPT_MS } from '../bounds.ts'
import { columns } from '../rows.ts'
import type { SignInRecord } from '../store.ts'
import type { Database } from './database.ts'

const FIND = `SELECT ${columns('id, keySha256, openedAt, usedAt')} FROM sign_ins WHERE id = ?`
const DELETE_EXCESS = `
  DELETE FROM sign_ins WHERE id IN (
    SELECT id FROM sign_ins ORDER BY used_at DESC LIMIT -1 OFFSET ${MAX_SIGN_INS})`

/** The sessions of people at the inventory. */
export class SignIns {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  addSignIn = ({ id, keySha256, openedAt, usedAt }: SignInRecord): Promise<void> =>
    this.#db.write(() => {
      this.#db.insert('sign_ins', { id, keySha256, openedAt, usedAt })
      this.#db.prepare(DELETE_EXCESS).run()
    })

  touchSignIn = (id: string, usedAt: number) =>
    this.#db.run('UPDATE sign_ins SET used_at = ? WHERE id = ?', usedAt, id)

  findSignIn = (id: string) => this.#db.get<SignInRecord>(FIND, id)

  deleteSignIn = (id: string) => this.#db.run('DELETE FROM sign_ins WHERE id = ?', id)

  /** Part of a write: deletes what nobody can use any more, or a clock that was ahead has written. */
  prune(now: number): number {
    const old = 'DELETE FROM sign_ins WHERE used_at < ? OR used_at > ?'
    return Number(this.#db.prepare(old).run(now - SIGN_IN_KEPT_MS, now + SIGN_IN_KEPT_MS).changes)
  }
}

import type { SignInRecord } from '../store.ts'
import { columns, type Database } from './database.ts'

const HOUR = 3_600_000
const MAX_SESSIONS = 1_000

const FIND = `SELECT ${columns('id, keySha256, openedAt, usedAt')} FROM sign_ins WHERE id = ?`
const DELETE_EXCESS = `
  DELETE FROM sign_ins WHERE id IN (
    SELECT id FROM sign_ins ORDER BY used_at DESC LIMIT -1 OFFSET ${MAX_SESSIONS})`

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
    return Number(this.#db.prepare(old).run(now - HOUR, now + HOUR).changes)
  }
}

import type { Statement } from '@gatehouse/postgres'
import { MAX_SIGN_INS, SIGN_IN_KEPT_MS } from '../bounds.ts'
import { columns } from '../rows.ts'
import type { SignInRecord } from '../store.ts'
import type { Database } from './database.ts'

const FIND = `SELECT ${columns('id, keySha256, openedAt, usedAt')} FROM sign_ins WHERE id = $1`
const ADD = 'INSERT INTO sign_ins (id, key_sha256, opened_at, used_at) VALUES ($1, $2, $3, $4)'
const DELETE_EXCESS = `
  DELETE FROM sign_ins WHERE id IN (
    SELECT id FROM sign_ins ORDER BY used_at DESC OFFSET ${MAX_SIGN_INS})`
const DELETE_OLD = `
  WITH gone AS (
    DELETE FROM sign_ins WHERE used_at < $1::bigint - ${SIGN_IN_KEPT_MS} OR used_at > $1::bigint + ${SIGN_IN_KEPT_MS}
    RETURNING 1)
  SELECT count(*) AS total FROM gone`

/** The sessions of people at the inventory. */
export class SignIns {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  addSignIn = async ({ id, keySha256, openedAt, usedAt }: SignInRecord): Promise<void> => {
    const add = { sql: ADD, params: [id, keySha256, openedAt, usedAt] }
    await this.#db.write([add, { sql: DELETE_EXCESS }])
  }

  touchSignIn = (id: string, usedAt: number) =>
    this.#db.run('UPDATE sign_ins SET used_at = $2 WHERE id = $1', id, usedAt)

  findSignIn = (id: string) => this.#db.get<SignInRecord>(FIND, id)

  deleteSignIn = (id: string) => this.#db.run('DELETE FROM sign_ins WHERE id = $1', id)

  /** Part of a write: deletes what nobody can use any more, or a clock that was ahead has written. */
  prune(now: number): Statement {
    return { sql: DELETE_OLD, params: [now] }
  }
}

import type { Engine } from '@gatehouse/store'
import type { Store } from './port/store.ts'
import { SIGN_INS } from './schema/tables.ts'

const MAX_SIGN_INS = 1_000
/** Milliseconds after which nobody can use a session any more that was not used. */
const SIGN_IN_KEPT_MS = 3_600_000

const DELETE_EXCESS = `
  DELETE FROM sign_ins WHERE id IN (
    SELECT id FROM sign_ins ORDER BY used_at DESC LIMIT 1000000 OFFSET ${MAX_SIGN_INS})`
const DELETE_OLD = `
  DELETE FROM sign_ins
  WHERE used_at < $1::bigint - ${SIGN_IN_KEPT_MS} OR used_at > $1::bigint + ${SIGN_IN_KEPT_MS}`

/** The sessions of people at the inventory. */
export function signInsOn(
  db: Engine,
): Pick<Store, 'addSignIn' | 'touchSignIn' | 'findSignIn' | 'deleteSignIn'> {
  return {
    addSignIn: (session) =>
      db.transaction(async (tx) => {
        await SIGN_INS.add(tx, { ...session })
        await tx.run(DELETE_EXCESS)
      }),
    async touchSignIn(id, usedAt) {
      await db.run('UPDATE sign_ins SET used_at = $2 WHERE id = $1', id, usedAt)
    },
    findSignIn: (id) => SIGN_INS.find(db, 'WHERE id = $1', id),
    async deleteSignIn(id) {
      await db.run('DELETE FROM sign_ins WHERE id = $1', id)
    },
  }
}

/** Deletes what nobody can use any more, or a clock that was ahead has written. */
export const pruneSignIns = (db: Engine, now: number) => db.run(DELETE_OLD, now)

import type { Engine } from '@gatehouse/store'
import type { Authorities, AuthorityRecord } from '../port/store.ts'
import { AUTHORITIES, CRLS } from '../schema/tables.ts'
import { revokedOf } from './withdrawals.ts'

const NEWEST = 'SELECT max(id) AS id FROM authorities WHERE role = $1'
const LOCK = 'SELECT 1 FROM authorities WHERE id = $1 FOR UPDATE'
const UNLESS_FOLLOWED = ' ON CONFLICT (role, previous) DO NOTHING RETURNING id'
const CRL = 'WHERE authority_id = $1'

export function authoritiesOn(db: Engine): Authorities {
  return {
    addAuthority: (authority, previous) =>
      db.transaction(async (tx) => {
        const newest = await tx.get<{ id: number | null }>(NEWEST, authority.role)
        if (newest?.id !== previous) return undefined
        const row = { ...authority, previous: previous ?? 0 }
        // Another replica may add one meanwhile.
        const [id] = await AUTHORITIES.addAll(tx, [row], UNLESS_FOLLOWED)
        return id === undefined ? undefined : { ...authority, id }
      }),
    async listAuthorities() {
      const rows = await AUTHORITIES.list(db, 'ORDER BY id DESC')
      return rows.map(({ previous: _, ...row }) => row as AuthorityRecord)
    },
    async dropAuthorityKey(id) {
      await db.run('UPDATE authorities SET sealed_key = NULL WHERE id = $1', id)
    },
    findCrl: (authorityId) => CRLS.find(db, CRL, authorityId),
    replaceCrl: ({ id, certificate }, now, next) =>
      db.transaction(async (tx) => {
        const [, stored, revoked] = await Promise.all([
          tx.get(LOCK, id),
          CRLS.find(tx, CRL, id),
          revokedOf(tx, certificate, now, db.runTime()),
        ])
        const record = next(stored, revoked)
        if (record !== stored) await CRLS.put(tx, { ...record, authorityId: id })
        return record
      }),
  }
}

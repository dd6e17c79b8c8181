import type { Engine, Queries } from '@gatehouse/store'
import type { AuthorityRecord, RevokedCertificate, Store } from './store.ts'
import { AUTHORITIES, CRLS } from './tables.ts'

const NEWEST = 'SELECT max(id) AS id FROM authorities WHERE role = $1'
const LOCK = 'SELECT 1 FROM authorities WHERE id = $1 FOR UPDATE'
const CRL = 'WHERE authority_id = $1'

/** Lists what is revoked of what an issuer signed, the DER of which is given. */
type ListRevoked = (
  on: Queries,
  issuer: Uint8Array,
  now: number,
) => Promise<readonly RevokedCertificate[]>

/** The embedded CA with its revocation lists. */
export class Authorities {
  readonly #db: Engine
  readonly #listRevoked: ListRevoked

  constructor(db: Engine, listRevoked: ListRevoked) {
    this.#db = db
    this.#listRevoked = listRevoked
  }

  addAuthority: Store['addAuthority'] = (authority, previous) =>
    this.#db.transaction(async (tx) => {
      const newest = await tx.get<{ id: number | null }>(NEWEST, authority.role)
      if (newest?.id !== previous) return undefined
      const row = { ...authority, previous: previous ?? 0 }
      // Another replica may add one meanwhile.
      const id = await AUTHORITIES.addNumbered(tx, row, ' ON CONFLICT (role, previous) DO NOTHING')
      return id === undefined ? undefined : { ...authority, id }
    })

  listAuthorities = async (): Promise<readonly AuthorityRecord[]> => {
    const rows = await AUTHORITIES.list(this.#db, 'ORDER BY id DESC')
    return rows.map(({ previous: _, ...row }) => row as AuthorityRecord)
  }

  dropAuthorityKey = async (id: number): Promise<void> => {
    await this.#db.run('UPDATE authorities SET sealed_key = NULL WHERE id = $1', id)
  }

  findCrl: Store['findCrl'] = (authorityId) => CRLS.find(this.#db, CRL, authorityId)

  replaceCrl: Store['replaceCrl'] = ({ id, certificate }, now, next) =>
    this.#db.transaction(async (tx) => {
      const [, stored, revoked] = await Promise.all([
        tx.get(LOCK, id),
        CRLS.find(tx, CRL, id),
        this.#listRevoked(tx, certificate, now),
      ])
      const record = next(stored, revoked)
      if (record !== stored) await CRLS.put(tx, { ...record, authorityId: id })
      return record
    })
}

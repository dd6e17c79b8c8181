import { type CrlRow, columns, toCrl } from '../rows.ts'
import type { AuthorityRecord, Store } from '../store.ts'
import type { Database } from './database.ts'
import { listRevoked } from './lifecycle.ts'

const AUTHORITIES = `
  SELECT ${columns('id, role, certificate, sealedKey, notAfter')} FROM authorities ORDER BY id DESC`
const ADD = `
  INSERT INTO authorities (role, previous, certificate, sealed_key, not_after)
  SELECT $1, $2, $3, $4, $5
  WHERE (SELECT coalesce(max(id), 0) FROM authorities WHERE role = $1) = $2
  ON CONFLICT (role, previous) DO NOTHING RETURNING id`
const LOCK = 'SELECT FROM authorities WHERE id = $1 FOR UPDATE'
const CRL = `
  SELECT ${columns('authorityId, number, crl, thisUpdate, nextUpdate, entries')} FROM crls
  WHERE authority_id = $1`
const SAVE_CRL = `
  INSERT INTO crls (authority_id, number, crl, this_update, next_update, entries)
  VALUES ($1, $2, $3, $4, $5, $6)
  ON CONFLICT (authority_id) DO UPDATE SET number = excluded.number, crl = excluded.crl,
    this_update = excluded.this_update, next_update = excluded.next_update,
    entries = excluded.entries`

/** The embedded CA with its revocation lists. */
export class Authorities {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  addAuthority: Store['addAuthority'] = async (authority, previous) => {
    const { role, certificate, sealedKey, notAfter } = authority
    const params = [role, previous ?? 0, certificate, sealedKey, notAfter]
    const [row] = await this.#db.change<{ id: number }>(ADD, params)
    return row && { ...authority, id: row.id }
  }

  listAuthorities = () => this.#db.all<AuthorityRecord>(AUTHORITIES)

  dropAuthorityKey = (id: number) =>
    this.#db.run('UPDATE authorities SET sealed_key = NULL WHERE id = $1', id)

  findCrl = async (authorityId: number) => toCrl(await this.#db.get<CrlRow>(CRL, authorityId))

  replaceCrl: Store['replaceCrl'] = ({ id, certificate }, now, next) =>
    this.#db.transaction(async (tx) => {
      await tx.all(LOCK, [id])
      const [row] = await tx.all<CrlRow>(CRL, [id])
      const stored = toCrl(row)
      const of = { now, ran: this.#db.runTime() }
      const record = next(stored, await listRevoked(tx.all, certificate, of))
      if (record === stored) return record
      const { number, crl, thisUpdate, nextUpdate, entries } = record
      await tx.all(SAVE_CRL, [id, String(number), crl, thisUpdate, nextUpdate, entries])
      return record
    })
}

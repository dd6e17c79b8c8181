import { type CrlRow, columns, toCrl } from '../rows.ts'
import type { AuthorityRecord, CrlRecord, Store } from '../store.ts'
import type { Database } from './database.ts'
import { listRevoked } from './lifecycle.ts'

const AUTHORITIES = `
  SELECT ${columns('id, role, certificate, sealedKey, notAfter')} FROM authorities ORDER BY id DESC`
const NEWEST = 'SELECT max(id) AS id FROM authorities WHERE role = ?'
const CRL = `
  SELECT ${columns('authorityId, number, crl, thisUpdate, nextUpdate, entries')} FROM crls
  WHERE authority_id = ?`

/** The embedded CA with its revocation lists. */
export class Authorities {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  addAuthority: Store['addAuthority'] = (authority, previous) =>
    this.#db.write(() => {
      const { role, certificate, sealedKey, notAfter } = authority
      if (this.#db.prepare(NEWEST).get(role)?.id !== previous) return undefined
      const id = this.#db.insert('authorities', { role, certificate, sealedKey, notAfter })
      return { ...authority, id }
    })

  listAuthorities = () => this.#db.all<AuthorityRecord>(AUTHORITIES)

  dropAuthorityKey = (id: number) =>
    this.#db.run('UPDATE authorities SET sealed_key = NULL WHERE id = ?', id)

  findCrl = (authorityId: number) => this.#db.read(() => this.#crlOf(authorityId))

  replaceCrl: Store['replaceCrl'] = ({ id, certificate }, now, next) =>
    this.#db.write(() => {
      const stored = this.#crlOf(id)
      const record = next(stored, listRevoked(this.#db, certificate, now))
      if (record === stored) return record
      const { number, crl, thisUpdate, nextUpdate, entries } = record
      const row = { number: String(number), crl, thisUpdate, nextUpdate, entries }
      this.#db.insert('crls', { authorityId: id, ...row }, 'REPLACE')
      return record
    })

  #crlOf(authorityId: number): CrlRecord | undefined {
    return toCrl(this.#db.prepare(CRL).get(authorityId) as CrlRow | undefined)
  }
}

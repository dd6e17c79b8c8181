import { columns, type Database } from './database.ts'
import type { AuthorityRecord, CrlRecord, DataKeyRecord, KeyringRecord } from './records.ts'

const AUTHORITIES = `
  SELECT ${columns('id, role, certificate, sealedKey, notAfter')} FROM authorities ORDER BY id DESC`
const CRL = `
  SELECT ${columns('authorityId, number, crl, thisUpdate, nextUpdate')} FROM crls
  WHERE authority_id = ?`

/** The embedded CA with its revocation lists, and the keyring. */
export class Authorities {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  addAuthority = async (authority: Omit<AuthorityRecord, 'id'>): Promise<AuthorityRecord> => {
    const { role, certificate, sealedKey, notAfter } = authority
    const row = { role, certificate, sealedKey, notAfter }
    return { ...authority, id: await this.#db.write(() => this.#db.insert('authorities', row)) }
  }

  /** Newest first. */
  listAuthorities = () => this.#db.all<AuthorityRecord>(AUTHORITIES)

  /** Removes the sealed key of an authority for good: it is kept offline from now on. */
  dropAuthorityKey = (id: number) =>
    this.#db.run('UPDATE authorities SET sealed_key = NULL WHERE id = ?', id)

  findCrl = async (authorityId: number): Promise<CrlRecord | undefined> => {
    const row = await this.#db.get<Omit<CrlRecord, 'number'> & { number: string }>(CRL, authorityId)
    return row && { ...row, number: BigInt(row.number) }
  }

  saveCrl = ({ authorityId, number, crl, thisUpdate, nextUpdate }: CrlRecord): Promise<void> =>
    this.#db.write(() => {
      const row = { authorityId, number: String(number), crl, thisUpdate, nextUpdate }
      this.#db.insert('crls', row, 'REPLACE')
    })

  loadKeyring = async (): Promise<KeyringRecord | undefined> => {
    const row = await this.#db.get<{ check: Uint8Array }>(
      'SELECT check_value AS "check" FROM master_key',
    )
    const dataKeys = await this.#db.all<DataKeyRecord>(
      'SELECT id, purpose, wrapped, seals FROM data_keys ORDER BY id',
    )
    return row && { ...row, dataKeys }
  }

  /** Overwrites the check value and the given data keys; never deletes a data key. */
  saveKeyring = ({ check, dataKeys }: KeyringRecord): Promise<void> =>
    this.#db.write(() => {
      this.#db.insert('master_key', { id: 1, checkValue: check }, 'REPLACE')
      for (const { id, purpose, wrapped, seals } of dataKeys)
        this.#db.insert('data_keys', { id, purpose, wrapped, seals }, 'REPLACE')
    })
}

import type { Database } from './database.ts'
import type {
  AuthorityRecord,
  CrlRecord,
  DataKeyRecord,
  KeyringRecord,
  NewAuthority,
} from './records.ts'

/** The embedded CA with its revocation lists, and the keyring. */
export class Authorities {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  addAuthority = async (authority: NewAuthority): Promise<AuthorityRecord> => {
    const { role, certificate, sealedKey, notAfter } = authority
    const { lastInsertRowid } = await this.#db.write(() =>
      this.#db
        .prepare(
          'INSERT INTO authorities (role, certificate, sealed_key, not_after) VALUES (?, ?, ?, ?)',
        )
        .run(role, certificate, sealedKey, notAfter),
    )
    return { ...authority, id: Number(lastInsertRowid) }
  }

  /** Newest first. */
  listAuthorities = (): Promise<readonly AuthorityRecord[]> =>
    this.#db.read(() => {
      const rows = this.#db
        .prepare(`SELECT id, role, certificate, sealed_key AS sealedKey, not_after AS notAfter
          FROM authorities ORDER BY id DESC`)
        .all()
      return rows.map((row) => ({ ...row }) as unknown as AuthorityRecord)
    })

  /** Removes the sealed key of an authority for good: it is kept offline from now on. */
  dropAuthorityKey = (id: number): Promise<void> =>
    this.#db.write(() => {
      this.#db.prepare('UPDATE authorities SET sealed_key = NULL WHERE id = ?').run(id)
    })

  /** The latest CRL of an issuer. */
  findCrl = (authorityId: number): Promise<CrlRecord | undefined> =>
    this.#db.read(() => {
      const row = this.#db
        .prepare(`SELECT number, crl, this_update AS thisUpdate, next_update AS nextUpdate
          FROM crls WHERE authority_id = ?`)
        .get(authorityId) as (Omit<CrlRecord, 'number'> & { number: string }) | undefined
      return row && { ...row, authorityId, number: BigInt(row.number) }
    })

  saveCrl = ({ authorityId, number, crl, thisUpdate, nextUpdate }: CrlRecord): Promise<void> =>
    this.#db.write(() => {
      this.#db
        .prepare(`INSERT OR REPLACE INTO crls (authority_id, number, crl, this_update, next_update)
          VALUES (?, ?, ?, ?, ?)`)
        .run(authorityId, String(number), crl, thisUpdate, nextUpdate)
    })

  loadKeyring = (): Promise<KeyringRecord | undefined> =>
    this.#db.read(() => {
      const check = this.#db.prepare('SELECT check_value FROM master_key').get()?.check_value
      if (check === undefined) return undefined
      const dataKeys = this.#db
        .prepare('SELECT id, purpose, wrapped, seals FROM data_keys ORDER BY id')
        .all()
      return { check: check as Uint8Array, dataKeys: dataKeys as unknown as DataKeyRecord[] }
    })

  /** Overwrites the check value and the given data keys; never deletes a data key. */
  saveKeyring = (keyring: KeyringRecord): Promise<void> =>
    this.#db.write(() => {
      this.#db
        .prepare('INSERT OR REPLACE INTO master_key (id, check_value) VALUES (1, ?)')
        .run(keyring.check)
      const replace = this.#db.prepare(
        'INSERT OR REPLACE INTO data_keys (id, purpose, wrapped, seals) VALUES (?, ?, ?, ?)',
      )
      for (const { id, purpose, wrapped, seals } of keyring.dataKeys)
        replace.run(id, purpose, wrapped, seals)
    })
}

import type { Database } from './database.ts'
import type { AuthorityRecord, Store } from './store.ts'

type Methods = Pick<
  Store,
  'addAuthority' | 'listAuthorities' | 'dropAuthorityKey' | 'findCrl' | 'saveCrl'
>

export function createAuthorities(db: Database): Methods {
  const insert = db.prepare(
    'INSERT INTO authorities (role, certificate, sealed_key, not_after) VALUES (?, ?, ?, ?)',
  )
  const all = db.prepare(`
    SELECT id, role, certificate, sealed_key AS sealedKey, not_after AS notAfter
    FROM authorities ORDER BY id DESC`)
  const dropKey = db.prepare('UPDATE authorities SET sealed_key = NULL WHERE id = ?')
  const crlOf = db.prepare(
    `SELECT number, crl, this_update AS thisUpdate, next_update AS nextUpdate
    FROM crls WHERE authority_id = ?`,
  )
  const replaceCrl = db.prepare(
    `INSERT OR REPLACE INTO crls (authority_id, number, crl, this_update, next_update)
    VALUES (?, ?, ?, ?, ?)`,
  )

  return {
    async addAuthority(authority) {
      const { role, certificate, sealedKey, notAfter } = authority
      const id = await db.write(
        () => insert.run(role, certificate, sealedKey, notAfter).lastInsertRowid,
      )
      return { ...authority, id: Number(id) }
    },
    listAuthorities: () =>
      db.read(() => all.all().map((row) => ({ ...row }) as unknown as AuthorityRecord)),
    dropAuthorityKey: (id) => db.write(() => void dropKey.run(id)),

    findCrl: (authorityId) =>
      db.read(() => {
        const row = crlOf.get(authorityId) as
          | { number: string; crl: Uint8Array; thisUpdate: number | null; nextUpdate: number }
          | undefined
        return row && { ...row, authorityId, number: BigInt(row.number) }
      }),
    saveCrl: ({ authorityId, number, crl, thisUpdate, nextUpdate }) =>
      db.write(() => void replaceCrl.run(authorityId, String(number), crl, thisUpdate, nextUpdate)),
  }
}

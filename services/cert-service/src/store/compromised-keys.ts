import { hash, X509Certificate } from 'node:crypto'
import type { Database } from './database.ts'
import type { Store } from './store.ts'

/** Those of the lineages of `:ids`, a JSON array; by their first names, which have an index. */
export const OF_LINEAGES = `
  domain IN (SELECT domain FROM certificates WHERE id IN (SELECT value FROM json_each(:ids)))
  AND lineage IN (SELECT lineage FROM certificates WHERE id IN (SELECT value FROM json_each(:ids)))`

export type CompromisedKeys = ReturnType<typeof createCompromisedKeys>

/** Public keys whose private key is known to somebody else. They are kept for good. */
export function createCompromisedKeys(db: Database) {
  const insert = db.prepare(
    'INSERT OR IGNORE INTO compromised_keys (spki_sha256, at) VALUES (?, ?)',
  )
  const find = db.prepare('SELECT 1 FROM compromised_keys WHERE spki_sha256 = ?')
  const ofLineages = db.prepare(`SELECT certificate FROM certificates WHERE ${OF_LINEAGES}`)

  const methods: Pick<Store, 'isCompromised'> = {
    isCompromised: (spkiSha256) => db.read(() => find.get(spkiSha256) !== undefined),
  }

  return {
    methods,
    /** Part of a write: the keys of these certificates and of those that they replaced. */
    add(ids: readonly number[], at: number): void {
      for (const { certificate } of ofLineages.all({ ids: JSON.stringify(ids) })) {
        const spkiSha256 = spkiSha256Of(certificate as Uint8Array)
        if (spkiSha256 !== undefined) insert.run(spkiSha256, at)
      }
    },
  }
}

/** In hex, of the SubjectPublicKeyInfo as OpenSSL writes it. What cannot be read hinders no revocation. */
function spkiSha256Of(certificate: Uint8Array): string | undefined {
  try {
    const { publicKey } = new X509Certificate(certificate)
    return hash('sha256', publicKey.export({ type: 'spki', format: 'der' }))
  } catch {
    return undefined
  }
}

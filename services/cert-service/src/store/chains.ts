import { hash } from 'node:crypto'
import type { Database } from './database.ts'

/** The chains, each kept once; there are as many as issuing certificates. */
export function createChains(db: Database) {
  const insert = db.prepare(
    'INSERT INTO chains (issuer, certificates) VALUES (?, ?) ON CONFLICT DO NOTHING',
  )
  const find = db.prepare('SELECT id FROM chains WHERE certificates = ?')
  const load = db.prepare('SELECT certificates FROM chains WHERE id = ?')
  const ids = new WeakMap<readonly Uint8Array[], number>()
  const loaded = new Map<number, readonly Uint8Array[]>()

  return {
    idOf: (chain: readonly Uint8Array[]) => ids.get(chain),

    /** Known by its identity from now on, so that an issuer's chain costs nothing the second time. */
    async add(chain: readonly Uint8Array[]): Promise<number> {
      const text = JSON.stringify(chain.map((der) => Buffer.from(der).toString('base64')))
      const id = await db.write(() => {
        insert.run(digest(chain[0] ?? ''), text)
        return find.get(text)?.id as number
      })
      ids.set(chain, id)
      return id
    },

    get(id: number): readonly Uint8Array[] {
      const known = loaded.get(id)
      if (known) return known
      const texts: string[] = JSON.parse(load.get(id)?.certificates as string)
      const chain = texts.map((text) => Buffer.from(text, 'base64'))
      loaded.set(id, chain)
      return chain
    },
  }
}

/** How chains name their direct issuer. */
export function digest(der: Uint8Array | string): string {
  return hash('sha256', der)
}

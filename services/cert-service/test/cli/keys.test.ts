import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { IssuerConfig } from '@gatehouse/issuance/options'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { detachRoot, rekey, rollover } from '../../src/cli/keys.ts'

const ISSUER = { name: 'acme' } as IssuerConfig

const foreign: [what: string, make: (store: string) => void][] = [
  ['is empty', (store) => writeFileSync(store, '')],
  ['is of another program', (store) => new DatabaseSync(store).exec('CREATE TABLE x (y)')],
  ['is no database', (store) => writeFileSync(store, 'x'.repeat(9999))],
]
for (const [what, make] of foreign)
  t.test(`a store file that ${what} is left alone by every command`, async (t) => {
    const base = testFolder(t, { data: {} })
    const [folder, file] = [join(base, 'data'), join(base, 'root.key')]
    make(join(folder, 'store.db'))
    const before = readFileSync(join(folder, 'store.db'))
    const code = 'STORE_CORRUPT'
    const message = /^[^\n]+$/
    const masterKeyFile = join(base, 'master.key')
    await t.rejects(rekey({ path: folder, masterKeyFile }), { code, message }, 'rekey')
    await t.rejects(
      detachRoot({ path: folder, masterKeyFile, file }),
      { code, message },
      'detach-root',
    )
    const account = { path: folder, masterKeyFile, issuers: [ISSUER], name: ISSUER.name }
    await t.rejects(rollover(account), { code, message }, 'rollover')
    t.same(readFileSync(join(folder, 'store.db')), before, 'and the file is as it was')
    t.notOk(existsSync(masterKeyFile))
  })

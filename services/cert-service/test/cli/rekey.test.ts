import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { openSqliteStore } from '../../../../packages/cert-store/src/engines/sqlite.ts'
import { openKeyring } from '../../../../packages/cert-store/src/sealing/master-key.ts'
import { rekey } from '../../src/cli/keys.ts'
import { PROGRAM } from '../../src/cli/program.ts'

async function sealedStore(t: Test) {
  const base = testFolder(t)
  const folder = join(base, 'data')
  const masterKeyFile = join(base, 'keys', 'master.key')
  const store = await openSqliteStore({ folder })
  t.teardown(() => store.close().catch(() => {}))
  await openKeyring({ folder, masterKeyFile, store })
  return { base, folder, masterKeyFile, store }
}

t.test('of a store that is not there, or in use, no key is replaced', async (t) => {
  const { base, folder, masterKeyFile } = await sealedStore(t)
  const nowhere = join(base, 'nowhere')
  await t.rejects(rekey({ path: nowhere, masterKeyFile }), { code: 'STORE_MISSING' })
  t.notOk(existsSync(nowhere))
  await t.rejects(rekey({ path: folder, masterKeyFile }), { code: 'STORE_LOCKED' })
})

t.test('the command says what older backups need', async (t) => {
  const { folder: path, masterKeyFile, store } = await sealedStore(t)
  await store.close()
  const rekeying = PROGRAM.commands.find(({ usage }) => usage === 'rekey')
  const config = async () => ({ value: { storage: { path, masterKeyFile } } })
  const call = { words: [], options: {}, process, progress: { say() {} }, config }
  t.match(await rekeying?.run(call as never), /older backups still need the old one\n$/)
})

import {
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { backup, restore } from '../../../../packages/cert-store/src/backup/backup.ts'
import { openSqliteStore } from '../../../../packages/cert-store/src/engines/sqlite.ts'
import { PURPOSES } from '../../../../packages/cert-store/src/sealing/keyring.ts'
import {
  createMasterKey,
  openKeyring,
} from '../../../../packages/cert-store/src/sealing/master-key.ts'
import { rekey } from '../../src/cli/keys.ts'
import { PROGRAM } from '../../src/cli/program.ts'

const secret = Buffer.from('a private key')
const context = Buffer.from('its certificate')

async function sealedStore(t: Test) {
  const base = testFolder(t)
  const folder = join(base, 'data')
  const masterKeyFile = join(base, 'keys', 'master.key')
  /** What the service does at its start, and what it then reads. */
  const start = async () => {
    const store = await openSqliteStore({ folder })
    try {
      const keyring = await openKeyring({ folder, masterKeyFile, store })
      sealed ??= PURPOSES.map((purpose) => keyring.seal(purpose, secret, context))
      const [first, ...others] = sealed.map((one) => keyring.open(one, context))
      for (const other of others) t.same(other, first)
      return first
    } finally {
      await store.close()
    }
  }
  let sealed: Buffer[] | undefined
  await start()
  return { base, folder, masterKeyFile, next: `${masterKeyFile}.next`, start }
}

t.test(
  'rekey: the new master key opens what the old one sealed, the old one nothing',
  async (t) => {
    const { base, folder, masterKeyFile, start } = await sealedStore(t)
    const old = join(base, 'old.key')
    copyFileSync(masterKeyFile, old)
    await rekey({ path: folder, masterKeyFile })
    t.same(readdirSync(join(base, 'keys')), ['master.key'])
    t.equal(statSync(masterKeyFile).mode & 0o777, 0o600)
    t.notSame(readFileSync(masterKeyFile), readFileSync(old))
    t.same(await start(), secret)
    copyFileSync(old, masterKeyFile)
    await t.rejects(start(), { message: /is not the key of this store/ })
  },
)

t.test('a backup from before opens with the old key only', async (t) => {
  const { base, folder, masterKeyFile } = await sealedStore(t)
  const old = join(base, 'keys', 'old.key')
  copyFileSync(masterKeyFile, old)
  const file = join(base, 'copy.db')
  await backup({ folder, file })
  await rekey({ path: folder, masterKeyFile })

  const elsewhere = join(base, 'elsewhere')
  await restore({ folder: elsewhere, file, forget: true })
  const store = await openSqliteStore({ folder: elsewhere })
  t.teardown(() => store.close())
  const openWith = (masterKeyFile: string) =>
    openKeyring({ folder: elsewhere, masterKeyFile, store })
  await t.rejects(openWith(masterKeyFile), { message: /is not the key of this store/ })
  await t.resolves(openWith(old))
})

t.test('cut short at any point, the next start has a key that opens', async (t) => {
  t.test('before the store is wrapped anew: the old one', async (t) => {
    const { masterKeyFile, next, start } = await sealedStore(t)
    const old = readFileSync(masterKeyFile)
    await createMasterKey(next)
    t.same(await start(), secret)
    t.same(readFileSync(masterKeyFile), old)
    t.notOk(existsSync(next), 'the one that was to come is gone')
  })

  t.test('while the new key is written: the old one', async (t) => {
    const { folder, masterKeyFile, next, start } = await sealedStore(t)
    writeFileSync(`${next}.draft`, 'AAA', { mode: 0o600 })
    t.same(await start(), secret)
    await rekey({ path: folder, masterKeyFile })
    t.same(await start(), secret, 'and the next rotation is not in its way')
    t.notOk(existsSync(`${next}.draft`))
  })

  t.test('after the store is wrapped anew: the new one', async (t) => {
    const { folder, masterKeyFile, next, start, base } = await sealedStore(t)
    const old = join(base, 'old.key')
    copyFileSync(masterKeyFile, old)
    await rekey({ path: folder, masterKeyFile })
    // As if the last step, the renaming, had not happened.
    copyFileSync(masterKeyFile, next)
    copyFileSync(old, masterKeyFile)
    const kept = readFileSync(next)
    t.same(await start(), secret)
    t.same(readFileSync(masterKeyFile), kept)
    t.notOk(existsSync(next))
    t.same(await start(), secret)
  })
})

t.test('refusals leave everything as it was', async (t) => {
  const { base, folder, masterKeyFile, start } = await sealedStore(t)
  const nowhere = join(base, 'nowhere')
  await t.rejects(rekey({ path: nowhere, masterKeyFile }), { code: 'STORE_MISSING' })
  t.notOk(existsSync(nowhere))
  const store = await openSqliteStore({ folder })
  await t.rejects(rekey({ path: folder, masterKeyFile }), { code: 'STORE_LOCKED' }, 'it runs')
  await store.close()
  const absent = rekey({ path: folder, masterKeyFile: join(base, 'other.key') })
  await t.rejects(absent, { message: /does not exist/ })
  t.same(readdirSync(join(base, 'keys')), ['master.key'])
  t.same(await start(), secret)
})

t.test('the command says what older backups need', async (t) => {
  const { folder: path, masterKeyFile } = await sealedStore(t)
  const rekeying = PROGRAM.commands.find(({ usage }) => usage === 'rekey')
  const config = async () => ({ value: { storage: { path, masterKeyFile } } })
  const call = { words: [], options: {}, process, progress: { say() {} }, config }
  t.match(await rekeying?.run(call as never), /older backups still need the old one\n$/)
})

import { createPrivateKey, X509Certificate } from 'node:crypto'
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createRoot } from '@gatehouse/pki'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { openSqliteStore } from '../../../../packages/cert-store/src/engines/sqlite.ts'
import { openKeyring } from '../../../../packages/cert-store/src/sealing/master-key.ts'
import { NOW } from '../../../../packages/cert-store/test/helpers/store.ts'
import { detachRoot } from '../../src/cli/keys.ts'

async function storeWithRoot(t: Test, { otherKey = false } = {}) {
  const base = testFolder(t)
  const folder = join(base, 'data')
  const masterKeyFile = join(base, 'master.key')
  const store = await openSqliteStore({ folder })
  const keyring = await openKeyring({ folder, masterKeyFile, store })
  const [root, other] = await Promise.all([
    createRoot({ commonName: 'Test Root', now: NOW }),
    createRoot({ commonName: 'Other Root', now: NOW }),
  ])
  const pkcs8 = (otherKey ? other : root).key!.export({ format: 'der', type: 'pkcs8' })
  const { certificate, info } = root
  const sealedKey = keyring.seal('root', pkcs8, certificate)
  const record = { role: 'root', certificate, sealedKey, notAfter: info.notAfter } as const
  await store.addAuthority(record, null)
  await store.close()
  const holdsKey = async () => {
    const store = await openSqliteStore({ folder })
    const [record] = await store.listAuthorities()
    await store.close()
    return record!.sealedKey !== null
  }
  return {
    path: folder,
    masterKeyFile,
    base,
    file: join(base, 'root.key.pem'),
    certificate,
    holdsKey,
  }
}

t.test('the key of the root moves into a file, and the store keeps none', async (t) => {
  const { file, certificate, holdsKey, base, ...options } = await storeWithRoot(t)
  t.ok(await holdsKey())
  await detachRoot({ ...options, file })
  t.equal(statSync(file).mode & 0o777, 0o600)
  const key = createPrivateKey(readFileSync(file, 'utf8'))
  t.ok(new X509Certificate(certificate).checkPrivateKey(key))
  t.notOk(await holdsKey())
  const again = detachRoot({ ...options, file: join(base, 'again.pem') })
  await t.rejects(again, { code: 'CERT_ROOT_KEY_ABSENT' })
  t.notOk(existsSync(join(base, 'again.pem')))
})

t.test('the store keeps the key where the file cannot be had', async (t) => {
  const { file, holdsKey, base, ...options } = await storeWithRoot(t)
  writeFileSync(file, 'mine')
  await t.rejects(detachRoot({ ...options, file }), { message: /exists already/ })
  t.equal(readFileSync(file, 'utf8'), 'mine')
  const nowhere = join(base, 'nowhere', 'root.pem')
  await t.rejects(detachRoot({ ...options, file: nowhere }), { code: 'CERT_FILE_FAILED' })
  const store = await openSqliteStore({ folder: options.path })
  const running = detachRoot({ ...options, file: join(base, 'other.pem') })
  await t.rejects(running, { code: 'STORE_LOCKED' })
  await store.close()
  t.ok(await holdsKey())
})

t.test('a key that is not the one of the root is not taken for it', async (t) => {
  const { file, holdsKey, base: _, ...options } = await storeWithRoot(t, { otherKey: true })
  await t.rejects(detachRoot({ ...options, file }), { code: 'CERT_FILE_FAILED' })
  t.notOk(existsSync(file))
  t.ok(await holdsKey())
})

import type { Store } from '@gatehouse/cert-store/port'
import { systemClock } from '@gatehouse/service-kit/clock'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { openSqliteStore } from '../../../../packages/cert-store/src/engines/sqlite.ts'
import { rollover } from '../../src/cli/keys.ts'
import { briskClock, post, startAcme } from '../helpers/acme.ts'

async function withAccount(t: Test) {
  const folder = testFolder(t)
  const clock = briskClock(systemClock.now())
  const { ca, running } = await startAcme(t, {}, { folder, clock })
  t.equal((await post(running, 'a.test')).status, 200)
  await running.close()
  const { config } = running
  const { path, masterKeyFile } = config.storage
  const { issuers } = config
  return {
    ca,
    roll: (name = 'acme') => rollover({ path, masterKeyFile, issuers, name }),
    async onStore<T>(work: (store: Store) => Promise<T>) {
      const store = await openSqliteStore({ folder: path })
      return work(store).finally(store.close)
    },
    async again() {
      const { running } = await startAcme(t, {}, { folder, ca, clock })
      return (await post(running, 'b.test')).status
    },
  }
}

t.test('the account goes on under another key', async (t) => {
  const { ca, roll, again } = await withAccount(t)
  await roll()
  t.equal(ca.count('keyChange'), 1)
  t.equal(await again(), 200)
  t.equal(ca.count('newAccount'), 1)
})

t.test('a rollover that never reached the CA is settled', async (t) => {
  const { ca, roll, again } = await withAccount(t)
  ca.answer('keyChange', 'reset')
  await t.rejects(roll(), { code: 'ACME_UNREACHABLE' })
  t.equal(await again(), 200)
  t.equal(ca.count('newOrder'), 2)
})

t.test('a rollover whose answer was lost is settled', async (t) => {
  const { ca, roll, again, onStore } = await withAccount(t)
  const directory = ca.directoryUrl.href
  const before = await onStore((store) => store.findAccount(directory))
  await roll()
  await onStore(async (store) => {
    const after = await store.findAccount(directory)
    await store.saveAccount({ ...before!, nextKey: after!.sealedKey })
  })
  t.equal(await again(), 200)
  t.equal(ca.count('newOrder'), 2)
})

t.test('an issuer that is not configured has no account', async (t) => {
  const { roll } = await withAccount(t)
  await t.rejects(roll('other'), { code: 'CERT_ISSUER_ABSENT' })
})

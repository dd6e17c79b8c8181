import { randomBytes } from 'node:crypto'
import type { Store } from '@gatehouse/cert-store/port'
import t from 'tap'
import { openKeyring } from '../../../cert-store/src/sealing/master-key.ts'
import { NOW, testStore } from '../../../cert-store/test/helpers/store.ts'
import { Authorities } from '../../src/issuers/authorities.ts'
import { LINES } from '../../src/issuers/authority-rows.ts'
import { openCa } from '../../src/issuers/ca.ts'
import { Roots } from '../../src/issuers/roots.ts'

const DAY = 86_400_000
const options = { name: 'Test', permitted: [], leafLifetime: 7 * DAY }
const log = { info() {}, warn() {} }

t.test('what another replica makes is taken up by a clock that was set back', async (t) => {
  const { store } = await testStore(t)
  const masterKey = randomBytes(32).toString('base64')
  const keyring = await openKeyring({ masterKeyFile: '', masterKey, store })
  let now = NOW
  const deps = { clock: { now: () => now }, keyring, log, store: { ...store, isShared: true } }
  const [one, other] = [await openCa(options, deps), await openCa(options, deps)]
  now = NOW + DAY
  t.equal((await other.clientAuthorities()).length, 1, 'the root alone')
  now = NOW
  await one.clients.open()
  t.equal((await other.clientAuthorities()).length, 2)
})

t.test('of two replicas that start at once, one makes the intermediate', async (t) => {
  const { store } = await testStore(t)
  const masterKey = randomBytes(32).toString('base64')
  const keyring = await openKeyring({ masterKeyFile: '', masterKey, store })
  const replica = (listAuthorities: Store['listAuthorities']) => {
    const deps = { clock: { now: () => NOW }, keyring, log, store: { ...store, listAuthorities } }
    const roots = new Roots(options, deps)
    return { roots, authorities: new Authorities(options, deps, roots, LINES.server) }
  }
  const { roots, authorities: fast } = replica(() => store.listAuthorities())
  await roots.open()

  // Whichever look at the store comes right after the other replica has stored its own.
  for (const look of [1, 2, 3]) {
    let looks = 0
    const slow = replica(async () => {
      looks += 1
      if (looks === look) await fast.openIntermediate()
      return store.listAuthorities()
    })
    await slow.roots.open()
    looks = 0
    const chosen = await slow.authorities.openIntermediate()
    const stored = await fast.listIntermediates()
    t.equal(stored.length, 1, `look ${look}`)
    t.equal(chosen.id, stored[0]?.id)
    for (const { id } of stored) await store.dropAuthorityKey(id)
  }
})

import { randomBytes } from 'node:crypto'
import { onBothEngines } from './helpers/engines.ts'
import { NOW } from './helpers/store.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR

onBothEngines('sessions at the inventory, until nobody can use them', async (t, { store }) => {
  const session = { id: 'a', keySha256: randomBytes(32), openedAt: NOW, usedAt: NOW }
  t.equal(await store.findSignIn('a'), undefined)
  await store.addSignIn(session)
  await store.touchSignIn('a', NOW + 5)
  await store.addSignIn({ ...session, id: 'b' })
  t.same(await store.findSignIn('a'), { ...session, usedAt: NOW + 5 })
  const keptFor = { audit: DAY, certificates: DAY, orders: DAY, challenges: DAY }
  t.equal(await store.prune(NOW + HOUR + 1, keptFor), 1)
  t.equal(await store.findSignIn('b'), undefined)
  await store.deleteSignIn('a')
  await store.touchSignIn('a', NOW + HOUR)
  t.equal(await store.findSignIn('a'), undefined, 'one that was signed out stays so')
})

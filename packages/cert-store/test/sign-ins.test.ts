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

onBothEngines('one that a clock wrote which was ahead goes as well', async (t, { store }) => {
  const session = { keySha256: randomBytes(32), openedAt: NOW }
  const times = { old: NOW - HOUR - 1, kept: NOW - HOUR, next: NOW + HOUR, ahead: NOW + HOUR + 1 }
  for (const [id, usedAt] of Object.entries(times))
    await store.addSignIn({ ...session, id, usedAt })
  await store.prune(NOW, { audit: DAY, certificates: DAY, orders: DAY, challenges: DAY })
  for (const id of Object.keys(times))
    t.equal((await store.findSignIn(id)) !== undefined, ['kept', 'next'].includes(id), id)
})

onBothEngines('of more than 1,000 the ones that are unused longest go', async (t, opened) => {
  const { store, sql } = opened
  const session = { keySha256: randomBytes(32), openedAt: NOW }
  await store.addSignIn({ ...session, id: 's1', usedAt: NOW + 1 })
  await sql(`
    INSERT INTO @sign_ins (id, key_sha256, opened_at, used_at)
    WITH RECURSIVE n (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM n WHERE n < 1000)
    SELECT 's' || n, key_sha256, opened_at, ${NOW} + n FROM @sign_ins CROSS JOIN n`)
  await store.addSignIn({ ...session, id: 'new', usedAt: NOW + 2_000 })
  for (const [id, isKept] of Object.entries({ s1: false, s2: true, new: true }))
    t.equal((await store.findSignIn(id)) !== undefined, isKept, id)
})

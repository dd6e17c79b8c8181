import type { AuditEntry, Store } from '@gatehouse/cert-store/port'
import { manualClock } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import {
  newAudit,
  newCertificate,
  testStore,
} from '../../../packages/cert-store/test/helpers/store.ts'
import { Audit } from '../src/audit.ts'
import { start } from './helpers/app.ts'

const MINUTE = 60_000
const by = { actor: 'psk:test', remoteAddress: '192.0.2.1', requestId: 'r1' }
const certificate = { id: 1, names: ['app.example.com'], serialNumber: 'ab' }

async function testAudit(t: Test) {
  const { store } = await testStore(t)
  const clock = manualClock()
  const logged: unknown[] = []
  const log = { error: (fields: object, message: string) => logged.push({ message, ...fields }) }
  const audit = new Audit({ store, clock, log })
  const rows = () => store.listAudit({ limit: 100 })
  return { store, clock, log, logged, audit, rows }
}

t.test('deliveries to one caller at one address are one row per hour with a count', async (t) => {
  const { audit, clock, rows, store, logged } = await testAudit(t)
  const { id } = await store.addCertificate(newCertificate(), newAudit())
  const handedOut = async () =>
    (await rows()).filter(({ action }) => action === 'hand-out').map(({ count }) => count)

  for (let i = 0; i < 5; i++) audit.recordDelivery({ ...certificate, id }, by)
  await store.check()
  t.match((await rows())[0], {
    at: clock.now(),
    action: 'hand-out',
    ...by,
    names: certificate.names,
    serialNumber: certificate.serialNumber,
    count: 1,
  })
  t.same(await handedOut(), [1], 'the first is written at once')
  await clock.advance(MINUTE)
  t.same(await handedOut(), [5], 'the others are counted')
  audit.recordDelivery({ ...certificate, id }, { ...by, requestId: 'r2' })
  await audit.close()
  t.same(await handedOut(), [6], 'into the same row, also from another connection')

  const again = new Audit({ store, clock, log: { error: () => {} } })
  again.recordDelivery({ ...certificate, id }, by)
  await again.close()
  t.same(await handedOut(), [7], 'also after a restart')
  await clock.advance(60 * MINUTE)
  again.recordDelivery({ ...certificate, id }, by)
  again.recordDelivery({ ...certificate, id }, { ...by, actor: 'psk:other' })
  again.recordDelivery({ ...certificate, id }, { ...by, remoteAddress: '192.0.2.2' })
  again.recordDelivery({ ...certificate, id, serialNumber: 'cd' }, by)
  await again.close()
  t.same(await handedOut(), [1, 1, 1, 1, 7], 'the next hour, caller, address, certificate')
  t.same(logged, [])
})

t.test('a caller with many addresses has one row for those above 50', async (t) => {
  const { audit, store } = await testAudit(t)
  const deliverTo = (actor: string) => {
    for (let n = 0; n < 60; n++)
      audit.recordDelivery(certificate, { ...by, actor, remoteAddress: `192.0.2.${n}` })
  }
  for (const actor of ['psk:one', 'psk:one', 'psk:two']) deliverTo(actor)
  await audit.close()
  const rows = await store.listAudit({ limit: 200 })
  for (const [caller, times] of [
    ['psk:one', 2],
    ['psk:two', 1],
  ] as const) {
    const counts = rows
      .filter(({ actor }) => actor === caller)
      .map(({ remoteAddress, count }): [string | undefined, number] => [remoteAddress, count])
    const others = counts.filter(([address]) => address === '*')
    t.strictSame(others, [['*', 10 * times]], caller)
    t.equal(counts.length, 51)
    t.ok(counts.every(([address, count]) => address === '*' || count === times))
  }
})

t.test('a delivery that was awaited has its row in the store', async (t) => {
  const { audit, rows } = await testAudit(t)
  const first = audit.recordDelivery(certificate, by)
  const second = audit.recordDelivery(certificate, by)
  t.same(await rows(), [], 'it is not written yet')
  await second
  t.match(await rows(), [{ action: 'hand-out', serialNumber: 'ab', ...by }], 'nor for the second')
  await first
  t.equal(audit.recordDelivery(certificate, by), undefined, 'later ones wait for nothing')
})

t.test('after a row was lost, the next delivery writes one', async (t) => {
  const { store, clock, log, logged, rows } = await testAudit(t)
  let isFull = true
  const failing: Store = {
    ...store,
    addAudit: (entries) => (isFull ? Promise.reject(new Error('full')) : store.addAudit(entries)),
  }
  const audit = new Audit({ store: failing, clock, log })
  await audit.recordDelivery(certificate, by)
  t.match(logged, [{ message: 'audit rows were lost' }])
  isFull = false
  await audit.recordDelivery(certificate, by)
  t.match(await rows(), [{ action: 'hand-out', count: 1 }])
})

t.test('the last use of a certificate is recorded', async (t) => {
  const { audit, clock, store } = await testAudit(t)
  const ids: number[] = []
  for (const names of [['a.example'], ['b.example'], ['c.example']]) {
    ids.push((await store.addCertificate(newCertificate({ names }), newAudit())).id)
  }
  await clock.advance(MINUTE / 2)
  audit.recordDelivery({ ...certificate, id: ids[0]! }, by)
  audit.recordUse(ids[1]!)
  const at = clock.now()
  await clock.advance(MINUTE)
  const fetched = (await store.list({ after: 0, limit: 9 })).map(({ fetchedAt }) => fetchedAt)
  t.same(fetched.slice(0, 2), [at, at])
  t.not(fetched[2], at)
  t.same(
    (await store.listAudit({ limit: 9 })).map(({ action }) => action).sort(),
    ['hand-out', 'issue', 'issue', 'issue'],
    'looking is no hand-out',
  )
})

t.test('similar refusals share a row per hour, and all others the last row', async (t) => {
  const { audit, store, clock } = await testAudit(t)
  const names = Array.from({ length: 50 }, (_, i) => `n${i}.example`)
  for (let i = 0; i < 300; i++) {
    const stranger = { actor: 'unknown', remoteAddress: `2001:db8::${i}` }
    audit.recordRefusal(stranger, names, 'AUTH_KEY_INVALID')
    audit.recordRefusal(stranger, [`other${i}.example`], 'AUTH_KEY_INVALID')
  }
  await clock.advance(MINUTE)
  await clock.advance(0)
  const all = await store.listAudit({ limit: 1000 })
  const [rest] = all.filter(({ actor }) => actor === '*')
  t.equal(all.length, 201)
  t.equal(rest?.count, 200, 'what came later is counted together')
  const told = all.filter(({ actor }) => actor !== '*')
  t.ok(
    told.every(({ count }) => count === 2),
    'whatever names were asked for',
  )
  t.ok(
    told.every((row) => row.names.length === 5),
    'of which a few are shown',
  )

  await clock.advance(60 * MINUTE)
  audit.recordRefusal(by, [], 'CERT_NAME_NOT_ALLOWED')
  await audit.close()
  t.match((await store.listAudit({ limit: 1 }))[0], { ...by, detail: 'CERT_NAME_NOT_ALLOWED' })
})

t.test('rows that cannot be written are logged once and fail no request', async (t) => {
  const { store, clock, log, logged } = await testAudit(t)
  const refuse = async () => {
    throw new Error('the disk is full')
  }
  const failing: Store = { ...store, addAudit: refuse, setFetchedAt: refuse }
  const audit = new Audit({ store: failing, clock, log })
  for (let i = 0; i < 3; i++) audit.recordDelivery({ ...certificate, serialNumber: `${i}` }, by)
  await clock.advance(0)
  t.match(logged, [{ message: 'audit rows were lost', entries: 3 }])
  await audit.close()
  t.match(logged.slice(1), [{ message: 'fetch times were lost', certificates: 1 }])
})

t.test('a million deliveries take few rows and little memory', async (t) => {
  const { store, clock, log } = await testAudit(t)
  let rows = 0
  let largest = 0
  const counting: Store = {
    ...store,
    async addAudit(entries: readonly AuditEntry[]) {
      rows += entries.length
      largest = Math.max(largest, entries.length)
    },
    async setFetchedAt(fetched) {
      largest = Math.max(largest, fetched.size)
    },
  }
  const audit = new Audit({ store: counting, clock, log })
  for (let i = 0; i < 1_000_000; i++) audit.recordDelivery(certificate, by)
  await audit.close()
  t.equal(rows, 2, 'of one certificate: the first, and the count of the others')

  for (let i = 0; i < 50_000; i++) {
    audit.recordUse(i)
    if (i % 100 === 0) await Promise.resolve()
  }
  await audit.close()
  t.equal(largest, 10_000, 'of many: never more than ten thousand are held')

  largest = 0
  for (let i = 0; i < 50_000; i++) {
    audit.recordDelivery(certificate, { actor: `psk:${i}` })
    audit.recordDelivery(certificate, { actor: `psk:${i}` })
    if (i % 100 === 0) await Promise.resolve()
  }
  await audit.close()
  t.equal(largest, 9_999, 'nor of many callers')
})

t.test('rows are kept for audit.retention', async (t) => {
  const { call, service, clock } = await start(t, { audit: { retention: '1d' } })
  service.start()
  await call('POST', '/api/certificate', { domain: 'a.test' })
  const rows = () => service.store.listAudit({ limit: 100 })
  const hours = async (count: number) => {
    for (let hour = 0; hour < count; hour++) await clock.advance(60 * MINUTE)
  }
  await hours(23)
  t.match(await rows(), [{ action: 'issue', names: ['a.test'] }])
  await hours(3)
  t.same(await rows(), [])
})

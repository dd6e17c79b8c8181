import { checkEvents } from '@gatehouse/service-kit/events'
import t from 'tap'
import {
  NOW,
  newCertificate,
  newOrder,
  testStore,
} from '../../../../packages/cert-store/test/helpers/store.ts'
import type { CertServiceConfig } from '../../src/config/schema.ts'
import { describeEvent, lateness } from '../../src/events/event.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR
const receivers = ['webhook']

t.test('a certificate is late by thirds of the time between renewal and end', (t) => {
  for (const [lifetime, passed, expected] of [
    [90 * DAY, 0, 0],
    [90 * DAY, 60 * DAY, 0],
    [90 * DAY, 70 * DAY - 1, 0],
    [90 * DAY, 70 * DAY, 1],
    [90 * DAY, 80 * DAY, 2],
    [90 * DAY, 90 * DAY, 3],
    [90 * DAY, 900 * DAY, 3],
    [6 * DAY, 3 * DAY, 0],
    [6 * DAY, 4 * DAY, 1],
    [6 * DAY, 5 * DAY, 2],
    [6 * DAY, 6 * DAY, 3],
  ] as const) {
    const certificate = { ...newCertificate({ notBefore: NOW, notAfter: NOW + lifetime }), id: 1 }
    t.equal(lateness(certificate, NOW + passed), expected, `${passed / DAY} of ${lifetime / DAY}`)
  }
  t.end()
})

t.test('an event says what happened, and holds no key material', (t) => {
  const certificate = { ...newCertificate({ serialNumber: 'ab01' }), id: 1 }
  t.strictSame(describeEvent({ type: 'renewed', certificate }, 'id-1', NOW), {
    id: 'id-1',
    type: 'renewed',
    at: '2030-01-01T00:00:00Z',
    names: ['app.example.com'],
    issuer: 'ca',
    serialNumber: 'ab01',
    notBefore: '2030-01-01T00:00:00Z',
    notAfter: '2030-01-08T00:00:00Z',
    renewAt: '2030-01-04T00:00:00Z',
  })
  const order = newOrder({
    status: 'failed',
    failures: 2,
    lastError: { code: 'ACME_DNS', detail: 'no record', at: NOW },
    nextTryAt: NOW + 60_000,
    checkpoint: { state: { csr: 'secret' }, sealedKey: Buffer.from('secret') },
  })
  t.strictSame(describeEvent({ type: 'failing', order }, 'id-2', NOW), {
    id: 'id-2',
    type: 'failing',
    at: '2030-01-01T00:00:00Z',
    names: ['app.example.com'],
    issuer: 'ca',
    failures: 2,
    error: { code: 'ACME_DNS', detail: 'no record' },
    nextTryAt: '2030-01-01T00:01:00Z',
  })
  t.end()
})

t.test('the URL of the webhook', (t) => {
  for (const [url, allowHttp, isFine] of [
    ['https://hooks.example.com/x?y=1', false, true],
    ['http://127.0.0.1:8080/', false, true],
    ['http://hooks.lan/', true, true],
    ['http://hooks.lan/', false, false],
    ['https://user:pass@hooks.example.com/', false, false],
    ['ftp://hooks.example.com/', true, false],
    ['hooks', true, false],
  ] as const) {
    const faults = checkEvents({
      events: { webhook: { url, allowHttp }, receivers: [] },
    } as unknown as CertServiceConfig)
    t.strictSame(
      faults.map(({ path }) => path),
      isFine ? [] : ['/events/webhook/url'],
      url,
    )
  }
  t.end()
})

t.test('the queue of events', async (t) => {
  await t.test('gives what is due, the longest waiting first', async (t) => {
    const { store } = await testStore(t)
    await store.addEvent({ body: 'later', at: NOW + 1, receivers })
    await store.addEvent({ body: 'now', at: NOW, receivers })
    const [first] = await store.claimDueEvents('webhook', NOW, 9, NOW)
    t.strictSame(await store.claimDueEvents('webhook', NOW, 9, NOW), [
      { id: 2, receiver: 'webhook', body: 'now', at: NOW, tries: 0, nextAt: NOW },
    ])
    await store.delayEvent(first!.id, NOW + 5)
    t.strictSame(
      (await store.claimDueEvents('webhook', NOW + 5, 9, NOW + 5)).map(({ body, tries }) => [
        body,
        tries,
      ]),
      [
        ['later', 0],
        ['now', 1],
      ],
    )
    t.equal((await store.claimDueEvents('webhook', NOW + 5, 1, NOW + 5)).length, 1)
    await store.deleteEvent(first!.id)
    t.equal((await store.claimDueEvents('webhook', NOW + 5, 9, NOW + 5)).length, 1)
  })

  await t.test('keeps the newest of too many', async (t) => {
    const { store } = await testStore(t)
    for (let n = 0; n < 4; n += 1)
      await Promise.all(
        Array.from({ length: 2_501 }, () => store.addEvent({ body: `${n}`, at: NOW, receivers })),
      )
    await store.addEvent({ body: 'x', at: NOW, receivers: ['phone'] })
    t.strictSame(await store.countEvents(), { webhook: 10_000, phone: 1 })
    const kept = await store.claimDueEvents('webhook', NOW, 20_000, NOW)
    t.equal(kept.length, 10_000)
    t.equal(kept.filter(({ body }) => body === '0').length, 2_501 - 4)
  })

  await t.test('tells once what is to be told once', async (t) => {
    const { store } = await testStore(t)
    const add = (at: number, always = false) =>
      store.addEvent({ body: 'x', at, receivers, once: { key: 'k', until: at + DAY, always } })
    const count = async () =>
      (await store.claimDueEvents('webhook', NOW + 9 * DAY, 99, NOW + 9 * DAY)).length
    await add(NOW)
    await add(NOW + DAY - 1)
    t.equal(await count(), 1)
    await add(NOW + DAY)
    t.equal(await count(), 2)
    await add(NOW + DAY + 1, true)
    t.equal(await count(), 3)
    await store.pruneEvents(NOW + 3 * DAY, { receivers, olderThan: NOW })
    await add(NOW + DAY + 2)
    t.equal(await count(), 4, 'it was forgotten')
  })
})

t.test('what ends, and what is late', async (t) => {
  const { store } = await testStore(t)
  const add = (name: string, days: number, overrides = {}) =>
    store.addCertificate(
      newCertificate({ names: [name, 'x.test'], notAfter: NOW + days * DAY, ...overrides }),
      { at: NOW, action: 'issue', actor: 'test', names: [] },
    )
  await add('b.test', 90)
  await add('a.test', 30)
  await add('c.test', 7, { renewAt: null })
  await add('d.test', 5)
  await add('d.test', 6)
  const issuer = 'ca'
  t.strictSame(await store.listEnding(NOW, 2), {
    soonest: [
      { domain: 'd.test', issuer, notBefore: NOW, notAfter: NOW + 6 * DAY, way: null },
      { domain: 'a.test', issuer, notBefore: NOW, notAfter: NOW + 30 * DAY, way: null },
    ],
    total: 3,
  })
  const late = async (days: number) =>
    (await store.listLate(NOW + days * DAY, 9)).map(({ names }) => names[0])
  t.strictSame(await late(4), [])
  t.strictSame(await late(4.1), ['d.test'])
  t.strictSame(await late(61), ['d.test', 'a.test', 'b.test'])
})

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { AcmeError } from '@gatehouse/acme'
import { PkiError } from '@gatehouse/pki'
import { createMetrics } from '@gatehouse/service-kit/telemetry'
import { StoreError } from '@gatehouse/store'
import t from 'tap'
import { parse } from 'yaml'
import { CertError } from '../src/errors.ts'
import { failureClass } from '../src/metrics.ts'
import { start } from './helpers/app.ts'

const HOUR = 3_600_000

const FILE = join(import.meta.dirname, '../../../examples/monitoring/cert-service.rules.yaml')

t.test('the example alerts use only existing metrics', async (t) => {
  const metrics = createMetrics({ service: 'test', version: '0' })
  await start(t, {}, { metrics })
  const measured = new Set((await metrics.text()).match(/(?<=^# TYPE )gatehouse_certs_\w+/gm))
  const asked = new Set<string>()
  for (const { rules } of parse(await readFile(FILE, 'utf8')).groups)
    for (const { alert, expr, annotations } of rules) {
      t.ok(annotations.summary, alert)
      for (const name of expr.match(/gatehouse_certs_\w+/g) ?? []) asked.add(name)
    }
  t.ok(asked.size >= 6)
  for (const name of asked) t.ok(measured.has(name), name)
})

t.test('the expiry gauge has the first certificate of each name to expire', async (t) => {
  const metrics = createMetrics({ service: 'test', version: '0' })
  const { call, clock, service } = await start(t, {}, { metrics })
  await call('POST', '/api/certificate', { domain: 'a.test', keyType: 'p384' })
  await clock.advance(HOUR)
  await call('POST', '/api/certificate', { domain: 'a.test' })
  await call('POST', '/api/certificate', { domain: 'b.test' })
  const gauges = async () => (await metrics.text()).match(/^gatehouse_certs_(expiry|unlisted).*/gm)
  const week = 7 * 24 * 3600
  t.strictSame(await gauges(), [
    `gatehouse_certs_expiry_seconds{domain="b.test",issuer="ca",way="api"} ${week}`,
    `gatehouse_certs_expiry_seconds{domain="a.test",issuer="ca",way="api"} ${week - 3600}`,
    'gatehouse_certs_unlisted 0',
  ])
  await call('DELETE', '/api/certificate/a.test')
  await clock.advance(8 * 24 * HOUR)
  t.strictSame(await gauges(), [
    `gatehouse_certs_expiry_seconds{domain="b.test",issuer="ca",way="api"} ${-24 * 3600}`,
    'gatehouse_certs_unlisted 0',
  ])
  Object.assign(service.store, {
    listEnding: async () => ({
      soonest: Array.from({ length: 1000 }, (_, n) => ({
        domain: `${n}.test`,
        issuer: 'ca',
        notBefore: 0,
        notAfter: clock.now(),
      })),
      total: 1234,
    }),
  })
  const many = await gauges()
  t.equal(many?.length, 1001)
  t.equal(many?.at(-1), 'gatehouse_certs_unlisted 234')
})

t.test('the remaining lifetime is measured as a ratio', async (t) => {
  const metrics = createMetrics({ service: 'test', version: '0' })
  const { call, clock } = await start(t, {}, { metrics })
  await call('POST', '/api/certificate', { domain: 'a.test' })
  const share = async () =>
    Number(/^gatehouse_certs_remaining_ratio\{.*\} (.+)$/m.exec(await metrics.text())?.[1])
  t.ok(Math.abs((await share()) - 1) < 0.001)
  await clock.advance(6 * 24 * HOUR)
  t.ok(Math.abs((await share()) - 1 / 7) < 0.001)
})

t.test('failures are counted by class', (t) => {
  for (const [error, expected] of [
    [new AcmeError('ACME_DNS_CREDENTIALS', ''), 'dns'],
    [new AcmeError('ACME_CAA', ''), 'dns'],
    [new AcmeError('ACME_UNAUTHORIZED', ''), 'proof'],
    [new AcmeError('ACME_RATE_LIMITED', ''), 'limit'],
    [new CertError('CERT_RATE_LIMITED', ''), 'limit'],
    [new AcmeError('ACME_UNREACHABLE', ''), 'unreachable'],
    [new AcmeError('ACME_BAD_CSR', ''), 'refused'],
    [new StoreError('STORE_UNAVAILABLE', ''), 'store'],
    [new PkiError('PKI_KEY_QUEUE_FULL', ''), 'limit'],
    [new Error('boom'), 'internal'],
  ] as const)
    t.equal(failureClass(error), expected, String(error))
  t.end()
})

t.test('events that wait are measured for each receiver', async (t) => {
  const metrics = createMetrics({ service: 'test', version: '0' })
  const webhook = { url: 'http://127.0.0.1:1/', secret: 'a-secret-of-sixteen' }
  const phone = { ...webhook, name: 'phone', type: 'webhook' }
  const { service } = await start(t, { events: { webhook, receivers: [phone] } }, { metrics })
  const waiting = async (receiver: string) =>
    new RegExp(`^gatehouse_certs_events_waiting\\{receiver="${receiver}"\\} (.+)$`, 'm').exec(
      await metrics.text(),
    )?.[1]
  t.equal(await waiting('webhook'), '0')
  await service.store.addEvent({ body: 'one', at: 0, receivers: ['webhook'] })
  await service.store.addEvent({ body: 'two', at: 0, receivers: ['webhook', 'phone'] })
  t.equal(await waiting('webhook'), '2')
  t.equal(await waiting('phone'), '1')
  Object.assign(service.store, { countEvents: () => Promise.reject(new Error('no store')) })
  t.equal(await waiting('webhook'), '0')
})

t.test('deliveries and the end of the intermediate are measured', async (t) => {
  const metrics = createMetrics({ service: 'test', version: '0' })
  const { call, service } = await start(t, {}, { metrics })
  await call('POST', '/api/certificate', { domain: 'a.test' })
  await call('POST', '/api/certificate', { domain: 'a.test' })
  await call('GET', '/api/certificate/a.test')
  const text = await metrics.text()
  t.match(text, /^gatehouse_certs_handed_out_total 2$/m)
  t.match(text, /^gatehouse_certs_under_way 0$/m)
  const [, end] = /^gatehouse_certs_intermediate_end_seconds (.+)$/m.exec(text) ?? []
  t.equal(Number(end) * 1_000, service.ca.intermediate().info.notAfter)
})

t.test('each counter begins at zero for every value of its labels', async (t) => {
  const metrics = createMetrics({ service: 'test', version: '0' })
  await start(t, {}, { metrics })
  const text = await metrics.text()
  for (const line of [
    'gatehouse_certs_issued_total{action="issue"} 0',
    'gatehouse_certs_issued_total{action="renew"} 0',
    'gatehouse_certs_handed_out_total 0',
    'gatehouse_certs_failed_total{class="dns"} 0',
    'gatehouse_certs_failed_total{class="internal"} 0',
  ])
    t.ok(text.includes(`\n${line}\n`), line)
})

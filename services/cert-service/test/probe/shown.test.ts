import { hash } from 'node:crypto'
import { createMetrics } from '@gatehouse/service-kit/telemetry'
import t from 'tap'
import { newProbe } from '../../../../packages/cert-store/test/helpers/store.ts'
import { DAY, KEY, NOW, start } from '../helpers/app.ts'
import { browse, enter } from '../helpers/enter.ts'
import { readChain, startProbing } from '../helpers/probing.ts'

const HOUR = 3_600_000
const NAME = 'app.example.com'
const LIMITED = { authorization: 'APIKey a-key-for-one-name-only' }
const auth = {
  psk: {
    keys: [
      { name: 'ops', key: KEY },
      { name: 'web', key: 'a-key-for-one-name-only', domains: ['*.example.com'] },
    ],
  },
}

t.test('callers who may not read every name learn nothing of networks', async (t) => {
  const { servers, dns, pass, issue, call, service } = await startProbing(t, { auth })
  service.start()
  dns.set(NAME, ['10.0.0.1', '192.168.0.1'])
  const chain = await issue(NAME)
  const foreign = await issue('elsewhere.test')
  const list = async (headers?: object) => {
    const { body } = await call('GET', '/api/certificates', undefined, headers)
    return body.certificates.find(({ domain }: { domain: string }) => domain === NAME)
  }
  for (const [served, word, state] of [
    [undefined, 'notSeen', 'unreachable'],
    [foreign, 'notSeen', 'wrongName'],
    [chain, 'notSeen', 'newest'],
  ] as const) {
    if (served) servers.set('10.0.0.1:443', served)
    await pass()
    const shown = await list(LIMITED)
    t.equal(shown.served, word, 'the worst of all places')
    t.notOk('places' in shown)
    t.notMatch(JSON.stringify(shown), '10.0.0')
    const { places } = await list()
    t.match(places, [
      { name: NAME, host: NAME, address: '10.0.0.1', port: 443, protocol: 'tls', state },
      { address: '192.168.0.1', state: 'outside' },
    ])
    t.match(places[0], { since: /^20\d\d-/, seenAt: /^20\d\d-/ })
  }
  dns.set(NAME, ['10.0.0.1'])
  for (let n = 0; n < 4; n += 1) await pass()
  t.equal((await list(LIMITED)).served, 'newest')
})

t.test('a machine says what it serves itself, also without the option', async (t) => {
  const running = await start(t, { auth })
  const { call, service } = running
  const get = async (domain: string) =>
    readChain((await call('POST', '/api/certificate', { domain })).body.certificate)[0]!
  const first = hash('sha256', await get(NAME))
  await get('elsewhere.test')
  const tell = async (sha256: string, changes: object = {}, headers: object = LIMITED) => {
    const report = { domain: NAME, port: 443, protocol: 'tls', sha256, ...changes }
    const { status, body } = await call('POST', '/api/certificate/probe', report, headers)
    return [status, body.served ?? body.code]
  }
  t.same(await tell(first), [200, 'newest'])
  t.same(await tell('0'.repeat(64), { port: 8443 }), [200, 'other'])
  t.same(await tell(hash('sha256', await get('b.example.com'))), [200, 'notSeen'])
  t.same(await tell(first, { domain: 'elsewhere.test' }), [403, 'CERT_NAME_NOT_ALLOWED'])
  t.same(await tell(first, { domain: 'none.example.com' }), [404, 'CERT_NOT_FOUND'])
  t.same(await tell(first, { profile: 'client' }), [403, 'CERT_NAME_NOT_ALLOWED'])
  t.same(await tell('0', {}), [400, 'FST_ERR_VALIDATION'])
  t.same((await tell(first, { protocol: 'gopher' }))[0], 400)
  t.same((await tell(first, { port: 0 }))[0], 400)
  t.match(
    await service.store.listProbes([NAME]),
    [
      { host: '127.0.0.1', address: '127.0.0.1', port: 443, reporter: 'psk:web' },
      { port: 8443, state: 'other', sha256: '0'.repeat(64), notAfter: null },
    ],
    'kept as what it says of itself',
  )
  const { certificates } = (await call('GET', '/api/certificates')).body
  t.match(
    certificates.find(({ domain }: { domain: string }) => domain === NAME),
    { served: 'other', places: [{ reporter: 'psk:web' }, {}] },
  )
})

t.test('a machine says little of a name, whatever it says', async (t) => {
  const probing = await startProbing(t, { auth })
  const { call, issue, events, service } = probing
  await issue(NAME)
  const report = { domain: NAME, protocol: 'tls', sha256: '0'.repeat(64) }
  for (let port = 1; port <= 50; port += 1)
    t.match(await call('POST', '/api/certificate/probe', { ...report, port }, LIMITED), {
      ...{ status: 200, body: { served: 'other' } },
    })
  t.equal((await service.store.listProbes([NAME])).length, 20)
  t.equal(events.filter(({ type }) => type === 'not-served').length, 20)
})

t.test('pages show places to those who may know them, and the inventory marks them', async (t) => {
  const probing = await startProbing(t, { auth })
  const { servers, dns, pass, issue, call, service } = probing
  service.start()
  dns.set(NAME, ['10.0.0.1'])
  const chain = await issue(NAME)
  servers.set('10.0.0.1:443', chain)
  await pass(5 * DAY)
  await call('GET', `/api/certificate/${NAME}`)
  await pass()
  await pass()
  const pageOf = async (key: string, url: string) => {
    const { cookie } = await enter(probing, key)
    return (await browse(probing, 'GET', url, { cookie })).text
  }
  const page = await pageOf(KEY, `/certificates/${NAME}`)
  t.match(page, /<code>10\.0\.0\.1:443<\/code>/)
  t.match(page, 'An older certificate is served.')
  t.match(page, /The new one was fetched .* Reload the server\./)
  const limited = await pageOf('a-key-for-one-name-only', `/certificates/${NAME}`)
  t.match(limited, 'An older certificate is served.')
  t.notMatch(limited, '10.0.0.1')
  for (const url of ['/', '/?state=unserved'])
    t.match(await pageOf(KEY, url), '<span>Not served</span>')
  servers.set('10.0.0.1:443', await issue(NAME))
  await pass()
  t.match(await pageOf(KEY, '/?state=unserved'), 'No certificate that you may see matches.')
  t.match(await pageOf(KEY, `/certificates/${NAME}`), 'The newest certificate is served.')
})

t.test('metrics count states, and how long something else is served', async (t) => {
  const metrics = createMetrics({ service: 'test', version: '0' })
  const { service, clock } = await start(t, {}, { metrics })
  const { store } = service
  await store.saveProbe(newProbe())
  await store.saveProbe(newProbe({ port: 25, state: 'other', since: NOW - HOUR }))
  await store.saveProbe(newProbe({ port: 25, address: '10.0.0.2', state: 'ended', since: NOW - 9 }))
  await store.saveProbe(newProbe({ port: 26, state: 'older', since: NOW - HOUR + 1 }))
  await store.saveProbe(newProbe({ port: 27, state: 'unreachable', since: NOW - DAY }))
  await clock.advance(0)
  const text = await metrics.text()
  t.match(text, 'gatehouse_certs_probes{state="newest"} 1')
  t.match(text, 'gatehouse_certs_probes{state="incomplete"} 0')
  t.same(text.match(/^gatehouse_certs_probe_old_seconds\{.*/gm), [
    'gatehouse_certs_probe_old_seconds{domain="app.example.com",port="25"} 3600',
  ])
})

t.end()

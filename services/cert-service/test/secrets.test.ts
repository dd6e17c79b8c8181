import { fromPem, toPem } from '@gatehouse/pki'
import { createMetrics } from '@gatehouse/service-kit/telemetry'
import { StoreError } from '@gatehouse/store'
import t from 'tap'
import { makeCsr } from '../../../packages/issuance/test/helpers/csr.ts'
import { expectWarnings } from '../../../scripts/test/quiet.ts'
import { createIdp, DAY, KEY, start } from './helpers/app.ts'
import { browse } from './helpers/browse.ts'

t.test('no secret reaches the log, an error, a metric, the audit trail or a page', async (t) => {
  expectWarnings(
    t,
    'AUTH_ISSUER_UNREACHABLE',
    'STORE_UNAVAILABLE',
    'every token may have every name',
  )
  const now = () => Date.UTC(2030, 0, 1)
  const idp = await createIdp(t, now)
  const metrics = createMetrics({ service: 'cert-service', version: 'test' })
  const running = await start(
    t,
    {
      auth: { psk: { key: KEY }, jwt: { issuerUrl: idp.issuerUrl, audience: 'certs' } },
      log: { level: 'trace' },
    },
    { metrics },
  )
  const { call, service } = running
  const secrets = [
    KEY,
    'wrong-key-canary-000000',
    idp.token({ sub: 'svc' }),
    idp.token({ sub: 'x', exp: 1 }),
  ]
  const answers: string[] = []
  const post = async (url: string, body: object, authorization = `APIKey ${KEY}`) => {
    const answer = await call('POST', url, body, { authorization })
    if (answer.status !== 200) answers.push(answer.text)
    return answer
  }

  for (const keyType of ['p256', 'p384', 'ed25519']) {
    const { body } = await post('/api/certificate', { domain: 'a.test', keyType })
    const [der] = fromPem(body.privateKey)
    secrets.push(body.privateKey.split('\n')[1], der!.toString('hex'), der!.toString('base64'))
  }
  const { body: held } = await call('GET', '/api/certificate/a.test')
  const { cookie } = await browse(running, '/', { body: { key: KEY } })
  const page = `/certificates/a.test/${held.serialNumber}`
  for (const url of ['/', '/certificates/a.test', page, `${page}/leaf.pem`, `${page}/chain.pem`]) {
    const { status, text } = await browse(running, url, { cookie })
    t.equal(status, 200, url)
    answers.push(text)
  }
  await post('/api/certificate', { domain: 'a.test' }, `Bearer ${secrets[2]}`)
  await post('/api/certificate', { domain: 'a.test' }, `Bearer ${secrets[3]}`)
  await post('/api/certificate', { domain: 'a.test' }, `Bearer ${secrets[2]}x`)
  await post('/api/certificate', { domain: 'a.test' }, `APIKey ${secrets[1]}`)
  await post('/api/certificate', { domain: 'a.test' }, `apikey  ${KEY} ${KEY}`)
  await post('/api/certificate', { domain: 'b.test', csr: makeCsr({ forged: true }) })
  await post('/api/certificate/renew', { domain: 'a.test' })
  const { addCertificate } = service.store
  Object.assign(service.store, {
    addCertificate: async () => {
      throw new StoreError('STORE_UNAVAILABLE', 'no', {
        cause: new Error(toPem('PRIVATE KEY', Buffer.from('x'))),
      })
    },
  })
  await post('/api/certificate', { domain: 'c.test' })
  Object.assign(service.store, { addCertificate })
  service.start()
  await running.clock.advance(4 * DAY)
  await running.close()

  const everything = [...running.logged, ...answers, await metrics.text()].join('\n')
  t.ok(running.logged.length > 10 && answers.length > 6, 'there was something to look at')
  for (const [index, secret] of secrets.entries())
    t.notOk(everything.includes(secret), `secret ${index}`)
  t.notOk(/BEGIN [A-Z ]*PRIVATE KEY/.test(everything))
})

t.test('what is stored of a key is sealed', async (t) => {
  const { call, service } = await start(t)
  const { body } = await call('POST', '/api/certificate', { domain: 'a.test' })
  const [der] = fromPem(body.privateKey)
  const [record] = await service.store.list({ after: 0, limit: 1 })
  t.notOk(Buffer.from(record!.sealedKey!).includes(der!.subarray(-32)))
  for (const { sealedKey } of await service.store.listAuthorities())
    t.not(sealedKey?.[0], 0x30, 'not DER')
})

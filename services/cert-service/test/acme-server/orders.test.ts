import { fromPem, generateP256, parseCertificate } from '@gatehouse/pki'
import t, { type Test } from 'tap'
import { AcmeClient, type ExternalKey } from '../helpers/acme-client.ts'
import { DAY, start } from '../helpers/app.ts'

const KEYS = {
  keys: [
    { name: 'operator', key: 'a-key-that-may-do-everything' },
    { name: 'web', key: 'a-key-of-the-web-servers', domains: ['*.example.com', '10.0.0.0/8'] },
  ],
}

async function setup(t: Test, changes: object = {}) {
  const running = await start(t, { auth: { psk: KEYS }, ...changes })
  const keyOf = async (caller: string): Promise<ExternalKey> =>
    (await running.call('POST', '/api/acme/key', { caller })).body
  const client = new AcmeClient(running.app)
  await client.register(await keyOf('web'))
  return { ...running, client, keyOf }
}

t.test('a client gets a certificate in five requests', async (t) => {
  const { client, service, clock } = await setup(t)
  const names = ['a.example.com', 'b.example.com']
  const order = await client.order(names)
  t.equal(order.status, 201, order.text)
  t.match(order.body, {
    status: 'ready',
    identifiers: names.map((value) => ({ type: 'dns', value })),
    profile: 'server',
  })
  const [first] = order.body.authorizations
  t.match((await client.post(first)).body, {
    status: 'valid',
    identifier: { type: 'dns', value: 'a.example.com' },
    challenges: [{ type: 'http-01', status: 'valid' }],
  })
  const key = generateP256()
  const finalized = await client.finalize(order, names, key)
  t.equal(finalized.status, 200, finalized.text)
  t.equal(finalized.headers.location, order.headers.location)
  t.match(finalized.body, { status: 'valid', certificate: String })
  const chain = await client.post(finalized.body.certificate)
  t.match(chain.headers, { 'content-type': 'application/pem-certificate-chain' })
  const [leaf, issuer] = fromPem(chain.text, 'CERTIFICATE').map(parseCertificate)
  t.strictSame(
    leaf?.names.map(({ text }) => text),
    names,
  )
  t.ok(leaf?.spki.equals(key.spki))
  t.equal(leaf?.akid, issuer?.skid)
  const [, alternate] = [chain.headers.link].flat() as string[]
  const whole = await client.post(/<(.*)>;rel="alternate"/.exec(alternate ?? '')?.[1] ?? '')
  t.equal(fromPem(whole.text, 'CERTIFICATE').length, 3, 'or with the root')
  const polled = await client.post(String(order.headers.location))
  t.match(polled.body, { status: 'valid', certificate: finalized.body.certificate })
  const [record] = await service.store.list({ after: 0, limit: 10 })
  t.match(record, { way: 'acme', client: 'test-client/1.0', renewAt: null })
  const audit = await service.store.listAudit({ limit: 10 })
  t.match(audit[0], { action: 'issue', actor: 'psk:web' })
  clock.advance(DAY)
})

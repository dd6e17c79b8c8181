import { X509Certificate } from 'node:crypto'
import { rename } from 'node:fs/promises'
import { createIntermediate, createRoot, parseCertificate } from '@gatehouse/pki'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { DAY, NOW, type Running, start } from '../helpers/app.ts'
import { writeAuthority } from '../helpers/ca-walk.ts'

const obtain = ({ call }: Running, domain: string, more: object = {}) =>
  call('POST', '/api/certificate', { domain, profile: 'client', ...more })
const pemsOf = (pem: string) => pem.split(/(?<=-----END CERTIFICATE-----\n)/).filter(Boolean)
const parse = (pem: string) => pemsOf(pem).map((one) => new X509Certificate(one))
const clientsOf = async ({ app }: Running) => parse((await app.inject('/ca/clients.pem')).body)
const rolesOf = async ({ service }: Running) =>
  (await service.store.listAuthorities()).map(({ role }) => role)
const CLIENT_AUTH = '1.3.6.1.5.5.7.3.2'

t.test('the intermediate for clients is made at the first need, and kept', async (t) => {
  const folder = testFolder(t)
  const first = await start(t, { ca: { crlUrl: 'http://ca.test/ca/crl.der' } }, { folder })
  t.same(await rolesOf(first), ['intermediate', 'root'])
  t.equal((await clientsOf(first)).length, 1, 'the root alone')
  const answers = await Promise.all(['a.test', 'ada@a.test'].map((name) => obtain(first, name)))
  t.same(await rolesOf(first), ['client-intermediate', 'intermediate', 'root'], 'once')
  const [root, intermediate] = await clientsOf(first)
  for (const { status, body } of answers) {
    t.match([status, body.issuer], [200, 'ca-client'])
    const [leaf, above] = parse(body.certificate)
    t.equal(above?.fingerprint256, intermediate?.fingerprint256)
    t.ok(leaf?.verify(above!.publicKey) && above?.verify(root!.publicKey))
    t.strictSame([leaf?.keyUsage, above?.keyUsage], [[CLIENT_AUTH], [CLIENT_AUTH]])
    t.match(leaf?.raw.toString('latin1'), /ca\/crl\.der\?issuer=[0-9a-f]{40}/)
  }
  t.equal(intermediate?.subject, 'CN=Gatehouse Client Intermediate CA')
  await first.close()
  const second = await start(t, {}, { folder, clock: first.clock })
  t.equal((await obtain(second, 'a.test')).body.serialNumber, answers[0]?.body.serialNumber)
})

t.test('its list has what was revoked of it, and that of servers has not', async (t) => {
  const running = await start(t)
  const { body } = await obtain(running, 'a.test')
  await running.call('POST', '/api/certificate', { domain: 'a.test' })
  const revoked = await running.call('POST', '/api/certificate/revoke', {
    ...{ domain: 'a.test', profile: 'client' },
  })
  t.same(revoked.body.serialNumbers, [body.serialNumber], 'not the one of the server')
  const serial = Buffer.from(body.serialNumber, 'hex')
  const [, intermediate] = await clientsOf(running)
  const { crls } = running.service.ca
  const lists = (await running.app.inject('/ca/clients.crl.pem')).body
  t.equal(lists.match(/BEGIN X509 CRL/g)?.length, 2, 'that of the root, too')
  const list = async (id: string) => Buffer.from(await crls.get(id))
  t.ok((await list(parseCertificate(intermediate!.raw).skid!)).includes(serial))
  t.notOk((await list(running.service.ca.intermediate().info.skid!)).includes(serial))
})

t.test('a new intermediate in time; servers are given both until the old one ends', async (t) => {
  const running = await start(t)
  await obtain(running, 'a.test')
  await running.clock.advance(336 * DAY)
  await running.service.ca.upkeep()
  const three = await clientsOf(running)
  t.equal(three.length, 3)
  const [, above] = parse((await obtain(running, 'b.test')).body.certificate)
  t.equal(above?.fingerprint256, three[1]?.fingerprint256, 'the new one signs')
  t.same(running.service.ca.degraded(), [])
  await running.clock.advance(30 * DAY)
  t.equal((await clientsOf(running)).length, 2)
})

t.test('while the key of the root is offline', async (t) => {
  expectWarnings(
    t,
    'certificate could not be issued',
    'CERT_ROOT_KEY_ABSENT',
    'the CA needs its operator',
  )
  const folder = testFolder(t)
  const mine = await createRoot({ commonName: 'Mine', now: NOW })
  const { certFile, keyFile } = await writeAuthority(folder, 'root', mine)
  const changes = { ca: { root: { certFile, keyFile } } }
  const running = await start(t, changes, { folder })
  await rename(keyFile, `${keyFile}.away`)
  const refused = await obtain(running, 'a.test')
  t.match([refused.status, refused.body.code], [503, 'CERT_ROOT_KEY_ABSENT'])
  t.match(refused.body.action, '`ca.root.keyFile`')
  t.notMatch(refused.text, keyFile)
  t.equal((await running.call('POST', '/api/certificate', { domain: 'a.test' })).status, 200)
  t.same(
    (await clientsOf(running)).map(({ subject }) => subject),
    ['CN=Mine'],
  )

  await rename(`${keyFile}.away`, keyFile)
  await running.clock.advance(DAY)
  t.equal((await obtain(running, 'a.test')).status, 200)
  await rename(keyFile, `${keyFile}.away`)
  await running.clock.advance(340 * DAY)
  await running.service.ca.upkeep()
  t.same(running.service.ca.degraded(), ['ca-intermediate', 'ca-client-intermediate'])
  t.equal((await obtain(running, 'b.test')).status, 200, 'the old one still signs')
})

t.test('after a change of the root, certificates below both are verified', async (t) => {
  const folder = testFolder(t)
  const first = await start(t, {}, { folder })
  const before = parse((await obtain(first, 'a.test')).body.certificate)
  await first.close()
  const mine = await createRoot({ commonName: 'Mine', now: NOW })
  const root = await writeAuthority(folder, 'root', mine)
  const running = await start(t, { ca: { root } }, { folder, clock: first.clock })
  const after = parse((await obtain(running, 'b.test')).body.certificate)
  const all = await clientsOf(running)
  t.same(
    all.map(({ subject }) => subject?.replace(/^CN=(Gatehouse )?/, '')),
    ['Mine', 'Root CA', 'Client Intermediate CA', 'Client Intermediate CA'],
  )
  for (const [, intermediate] of [before, after]) {
    t.ok(all.some((one) => one.fingerprint256 === intermediate?.fingerprint256))
    t.ok(all.some((one) => intermediate?.verify(one.publicKey)))
  }
  const lists = (await running.app.inject('/ca/clients.crl.pem')).body
  t.equal(lists.match(/BEGIN X509 CRL/g)?.length, 4)
  await running.clock.advance(366 * DAY)
  await running.service.ca.upkeep()
  t.equal((await clientsOf(running)).length, 2, 'until they end')
})

t.test("an operator's own intermediate signs nothing for clients", async (t) => {
  expectWarnings(t, 'certificate could not be issued', 'CERT_ROOT_KEY_ABSENT')
  const folder = testFolder(t)
  const root = await createRoot({ commonName: 'Mine', now: NOW })
  const own = await createIntermediate({ root, commonName: 'Own', now: NOW })
  const intermediate = await writeAuthority(folder, 'own', own, root.certificate)
  const alone = await start(t, { ca: { intermediate } }, { folder })
  t.match((await obtain(alone, 'a.test')).body.code, 'CERT_ROOT_KEY_ABSENT')
  for (const file of ['clients.pem', 'clients.crl.pem'])
    t.equal((await alone.app.inject(`/ca/${file}`)).statusCode, 404)
  await alone.close()
  const withRoot = { intermediate, root: await writeAuthority(folder, 'root', root) }
  const running = await start(t, { ca: withRoot }, { folder, clock: alone.clock })
  await running.clock.advance(DAY)
  const [, above] = parse((await obtain(running, 'a.test')).body.certificate)
  t.equal(above?.subject, 'CN=Gatehouse Client Intermediate CA')
  t.ok(above?.verify(new X509Certificate(root.certificate).publicKey))
})

t.test(
  'ca.permitted limits names of clients: a domain with its addresses and workloads',
  async (t) => {
    const permitted = ['corp.test', '*.corp.test', '*@mail.test']
    const running = await start(t, { ca: { permitted }, server: { names: ['corp.test'] } })
    for (const [name, status] of [
      ['a.corp.test', 200],
      ['ada@corp.test', 200],
      ['ada@a.corp.test', 200],
      ['ada@mail.test', 200],
      ['spiffe://corp.test/a', 200],
      ['spiffe://a.corp.test/b/c', 200],
      ['a.test', 422],
      ['mail.test', 422],
      ['ada@a.mail.test', 422],
      ['spiffe://mail.test/a', 422],
      ['spiffe://xcorp.test/a', 422],
    ] as const) {
      const { status: found, body } = await obtain(running, name)
      t.equal(found, status, name)
      if (status === 422)
        t.match([body.code, body.detail], ['CERT_NOT_PERMITTED', '`ca.permitted`'])
    }
  },
)

t.test('a certificate has one SPIFFE ID at most', async (t) => {
  const running = await start(t)
  const { status, body } = await obtain(running, 'spiffe://a.test/b', {
    names: ['spiffe://a.test/c'],
  })
  t.match([status, body.detail], [422, 'one SPIFFE ID'])
})

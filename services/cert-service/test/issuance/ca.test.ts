import { X509Certificate } from 'node:crypto'
import { cp, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createIntermediate, createRoot, parseNameRule, toPem } from '@gatehouse/pki'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { backup, restore } from '../../../../packages/cert-store/src/backup/backup.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { detachRoot } from '../../src/cli/keys.ts'
import { START_RULES } from '../../src/cli/start-rules.ts'
import { loadCertConfig } from '../../src/config/load.ts'
import { DAY, NOW, type Running, settle, start } from '../helpers/app.ts'
import { writeAuthority } from '../helpers/ca-walk.ts'

const intermediateOf = ({ service }: Running) =>
  new X509Certificate(service.ca.intermediate().certificate)
const rootOf = ({ service }: Running) => new X509Certificate(service.ca.root()!)
const chainOf = async ({ call }: Running, domain = 'a.test') => {
  const { body } = await call('POST', '/api/certificate', { domain })
  const [leaf, intermediate] = body.certificate.split(/(?<=-----END CERTIFICATE-----\n)/)
  return { leaf: new X509Certificate(leaf), intermediate: new X509Certificate(intermediate) }
}

t.test('made at first start, and kept', async (t) => {
  const folder = testFolder(t)
  const first = await start(t, { ca: { name: 'Ada' } }, { folder })
  t.equal(rootOf(first).subject, 'CN=Ada Root CA')
  t.equal(intermediateOf(first).subject, 'CN=Ada Intermediate CA')
  t.equal(rootOf(first).publicKey.asymmetricKeyDetails?.namedCurve, 'secp384r1')
  await first.close()
  const second = await start(t, { ca: { name: 'Other' } }, { folder, clock: first.clock })
  t.ok(rootOf(second).raw.equals(rootOf(first).raw))
  t.ok(intermediateOf(second).raw.equals(intermediateOf(first).raw))
})

t.test('a new intermediate in time; the old one keeps its revocation list', async (t) => {
  const running = await start(t)
  const old = running.service.ca.intermediate()
  await running.call('POST', '/api/certificate', { domain: 'a.test' })
  await running.clock.advance(334 * DAY)
  await running.service.ca.upkeep()
  t.equal(running.service.ca.intermediate(), old, 'not yet')
  const revoked = await chainOf(running, 'late.test')
  await running.clock.advance(2 * DAY)
  await running.service.ca.upkeep()
  const { leaf, intermediate } = await chainOf(running)
  t.notOk(intermediate.raw.equals(old.certificate))
  t.ok(leaf.verify(intermediate.publicKey) && intermediate.verify(rootOf(running).publicKey))
  t.strictSame(running.service.ca.degraded(), [])

  await running.call('POST', '/api/certificate/revoke', { domain: 'late.test' })
  const list = Buffer.from(await running.service.ca.crls.get(old.info.skid!))
  t.ok(list.includes(Buffer.from(revoked.leaf.serialNumber, 'hex')))
})

t.test('revocation lists: fresh after a revocation, else once a day, numbers grow', async (t) => {
  const folder = testFolder(t)
  const running = await start(t, {}, { folder })
  const { crls, intermediate } = running.service.ca
  const { skid = '' } = intermediate().info
  const first = await crls.get(skid)
  t.equal(await crls.get(skid), first)
  await running.clock.advance(DAY - 1)
  t.equal(await crls.get(skid), first)
  await running.clock.advance(1)
  const daily = await crls.get(skid)
  t.not(daily, first)
  await running.call('POST', '/api/certificate', { domain: 'a.test' })
  await running.call('POST', '/api/certificate/revoke', { domain: 'a.test' })
  const [one, other] = await Promise.all([crls.get(skid), crls.get(skid)])
  t.equal(one, other, 'made once')
  t.not(one, daily)
  const [row] = await running.service.store.listAuthorities()
  const list = await running.service.store.findCrl(row!.id)
  const number = BigInt(running.clock.now() / 1000)
  t.equal(list?.number, number + 1n, 'by the clock, and one more for each in a second')
  t.equal(list!.nextUpdate - running.clock.now(), 7 * DAY, 'valid for a week')
  await running.close()

  const again = await start(t, {}, { folder, clock: running.clock })
  t.same(await again.service.ca.crls.get(skid), other, 'kept by a restart')
  await again.call('POST', '/api/certificate', { domain: 'b.test' })
  const [current] = await again.service.store.findByDomain('b.test')
  const revocation = { at: NOW, action: 'revoke', actor: 'test', names: ['b.test'] } as const
  await again.service.store.revoke([current!.id], NOW, 'superseded', revocation)
  await again.close()
  const third = await start(t, {}, { folder, clock: running.clock })
  const numberNow = async () => {
    await third.service.ca.crls.get(skid)
    return (await third.service.store.findCrl(row!.id))?.number
  }
  t.equal(
    await numberNow(),
    number + 2n,
    'but not if a revocation came between the list and the end',
  )
  await third.clock.advance(DAY)
  t.equal(await numberNow(), number + 86_400n, 'nor for longer than a day')
})

t.test('after a restore the number of the revocation list goes on', async (t) => {
  const folder = testFolder(t, { before: {}, after: {} })
  const [before, after] = [join(folder, 'before'), join(folder, 'after')]
  const numberOf = async ({ service }: Running) => {
    await service.ca.crls.get(service.ca.intermediate().info.skid!)
    const [row] = await service.store.listAuthorities()
    return (await service.store.findCrl(row!.id))?.number
  }
  const running = await start(t, {}, { folder: before })
  const first = BigInt(NOW / 1000)
  t.equal(await numberOf(running), first)
  const file = join(folder, 'copy.db')
  await backup({ folder: running.config.storage.path, file })
  for (const [domain, number] of [
    ['a.test', first + 1n],
    ['b.test', first + 2n],
  ] as const) {
    await running.call('POST', '/api/certificate', { domain })
    await running.call('POST', '/api/certificate/revoke', { domain })
    t.equal(await numberOf(running), number)
  }
  await running.close()

  await restore({ folder: join(after, 'data'), file, forget: true })
  await running.clock.advance(60_000)
  await cp(join(before, 'keys'), join(after, 'keys'), { recursive: true })
  const restored = await start(t, {}, { folder: after, clock: running.clock })
  t.equal(
    await numberOf(restored),
    first + 60n,
    'although the backup has an older one, which is complete',
  )
  await restored.call('POST', '/api/certificate', { domain: 'c.test' })
  await restored.call('POST', '/api/certificate/revoke', { domain: 'c.test' })
  t.equal(await numberOf(restored), first + 61n)
})

t.test('with ca.crlUrl, each certificate names the list of what signed it', async (t) => {
  const running = await start(t, { ca: { crlUrl: 'http://ca.test/ca/crl.der' } })
  const { leaf, intermediate } = await chainOf(running)
  for (const certificate of [leaf, intermediate]) {
    const url = /http:\/\/ca\.test(\/ca\/crl\.der\?issuer=[0-9a-f]{40})/.exec(
      certificate.raw.toString('latin1'),
    )
    const { statusCode } = await running.app.inject({ url: url?.[1] ?? '/' })
    t.equal(statusCode, 200)
  }
  const plain = await chainOf(await start(t))
  t.notOk(plain.leaf.raw.includes('http:'))
})

t.test('a wildcard of a whole top-level domain is issued with a warning', async (t) => {
  expectWarnings(t, 'browsers refuse the wildcard')
  const { call, logged } = await start(t)
  const warned = () => logged.filter((line) => line.includes('a whole top-level domain')).length
  for (const [domain, count] of [
    ['*.home.lan', 0],
    ['lan', 0],
    ['*.lan', 1],
  ] as const) {
    t.equal((await call('POST', '/api/certificate', { domain })).status, 200)
    t.equal(warned(), count, domain)
  }
})

t.test(
  'without the key of the root, an intermediate that is not as configured is reported',
  async (t) => {
    const folder = testFolder(t)
    const mine = await createRoot({ commonName: 'Mine', now: NOW })
    const { certFile, keyFile } = await writeAuthority(folder, 'root', mine)
    const first = await start(t, { ca: { root: { certFile, keyFile } } }, { folder })
    await first.close()
    await rename(keyFile, `${keyFile}.away`)
    const ca = { root: { certFile, keyFile }, crlUrl: 'http://ca.test/ca/crl.der' }
    const { service } = await start(t, { ca }, { folder, clock: first.clock })
    await service.ca.upkeep()
    t.strictSame(service.ca.degraded(), ['ca-intermediate'])
    await rename(`${keyFile}.away`, keyFile)
    await service.ca.upkeep()
    t.strictSame(service.ca.degraded(), [], 'made as soon as the key is there')
    t.equal((await service.store.listAuthorities()).length, 3)
  },
)

t.test('a root of one’s own', async (t) => {
  const folder = testFolder(t)
  const root = await writeAuthority(
    folder,
    'root',
    await createRoot({ commonName: 'Mine', now: NOW }),
  )
  const running = await start(t, { ca: { root } }, { folder })
  t.equal(rootOf(running).subject, 'CN=Mine')
  t.ok(intermediateOf(running).verify(rootOf(running).publicKey))
  await running.close()
  const { certFile } = root
  const again = await start(t, { ca: { root: { certFile } } }, { folder, clock: running.clock })
  t.ok(intermediateOf(again).raw.equals(intermediateOf(running).raw), 'its key is not needed again')
})

t.test('an intermediate of one’s own', async (t) => {
  expectWarnings(t, 'the CA needs its operator')
  const folder = testFolder(t)
  const root = await createRoot({ commonName: 'Mine', now: NOW })
  const made = await createIntermediate({ root, commonName: 'Ours', now: NOW })
  const intermediate = await writeAuthority(folder, 'intermediate', made)
  const running = await start(t, { ca: { intermediate } }, { folder })
  const { leaf, intermediate: used } = await chainOf(running)
  t.ok(used.raw.equals(made.certificate) && leaf.verify(used.publicKey))
  t.match(await running.call('GET', '/ca/root.pem'), { status: 404 })
  await running.call('POST', '/api/certificate/revoke', { domain: 'a.test' })
  const list = Buffer.from(await running.service.ca.crls.get(made.info.skid!))
  t.ok(list.includes(Buffer.from(leaf.serialNumber, 'hex')))

  await running.clock.advance(334 * DAY)
  await running.service.ca.upkeep()
  t.strictSame(running.service.ca.degraded(), [], 'not yet')
  await running.clock.advance(2 * DAY)
  await running.service.ca.upkeep()
  t.strictSame(running.service.ca.degraded(), ['ca-intermediate'], 'a month before its end')
  t.match((await running.call('GET', '/readyz')).body, {
    status: 'ready',
    degraded: ['ca-intermediate'],
  })
  const isLogged = () => running.logged.some((line) => line.includes('the CA needs its operator'))
  running.service.start()
  await settle(isLogged)
  t.ok(isLogged(), 'the log says so as well')
})

t.test('an intermediate of one’s own with name constraints', async (t) => {
  const folder = testFolder(t)
  const root = await createRoot({ commonName: 'Mine', now: NOW })
  const permitted = ['corp.test', '10.0.0.0/8'].map(parseNameRule)
  const ours = await createIntermediate({ root, commonName: 'Ours', now: NOW, permitted })
  const intermediate = await writeAuthority(folder, 'intermediate', ours, root.certificate)
  const running = await start(t, { ca: { intermediate } }, { folder })
  const { call } = running
  for (const [names, at] of [
    [['corp.test'], undefined],
    [['a.corp.test', '*.a.corp.test', '10.1.2.3'], undefined],
    [['a.test'], '/domain'],
    [['corp.test', '*.test'], '/names/0'],
    [['corp.test', '10.1.2.3', '11.1.2.3'], '/names/1'],
    [['::1'], '/domain'],
  ] as const) {
    const [domain, ...others] = names
    for (const query of ['?dryRun=true', '']) {
      const answer = await call('POST', `/api/certificate${query}`, { domain, names: others })
      if (!at) t.equal(answer.status, 200, names.join())
      else {
        t.match(answer, {
          status: 422,
          body: { code: 'CERT_NOT_PERMITTED', errors: [{ pointer: at }] },
        })
        t.match(
          answer.body.detail,
          /outside of the name constraints of CN=Ours \(only corp\.test, /,
        )
      }
    }
  }
  const orders = await running.service.store.listAudit({ limit: 99 })
  t.strictSame(
    orders.filter(({ action }) => action === 'fail'),
    [],
    'nothing is tried',
  )
  const { text } = await call('GET', '/ca/root.pem')
  t.equal(text, toPem('CERTIFICATE', root.certificate), 'the root in its file is answered')

  const { warnings } = await loadCertConfig(
    join(folder, 'config.yaml'),
    {},
    { startRules: START_RULES },
  )
  t.match(warnings, [
    /config\.yaml:\d+:\d+.*certFile limits what is issued: only corp\.test, \*\.corp/,
  ])
})

t.test(
  'an intermediate that is narrower than the configuration, which has no key to replace it',
  async (t) => {
    const folder = testFolder(t)
    const mine = await createRoot({ commonName: 'Mine', now: NOW })
    const root = await writeAuthority(folder, 'root', mine)
    const first = await start(
      t,
      { ca: { root, permitted: ['corp.test'] }, server: { tls: 'off' } },
      { folder },
    )
    await first.close()
    // As the key of the root is away, the intermediate of before is still in use.
    const ca = { root: { certFile: root.certFile } }
    const second = await start(t, { ca }, { folder, clock: first.clock })
    t.equal((await second.call('POST', '/api/certificate', { domain: 'a.corp.test' })).status, 200)
    const refused = await second.call('POST', '/api/certificate', { domain: 'a.test' })
    t.match(refused, {
      status: 422,
      body: { detail: /the name constraints of CN=Gatehouse Inter/ },
    })
    t.strictSame(second.service.ca.degraded(), ['ca-intermediate'])
  },
)

t.test('without the root’s key nothing breaks until an intermediate is due', async (t) => {
  const folder = testFolder(t)
  const first = await start(t, {}, { folder })
  const rootSkid = new X509Certificate(first.service.ca.root()!)
  await first.close()
  const file = join(folder, 'root.key')
  const { path, masterKeyFile } = first.config.storage
  await detachRoot({ path, masterKeyFile, file })
  t.ok(
    rootSkid.checkPrivateKey((await import('node:crypto')).createPrivateKey(await readFile(file))),
  )

  const second = await start(t, {}, { folder, clock: first.clock })
  t.equal((await second.call('POST', '/api/certificate', { domain: 'a.test' })).status, 200)
  await second.clock.advance(340 * DAY)
  await second.service.ca.upkeep()
  t.strictSame(second.service.ca.degraded(), ['ca-intermediate'])
  t.equal((await second.call('POST', '/api/certificate', { domain: 'b.test' })).status, 200)
  await second.close()

  const certFile = join(folder, 'root.pem')
  await writeFile(certFile, toPem('CERTIFICATE', first.service.ca.root()!))
  const third = await start(
    t,
    { ca: { root: { certFile, keyFile: file } } },
    { folder, clock: first.clock },
  )
  t.strictSame(third.service.ca.degraded(), [], 'with the key at hand it is replaced')
  t.notOk(intermediateOf(third).raw.equals(intermediateOf(first).raw))
})

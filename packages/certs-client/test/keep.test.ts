import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { manualClock, testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { DAY, start } from '../../../services/cert-service/test/helpers/app.ts'
import { awaitOrder, getOnce } from '../src/keep.ts'
import { clientOf, injected, listAll, lookAt } from './helpers/client.ts'

t.test('the first run puts key, chain and both in one file in place', async (t) => {
  const running = await start(t)
  const { get, dir } = clientOf(running, { names: ['a.test', '*.a.test', '192.0.2.1'] })
  await getOnce(get)
  const pair = lookAt(dir, 'a.test')
  t.same(pair.names, ['*.a.test', '192.0.2.1', 'a.test'])
  t.equal(pair.keyType, 'p256')
  const { body } = await running.call('GET', '/api/certificate/a.test')
  t.equal(readFileSync(join(dir, 'a.test/fullchain.pem'), 'utf8'), body.certificate)
  t.equal(readFileSync(join(dir, 'a.test/privkey.pem'), 'utf8'), body.privateKey)
  t.same(JSON.parse(readFileSync(join(dir, 'a.test/renewal.json'), 'utf8')), {
    renewAt: body.renewAt,
    isOwnKey: false,
  })
})

t.test('while nothing is due, a run asks once and says nothing', async (t) => {
  const running = await start(t)
  const first = clientOf(running)
  await getOnce(first.get)
  const before = listAll(first.dir)
  const fetch = injected(running)
  const { get, logged } = clientOf(running, { fetch })
  await getOnce(get)
  t.same(fetch.log, [{ method: 'GET', path: '/api/certificate/a.test', status: 304 }])
  t.same(logged, [])
  t.same(listAll(first.dir), before)
})

t.test('a certificate that is due is renewed, and the old files go', async (t) => {
  for (const csr of [false, true]) {
    const running = await start(t, {}, { folder: testFolder(t) })
    const { get, dir } = clientOf(running, { csr })
    await getOnce(get)
    const old = lookAt(dir, 'a.test')
    await running.clock.advance(5 * DAY)
    await getOnce(get)
    const pair = lookAt(dir, 'a.test')
    t.not(pair.serialNumber, old.serialNumber)
    t.ok(pair.notAfter > old.notAfter)
    t.equal(pair.privateKey === old.privateKey, csr, 'a key of our own stays')
    t.same(listAll(dir).length, 3, 'the link, its folder, the lock')
  }
})

t.test('with --csr the private key never leaves, and stays for later certificates', async (t) => {
  const running = await start(t)
  const fetch = injected(running)
  const { get, dir } = clientOf(running, { csr: true, keyType: 'p384', fetch })
  await getOnce(get)
  t.equal(lookAt(dir, 'a.test').keyType, 'p384')
  const [record] = await running.service.store.list({ after: 0, limit: 9 })
  t.equal(record?.sealedKey, null, 'the service has none')
  fetch.log.length = 0
  await getOnce(get)
  t.match(fetch.log, [{ status: 304 }])
})

t.test('a private key that the service has is not taken for one that was made here', async (t) => {
  const running = await start(t)
  const { get, dir } = clientOf(running)
  await getOnce(get)
  const { privateKey } = lookAt(dir, 'a.test')
  await getOnce(clientOf(running, { csr: true }).get)
  t.not(lookAt(dir, 'a.test').privateKey, privateKey)
})

t.test('a key that was revoked as compromised is replaced', async (t) => {
  const running = await start(t)
  const { get, dir, messages } = clientOf(running, { csr: true })
  await getOnce(get)
  const old = lookAt(dir, 'a.test')
  const body = { domain: 'a.test', reason: 'keyCompromise' }
  t.equal((await running.call('POST', '/api/certificate/revoke', body)).status, 200)
  await getOnce(get)
  t.not(lookAt(dir, 'a.test').privateKey, old.privateKey)
  t.ok(messages().includes('the private key was refused; a new one is generated'))
  t.notOk(existsSync(join(dir, '.a.test@key')), 'it does not lie about')
})

t.test('what was revoked or deleted is fetched anew', async (t) => {
  const running = await start(t)
  const { get, dir } = clientOf(running)
  await getOnce(get)
  const old = lookAt(dir, 'a.test')
  await running.call('DELETE', '/api/certificate/a.test')
  await getOnce(get)
  t.not(lookAt(dir, 'a.test').serialNumber, old.serialNumber)
})

t.test('certificates of others for the same first name are not taken', async (t) => {
  const running = await start(t)
  const mine = clientOf(running)
  await getOnce(mine.get)
  const { serialNumber } = lookAt(mine.dir, 'a.test')
  for (const more of [{ names: ['b.test'] }, { keyType: 'p384' }]) {
    running.clock.shift(1_000)
    await running.call('POST', '/api/certificate', { domain: 'a.test', ...more })
    await getOnce(mine.get)
    t.equal(lookAt(mine.dir, 'a.test').serialNumber, serialNumber)
  }
})

t.test('what lives longer than is wanted is replaced, once', async (t) => {
  for (const csr of [false, true]) {
    const running = await start(t, {}, { folder: testFolder(t) })
    await getOnce(clientOf(running, { csr }).get)
    const fetch = injected(running)
    const { get, dir } = clientOf(running, { csr, lifetime: '2d', fetch })
    const daysLeft = () => Math.round((lookAt(dir, 'a.test').notAfter - running.clock.now()) / DAY)
    await getOnce(get)
    t.equal(daysLeft(), 2)
    t.match(fetch.log, [{ method: 'POST', status: 200 }])
    fetch.log.length = 0
    await getOnce(get)
    t.match(fetch.log, [{ method: 'GET', status: 304 }])
    await running.clock.advance(1.5 * DAY)
    await getOnce(get)
    t.equal(daysLeft(), 2, 'and renewed for as long')
    const short = clientOf(running, { csr, lifetime: '1s' })
    await t.rejects(getOnce(short.get), { code: 'CERT_LIFETIME_REFUSED' })
    t.notOk(
      short.messages().some((text) => text.includes('private key')),
      'no key is to blame',
    )
  }
})

t.test("other names, another key type or a key of one's own are another certificate", async (t) => {
  const running = await start(t)
  const serials = new Set<string>()
  for (const options of [
    {},
    { names: ['a.test', 'b.test'] },
    { keyType: 'ed25519' as const },
    { csr: true },
    { csr: true, keyType: 'rsa2048' as const },
    {},
  ]) {
    const { get, dir } = clientOf(running, options)
    await getOnce(get)
    const pair = lookAt(dir, 'a.test')
    t.equal(pair.keyType, options.keyType ?? 'p256')
    serials.add(pair.serialNumber)
    t.equal(listAll(dir).length, 3)
  }
  t.equal(serials.size, 5, 'the last is the first again')
})

t.test('files that were deleted or changed are mended', async (t) => {
  const running = await start(t)
  const { get, dir } = clientOf(running)
  await getOnce(get)
  const file = (name: string) => join(dir, 'a.test', name)
  const harm: Record<string, () => void> = {
    'no key': () => rmSync(file('privkey.pem')),
    'half a chain': () => writeFileSync(file('fullchain.pem'), 'x'),
    'another file': () => writeFileSync(file('combined.pem'), ''),
    'no state': () => rmSync(file('renewal.json')),
    'no link': () => rmSync(join(dir, 'a.test')),
    'no folder': () => {
      for (const name of listAll(dir).filter((each) => /@.*-/.test(each)))
        rmSync(join(dir, name), { recursive: true })
    },
  }
  for (const [what, doHarm] of Object.entries(harm)) {
    doHarm()
    await getOnce(get)
    t.ok(lookAt(dir, 'a.test'), what)
    t.equal(listAll(dir).length, 3, what)
  }
})

t.test('wildcards and addresses have folders that shells and proxies take', async (t) => {
  const running = await start(t)
  for (const [name, folder] of [
    ['*.apps.test', '_.apps.test'],
    ['2001:DB8::1', '2001_db8__1'],
    ['bücher.test', 'xn--bcher-kva.test'],
  ] as const) {
    const { get, dir } = clientOf(running, { names: [name] })
    await getOnce(get)
    t.ok(lookAt(dir, folder))
  }
})

t.test('two commands that want different certificates in one folder are told', async (t) => {
  const running = await start(t)
  const wants = [{}, { names: ['a.test', 'b.test'] }, { keyType: 'p384' as const }, { csr: true }]
  const warned: boolean[] = []
  for (const options of [...wants, ...wants]) {
    const { get, logged } = clientOf(running, options)
    await getOnce(get)
    await getOnce(get)
    const told = logged.filter(({ message }) => message.includes('give one of them another folder'))
    warned.push(told.length === 1 && told[0]?.level === 'warn')
  }
  t.same(warned, [false, ...Array(7).fill(true)], 'at each turn, but the first')
  await running.clock.advance(5 * DAY)
  const { get, messages } = clientOf(running, { csr: true })
  await getOnce(get)
  t.notOk(
    messages().some((text) => text.includes('another folder')),
    'not when it is renewed',
  )
})

t.test('an order is asked for as the service says, within bounds', async (t) => {
  const order = { id: '7', step: 'a', since: '', names: ['a.test'] }
  for (const [retryAfterMs, wait] of [
    [undefined, 5_000],
    [0, 1_000],
    [20_000, 20_000],
    [3_600_000, 60_000],
  ] as const) {
    const clock = manualClock()
    let asked = 0
    const find = async () => {
      asked += 1
      return { ...order, status: 'done' } as const
    }
    const get = {
      service: { order: find } as never,
      clock,
      log: { info() {}, warn() {}, error() {} },
      signal: new AbortController().signal,
      patienceMs: 86_400_000,
    }
    const waiting = awaitOrder(get, { order: { ...order, status: 'pending' }, retryAfterMs })
    await clock.advance(wait - 1)
    t.equal(asked, 0, `${retryAfterMs}`)
    await clock.advance(1)
    t.match(await waiting, { status: 'done' })
  }
})

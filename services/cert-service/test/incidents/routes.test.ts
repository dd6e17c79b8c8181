import { openStore } from '@gatehouse/cert-store'
import type { Store } from '@gatehouse/cert-store/port'
import { generateP256, parseCertificate } from '@gatehouse/pki'
import { StoreError } from '@gatehouse/store'
import t, { type Test } from 'tap'
import { newAudit, newCertificate } from '../../../../packages/cert-store/test/helpers/store.ts'
import { makeCsr } from '../../../../packages/issuance/test/helpers/csr.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { PSK, startAcme } from '../helpers/acme-service.ts'
import { DAY, NOW, reload, start } from '../helpers/app.ts'

const ROUTE = '/api/incidents/key'
const WEB = { authorization: 'APIKey a-key-of-the-web-servers' }
const OTHER = { authorization: 'APIKey a-key-of-somebody-else' }
const serialOf = (leaf: Buffer | undefined) => parseCertificate(leaf as Buffer).serialNumber

/** A service in which `web` has a certificate of each kind, and others have some too. */
async function stage(t: Test, deps: Parameters<typeof startAcme>[2] = {}) {
  const running = await startAcme(t, {}, deps)
  const { call, client, clientOf, clock, service } = running
  const issue = async (body: object, headers: object = WEB) =>
    (await call('POST', '/api/certificate', body, headers)).body.serialNumber as string
  const made = {
    replaced: await issue({ domain: 'a.example.com' }),
    current: await issue({ domain: 'a.example.com', lifetime: '1d' }),
    csr: await issue({
      domain: 'b.example.com',
      csr: makeCsr({ names: ['b.example.com'] }),
    }),
    deleted: await issue({ domain: 'c.example.com' }),
    acmeReplaced: serialOf((await client.obtain(['d.example.com'], {}, generateP256()))[0]),
  }
  await call('DELETE', '/api/certificate/c.example.com')
  await clock.advance(DAY / 2)
  const acme = serialOf((await client.obtain(['d.example.com'], {}, generateP256()))[0])
  const otherClient = await clientOf('other')
  const others = {
    sameName: await issue({ domain: 'a.example.com', keyType: 'rsa2048' }, {}),
    api: await issue({ domain: 'x.example.org' }, OTHER),
    acme: serialOf((await otherClient.obtain(['y.example.org']))[0]),
  }
  const revoked = async () =>
    Object.fromEntries(
      (await service.store.listRevoked(service.ca.intermediate().certificate, clock.now())).map(
        ({ serialNumber, reason }) => [serialNumber, reason],
      ),
    )
  return { ...running, made: { ...made, acme }, others, revoked, otherClient }
}

/** What is revoked in the end, and why. */
const reasonsOf = ({
  replaced,
  current,
  csr,
  deleted,
  acmeReplaced,
  acme,
}: Awaited<ReturnType<typeof stage>>['made']) => ({
  ...{ [replaced]: 'keyCompromise', [current]: 'keyCompromise', [deleted]: 'keyCompromise' },
  ...{ [csr]: 'privilegeWithdrawn', [acme]: 'privilegeWithdrawn' },
  [acmeReplaced]: 'privilegeWithdrawn',
})

t.test('a dry run says what the key has got, and changes nothing', async (t) => {
  const { call, made, revoked, service, client } = await stage(t)
  const before = await service.store.listAudit({ limit: 1_000 })
  const { status, body } = await call('POST', ROUTE, { key: 'web', dryRun: true })
  t.equal(status, 200)
  const expected = reasonsOf(made)
  t.match(body, { key: 'web', accounts: 1, revoked: 6, issuing: { length: 0 } })
  t.match(body.accepted, { length: 1, 0: /^[0-9a-f]{64}$/ })
  const reasons = body.certificates.map(({ serialNumber, reason }: Record<string, string>) => [
    serialNumber,
    reason,
  ])
  t.strictSame(Object.fromEntries(reasons), expected)
  const acme = body.certificates.find(
    ({ serialNumber }: { serialNumber: string }) => serialNumber === made.acme,
  )
  t.match(acme, { domain: 'd.example.com', client: 'test-client/1.0', address: '127.0.0.1' })
  t.strictSame(await revoked(), {})
  t.strictSame(await service.store.listAudit({ limit: 1_000 }), before)
  t.equal((await client.order(['d.example.com'])).status, 201)
})

t.test('it revokes that and nothing else, and the second run finds nothing', async (t) => {
  const { call, made, revoked, service, client, otherClient, others } = await stage(t)
  const { body } = await call('POST', ROUTE, { key: 'web' })
  t.match(body, { accounts: 1, revoked: 6 })
  t.strictSame(await revoked(), reasonsOf(made))
  t.equal((await client.order(['d.example.com'])).status, 403)
  t.equal((await otherClient.order(['y.example.org'])).status, 201)
  for (const [name, headers] of [
    ['x.example.org', OTHER],
    ['a.example.com', {}],
  ] as const)
    t.equal((await call('GET', `/api/certificate/${name}`, undefined, headers)).status, 200, name)
  t.ok(others.sameName)
  const actor = { actor: 'psk:operator', remoteAddress: '127.0.0.1' }
  const trail = await service.store.listAudit({ limit: 100 })
  t.match(
    trail.find(({ action }) => action === 'acme-account-end'),
    { ...actor, detail: 'of web, renewed: it leaked', count: 1 },
  )
  const rows = trail.filter(({ action }) => action === 'revoke')
  for (const row of rows) t.match(row, { ...actor, detail: /^(keyCompromise|privilegeWithdrawn)$/ })
  t.match(
    new Set(rows.flatMap(({ names }) => names)),
    new Set(['a', 'b', 'c', 'd'].map((name) => `${name}.example.com`)),
  )
  const again = await call('POST', ROUTE, { key: 'web' })
  t.match(again.body, { accounts: 0, revoked: 0, certificates: { length: 0 } })
  t.equal((await service.store.listAudit({ limit: 100 })).length, trail.length)
  const anew = await call('POST', '/api/certificate', { domain: 'a.example.com' }, WEB)
  t.equal(anew.status, 200, 'a key that is accepted still gets more')
  t.match((await call('POST', ROUTE, { key: 'web' })).body, { revoked: 1 })
})

t.test('what was made later stays', async (t) => {
  const { call, clock } = await stage(t)
  await clock.advance(1_000)
  const before = new Date(clock.now()).toISOString()
  await clock.advance(1_000)
  await call('POST', '/api/certificate', { domain: 'new.example.com' }, WEB)
  t.match((await call('POST', ROUTE, { key: 'web', before })).body, { revoked: 6, accounts: 1 })
  t.match((await call('POST', ROUTE, { key: 'web', before })).body, { revoked: 0, accounts: 0 })
  t.match((await call('POST', ROUTE, { key: 'web', dryRun: true })).body, { revoked: 1 })
})

t.test('a key that is gone or renamed, and a name that no key has', async (t) => {
  expectWarnings(t, 'ACME accounts have ended with the API keys that have bound them')
  const running = await stage(t)
  const { call, config } = running
  const unknown = await call('POST', ROUTE, { key: 'wbe' })
  t.match(unknown, {
    status: 404,
    body: { code: 'CERT_NOT_FOUND', detail: 'no API key is called wbe; did you mean web?' },
  })
  t.match((await call('POST', ROUTE, { key: 'zzzzzz' })).body, {
    detail: 'no API key is called zzzzzz',
  })
  const setKeys = (keys: readonly object[]) =>
    reload(running, { ...config, auth: { psk: { keys } } } as typeof config)
  const renamed = { name: 'www', formerNames: ['web'], key: 'a-key-of-the-web-servers' }
  await setKeys([...PSK.keys.filter(({ name }) => name !== 'web'), renamed])
  t.match((await call('POST', ROUTE, { key: 'web', dryRun: true })).body, {
    key: 'www',
    revoked: 6,
  })
  await setKeys(PSK.keys.filter(({ name }) => name !== 'web'))
  t.match((await call('POST', ROUTE, { key: 'www' })).body, {
    ...{ accepted: { length: 0 }, accounts: 1, revoked: 6 },
  })
})

t.test('only an operator who may revoke', async (t) => {
  const { call, revoked } = await stage(t)
  for (const headers of [WEB, OTHER])
    t.match(await call('POST', ROUTE, { key: 'web' }, headers), {
      status: 403,
      body: { code: 'CERT_NAME_NOT_ALLOWED' },
    })
  t.strictSame(await revoked(), {})
})

/** A store whose n-th write of these fails, before or after it is done. */
const WRITES = ['abandonOrders', 'compromise', 'revoke'] as const
function failing(n: number, isDone: boolean): typeof openStore {
  let count = 0
  const guard =
    (call: (...args: never[]) => Promise<unknown>) =>
    async (...args: never[]) => {
      const isFailing = ++count === n
      if (isFailing && !isDone) throw new StoreError('STORE_UNAVAILABLE', 'it is away')
      const result = await call(...args)
      if (isFailing) throw new StoreError('STORE_UNAVAILABLE', 'the answer was lost')
      return result
    }
  return async (options) => {
    const store = await openStore(options)
    for (const name of WRITES) Object.assign(store, { [name]: guard(store[name].bind(store)) })
    const { renewExternalAccount } = store.acme
    Object.assign(store.acme, { renewExternalAccount: guard(renewExternalAccount) })
    return store as Store
  }
}

t.test('stopped at any step and run again, it ends in the same state', async (t) => {
  expectWarnings(t, 'STORE_UNAVAILABLE')
  let steps = 0
  for (const isDone of [false, true])
    for (let n = 1, isStopped = true; isStopped; n += 1) {
      const { call, made, revoked, client } = await stage(t, { openStore: failing(n, isDone) })
      const first = await call('POST', ROUTE, { key: 'web' })
      isStopped = first.status === 503
      if (!isStopped) break
      steps += 1
      const again = await call('POST', ROUTE, { key: 'web' })
      t.equal(again.status, 200)
      t.strictSame(await revoked(), reasonsOf(made), `${n} ${isDone}`)
      t.equal((await client.order(['d.example.com'])).status, 403)
      t.match((await call('POST', ROUTE, { key: 'web' })).body, { revoked: 0, accounts: 0 })
    }
  t.ok(steps >= 12, `${steps} steps`)
})

t.test('ten thousand certificates', async (t) => {
  const { call, service } = await start(t, { auth: { psk: PSK } })
  const { store } = service
  const add = (n: number) =>
    store.addCertificate(
      newCertificate({
        requestKey: `l${n}`,
        names: [`n${n % 2_500}.example.com`],
        askedBy: 'psk:web',
        sealedKey: null,
        csr: n % 2 ? Buffer.from('csr') : null,
        notBefore: NOW,
        notAfter: NOW + DAY + (n % 7),
      }),
      newAudit(),
    )
  await Promise.all(Array.from({ length: 10_000 }, (_, n) => add(n)))
  t.match((await call('POST', ROUTE, { key: 'web', dryRun: true })).body, {
    ...{ revoked: 10_000, certificates: { length: 1_000 } },
  })
  const sizes: number[] = []
  const { revoke } = store
  store.revoke = (ids, ...rest) => {
    sizes.push(ids.length)
    return revoke.call(store, ids, ...rest)
  }
  t.match((await call('POST', ROUTE, { key: 'web' })).body, { revoked: 10_000 })
  t.ok(sizes.every((size) => size <= 100))
  t.match((await call('POST', ROUTE, { key: 'web' })).body, { revoked: 0 })
})

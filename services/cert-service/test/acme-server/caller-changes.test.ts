import { hash, X509Certificate } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { type AcmeAnswer, AcmeClient } from '../helpers/acme-client.ts'
import { PSK, startAcme } from '../helpers/acme-service.ts'
import { DAY, reload, start } from '../helpers/app.ts'

const UNAUTHORIZED = { status: 403, body: { type: 'urn:ietf:params:acme:error:unauthorized' } }
const ENDED = 'ACME accounts have ended with the API keys that have bound them'
const VALUES = {
  first: 'a-key-of-the-web-servers',
  second: 'another-key-of-the-web-servers',
  third: 'one-more-key-of-the-web-servers',
}
type Value = keyof typeof VALUES
const OTHERS = PSK.keys.filter(({ name }) => name !== 'web')
const by = (value: Value) => ({ authorization: `APIKey ${VALUES[value]}` })
const idOf = (client: AcmeClient) => client.url.split('/').at(-1) ?? ''

/** A service whose caller `web` has these values, the newest first. */
async function stage(t: Test, changes: Parameters<typeof startAcme>[1] = {}) {
  const running = await startAcme(t, changes)
  const { folder, config, service, call } = running
  const rowOf = (values: readonly Value[], more: object = {}) => ({
    name: 'web',
    domains: ['*.example.com'],
    keyFiles: values.map((value) => {
      const file = join(folder, value)
      writeFileSync(file, VALUES[value])
      return file
    }),
    ...more,
  })
  const configOf = (...rows: readonly object[]) => {
    const keys = [...OTHERS, ...rows] as typeof PSK.keys
    return { ...config, auth: { ...config.auth, psk: { keys } } }
  }
  const change = async (...rows: readonly object[]) => {
    await reload(running, configOf(...rows))
  }
  const audit = async (action: string) =>
    (await service.store.listAudit({ limit: 1_000 })).filter((row) => row.action === action)
  const statuses = async () => {
    const { accounts } = (await call('GET', '/api/acme/accounts')).body
    return Object.fromEntries(
      accounts.map(({ id, status }: { id: string; status: string }) => [id, status]),
    )
  }
  return { ...running, rowOf, configOf, change, audit, statuses }
}

const works = async (client: AcmeClient) =>
  (await client.order([`a${Math.random()}.example.com`])).status === 201

t.test('story 8: a key leaked, and its value is replaced', async (t) => {
  expectWarnings(t, ENDED)
  const running = await stage(t)
  const { app, client: own, clientOf, keyOf, call, change, rowOf, service, clock } = running
  const leaked = await keyOf('web')
  const thief = await clientOf('web', { ip: '198.51.100.7' })
  const taken = await thief.obtain(['stolen.example.com'])
  const mine = await own.obtain(['app.example.com'])
  clock.advance(1_000)
  await change(rowOf(['second']))

  const refused = await thief.order(['b.example.com'])
  t.match(refused, UNAUTHORIZED)
  t.match(refused.body.detail, /acme-accounts --adopt web/)
  t.match(await own.order(['b.example.com']), UNAUTHORIZED, 'nobody can tell them apart')
  t.match(await thief.post(thief.url), UNAUTHORIZED)
  t.match(await thief.register(), UNAUTHORIZED)
  t.match(await thief.register(undefined, { onlyReturnExisting: true }), UNAUTHORIZED)
  t.match(await thief.register(leaked), UNAUTHORIZED, 'the ACME key ended with the value')
  t.match(await new AcmeClient(app).register(leaked), UNAUTHORIZED)
  t.match(await running.statuses(), { [idOf(own)]: 'unbound', [idOf(thief)]: 'unbound' })
  t.match(await running.audit('acme-account-end'), [
    { actor: 'system', detail: 'of web, 2 in all: the API key that has bound them is gone' },
  ])
  t.equal(running.logged.filter((line) => line.includes(ENDED)).length, 1)
  t.match(
    running.logged.find((line) => line.includes(ENDED)),
    /"accounts":2/,
  )

  const adopt = (body: object, headers: object = {}) =>
    call('POST', '/api/acme/accounts/adopt', body, headers)
  t.match(await adopt({ caller: 'web' }, { authorization: 'APIKey a-key-of-somebody-else' }), {
    status: 404,
    body: { code: 'CERT_NOT_FOUND' },
  })
  t.match(await adopt({ caller: 'web', ids: [idOf(own), 'nobody'] }), {
    status: 404,
    body: { code: 'CERT_NOT_FOUND' },
  })
  t.match(await adopt({ caller: 'web', ids: [idOf(own)] }), { status: 200, body: { adopted: 1 } })
  t.ok(await works(own), 'as it is')
  t.notOk(await works(thief))
  t.match(
    await running.audit('acme-account-adopt'),
    [{ actor: 'psk:default', account: idOf(own), detail: 'of web' }].map((row) => ({
      ...row,
      actor: String,
    })),
  )

  const revoked = await call('POST', `/api/acme/accounts/${idOf(thief)}/revoke`, {
    reason: 'privilegeWithdrawn',
  })
  t.match(revoked, { status: 200, body: { account: idOf(thief), reason: 'privilegeWithdrawn' } })
  t.equal(revoked.body.serialNumbers.length, 1)
  const [record] = await service.store.listHistory('stolen.example.com')
  t.match(record, { revocationReason: 'privilegeWithdrawn' })
  t.match(await service.store.listHistory('app.example.com'), [{ revokedAt: null }])
  t.match(await running.audit('acme-account-end'), [{ account: idOf(thief), count: 1 }, {}])
  t.ok(taken.length > 0 && mine.length > 0)
})

t.test('story 9: an API key is rotated with two values', async (t) => {
  expectWarnings(t, ENDED)
  const { app, client, keyOf, call, change, rowOf } = await stage(t)
  await change(rowOf(['second', 'first']))
  t.ok(await works(client), 'nothing ends')
  const askedBy = async (value: Value) =>
    (await call('POST', '/api/acme/key', {}, by(value))).body as Awaited<ReturnType<typeof keyOf>>
  const [old, next] = [await askedBy('first'), await askedBy('second')]
  t.equal(old.kid, next.kid)
  t.not(old.hmacKey, next.hmacKey)
  t.strictSame(await keyOf('web'), next, 'an operator gets that of the newest')
  const [byOld, byNext] = [new AcmeClient(app), new AcmeClient(app)]
  t.equal((await byOld.register(old)).status, 201)
  t.equal((await byNext.register(next)).status, 201)
  const adopt = async (value: Value) =>
    (await call('POST', '/api/acme/accounts/adopt', {}, by(value))).body.adopted
  t.equal(await adopt('first'), 0, 'an old value takes nothing over from the newest')

  await change(rowOf(['second']))
  t.notOk(await works(client), 'it was bound by the old value')
  t.ok(await works(byNext))
  t.match(await byOld.register(old), UNAUTHORIZED)
  t.equal((await byOld.register(next)).status, 201, 'it is bound again, as it is')
  t.ok(await works(byOld))
  t.equal(await adopt('second'), 1)
  t.ok(await works(client))
})

t.test('a key that may not revoke or issue ends and takes over no account of others', async (t) => {
  const reader = { name: 'reader', key: 'a-key-that-may-only-read', rights: ['read'] }
  const { call, client, service } = await startAcme(t, {
    auth: { psk: { keys: [...PSK.keys, reader] } },
  })
  const asReader = { authorization: 'APIKey a-key-that-may-only-read' }
  await client.obtain(['app.example.com'])
  const cases: [
    method: 'POST' | 'DELETE',
    path: string,
    body: object | undefined,
    status: number,
  ][] = [
    ['POST', `accounts/${idOf(client)}/revoke`, { reason: 'keyCompromise' }, 404],
    ['DELETE', `accounts/${idOf(client)}`, undefined, 404],
    ['POST', 'accounts/adopt', { caller: 'web' }, 404],
    ['POST', 'key', { caller: 'web' }, 404],
  ]
  for (const [method, path, body, status] of cases)
    t.equal((await call(method, `/api/acme/${path}`, body, asReader)).status, status, path)
  t.ok(await works(client))
  t.match(await service.store.listHistory('app.example.com'), [{ revokedAt: null }])
})

t.test('an old value renews a key that ends with it', async (t) => {
  expectWarnings(t, ENDED)
  const { app, call, change, rowOf } = await stage(t)
  await change(rowOf(['second', 'first']))
  const { body } = await call('POST', '/api/acme/key', { renew: true }, by('first'))
  await change(rowOf(['second']))
  t.match(await new AcmeClient(app).register(body), UNAUTHORIZED)
})

t.test('story 10: a caller is renamed', async (t) => {
  const { app, client, clientOf, keyOf, service, change, rowOf } = await stage(t, {
    limits: { perCaller: { names: 3 } },
  })
  const { store } = service
  await client.obtain(['a.example.com', 'b.example.com'])
  const id = idOf(client)
  const key = await keyOf('web', { renew: true, keep: [id] })
  t.equal(key.kid, 'web-2')
  const renamed = rowOf(['first'], { name: 'edge', formerNames: ['web'] })
  for (const row of [renamed, renamed, rowOf(['first'], { name: 'edge' })]) {
    await change(row)
    t.ok(await works(client))
    t.match(await store.acme.findAccount(id), { caller: 'edge', status: 'valid' })
    t.match(await keyOf('edge'), { kid: 'edge-2' }, 'it was renewed')
    t.match(await store.countNames('psk:edge', service.clock.now()), { count: 2 })
    t.match(await store.countNames('psk:web', service.clock.now()), { count: 0 })
  }
  const many = await client.order(['c.example.com', 'd.example.com'])
  const limited = await client.finalize(many, ['c.example.com', 'd.example.com'])
  t.match(limited, { status: 429 }, 'the names that it has count')
  await change(renamed)
  const former = new AcmeClient(app)
  t.equal((await former.register(key)).status, 201, 'the key of its former name')
  t.match(await store.acme.findAccount(idOf(former)), { caller: 'edge' })
  t.match(await new AcmeClient(app).register({ ...key, kid: 'web-1' }), UNAUTHORIZED)
  await clientOf('edge')
  await keyOf('edge', { renew: true })
  t.match(await new AcmeClient(app).register(key), UNAUTHORIZED, 'renewing it ends that too')
  t.notOk(await works(client))
})

t.test('what a caller has used counts for its new name', async (t) => {
  const { service, change, rowOf } = await stage(t)
  const { store, clock } = service
  const until = clock.now() + DAY
  const share = (actor: string) => `share domain https://ca.example/dir example.com ${actor}`
  const untilOf = (key: string) => store.changeUsage([key], (usage) => usage.until(key))
  await store.changeUsage([share('psk:web'), share('psk:WEB')], (usage) => {
    usage.set(share('psk:web'), until)
    usage.set(share('psk:WEB'), until + 1)
  })
  await change(rowOf(['first'], { name: 'edge', formerNames: ['web'] }))
  t.equal(await untilOf(share('psk:edge')), until)
})

t.test('replicas with other configurations do not end accounts', async (t) => {
  expectWarnings(t, ENDED)
  const { client, service, change, rowOf } = await stage(t)
  const [former, present] = [
    rowOf(['first']),
    rowOf(['first'], { name: 'edge', formerNames: ['web'] }),
  ]
  await change(present)
  await change(former)
  t.match(await service.store.acme.findAccount(idOf(client)), { caller: 'edge' })
  t.ok(await works(client), 'one that has the old name knows it by the value')
  await change(rowOf(['second']))
  t.notOk(await works(client), 'for one that does not have the value')
  await change(former)
  t.ok(await works(client), 'and for no other')
})

t.test('a name that goes without a former name takes its accounts to no other value', async (t) => {
  expectWarnings(t, ENDED)
  const { client, keyOf, change, rowOf } = await stage(t)
  await change(rowOf(['first'], { name: 'edge' }))
  t.ok(await works(client), 'it hangs on the value')
  await keyOf('edge', { renew: true })
  t.notOk(await works(client), 'and ends with the key of whoever has it')
})

t.test('story 11: a caller is removed, and back after a week', async (t) => {
  expectWarnings(t, ENDED)
  const { client, clock, change, rowOf, audit } = await stage(t)
  await client.obtain(['app.example.com'])
  await change()
  const refused = await client.order(['a.example.com'])
  t.match(refused, UNAUTHORIZED)
  t.match(refused.body.detail, /web is not configured any more/)
  await change()
  t.equal((await audit('acme-account-end')).length, 1, 'it is written down once')
  clock.advance(7 * DAY)
  await change(rowOf(['first']))
  t.ok(await works(client))
  await change()
  t.match(await audit('acme-account-end'), [{ count: 3 }], 'and how often it was found')
})

t.test('a service that starts tells which accounts have ended', async (t) => {
  expectWarnings(t, ENDED)
  const { client, close, folder } = await stage(t)
  await client.obtain(['app.example.com'])
  await close()
  for (const _ of [1, 2]) {
    const again = await start(t, { auth: { psk: { keys: OTHERS } } }, { folder })
    t.equal(again.logged.filter((line) => line.includes(ENDED)).length, 1)
    const rows = await again.service.store.listAudit({ limit: 100 })
    t.equal(rows.filter(({ action }) => action === 'acme-account-end').length, 1)
    await again.close()
  }
})

t.test('what is done with keys and accounts is in the audit trail', async (t) => {
  const { app, keyOf, call, clock, service } = await stage(t)
  const key = await keyOf('web')
  await keyOf('web')
  const client = new AcmeClient(app, { ip: '10.1.2.3' })
  await client.register(key)
  const id = idOf(client)
  await client.obtain(['app.example.com'])
  await client.post(client.url, { status: 'deactivated' })
  clock.advance(1_000)
  await keyOf('web', { renew: true })
  await call('DELETE', `/api/acme/accounts/${id}`)
  const rows = (await service.store.listAudit({ limit: 100 })).map(
    ({ action, actor, account, count, detail, remoteAddress }) =>
      [action, actor, account === id ? 'its' : account && 'other', count, detail, remoteAddress]
        .filter((cell) => cell !== undefined && cell !== null)
        .join(' '),
  )
  t.strictSame(rows.toReversed(), [
    'acme-key psk:operator 3 of web 127.0.0.1',
    'acme-account psk:web other 1 127.0.0.1',
    'acme-account psk:web its 1 10.1.2.3',
    'issue psk:web its 1 10.1.2.3',
    'acme-account-end psk:web its 1 10.1.2.3',
    'acme-key psk:operator 1 of web, renewed 127.0.0.1',
    'acme-account-end psk:operator 1 of web, renewed 127.0.0.1',
  ])
  t.notMatch(JSON.stringify(rows), key.hmacKey)
})

t.test('devices without a caller are counted once an hour', async (t) => {
  const open = { acme: { open: ['10.0.0.0/8'] }, rules: [{ acme: 'open', names: ['*.lan'] }] }
  const { app, audit } = await stage(t, open)
  for (const ip of ['10.0.0.1', '10.0.0.2', '10.0.0.3'])
    t.equal((await new AcmeClient(app, { ip }).register()).status, 201)
  const devices = (await audit('acme-account')).filter(({ actor }) => actor.startsWith('device:'))
  t.match(devices, [{ actor: 'device:10.0.0.1', count: 3 }])
})

t.test('an account is ended with all that it has ordered', async (t) => {
  const { client, clientOf, call, service, clock } = await stage(t)
  const other = await clientOf('other')
  await other.obtain(['a.example.org'])
  for (const name of ['a.example.com', 'a.example.com', 'b.example.com'])
    await client.obtain([name])
  const revoke = (id: string, body: object, headers: object = {}) =>
    call('POST', `/api/acme/accounts/${id}/revoke`, body, headers)
  t.match(await revoke(idOf(other), {}, by('first')), {
    status: 404,
    body: { code: 'CERT_NOT_FOUND' },
  })
  t.match(await revoke('nobody', {}), { status: 404 })
  const own = await revoke(idOf(client), { reason: 'keyCompromise' }, by('first'))
  t.equal(own.body.serialNumbers.length, 3, 'replaced or not')
  t.notOk(await works(client))
  for (const name of ['a.example.com', 'b.example.com'])
    for (const { revocationReason } of await service.store.listHistory(name))
      t.equal(revocationReason, 'keyCompromise')
  const [record] = await service.store.listHistory('b.example.com')
  const { certificate } = (await service.store.findBySerial('b.example.com', record!.serialNumber))!
  const spki = new X509Certificate(certificate).publicKey.export({ type: 'spki', format: 'der' })
  t.equal(await service.store.isCompromised(hash('sha256', spki)), false, 'a caller refuses no key')
  t.match(
    await revoke(idOf(client), {}),
    { status: 200, body: { serialNumbers: { length: 0 } } },
    'again',
  )
  clock.advance(1)
  t.match(await revoke(idOf(other), { reason: 'keyCompromise' }), { status: 200 })
  t.match(await service.store.listHistory('a.example.org'), [{ revocationReason: 'keyCompromise' }])
})

t.test('a name that nobody may revoke stays valid when an operator ends an account', async (t) => {
  const running = await stage(t, {
    rules: [{ effect: 'deny', names: ['bank.example.com'], rights: ['revoke'] }],
  })
  const { client, clientOf, call, service } = running
  const byCaller = await clientOf('web')
  await byCaller.obtain(['bank.example.com'])
  for (const name of ['app.example.com', 'bank.example.com']) await client.obtain([name])
  const revoke = (one: AcmeClient, headers: object = {}) =>
    call('POST', `/api/acme/accounts/${idOf(one)}/revoke`, { reason: 'keyCompromise' }, headers)
  t.equal((await revoke(client)).body.serialNumbers.length, 1)
  t.match(await service.store.listHistory('bank.example.com'), [
    { revokedAt: null },
    { revokedAt: null },
  ])
  t.match(await service.store.listHistory('app.example.com'), [{ revokedAt: Number }])
  const own = await revoke(byCaller, by('first'))
  t.equal(own.body.serialNumbers.length, 1, 'its caller may, as by ACME')
})

t.test('keys of ACME are for API keys alone', async (t) => {
  const { call } = await stage(t)
  for (const headers of [{ authorization: 'Bearer a.b.c' }, { authorization: '' }]) {
    const answer: Pick<AcmeAnswer, 'status'> = await call('POST', '/api/acme/key', {}, headers)
    t.equal(answer.status, 401)
  }
})

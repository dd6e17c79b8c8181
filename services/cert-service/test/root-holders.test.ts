import { hash } from 'node:crypto'
import t, { type Test } from 'tap'
import { expectWarnings, quietLog } from '../../../scripts/test/quiet.ts'
import { buildPlainApp } from '../src/app.ts'
import type {} from '../src/root-holders.ts'
import { DAY, KEY, NOW, type Running, settle, start } from './helpers/app.ts'

const HOUR = 3_600_000
const MINUTE = 60_000
const idOf = (root: Uint8Array) => hash('sha256', root).slice(0, 16)
const LIST = '/api/certificates'

/** A service that has begun to replace its root. */
async function rolling(t: Test) {
  const running = await start(t)
  await running.call('POST', '/api/ca/roll', { action: 'begin' })
  return { ...running, ids: running.service.ca.roots().map(idOf) }
}

async function holders({ app, service }: Pick<Running, 'app' | 'service'>) {
  await settle()
  await app.rootHolders.flush()
  return service.store.listRootHolders(0)
}

t.test('the roots that a caller names are kept, once an hour or when they change', async (t) => {
  const { call, clock, ids, ...running } = await rolling(t)
  const [a = '', b = ''] = ids
  const ask = (roots: string) => call('GET', LIST, undefined, { 'gatehouse-roots': roots })
  await ask(a)
  const web = { caller: 'psk:default', address: '127.0.0.1' }
  t.match(await holders(running), [{ ...web, roots: [a], seenAt: NOW }])
  await clock.advance(HOUR - MINUTE)
  await ask(a)
  t.match(await holders(running), [{ seenAt: NOW }], 'it says nothing new')
  await ask(`${a},${b}`)
  t.match(await holders(running), [{ ...web, roots: [a, b], seenAt: NOW + HOUR - MINUTE }])
  await clock.advance(HOUR)
  await ask(`${a},${b}`)
  t.match(await holders(running), [{ roots: [a, b], seenAt: NOW + 2 * HOUR - MINUTE }])
})

t.test('neither who is refused is kept nor what nobody of ours sends', async (t) => {
  const { call, app, ids, ...running } = await rolling(t)
  const [a = ''] = ids
  await app.inject({ url: LIST, headers: { 'gatehouse-roots': a } })
  const wrong = { authorization: 'APIKey another', 'gatehouse-roots': a }
  t.equal((await app.inject({ url: LIST, headers: wrong })).statusCode, 401)
  for (const roots of [
    ...['', ',', 'x', a.toUpperCase(), `${a}0`, `${a},`, `${a}, ${a}`, '\u00ff'.repeat(16)],
    Array.from({ length: 65 }, () => a).join(),
    '0'.repeat(8_000),
  ])
    await call('GET', LIST, undefined, { 'gatehouse-roots': roots })
  await call('GET', LIST)
  t.same(await holders({ app, ...running }), [])
})

t.test('nothing is kept while there is one root', async (t) => {
  const running = await start(t)
  const { call, app, clock, service } = running
  const ask = async () => {
    const roots = service.ca.roots().map(idOf).join()
    await call('GET', LIST, undefined, { 'gatehouse-roots': roots })
    await app.inject('/ca/root.pem')
    return (await holders(running)).length
  }
  t.equal(await ask(), 0)
  await call('POST', '/api/ca/roll', { action: 'begin' })
  t.equal(await ask(), 2)
  await call('POST', '/api/ca/roll', { action: 'use', now: true })
  await call('POST', '/api/ca/roll', { action: 'finish', force: true })
  await clock.advance(2 * HOUR)
  const before = await holders(running)
  await ask()
  t.same(await holders(running), before)
})

t.test('the addresses that have fetched the bundle', async (t) => {
  const { app, ids, ...running } = await rolling(t)
  const fetched = { caller: '', roots: ids, seenAt: NOW }
  await app.inject({ url: '/ca/root.pem', remoteAddress: '10.0.0.1' })
  const { etag } = (await app.inject({ url: '/ca/root.pem', remoteAddress: '10.0.0.2' })).headers
  const headers = { 'if-none-match': String(etag) }
  await app.inject({ url: '/ca/root.pem', remoteAddress: '10.0.0.3', headers })
  await app.inject({ url: `/ca/root.pem?only=${'ab'.repeat(32)}`, remoteAddress: '10.0.0.4' })
  await app.inject({ url: '/ca/intermediate.pem', remoteAddress: '10.0.0.5' })
  const said = { 'gatehouse-roots': ids.join() }
  await app.inject({ url: '/ca/root.pem', remoteAddress: '10.0.0.7', headers: said })
  const plain = await buildPlainApp(app, quietLog(t))
  await plain.inject({ url: '/ca/root.pem', remoteAddress: '10.0.0.6' })
  await plain.close()
  const addresses = ['10.0.0.1', '10.0.0.2', '10.0.0.3', '10.0.0.6']
  t.same(
    await holders({ app, ...running }),
    addresses.map((address) => ({ ...fetched, address })),
  )
})

t.test('what many addresses fetch at once is bounded', async (t) => {
  const { app, call, ids, ...running } = await rolling(t)
  const fetchFrom = (first: number) => {
    for (let n = first; n < first + 1_200; n += 1)
      app.rootHolders.noteFetch(`10.0.${n >> 8}.${n & 255}`)
  }
  fetchFrom(0)
  await call('GET', LIST, undefined, { 'gatehouse-roots': ids[0] })
  const written = await holders({ app, ...running })
  t.equal(written.length, 501)
  t.ok(
    written.some(({ caller }) => caller === 'psk:default'),
    'a caller is noted nevertheless',
  )
  fetchFrom(500)
  t.equal((await holders({ app, ...running })).length, 1_001, 'who comes again is noted then')
  fetchFrom(1_500)
  t.equal((await holders({ app, ...running })).length, 1_001, 'the last 1,000 stay')
})

t.test(
  'a store that cannot be written loses it with a warning, and closing stores it',
  async (t) => {
    expectWarnings(t, 'it was not stored who trusts which root')
    const { app, service, close, logged } = await rolling(t)
    app.rootHolders.noteFetch('10.0.0.1')
    const { addRootHolders } = service.store
    let stored = 0
    service.store.addRootHolders = async (holders) => {
      stored += holders.length
      throw new Error('for a test')
    }
    await close()
    service.store.addRootHolders = addRootHolders
    t.equal(stored, 1)
    t.match(logged.join(), 'it was not stored who trusts which root')
  },
)

t.test('a roll says who lacks the new root, and is not finished while somebody does', async (t) => {
  const running = await start(t)
  const { call, app, clock, service } = running
  const roll = (action: string, more: object = {}) =>
    call('POST', '/api/ca/roll', { action, ...more })
  const say = (roots: readonly string[], remoteAddress: string) =>
    app.inject({
      ...{ url: LIST, remoteAddress },
      headers: { authorization: `APIKey ${KEY}`, 'gatehouse-roots': roots.join() },
    })
  const [a = ''] = service.ca.roots().map(idOf)
  await say([a], '10.0.0.1')
  await app.inject({ url: '/ca/root.pem', remoteAddress: '10.0.0.1' })
  t.match((await roll('begin')).body, {
    ...{ stage: 'begun', lacking: { length: 0 }, fetchedFrom: { length: 0 } },
  })
  const ids = service.ca.roots().map(idOf)
  await say([a], '10.0.0.1')
  await say(ids, '10.0.0.2')
  await app.inject({ url: '/ca/root.pem', remoteAddress: '10.0.0.3' })
  t.match((await call('GET', '/api/ca/roll')).body, {
    lacking: ['psk:default (10.0.0.1, last seen 2030-01-01T00:00:00Z)'],
    fetchedFrom: ['10.0.0.3'],
  })
  await clock.advance(14 * DAY)
  await roll('use')
  await clock.advance(31 * DAY)
  await say([a], '10.0.0.1')
  t.match(await roll('finish'), {
    status: 409,
    body: {
      code: 'CERT_ROLL_REFUSED',
      detail: /lack the new root: psk:default \(10\.0\.0\.1, /,
    },
  })
  await say([a], '10.0.0.4')
  await say(ids, '10.0.0.1')
  t.match(await roll('finish'), { status: 409, body: { detail: /\(10\.0\.0\.4, / } })
  await clock.advance(30 * DAY)
  t.match((await roll('finish')).body, { stage: 'finished', lacking: { length: 0 } }, 'it is gone')
})

t.test('callers and addresses are told to operators alone', async (t) => {
  const keys = [{ name: 'web', key: 'a-key-for-some-names-only', domains: ['a.test'] }]
  const { call } = await start(t, { auth: { psk: { keys } } })
  const headers = { authorization: 'APIKey a-key-for-some-names-only' }
  t.match(await call('GET', '/api/ca/roll', undefined, headers), { status: 403 })
})

import { hash } from 'node:crypto'
import { createRoot } from '@gatehouse/pki'
import t, { type Test } from 'tap'
import { expectWarnings, quietLog } from '../../../scripts/test/quiet.ts'
import { buildPlainApp } from '../src/app.ts'
import type {} from '../src/root-holders.ts'
import { NOW, type Running, settle, start } from './helpers/app.ts'

const HOUR = 3_600_000
const MINUTE = 60_000
const idOf = (root: Uint8Array) => hash('sha256', root).slice(0, 16)
const LIST = '/api/certificates'

/** A service with a second root: while it has both, one takes the place of the other. */
async function rolling(t: Test, changes: object = {}) {
  const running = await start(t, changes)
  const { ca } = running.service
  const [first] = ca.roots() as [Uint8Array]
  const { certificate: second } = await createRoot({ commonName: 'Second', now: NOW })
  const setRoots = (...roots: Uint8Array[]) => {
    ca.roots = () => roots
  }
  setRoots(first, second)
  return { ...running, setRoots, first, second, ids: [first, second].map(idOf) }
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
  const { call, app, setRoots, first, second, ids, ...running } = await rolling(t)
  const ask = async () => {
    await call('GET', LIST, undefined, { 'gatehouse-roots': ids[0] })
    await app.inject('/ca/root.pem')
  }
  setRoots(first)
  await ask()
  t.same(await holders({ app, ...running }), [])
  setRoots(second, first)
  await ask()
  t.equal((await holders({ app, ...running })).length, 2)
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
  const { app, ...running } = await rolling(t)
  for (let n = 0; n < 1_500; n += 1) app.rootHolders.noteFetch(`10.0.${n >> 8}.${n & 255}`)
  t.equal((await holders({ app, ...running })).length, 1_000)
  app.rootHolders.noteFetch('10.0.5.200')
  t.match(await holders({ app, ...running }), { length: 1_000 }, 'who comes again is noted then')
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

import { generateKeyPairSync, X509Certificate } from 'node:crypto'
import { request } from 'node:http'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { Ca, Issuer } from '@gatehouse/issuance/issuers'
import { fromPem } from '@gatehouse/pki'
import { StoreError } from '@gatehouse/store'
import t from 'tap'
import type { IssuerRequest } from '../../../../packages/issuance/src/issuers/issuer.ts'
import { makeCsr } from '../../../../packages/issuance/test/helpers/csr.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { DAY, KEY, type Running, settle, start } from '../helpers/app.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'CERT_ISSUE_FAILED', 'a certificate could not be issued')

const WAIT = 20_000
const _MINUTE = 60_000

/** An issuer that answers when told to. */
function slowIssuer() {
  let ca: Ca
  const asked: { request: IssuerRequest; end(): void; fail(error: Error): void }[] = []
  const issuer: Issuer = {
    name: 'slow',
    permits: () => true,
    issue(request, io) {
      io.report('asking')
      return new Promise((resolve, reject) => {
        asked.push({ request, end: () => resolve(ca.issue(request)), fail: reject })
      })
    },
  }
  return {
    asked,
    deps: {
      issuer(own: Ca) {
        ca = own
        return issuer
      },
    },
  }
}

const post = ({ call }: Running, body: object = { domain: 'a.test' }) =>
  call('POST', '/api/certificate', body)

t.test('the names of a CSR are asked for as well', async (t) => {
  const running = await start(t, {
    auth: {
      psk: { keys: [{ name: 'one', key: 'a-key-that-may-do-everything', domains: ['a.test'] }] },
    },
  })
  const csr = makeCsr({ names: ['b.test'] })
  t.match(await post(running, { domain: 'a.test', csr }), {
    status: 403,
    body: { code: 'CERT_NAME_NOT_ALLOWED', detail: /b\.test/ },
  })
})

t.test('issuing that outlasts the wait gives an order, and then the certificate', async (t) => {
  const { asked, deps } = slowIssuer()
  const running = await start(t, {}, deps)
  const { call, clock } = running
  const answer = post(running)
  await settle(() => asked.length > 0)
  await clock.advance(WAIT)
  const { status, headers, body } = await answer
  t.match(
    { status, body },
    { status: 202, body: { status: 'pending', step: 'asking', since: '2030-01-01T00:00:00Z' } },
  )
  const url = `/api/orders/${body.id}`
  t.equal(headers.location, url)
  t.ok(Number(headers['retry-after']) > 0)
  t.match((await call('GET', url)).body, { id: body.id, status: 'pending', names: ['a.test'] })

  const second = post(running)
  await settle()
  t.equal(asked.length, 1, 'who asks meanwhile joins')
  asked[0]!.end()
  t.equal((await second).status, 200)
  t.match((await call('GET', url)).body, { status: 'done' })
  t.match((await post(running)).body, { cached: true })
})

t.test('a caller that hangs up loses nothing', async (t) => {
  const { asked, deps } = slowIssuer()
  const running = await start(t, {}, deps)
  const url = await running.app.listen({ port: 0 })
  const client = request(`${url}/api/certificate`, {
    method: 'POST',
    headers: { authorization: `APIKey ${KEY}`, 'content-type': 'application/json' },
  })
  client.on('error', () => {})
  client.end('{"domain":"a.test"}')
  await settle(() => asked.length > 0)
  client.destroy()
  await settle()
  asked[0]!.end()
  await settle()
  t.match((await post(running)).body, { cached: true })
})

t.test('a certificate withdrawn while it is being issued stays withdrawn', async (t) => {
  const { asked, deps } = slowIssuer()
  const running = await start(t, {}, deps)
  const answer = post(running)
  await settle(() => asked.length > 0)
  const deletion = running.call('DELETE', '/api/certificate/a.test')
  await settle()
  asked[0]!.end()
  t.equal((await answer).status, 200)
  t.equal((await deletion).status, 204)
  t.equal((await running.call('GET', '/api/certificate/a.test')).status, 404)
})

t.test('an order is hidden from callers that may not read its names', async (t) => {
  const { asked, deps } = slowIssuer()
  const keys = [
    { name: 'all', key: 'a-key-that-may-do-everything' },
    { name: 'b', key: 'a-key-that-may-have-b', domains: ['b.test'] },
  ]
  const running = await start(t, { auth: { psk: { keys } } }, deps)
  const answer = post(running)
  await settle(() => asked.length > 0)
  await running.clock.advance(WAIT)
  const { id } = (await answer).body
  const url = `/api/orders/${id}`
  const headers = { authorization: 'APIKey a-key-that-may-have-b' }
  t.match(await running.call('GET', url, undefined, headers), {
    status: 404,
    body: { code: 'CERT_ORDER_NOT_FOUND' },
  })
  asked[0]!.end()
})

t.test('a failing store is a 503 with Retry-After and leaves no failure behind', async (t) => {
  expectWarnings(t, 'STORE_UNAVAILABLE')
  const running = await start(t)
  const { store } = running.service
  const { addCertificate } = store
  Object.assign(store, {
    addCertificate: async () => {
      throw new StoreError('STORE_UNAVAILABLE', 'the disk is full', { retryAfter: 5 })
    },
  })
  t.match(await post(running), {
    status: 503,
    headers: { 'retry-after': '5' },
    body: { code: 'STORE_UNAVAILABLE' },
  })
  Object.assign(store, { addCertificate })
  t.equal((await post(running)).status, 200)
})

t.test(
  'a CSR that only an older version accepted is renewed, but refused in a new request',
  async (t) => {
    const running = await start(t)
    const { config, clock, call } = running
    const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    const names = ['a.test']
    const first = await post(running, { domain: 'a.test', csr: makeCsr({ pair, names }) })
    t.equal(first.status, 200)
    const old = makeCsr({ pair, names, old: true })
    const db = new DatabaseSync(join(config.storage.path, 'store.db'), { timeout: 5_000 })
    db.prepare('UPDATE certificates SET csr = ?').run(fromPem(old)[0] ?? null)
    db.close()
    await clock.advance(5 * DAY)
    const renewed = await call('POST', '/api/certificate/renew', { domain: 'a.test' })
    t.equal(renewed.status, 200)
    t.not(renewed.body.serialNumber, first.body.serialNumber)
    const { publicKey } = new X509Certificate(renewed.body.certificate)
    t.ok(publicKey.equals(pair.publicKey))
    t.match(await post(running, { domain: 'a.test', csr: old }), { status: 400 })
  },
)

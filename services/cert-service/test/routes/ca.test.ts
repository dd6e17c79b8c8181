import { hash, X509Certificate } from 'node:crypto'
import { toPem } from '@gatehouse/pki'
import t from 'tap'
import { start } from '../helpers/app.ts'

t.test('the roots are one bundle, and each of them has an address of its own', async (t) => {
  const { app, service, call } = await start(t)
  const [first] = service.ca.roots() as [Uint8Array]
  const one = await app.inject('/ca/root.pem')
  t.match(one, { statusCode: 200, body: toPem('CERTIFICATE', first) })

  await call('POST', '/api/ca/roll', { action: 'begin' })
  const [, second] = service.ca.roots() as [Uint8Array, Uint8Array]
  const both = await app.inject('/ca/root.pem')
  t.equal(both.body, toPem('CERTIFICATE', first) + toPem('CERTIFICATE', second))
  t.equal(both.headers['content-type'], 'application/pem-certificate-chain')
  const { fingerprint256 } = new X509Certificate(second)
  for (const only of [hash('sha256', second), fingerprint256, fingerprint256.toLowerCase()]) {
    const answer = await app.inject(`/ca/root.pem?only=${only}`)
    t.match(answer, { statusCode: 200, body: toPem('CERTIFICATE', second) }, only)
    t.notSame(answer.headers.etag, both.headers.etag)
  }
  t.match(await app.inject(`/ca/root.pem?only=${'ab'.repeat(32)}`), {
    statusCode: 404,
    body: /no root with that SHA-256.*"CERT_NOT_FOUND"/,
  })
  for (const only of ['', 'ab', 'zz'.repeat(32), 'ab'.repeat(33), '../root', '%00'])
    t.match(await app.inject(`/ca/root.pem?only=${only}`), { statusCode: 400 }, only)
})

t.test('who has the bundle already is told so', async (t) => {
  const { app, call } = await start(t)
  const { etag } = (await app.inject('/ca/root.pem')).headers
  t.match(etag, /^"[0-9a-f]{64}"$/, 'a strong tag')
  const again = async () =>
    app.inject({ url: '/ca/root.pem', headers: { 'if-none-match': String(etag) } })
  t.match(await again(), { statusCode: 304, body: '', headers: { etag } })
  await call('POST', '/api/ca/roll', { action: 'begin' })
  t.match(await again(), { statusCode: 200 }, 'not once it has another')
})

import { createPrivateKey, X509Certificate } from 'node:crypto'
import { fromPem, toPem } from '@gatehouse/pki'
import fc from 'fast-check'
import t from 'tap'
import { NOW, start } from '../../../services/cert-service/test/helpers/app.ts'
import { type CertificateRequest, readPair, requireUsable } from '../src/certificate.ts'
import { ClientError } from '../src/errors.ts'
import { readNames } from '../src/settings.ts'

const { call } = await start(t)
const { body } = await call('POST', '/api/certificate', { domain: 'a.test' })

t.test('whatever is changed in an answer, only a whole pair comes out of it', (t) => {
  const edit = fc.record({
    at: fc.nat(),
    cut: fc.nat(40),
    put: fc.string({ unit: 'binary', maxLength: 20 }),
  })
  const edited = (text: string, { at, cut, put }: { at: number; cut: number; put: string }) => {
    const from = at % text.length
    return text.slice(0, from) + put + text.slice(from + cut)
  }
  fc.assert(
    fc.property(edit, edit, (ofChain, ofKey) => {
      try {
        const pair = readPair(edited(body.certificate, ofChain), edited(body.privateKey, ofKey))
        const leaf = new X509Certificate(pair.fullChain)
        if (!leaf.checkPrivateKey(createPrivateKey(pair.privateKey))) throw new Error('no pair')
        return /^(-----BEGIN CERTIFICATE-----\n[A-Za-z0-9+/=\n]+-----END CERTIFICATE-----\n)+$/.test(
          pair.fullChain,
        )
      } catch (error) {
        return error instanceof ClientError
      }
    }),
  )
  t.end()
})

t.test('only what is wanted and valid now can be used', (t) => {
  const pair = readPair(body.certificate, body.privateKey)
  const { notBefore, notAfter } = pair
  const wanted = { names: readNames(['a.test']), keyType: undefined }
  const rows: readonly [wanted: CertificateRequest, now: number, refusal?: RegExp][] = [
    [wanted, notBefore],
    [wanted, notBefore - 60_000],
    [wanted, notBefore - 60_001, /it is not valid before/],
    [wanted, notAfter - 1],
    [wanted, notAfter, /it expired at/],
    [{ ...wanted, keyType: 'p256' }, NOW],
    [{ ...wanted, keyType: 'p384' }, NOW, /its key is of type p256 instead of p384/],
    [{ ...wanted, lifetime: '7d' }, NOW],
    [{ ...wanted, lifetime: '167h' }, NOW, /it lives longer than asked/],
    [{ ...wanted, names: readNames(['a.test', 'b.test']) }, NOW, /is not for b\.test/],
  ]
  for (const [wanted, now, message] of rows) {
    const use = () => requireUsable(pair, wanted, now)
    if (message) t.throws(use, { code: 'CERT_CLIENT_CERTIFICATE_INVALID', message })
    else t.doesNotThrow(use)
  }
  t.end()
})

t.test('what does not belong together gives no pair', async (t) => {
  const [leaf = new Uint8Array(), ...issuers] = fromPem(body.certificate, 'CERTIFICATE')
  const pem = (...ders: readonly Uint8Array[]) =>
    ders.map((der) => toPem('CERTIFICATE', der)).join('')
  const changed = Uint8Array.from(leaf)
  changed[leaf.length - 1] = (leaf.at(-1) ?? 0) ^ 1
  const { privateKey: anotherKey } = (await call('POST', '/api/certificate', { domain: 'b.test' }))
    .body
  const rows: readonly [what: string, chain: string, key: string, message: RegExp][] = [
    ['a key of another', body.certificate, anotherKey, /the private key is not that of/],
    [
      'a changed signature',
      pem(changed, ...issuers),
      body.privateKey,
      /certificate 1 of the chain is not signed by the next one/,
    ],
    [
      'the leaf twice',
      pem(leaf, leaf),
      body.privateKey,
      /certificate 1 of the chain is not signed/,
    ],
    ['too many', pem(...Array(11).fill(leaf)), body.privateKey, /the chain has 11 certificates/],
  ]
  t.ok(readPair(pem(leaf), body.privateKey), 'the leaf alone')
  for (const [what, chain, key, message] of rows)
    t.throws(() => readPair(chain, key), { code: 'CERT_CLIENT_CERTIFICATE_INVALID', message }, what)
})

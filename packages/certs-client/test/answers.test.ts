import { createPrivateKey, X509Certificate } from 'node:crypto'
import { printable } from '@gatehouse/service-kit/program'
import fc from 'fast-check'
import t from 'tap'
import { NOW, start } from '../../../services/cert-service/test/helpers/app.ts'
import { type CertificateRequest, readPair, requireUsable } from '../src/certificate.ts'
import { ClientError } from '../src/errors.ts'
import { connect } from '../src/service.ts'
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

t.test('whatever a server answers, it is an answer or an error with a code', async () => {
  const anything = fc.oneof(
    fc.json(),
    fc.string({ unit: 'binary' }),
    fc
      .record({
        code: fc.string({ unit: 'binary' }),
        detail: fc.string({ unit: 'binary' }),
        id: fc.string(),
        status: fc.constantFrom('pending', 'failed', 'done', 7),
      })
      .map((value) => JSON.stringify(value)),
  )
  const status = fc.constantFrom(200, 202, 204, 304, 400, 404, 429, 500)
  const retryAfter = fc.oneof(
    fc.string(),
    fc.date({ noInvalidDate: true }).map((date) => date.toUTCString()),
  )
  await fc.assert(
    fc.asyncProperty(anything, status, retryAfter, async (text, code, after) => {
      const answer = { status: code, headers: { 'retry-after': after }, body: Buffer.from(text) }
      const fetch = Object.assign(async () => answer, { close: async () => {} })
      const credentials = { authorization: async () => 'APIKey x' }
      const service = connect({
        url: new URL('https://certs.test'),
        credentials,
        fetch,
        now: () => NOW,
        actionFor: () => undefined,
      })
      const asked = [
        service.obtain({ domain: 'a.test' }),
        service.find('a.test', '"x"'),
        service.order('7'),
        service.list().next(),
        service.failing().next(),
      ]
      for (const result of await Promise.allSettled(asked)) {
        if (result.status === 'fulfilled') continue
        const { code: found, message, retryAfterMs = 0 } = result.reason as ClientError
        if (!(result.reason instanceof ClientError)) throw result.reason
        if (!/^[A-Z][A-Z0-9_]+$/.test(found) || message !== printable(message)) throw result.reason
        if (!(retryAfterMs >= 0)) throw result.reason
      }
    }),
  )
})

t.test('what is printed rules no terminal', (t) => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 2_000 }), (text) => {
      const shown = printable(text)
      return shown.length <= 501 && !/\p{Cc}|\p{Bidi_Control}|[\u2028\u2029]/u.test(shown)
    }),
  )
  t.end()
})

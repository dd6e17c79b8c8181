import fc from 'fast-check'
import t from 'tap'
import { findOnce, READERS } from '../../src/mtls/header.ts'

const pemOf = (der: Uint8Array) => {
  const lines =
    Buffer.from(der)
      .toString('base64')
      .match(/.{1,64}/g) ?? []
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`
}
const base64 = (der: Uint8Array) => Buffer.from(der).toString('base64')
/** nginx escapes all but what RFC 3986 leaves unreserved; Envoy these five alone. */
const byNginx = (der: Uint8Array) => encodeURIComponent(pemOf(der))
const byEnvoy = (der: Uint8Array) =>
  pemOf(der).replace(
    /[\n +/=]/g,
    (one) => `%${one.charCodeAt(0).toString(16).padStart(2, '0').toUpperCase()}`,
  )

/** What proxies write about a client: with `chain`, what may stand beside its certificate. */
const WRITERS = {
  'escaped-pem': (der: Uint8Array) => byNginx(der),
  chain: (der: Uint8Array, chain: Uint8Array[]) => [der, ...chain].map(base64).join(','),
  'byte-sequence': (der: Uint8Array) => `:${base64(der)}:`,
  elements: (der: Uint8Array, [issuer]: Uint8Array[]) => {
    const chain = issuer ? `;Chain="${byEnvoy(issuer)}"` : ''
    return `Hash=00ff;Cert="${byEnvoy(der)}"${chain};Subject="CN=a\\"\\,b";URI=spiffe://a.test/x;DNS=a.test`
  },
} as const

const bytes = fc.uint8Array({ minLength: 1, maxLength: 600 })

for (const [encoding, write] of Object.entries(WRITERS)) {
  const read = READERS[encoding as keyof typeof WRITERS]
  t.test(`${encoding}: what is written is read`, async () => {
    fc.assert(
      fc.property(bytes, fc.array(bytes, { maxLength: 2 }), (der, chain) => {
        return read(write(der, chain))?.equals(der) === true
      }),
    )
  })

  t.test(`${encoding}: whatever is put in gives the same certificate or none`, async () => {
    const der = Buffer.from('a certificate of some length, in more than one line of base64')
    const whole = write(der, [])
    fc.assert(
      fc.property(fc.nat(whole.length), fc.string({ minLength: 1 }), (at, text) => {
        const found = read(whole.slice(0, at) + text + whole.slice(at))
        return (
          found === undefined ||
          found.equals(der) ||
          encoding !== 'elements' ||
          !text.includes('Cert')
        )
      }),
    )
    fc.assert(
      fc.property(fc.string(), (text) => {
        const found = read(text)
        return found === undefined || found.length > 0
      }),
    )
  })
}

t.test('values that no proxy writes', async (t) => {
  const der = Buffer.from('certificate')
  const cert = `Cert="${byEnvoy(der)}"`
  const cases = [
    ['escaped-pem', ''],
    ['escaped-pem', pemOf(der)],
    ['escaped-pem', byNginx(der) + byNginx(der)],
    ['escaped-pem', ` ${byNginx(der)}`],
    ['escaped-pem', byNginx(der).replace('%0A', '%0D%0A')],
    ['escaped-pem', byNginx(der).replace('CERTIFICATE', 'PUBLIC%20KEY')],
    ['escaped-pem', `${byNginx(der)}%`],
    ['escaped-pem', base64(der)],
    ['chain', ''],
    ['chain', `${base64(der)},`],
    ['chain', `,${base64(der)}`],
    ['chain', `${base64(der)}, ${base64(der)}`],
    ['chain', encodeURIComponent(base64(der))],
    ['byte-sequence', '::'],
    ['byte-sequence', base64(der)],
    ['byte-sequence', `:${base64(der)}:;a=1`],
    ['byte-sequence', ':{http.request.tls.client.certificate_der_base64}:'],
    ['byte-sequence', `:${base64(der)}:, :${base64(der)}:`],
    ['byte-sequence', `:${base64(der).replace('=', '')}:`],
    ['elements', ''],
    ['elements', 'Hash=00ff'],
    ['elements', `${cert};`],
    ['elements', `${cert};${cert}`],
    ['elements', `${cert},${cert}`],
    ['elements', `Hash=00ff,${cert}`],
    ['elements', `URI=a;${cert};URI=b;${cert}`],
    ['elements', `By=a;b;${cert}`],
    ['elements', `Subject="a\\";${cert}`],
    ['elements', `Subject="a"x;${cert}`],
    ['elements', cert.replaceAll('"', '')],
    ['elements', cert.replace('Cert', 'cert')],
    ['elements', ` ${cert}`],
  ] as const
  for (const [encoding, value] of cases) t.equal(READERS[encoding](value), undefined, value)
})

t.test('a header is there once, in one spelling', async (t) => {
  const cases = [
    [['Host', 'a'], undefined],
    [['Client-Cert', 'x'], 'x'],
    [['client-cert', 'x', 'client-cert-chain', 'y'], 'x'],
    [['client-cert', 'x', 'Client-Cert', 'x'], false],
    [['client_cert', 'x'], false],
    [['client-cert', 'x', 'Client_Cert', 'y'], false],
    [['client.cert', 'y', 'client-cert', 'x'], false],
  ] as const
  for (const [raw, found] of cases) t.equal(findOnce(raw, 'client-cert'), found, raw.join(' '))
})

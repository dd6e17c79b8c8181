import fc from 'fast-check'
import t from 'tap'
import { findOnce, HEADERS } from '../../src/mtls/header.ts'

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

/** What each proxy writes about a client: with `others`, what may stand beside its certificate. */
const WRITERS = {
  nginx: (der: Uint8Array) => byNginx(der),
  traefik: (der: Uint8Array, others: Uint8Array[]) => [der, ...others].map(base64).join(','),
  caddy: (der: Uint8Array) => `:${base64(der)}:`,
  haproxy: (der: Uint8Array) => `:${base64(der)}:`,
  envoy: (der: Uint8Array, others: Uint8Array[]) => {
    const chain = others[0] ? `;Chain="${byEnvoy(others[0])}"` : ''
    return `Hash=00ff;Cert="${byEnvoy(der)}"${chain};Subject="CN=a\\"\\,b";URI=spiffe://a.test/x;DNS=a.test`
  },
} as const

const bytes = fc.uint8Array({ minLength: 1, maxLength: 600 })

for (const [format, write] of Object.entries(WRITERS)) {
  const { read } = HEADERS[format as keyof typeof WRITERS]
  t.test(`${format} writes what is read`, async () => {
    fc.assert(
      fc.property(bytes, fc.array(bytes, { maxLength: 2 }), (der, others) => {
        const found = read(write(der, others))
        return found?.equals(der) === true
      }),
    )
  })

  t.test(`${format}: whatever is put in gives the same certificate or none`, async () => {
    const der = Buffer.from('a certificate of some length, in more than one line of base64')
    const whole = write(der, [])
    fc.assert(
      fc.property(fc.nat(whole.length), fc.string({ minLength: 1 }), (at, text) => {
        const found = read(whole.slice(0, at) + text + whole.slice(at))
        return (
          found === undefined || found.equals(der) || format !== 'envoy' || !text.includes('Cert')
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
    ['nginx', ''],
    ['nginx', pemOf(der)],
    ['nginx', byNginx(der) + byNginx(der)],
    ['nginx', ` ${byNginx(der)}`],
    ['nginx', byNginx(der).replace('%0A', '%0D%0A')],
    ['nginx', byNginx(der).replace('CERTIFICATE', 'PUBLIC%20KEY')],
    ['nginx', `${byNginx(der)}%`],
    ['nginx', base64(der)],
    ['traefik', ''],
    ['traefik', `${base64(der)},`],
    ['traefik', `,${base64(der)}`],
    ['traefik', `${base64(der)}, ${base64(der)}`],
    ['traefik', encodeURIComponent(base64(der))],
    ['caddy', '::'],
    ['caddy', base64(der)],
    ['caddy', `:${base64(der)}:;a=1`],
    ['caddy', ':{http.request.tls.client.certificate_der_base64}:'],
    ['haproxy', `:${base64(der)}:, :${base64(der)}:`],
    ['haproxy', `:${base64(der).replace('=', '')}:`],
    ['envoy', ''],
    ['envoy', 'Hash=00ff'],
    ['envoy', `${cert};`],
    ['envoy', `${cert};${cert}`],
    ['envoy', `${cert},${cert}`],
    ['envoy', `Hash=00ff,${cert}`],
    ['envoy', `URI=a;${cert};URI=b;${cert}`],
    ['envoy', `By=a;b;${cert}`],
    ['envoy', `Subject="a\\";${cert}`],
    ['envoy', `Subject="a"x;${cert}`],
    ['envoy', cert.replaceAll('"', '')],
    ['envoy', cert.replace('Cert', 'cert')],
    ['envoy', ` ${cert}`],
  ] as const
  for (const [format, value] of cases) t.equal(HEADERS[format].read(value), undefined, value)
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

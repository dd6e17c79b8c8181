import fc from 'fast-check'
import t from 'tap'
import { NetError, parseAdvertisedUrl, parseEndpointUrl, parseOrigin } from '../src/index.ts'

const origins: [text: string, origin: string | undefined][] = [
  ['https://App.Example.com', 'https://app.example.com'],
  ['HTTPS://app.example.com:443', 'https://app.example.com'],
  ['http://app.example.com:80', 'http://app.example.com'],
  ['http://app.example.com:443', 'http://app.example.com:443'],
  ['https://app.example.com:8443', 'https://app.example.com:8443'],
  ['https://[2001:DB8::1]:8443', 'https://[2001:db8::1]:8443'],
  ['null', undefined],
  ['https://app.example.com/', undefined],
  ['https://app.example.com?x', undefined],
  ['https://user@app.example.com', undefined],
  ['https:app.example.com', undefined],
  ['ftp://app.example.com', undefined],
  ['https://app.example.com https://evil.example', undefined],
  ['https://0x7f.1', undefined],
]

t.test('parseOrigin gives the canonical origin', async (t) => {
  for (const [text, origin] of origins) t.equal(parseOrigin(text), origin, text)

  t.test('gives what the URL parser gives, or undefined', async () => {
    const host = fc.oneof(
      fc.domain(),
      fc.ipV4(),
      fc.ipV6().map((ip) => `[${ip}]`),
    )
    const port = fc.oneof(
      fc.constant(''),
      fc.integer({ min: 1, max: 65535 }).map((n) => `:${n}`),
    )
    fc.assert(
      fc.property(fc.constantFrom('http', 'https'), host, port, (scheme, host, port) => {
        const origin = parseOrigin(`${scheme}://${host}${port}`)
        // Mapped addresses become IPv4, which a URL does not do.
        return host.includes('::ffff:') || origin === new URL(`${scheme}://${host}${port}`).origin
      }),
    )
  })
})

const endpoints: [text: string, options: { allowHttp?: boolean }, expected: string][] = [
  ['https://id.example/realms/a?b=c', {}, 'https://id.example/realms/a?b=c'],
  ['https://id.example', {}, 'https://id.example/'],
  ['http://localhost:8080/x', {}, 'http://localhost:8080/x'],
  ['http://127.0.0.1', {}, 'http://127.0.0.1/'],
  ['http://[::1]:9', {}, 'http://[::1]:9/'],
  ['http://id.internal/x', { allowHttp: true }, 'http://id.internal/x'],
  ['http://id.example', {}, 'NET_URL_INSECURE'],
  ['http://localhost.example', {}, 'NET_URL_INSECURE'],
  ['http://128.0.0.1', {}, 'NET_URL_INSECURE'],
  ['ftp://id.example', { allowHttp: true }, 'NET_URL_INVALID'],
  ['file:///etc/passwd', {}, 'NET_URL_INVALID'],
  ['/realms/a', {}, 'NET_URL_INVALID'],
  ['https:id.example', {}, 'NET_URL_INVALID'],
  ['https://user:pass@id.example', {}, 'NET_URL_INVALID'],
  ['https://@id.example', {}, 'NET_URL_INVALID'],
  ['https://id.example/#', {}, 'NET_URL_INVALID'],
  ['https://id.example#frag', {}, 'NET_URL_INVALID'],
  ['https://id.example\\@evil.example', {}, 'NET_URL_INVALID'],
  ['https://id.example/a b', {}, 'NET_URL_INVALID'],
  ['https://id.exam\nple/', {}, 'NET_URL_INVALID'],
  [' https://id.example', {}, 'NET_URL_INVALID'],
  ['https://id.example:99999', {}, 'NET_URL_INVALID'],
  ['http://0x7f.1/', {}, 'NET_URL_INVALID'],
  ['https://', {}, 'NET_URL_INVALID'],
]

t.test('parseEndpointUrl accepts URLs of servers to call', async (t) => {
  for (const [text, options, expected] of endpoints)
    t.equal(outcome(text, options), expected, `${JSON.stringify(text)} ${JSON.stringify(options)}`)

  t.test('the error says what the URL must not hold', async (t) => {
    for (const [text, what] of [
      ['https://user:pass@id.example', 'a user name or password'],
      ['https://id.example/#frag', 'a fragment'],
    ] as const)
      t.throws(() => parseEndpointUrl(text), { message: `the URL must not hold ${what}` })
  })

  t.test('no error shows the URL, which may hold a password', async (t) => {
    for (const text of ['https://u:hunter2@id.example', 'ftp://id.example/?token=hunter2'])
      try {
        t.fail(parseEndpointUrl(text).href)
      } catch (error) {
        t.notMatch((error as Error).message, 'hunter2', text)
      }
  })

  t.test('any text gives a URL or throws a NetError', async () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.webUrl(),
          fc.string().map((s) => `https://${s}`),
        ),
        (text) => /^(NET_URL_|https?:\/\/)/.test(outcome(text, {})),
      ),
    )
  })
})

function outcome(text: string, options: { allowHttp?: boolean }): string {
  try {
    return parseEndpointUrl(text, options).href
  } catch (error) {
    if (error instanceof NetError) return error.code
    throw error
  }
}

const ISSUER = 'https://id.example/.well-known/openid-configuration'
const advertised: [from: string, text: string, expected: string | undefined, allowHttp?: true][] = [
  [ISSUER, 'https://id.example/keys', undefined],
  [ISSUER, 'https://keys.example/keys', undefined],
  [ISSUER, 'https://10.0.0.1/keys', undefined],
  [ISSUER, 'http://id.example/keys', 'NET_URL_INSECURE'],
  [ISSUER, 'http://id.example/keys', undefined, true],
  ['http://id.lan/', 'http://keys.lan/', 'NET_URL_INSECURE'],
  ['http://id.lan/', 'http://keys.lan/', undefined, true],
  ['http://id.lan/', 'https://keys.lan/', undefined, true],
  ['http://localhost:8080/', 'http://localhost:8080/keys', undefined],
  ['http://127.0.0.1/', 'http://[::1]/keys', undefined],
  ['http://id.gatehouse.localhost/', 'http://127.0.0.2:9/keys', undefined],
  ['https://localhost/', 'http://localhost/keys', 'NET_URL_INSECURE'],
  ['https://169.254.1.1/', 'https://169.254.1.1/keys', undefined],
  ['https://user', 'nonsense', 'NET_URL_INVALID'],
  ['http://localhost:8080/', 'http://169.254.169.254/keys', 'NET_URL_INTERNAL', true],
  ['http://169.254.169.254/', 'http://localhost:8080/keys', 'NET_URL_INTERNAL', true],
  [ISSUER, 'https://[64:ff9b::8.8.8.8]/keys', undefined],
  [ISSUER, 'https://[2002:808:808::1]/keys', undefined],
  ...[
    ...['localhost', 'LOCALHOST.', 'a.localhost', '127.0.0.1', '127.1.2.3', '[::1]', '0.0.0.0'],
    ...['[::]', '[::ffff:127.0.0.1]', '169.254.169.254', '[fe80::1]', '[fd00:ec2::254]', '0.1.2.3'],
    ...['[::ffff:169.254.169.254]', 'metadata.google.internal', 'Metadata.Google.Internal.'],
    ...['[64:ff9b::127.0.0.1]', '[64:ff9b::a9fe:a9fe]', '[64:ff9b::]', '[64:ff9b:1::7f00:1]'],
    ...['[2002:7f00:1::1]', '[2002:a9fe:a9fe::]', '[::7f00:2]'],
    ...['[2001:0:808:808:0:0:80ff:fffe]', '[::ffff:0:127.0.0.1]', '[64:ff9b::168.63.129.16]'],
    ...['100.100.100.200', '[fd20:ce::254]', '168.63.129.16', '192.0.0.192', 'instance-data'],
  ].flatMap((host): [string, string, string, true][] =>
    ['https', 'http'].flatMap((scheme) =>
      [ISSUER, 'http://id.lan/'].map((from) => [
        from,
        `${scheme}://${host}/keys`,
        'NET_URL_INTERNAL',
        true,
      ]),
    ),
  ),
]

t.test('parseAdvertisedUrl accepts URLs that another server names', async (t) => {
  for (const [from, text, code, allowHttp = false] of advertised) {
    const what = `${from} names ${text}${allowHttp ? ', http allowed' : ''}`
    if (code) t.throws(() => parseAdvertisedUrl(text, { from, allowHttp }), { code }, what)
    else t.equal(parseAdvertisedUrl(text, { from, allowHttp }).href, new URL(text).href, what)
  }

  t.test('an address that embeds another is judged by it', async () => {
    const judge = (host: string) => {
      try {
        return parseAdvertisedUrl(`https://${host}/`, { from: ISSUER }).protocol
      } catch (error) {
        return (error as NetError).code
      }
    }
    const internal = fc
      .nat(255)
      .chain((last) =>
        fc.constantFrom(`127.0.0.${last}`, `169.254.${last}.1`, `0.0.0.${last}`, `10.0.0.${last}`),
      )
    fc.assert(
      fc.property(fc.oneof(fc.ipV4(), internal), (text) => {
        const bytes = Buffer.from(text.split('.').map(Number))
        const groups = (bytes: Buffer) => bytes.toString('hex').replace(/^.{4}/, '$&:')
        const teredo = groups(bytes.map((byte) => byte ^ 0xff) as Buffer)
        const embedding = [
          ...[`64:ff9b::${text}`, `64:ff9b:1::${text}`, `64:ff9b:1:2::${text}`, `::ffff:${text}`],
          ...[`::ffff:0:${text}`, `2002:${groups(bytes)}::1`, `2001:0:808:808:0:1:${teredo}`],
        ]
        // The first of these is this machine itself, in IPv6.
        if (bytes.readUInt32BE() > 1) embedding.push(`::${text}`)
        return embedding.every((each) => judge(`[${each}]`) === judge(text))
      }),
    )
  })

  t.test('an internal address is accepted from an internal server only', async () => {
    const host = fc.oneof(
      fc.ipV4(),
      fc.ipV6().map((ip) => `[${ip}]`),
      fc.nat(0xffffffff).map(String),
      fc.nat(255).map((last) => `169.254.169.${last}`),
      fc.nat(255).map((last) => `[::ffff:127.0.0.${last}]`),
    )
    fc.assert(
      fc.property(fc.constantFrom('http', 'https'), host, (scheme, host) => {
        const text = `${scheme}://${host}/`
        try {
          const { hostname } = parseAdvertisedUrl(text, { from: ISSUER, allowHttp: true })
          return !/^(127\.|0\.|169\.254\.|\[::1?\]$|\[fe[89ab][\da-f]:)/.test(hostname)
        } catch (error) {
          return error instanceof NetError
        }
      }),
    )
  })
})

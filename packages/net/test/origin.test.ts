import fc from 'fast-check'
import t from 'tap'
import { NetError, parseEndpointUrl, parseOrigin } from '../src/index.ts'

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

t.test('parseOrigin', async (t) => {
  for (const [text, origin] of origins) t.equal(parseOrigin(text), origin, text)

  t.test('gives what the URL parser gives, or nothing', async () => {
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

t.test('parseEndpointUrl', async (t) => {
  for (const [text, options, expected] of endpoints)
    t.equal(outcome(text, options), expected, `${JSON.stringify(text)} ${JSON.stringify(options)}`)

  t.test('no fault shows the URL, which may hold a password', async (t) => {
    for (const text of ['https://u:hunter2@id.example', 'ftp://id.example/?token=hunter2'])
      try {
        t.fail(parseEndpointUrl(text).href)
      } catch (error) {
        t.notMatch((error as Error).message, 'hunter2', text)
      }
  })

  t.test('any text is a URL or a NetError', async () => {
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

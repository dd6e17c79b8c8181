import fc from 'fast-check'
import t from 'tap'
import { isLoopback, isUnder, parseHost, parseHostPort } from '../src/host.ts'

const long = (length: number) => 'a'.repeat(length)

const hosts: [text: string, name: string | undefined][] = [
  ['App.Example.COM', 'app.example.com'],
  ['app.example.com.', 'app.example.com'],
  ['localhost', 'localhost'],
  ['4ever.example', '4ever.example'],
  ['a--b.example', 'a--b.example'],
  ['bücher.example', 'xn--bcher-kva.example'],
  ['BÜCHER.example', 'xn--bcher-kva.example'],
  ['xn--bcher-kva.example', 'xn--bcher-kva.example'],
  ['XN--BCHER-KVA.example', 'xn--bcher-kva.example'],
  ['ｅxample。com', 'example.com'],
  [`${long(63)}.example`, `${long(63)}.example`],
  ['192.0.2.1', '192.0.2.1'],
  ['2001:DB8::1', '2001:db8::1'],
  ['[2001:DB8::1]', '2001:db8::1'],
  ['[::ffff:192.0.2.1]', '192.0.2.1'],
  ['', undefined],
  ['.', undefined],
  ['.example', undefined],
  ['a..b', undefined],
  ['example..', undefined],
  ['-a.example', undefined],
  ['a-.example', undefined],
  ['a_b.example', undefined],
  ['*.example', undefined],
  ['a b', undefined],
  ['a%2eb', undefined],
  ['ü%2eb', undefined],
  ['a/b', undefined],
  ['a:80', undefined],
  ['a@b', undefined],
  ['a\0b', undefined],
  ['a\r\nb', undefined],
  [`${long(64)}.example`, undefined],
  [`${`${long(63)}.`.repeat(4)}a`, undefined],
  ['xn--a.example', undefined],
  ['xn--.example', undefined],
  ['xn--abc-.example', undefined],
  ['xn---0mw.example', undefined],
  ['1.2.3', undefined],
  ['1.2.3.4.', undefined],
  ['0x7f.1', undefined],
  ['example.0x1f', undefined],
  ['2130706433', undefined],
  ['１２７.0.0.1', undefined],
  ['[1.2.3.4]', undefined],
  ['[::1', undefined],
  ['[fe80::1%25eth0]', undefined],
]

t.test('parseHost gives the canonical host', async (t) => {
  for (const [text, name] of hosts)
    t.equal(parseHost(text)?.name, name, `${JSON.stringify(text)} is ${name ?? 'refused'}`)
})

const hostPorts: [text: string, name: string | undefined, port?: number][] = [
  ['example.com', 'example.com'],
  ['example.com:8443', 'example.com', 8443],
  ['[::1]:8443', '::1', 8443],
  ['[::1]', '::1'],
  ['192.0.2.1:1', '192.0.2.1', 1],
  ['example.com:65535', 'example.com', 65535],
  ['example.com:65536', undefined],
  ['example.com:0', undefined],
  ['example.com:080', undefined],
  ['example.com:', undefined],
  ['example.com:+80', undefined],
  ['example.com:80:80', undefined],
  ['::1', undefined],
  [':80', undefined],
  ['[example.com]:80', undefined],
  ['user@example.com', undefined],
  ['example.com, evil.example', undefined],
]

t.test('parseHostPort gives host and port', async (t) => {
  for (const [text, name, port] of hostPorts) {
    const parsed = parseHostPort(text)
    t.strictSame([parsed?.host.name, parsed?.port], [name, port], JSON.stringify(text))
  }
})

const loopback: [text: string, is: boolean][] = [
  ['localhost', true],
  ['LOCALHOST.', true],
  ['app.localhost', true],
  ['127.8.9.1', true],
  ['::1', true],
  ['::ffff:127.0.0.1', true],
  ['localhost.example.com', false],
  ['notlocalhost', false],
  ['128.0.0.1', false],
  ['::2', false],
  ['::127.0.0.1', false],
]

t.test('isLoopback recognizes this machine', async (t) => {
  for (const [text, is] of loopback) t.equal(isLoopback(parseHost(text)!), is, text)
})

const under: [domain: string, host: string, is: boolean][] = [
  ['example.com', 'example.com', true],
  ['example.com', 'a.example.com', true],
  ['example.com', 'a.b.example.com', true],
  ['example.com', 'notexample.com', false],
  ['example.com', 'com', false],
  ['example.com', 'example.com.evil.test', false],
  ['10.0.0.1', '10.0.0.1', true],
  ['0.0.1', '10.0.0.1', false],
]

t.test('isUnder tells a domain and what is below it', async (t) => {
  for (const [domain, host, is] of under)
    t.equal(isUnder(domain, parseHost(host)!), is, `${host} under ${domain}`)
})

t.test('hosts have these properties', async (t) => {
  const text = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.domain(),
    fc.stringMatching(/^[a-zA-Z0-9.\-xn_üßıK。%[\]:]{1,40}$/),
  )

  t.test(
    'what is read is canonical: it reads as itself, in any case, with a trailing dot',
    async () => {
      fc.assert(
        fc.property(text, (given) => {
          const host = parseHost(given)
          if (!host) return true
          const again = parseHost(host.name)
          const dotted = host.ip ? host : parseHost(`${host.name.toUpperCase()}.`)
          return again?.name === host.name && dotted?.name === host.name
        }),
        { numRuns: 1_000 },
      )
    },
  )

  t.test('the URL parser takes an accepted name for the same host', async () => {
    fc.assert(
      fc.property(text, (given) => {
        const host = parseHost(given)
        return (
          !host || host.ip !== undefined || new URL(`http://${host.name}/`).hostname === host.name
        )
      }),
      { numRuns: 1_000 },
    )
  })
})

import fc from 'fast-check'
import t from 'tap'
import { namesFor, withoutBasic } from '../../src/proxy/routes.ts'

const SERVER_NAMES: readonly [why: string, text: string, names: readonly string[]][] = [
  ['itself and the wildcard above', 'app.example.com', ['app.example.com', '*.example.com']],
  ['in one spelling', 'APP.Example.com.', ['app.example.com', '*.example.com']],
  ['of Unicode', 'bücher.example', ['xn--bcher-kva.example', '*.example']],
  ['a single label has nothing above', 'localhost', ['localhost']],
  ['an address', '192.0.2.1', ['192.0.2.1']],
  ['a wildcard is no server', '*.example.com', []],
  ['none', '', []],
  ['a URL', 'https://example.com/', []],
  ['a NUL', 'a\0.example.com', []],
]

for (const [why, text, names] of SERVER_NAMES)
  t.test(`server name: ${why}`, async (t) => t.same(namesFor(text), names))

const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`

const CREDENTIALS: readonly [why: string, from: string, to: string][] = [
  ['the password is the key', basic('caddy:a-key'), 'APIKey a-key'],
  ['a key with colons', basic('caddy:a:key:'), 'APIKey a:key:'],
  ['no user', basic(':a-key'), 'APIKey a-key'],
  ['the scheme has no case', basic('caddy:a-key').replace('Basic', 'bASIC '), 'APIKey a-key'],
  ['no password', basic('caddy:'), basic('caddy:')],
  ['no colon', basic('a-key'), basic('a-key')],
  ['nothing', 'Basic', 'Basic'],
  ['an API key', 'APIKey a-key', 'APIKey a-key'],
  ['a token', 'Bearer a.b.c', 'Bearer a.b.c'],
]

for (const [why, from, to] of CREDENTIALS)
  t.test(`credentials: ${why}`, async (t) => t.equal(withoutBasic(from), to))

t.test('property: whatever bytes come, both give an answer', async () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      const names = namesFor(text)
      return names.length <= 2 && typeof withoutBasic(`Basic ${text}`) === 'string'
    }),
  )
})

import { inspect } from 'node:util'
import fc from 'fast-check'
import t from 'tap'
import { parsePostgresUrl } from '../../src/postgres/url.ts'

const valid: [text: string, hosts: string[]][] = [
  ['postgres://me:secret@db.example/data', ['db.example:5432 tls']],
  ['postgresql://me:secret@db.example:6000/data', ['db.example:6000 tls']],
  ['postgres://me:secret@a.example,b.example:1/data', ['a.example:5432 tls', 'b.example:1 tls']],
  ['postgres://me:secret@127.0.0.1/data', ['127.0.0.1:5432 plain']],
  ['postgres://me:secret@[::1]:7/data', ['::1:7 plain']],
  ['postgres://me:secret@[2001:DB8::1]:7/data', ['2001:db8::1:7 tls']],
  ['postgres://me:secret@localhost,10.0.0.1/data', ['localhost:5432 plain', '10.0.0.1:5432 tls']],
  ['postgres://me:secret@localhost/data?sslmode=verify-full', ['localhost:5432 tls']],
  ['postgres://me:secret@10.0.0.1/data?sslmode=disable', ['10.0.0.1:5432 plain']],
]

valid.push([`postgres://me:secret@${Array(16).fill('a')}/data`, Array(16).fill('a:5432 tls')])

for (const [text, hosts] of valid)
  t.test(text, async (t) => {
    const url = parsePostgresUrl(text)
    const told = url.hosts.map(({ host, port, tls }) => `${host}:${port} ${tls ? 'tls' : 'plain'}`)
    t.strictSame(told, hosts)
    t.match(url, { user: 'me', database: 'data' })
    t.equal(url.password, 'secret')
    t.notMatch(inspect(url) + JSON.stringify(url), 'secret')
  })

t.test('a password is optional', async (t) => {
  t.equal(parsePostgresUrl('postgres://me@db.example/data').password, undefined)
})

const invalid: [text: string, reason: string][] = [
  ['', 'it is not'],
  ['mysql://me:secret@db.example/data', 'it is not'],
  ['postgres://me:secret@db.example', 'it is not'],
  ['postgres://me:se@cret@db.example/data', 'it is not'],
  ['postgres://me:secret@db.example/data#x', 'it is not'],
  ['postgres://db.example/data', 'it has no user'],
  ['postgres://:secret@db.example/data', 'its user is empty'],
  ['postgres://me:@db.example/data', 'its password is empty'],
  ['postgres://me:secret@db.example/', 'its database is empty'],
  ['postgres://me:secret%@db.example/data', 'its password is not percent-encoded'],
  ['postgres://me:secret@db.example/a%00b', 'its database has control characters'],
  ['postgres://me:secret@/data', 'host 1 is not valid'],
  ['postgres://me:secret@a.example,/data', 'host 2 is not valid'],
  ['postgres://me:secret@a.example:0/data', 'host 1 is not valid'],
  ['postgres://me:secret@a.example:65536/data', 'host 1 is not valid'],
  ['postgres://me:secret@%2Fvar%2Frun/data', 'host 1 is not valid'],
  [`postgres://me:secret@${Array(17).fill('a')}/data`, 'more than 16 hosts'],
  ['postgres://me:secret@a.example/data?sslmode=require', 'its only parameter'],
  ['postgres://me:secret@a.example/data?sslmode=disable&sslmode=disable', 'its only parameter'],
  ['postgres://me:secret@a.example/data?options=-c', 'its only parameter'],
  ['postgres://me:secret@a.example/data?', 'its only parameter'],
]

for (const [text, reason] of invalid)
  t.test(text, async (t) => {
    const error = t.throws(() => parsePostgresUrl(text), { code: 'STORE_URL_INVALID' })
    t.match((error as unknown as Error).message, reason)
    t.notMatch((error as unknown as Error).message, 'secret')
  })

const plain = fc.string({ unit: 'grapheme', minLength: 1 }).filter((s) => !/\p{Cc}/u.test(s))

t.test('what is percent-encoded comes back', async () => {
  const port = fc.integer({ min: 1, max: 65_535 })
  const hosts = fc.array(fc.tuple(fc.oneof(fc.ipV4(), fc.ipV6()), port), {
    minLength: 1,
    maxLength: 16,
  })
  fc.assert(
    fc.property(plain, plain, plain, hosts, (user, password, database, hosts) => {
      const [u, p, d] = [user, password, database].map(encodeURIComponent)
      const list = hosts.map(([host, port]) => `${host.includes(':') ? `[${host}]` : host}:${port}`)
      const url = parsePostgresUrl(`postgres://${u}:${p}@${list}/${d}`)
      return (
        url.user === user &&
        url.password === password &&
        url.database === database &&
        url.hosts.every(({ port }, i) => port === hosts[i]?.[1])
      )
    }),
  )
})

t.test('no message repeats a password', async () => {
  const secret = fc.stringMatching(/^[!-~]{12,30}$/)
  fc.assert(
    fc.property(secret, fc.string(), fc.string(), (secret, before, after) => {
      try {
        parsePostgresUrl(`postgres://${before}:${secret}@${after}`)
        return true
      } catch (error) {
        return !String(error).includes(secret)
      }
    }),
  )
})

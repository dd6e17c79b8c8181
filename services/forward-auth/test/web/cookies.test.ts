import cookie from '@fastify/cookie'
import fc from 'fast-check'
import Fastify from 'fastify'
import t, { type Test } from 'tap'
import {
  appCookie,
  appCookieName,
  type HostCookie,
  isDoubled,
  MAX_TOKEN_LENGTH,
  readCookie,
  readCookies,
  serializeCookie,
  sessionCookie,
  sessionCookieName,
  setHostCookies,
  withoutSessionCookies,
} from '../../src/web/cookies.ts'

const MAIN = { name: 'main' }
const NAME = '__Host-gatehouse.main'
const HOST = { domain: 'example.com', scope: 'host' } as const
const DOMAIN = { domain: 'example.com', scope: 'domain' } as const
const AT = 'app.example.com'
const TOKEN = 'a.b.c'

/** Spaces that `trim` takes off and browsers do not. As Node.js reads them from bytes in UTF-8, too. */
const LOOK_ALIKES = ['\u00a0', '\ufeff', '\u2003', '\u3000', '\u2028', '\v', '\f', '\u200b']
const shown = (text: string) => encodeURIComponent(text)
const asBytes = (text: string) => Buffer.from(text).toString('latin1')

/** Answers with these cookies, from where the hooks of @fastify/cookie are and where they are not. */
async function answersOf(t: Test, cookies: readonly HostCookie[]) {
  const app = Fastify()
  t.teardown(() => app.close())
  app.get('/check', async (_request, reply) => {
    setHostCookies(reply, cookies)
    return ''
  })
  await app.register(async (pages) => {
    await pages.register(cookie)
    pages.get('/page', async (_request, reply) => {
      setHostCookies(reply, cookies)
      return ''
    })
  })
  const [check, page] = [await app.inject('/check'), await app.inject('/page')]
  return [check, page].map(({ headers }) => [headers['set-cookie'] ?? []].flat())
}

t.before(async () => void (await Fastify().register(cookie)))

t.test('readCookie', async (t) => {
  const rows: [header: string, value: string | undefined][] = [
    [`${NAME}=a`, 'a'],
    [`x=1; ${NAME}=a; y=2`, 'a'],
    [`x=1;${NAME}=a;y=2`, 'a'],
    [`x=1;   ${NAME}=a`, 'a'],
    [`x=1;\t ${NAME}=a`, 'a'],
    [`${NAME}\t =a`, 'a'],
    [`${NAME}=`, ''],
    [`${NAME}=a=b`, 'a=b'],
    ['', undefined],
    [NAME, undefined],
    [`${NAME};=a`, undefined],
    [`${NAME}x`, undefined],
    [`${NAME}.1=a`, undefined],
    [`${NAME}-x=a`, undefined],
    [`${NAME}${'x'.repeat(4_000)}=a`, undefined],
    [`x${NAME}=a`, undefined],
    [`x=${NAME}=a`, undefined],
    [`=${NAME}=a`, undefined],
    [`x=y ${NAME}=a`, undefined],
    [`x=1, ${NAME}=a`, undefined],
    [`${NAME.toLowerCase()}=a`, undefined],
    [`%5F_Host-gatehouse.main=a`, undefined],
    [`x="; ${NAME}=a"`, 'a"'],
  ]
  for (const [header, value] of rows) {
    t.equal(readCookie(header, NAME), value, header.slice(0, 60))
    t.equal(readCookies(header, NAME).get(NAME), value, header.slice(0, 60))
  }
})

t.test('a doubled cookie is none, wherever the second one stands', async (t) => {
  for (const header of [
    `${NAME}=a; ${NAME}=b`,
    `${NAME}=a; x=1; ${NAME}=a`,
    `${NAME}=; ${NAME}=`,
    `${NAME}=a;\t${NAME} =b`,
  ]) {
    t.equal(readCookie(header, NAME), undefined, header)
    t.ok(isDoubled(header, NAME), header)
    t.strictSame([...readCookies(header, '__Host-')], [[NAME, undefined]], header)
  }
  for (const header of ['', `${NAME}=a`, `${NAME}=a; x=${NAME}=b`]) t.notOk(isDoubled(header, NAME))
  t.strictSame([...readCookies(`${NAME}=a; `.repeat(3), '__Host-')], [[NAME, undefined]], 'thrice')
})

t.test('a look-alike name, behind another space of Unicode, is another cookie', async (t) => {
  for (const space of LOOK_ALIKES)
    for (const name of [`${space}${NAME}`, `${NAME}${space}`, asBytes(`${space}${NAME}`)]) {
      const at = shown(name)
      t.equal(readCookie(`${name}=evil`, NAME), undefined, at)
      t.equal(readCookie(`${name}=evil; ${NAME}=mine`, NAME), 'mine', `${at} hides nothing`)
      t.notOk(isDoubled(`${name}=evil; ${NAME}=mine`, NAME), at)
      t.notOk(readCookies(`${name}=evil`, '__Host-').has(NAME), at)
    }
})

const names = fc.constantFrom(NAME, `${NAME}.1`, `x${NAME}`, `\u00a0${NAME}`, 'x', '')
const values = fc.constantFrom('', 'a', NAME, `${NAME}=b`, '=', ' ', '\t')
const blanks = fc.constantFrom('', ' ', '\t', ' \t ')
const headers = fc
  .array(fc.tuple(blanks, names, blanks, values), { maxLength: 6 })
  .map((all) => all.map(([before, name, after, value]) => `${before}${name}${after}=${value}`))
  .map((all) => all.join(';'))

t.test('readCookie and readCookies find what splitting the whole header finds', async () => {
  fc.assert(
    fc.property(headers, (header) => {
      const found = header.split(';').flatMap((pair) => {
        const [, name, value] = /^[ \t]*([^=]*?)[ \t]*=(.*)$/s.exec(pair) ?? []
        return name === NAME && value !== undefined ? [value] : []
      })
      const value = found.length === 1 ? found[0] : undefined
      return (
        readCookie(header, NAME) === value &&
        readCookies(header, NAME).get(NAME) === value &&
        isDoubled(header, NAME) === found.length > 1
      )
    }),
    { numRuns: 2_000 },
  )
})

t.test('the names of two portals and of the two hosts are never the same', async (t) => {
  const all = ['main', 'main-1', 'app', 'hop'].flatMap((name) => [
    sessionCookieName({ name }),
    appCookieName({ name }, HOST, 'a.example.com'),
    appCookieName({ name }, DOMAIN, 'example.com'),
    appCookieName({ name }, HOST, 'a.example.com:8443'),
    appCookieName({ name }, HOST, 'a.example.com:9443'),
  ])
  t.equal(new Set(all).size, all.length)
  const own = '__Host-gatehouse-app.main'
  t.strictSame(all.slice(0, 4), [NAME, own, '__Secure-gatehouse-app.main', `${own}.8443`])
})

t.test('Set-Cookie', async (t) => {
  const rest = 'Path=/; HttpOnly; Secure; SameSite=Lax'
  const high = 'Path=/; HttpOnly; Secure; Priority=High; SameSite=Lax'
  const [app, shared] = ['__Host-gatehouse-app.main', '__Secure-gatehouse-app.main']
  const rows: [HostCookie, string][] = [
    [sessionCookie(MAIN, TOKEN, 60_000), `${NAME}=a.b.c; Max-Age=60; ${high}`],
    [sessionCookie(MAIN), `${NAME}=; Max-Age=0; ${high}`],
    [appCookie(MAIN, HOST, AT, TOKEN, 60_999), `${app}=a.b.c; Max-Age=60; ${rest}`],
    [appCookie(MAIN, HOST, AT), `${app}=; Max-Age=0; ${rest}`],
    [
      appCookie(MAIN, DOMAIN, AT, TOKEN, 60_000),
      `${shared}=a.b.c; Max-Age=60; Domain=example.com; ${rest}`,
    ],
    [appCookie(MAIN, DOMAIN, AT), `${shared}=; Max-Age=0; Domain=example.com; ${rest}`],
    [
      { name: 'x', value: 'a:b~', maxAge: 1_000, path: '/p' },
      `x=a:b~; Max-Age=1; ${rest.replace('/', '/p')}`,
    ],
  ]
  for (const [each, line] of rows) t.equal(serializeCookie(each), line)
  const lines = rows.map(([, line]) => line)
  const answers = await answersOf(
    t,
    rows.map(([each]) => each),
  )
  t.strictSame(answers, [lines, lines], 'in a check and in a page')
})

t.test('no cookie of a host has a Domain', async (t) => {
  t.notMatch(serializeCookie(appCookie(MAIN, HOST, AT, TOKEN, 60_000)), /Domain/)
  t.match(serializeCookie(appCookie(MAIN, DOMAIN, AT, TOKEN, 60_000)), /; Domain=example\.com;/)
})

t.test('refuses what would break the header', async (t) => {
  for (const value of ['a;b', 'a\r\nb', 'ä'])
    t.throws(() => serializeCookie({ name: 'x', value, maxAge: 0 }), TypeError, value)
})

t.test('browsers keep the longest token, of the portal with the longest name', async (t) => {
  const portal = { name: 'p'.repeat(32) }
  const token = 'a'.repeat(MAX_TOKEN_LENGTH)
  for (const { name, value } of [
    sessionCookie(portal, token, 1),
    appCookie(portal, DOMAIN, AT, token, 1),
  ])
    t.ok(name.length + value.length <= 4_096)
})

t.test('withoutSessionCookies', async (t) => {
  const rows: [header: string, rest: string][] = [
    ['', ''],
    [`${NAME}=a`, ''],
    [`x=1; ${NAME}=a; y=2`, 'x=1; y=2'],
    [`x=1;\t${NAME}=a;y=2;`, 'x=1; y=2'],
    ['__Host-gatehouse-app.main=a; x=1', 'x=1'],
    ['__Secure-gatehouse-app.main=a; x=1', 'x=1'],
    ['__Host-gatehouse-hop.main.0123abcd=a; x=1', 'x=1'],
    ['__host-gatehouse.main=a; x=1', 'x=1'],
    [`=${NAME}=a; x=1`, 'x=1'],
    [`x=${NAME}=a; y=2`, 'y=2'],
    [`"${NAME}"=a; y=2`, 'y=2'],
    ['__Host-other=a; gatehouse=b', '__Host-other=a; gatehouse=b'],
    ['\u00a0sid=evil; sid=mine', '\u00a0sid=evil; sid=mine'],
  ]
  for (const [header, rest] of rows) t.equal(withoutSessionCookies(header), rest, shown(header))
  for (const space of LOOK_ALIKES)
    t.equal(withoutSessionCookies(`${space}${NAME}=a; x=1`), 'x=1', shown(space))
})

t.test('no cookie that it leaves is one of ours to any parser that trims', async () => {
  fc.assert(
    fc.property(headers, (header) =>
      withoutSessionCookies(header)
        .split(';')
        .every((pair) => !pair.trim().startsWith('__Host-gatehouse')),
    ),
  )
})

t.test('reads headers of any length in linear time', async (t) => {
  const timeOf = (header: string) => {
    const start = process.cpuUsage()
    for (const read of [readCookie, isDoubled, readCookies]) read(header, NAME)
    withoutSessionCookies(header)
    return process.cpuUsage(start).user
  }
  for (const piece of [NAME, `${NAME}=`, `${NAME} `, ' ', '\t', ';', '; ', '=', '_', `;${NAME}`]) {
    timeOf(piece.repeat(10))
    const time = timeOf(piece.repeat(Math.ceil(1_000_000 / piece.length)))
    t.ok(time < 2_000_000, `${JSON.stringify(piece)}: ${time} µs`)
  }
})

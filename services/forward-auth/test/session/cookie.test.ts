import cookie from '@fastify/cookie'
import { fromClaims } from '@gatehouse/profile'
import fc from 'fast-check'
import Fastify, { type FastifyReply } from 'fastify'
import t from 'tap'
import {
  clearSessionCookies,
  readCookie,
  readSessionCookie,
  setSessionCookies,
} from '../../src/session/cookie.ts'
import type { Site } from '../../src/sites.ts'
import { cookieHeader, OTHER_SITE, SITE, startInstance } from './kit.ts'

const MAIN = { name: 'main' }
const NAME = '__Secure-gatehouse.main'
const tokens = fc.stringMatching(/^[\w-]{20,9000}\.[\w-]{1,60}\.[\w-]{43}$/)
/** The Set-Cookie values of an answer. */
async function answerOf(sent: string | undefined, set: (reply: FastifyReply) => void) {
  const app = Fastify()
  await app.register(cookie)
  app.get('/', async (_request, reply) => {
    set(reply)
    return ''
  })
  const answer = await app.inject({ url: '/', headers: sent === undefined ? {} : { cookie: sent } })
  await app.close()
  return [answer.headers['set-cookie'] ?? []].flat()
}
const writeToken = (token: string, portal: { name: string }, site: Site, sent?: string) =>
  answerOf(sent, (reply) => setSessionCookies(reply, portal, site, { token, maxAge: 60 }))
/** The Cookie header of a browser that got these Set-Cookie values. */
const cookiesSet = (lines: readonly string[]) =>
  cookieHeader(
    lines.filter((line) => !line.includes('Max-Age=0;')).map((line) => line.split(';')[0] ?? ''),
  )

type Pairs = Map<string, string>
const pairsOf = (header: string): Pairs =>
  new Map(header.split('; ').map((pair) => pair.split('=') as [string, string]))
const headerOf = (pairs: Pairs) => [...pairs].map((pair) => pair.join('=')).join('; ')

t.test('readCookie', async (t) => {
  const rows: [header: string, value: string | undefined][] = [
    [`${NAME}=a`, 'a'],
    [`x=1; ${NAME}=a; y=2`, 'a'],
    [`x=1;${NAME}=a;y=2`, 'a'],
    [`x=1;   ${NAME}=a`, 'a'],
    [`${NAME}=`, ''],
    [`${NAME}=a=b`, 'a=b'],
    ['', undefined],
    [NAME, undefined],
    [`${NAME}.1=a`, undefined],
    [`${NAME}-x=a`, undefined],
    [`x${NAME}=a`, undefined],
    [`x=${NAME}=a`, undefined],
    [`x=y ${NAME}=a`, undefined],
    [`${NAME.toLowerCase()}=a`, undefined],
    [`x="; ${NAME}=a"`, 'a"'],
  ]
  for (const [header, value] of rows) t.equal(readCookie(header, NAME), value, header)
})

t.test('ignores a session cookie that is sent twice', async (t) => {
  for (const header of [`${NAME}=a; ${NAME}=b`, `${NAME}=a; x=1; ${NAME}=a`, `${NAME}=; ${NAME}=`])
    t.equal(readCookie(header, NAME), undefined, header)
})

t.test('readCookie finds what splitting the whole header finds', async () => {
  const names = fc.constantFrom(NAME, `${NAME}.1`, `x${NAME}`, 'x', '')
  const values = fc.constantFrom('', 'a', NAME, `${NAME}=b`, '=', ' ')
  const pairs = fc.array(fc.tuple(names, values), { maxLength: 6 })
  const separators = fc.constantFrom(';', '; ', ';  ', ' ; ')
  fc.assert(
    fc.property(pairs, separators, (list, separator) => {
      const header = list.map((pair) => pair.join('=')).join(separator)
      const found = header.split(';').flatMap((pair) => {
        const text = pair.replace(/^ +/, '')
        return text.startsWith(`${NAME}=`) ? [text.slice(NAME.length + 1)] : []
      })
      return readCookie(header, NAME) === (found.length === 1 ? found[0] : undefined)
    }),
  )
})

t.test('a token of any size comes back as it was, in cookies that browsers keep', async (t) => {
  await fc.assert(
    fc.asyncProperty(tokens, async (token) => {
      const lines = await writeToken(token, MAIN, SITE)
      for (const line of lines) {
        t.match(line, /; Max-Age=60; Domain=example\.com; Path=\/; HttpOnly; Secure; SameSite=Lax$/)
        if ((line.split(';')[0]?.length ?? 0) > 4_096) return false
      }
      return readSessionCookie(`x=1; ${cookiesSet(lines)}; y=2`, MAIN) === token
    }),
    { numRuns: 50 },
  )
})

t.test('never combines the chunks of two logins into a session', async (t) => {
  const { create, read, portal } = await startInstance(t)
  const [ada, bob] = ['ada', 'bob'].map((sub) => {
    const groups = Array.from({ length: 300 }, (_, i) => `group ${i} of ${sub}`)
    return pairsOf(cookieHeader(create(fromClaims('corp', { sub, groups })).cookies))
  }) as [Pairs, Pairs]
  t.equal(ada.size, 3)
  t.equal(bob.size, 3)

  const picks = ['ada', 'bob', 'none'] as const
  for (const first of picks)
    for (const second of picks)
      for (const third of picks) {
        const chosen = [first, second, third]
        const pairs = [...ada.keys()].flatMap((name, i) => {
          const from = { ada, bob, none: undefined }[chosen[i]!]
          return from ? [`${name}=${from.get(name)}`] : []
        })
        const who = (await read(portal(), SITE, pairs.join('; ')))?.profile.id
        const isOne = first !== 'none' && first === second && second === third
        t.equal(who, isOne ? first : undefined, chosen.join(', '))
      }
})

t.test('removes the leftover chunks of a longer token and never reads them', async (t) => {
  const long = `${'a'.repeat(9_000)}.b.${'c'.repeat(43)}`
  const before = pairsOf(cookiesSet(await writeToken(long, MAIN, SITE)))
  t.strictSame([...before.keys()], [NAME, `${NAME}.1`, `${NAME}.2`])
  const after = await writeToken('d.e.f', MAIN, SITE, headerOf(before))
  t.strictSame(
    after.map((line) => line.split(';')[0]),
    [`${NAME}=d.e.f`, `${NAME}.1=`, `${NAME}.2=`],
  )
  t.ok(after.slice(1).every((line) => line.includes('; Max-Age=0; Domain=example.com;')))
  t.equal(readSessionCookie(headerOf(new Map([...before, [NAME, 'd.e.f']])), MAIN), 'd.e.f')
})

t.test('portals with similar names do not share chunks', async (t) => {
  const main1 = { name: 'main-1' }
  const long = `${'a'.repeat(9_000)}.b.${'c'.repeat(43)}`
  const header = cookiesSet([
    ...(await writeToken(long, MAIN, SITE)),
    ...(await writeToken('d.e.f', main1, SITE)),
  ])
  t.equal(readSessionCookie(header, MAIN), long)
  t.equal(readSessionCookie(header, main1), 'd.e.f')
})

t.test('malformed first chunks hold no token', async (t) => {
  const mark = 'c'.repeat(16)
  const rest = `; ${NAME}.1=${'c'.repeat(43)}`
  t.equal(readSessionCookie(`${NAME}=2~${mark}~a.b.${rest}`, MAIN), `a.b.${'c'.repeat(43)}`)
  for (const value of ['0', '1', '5', '9', '-', 'x'].map((count) => `${count}~${mark}~a.b.`))
    t.equal(readSessionCookie(`${NAME}=${value}${rest}`, MAIN), undefined, value)
  for (const value of [
    `2~${mark}`,
    `2~~a.b.`,
    `2~${mark}~`,
    `2~${mark}~a~b`,
    `2~${'d'.repeat(16)}~a.b.`,
  ])
    t.equal(readSessionCookie(`${NAME}=${value}${rest}`, MAIN), undefined, value)
  t.equal(readSessionCookie(`${NAME}=2~${mark}~a.b.`, MAIN), undefined, 'a chunk is missing')
  t.equal(
    readSessionCookie(`${NAME}=2~${mark}~a.b.${rest}${rest}`, MAIN),
    undefined,
    'a chunk is there twice',
  )
})

t.test('signing out removes every chunk, even if the first one is missing', async (t) => {
  const names = async (header: string | undefined) => {
    const lines = await answerOf(header, (reply) => clearSessionCookies(reply, MAIN, SITE))
    return lines.map((line) => line.split('=')[0])
  }
  t.strictSame(await names(undefined), [NAME])
  t.strictSame(await names(`${NAME}.1=a; ${NAME}.3=b; ${NAME}.17=c`), [
    NAME,
    `${NAME}.1`,
    `${NAME}.3`,
  ])
})

t.test('a domain that browsers take for no Domain makes a cookie of that host', async (t) => {
  for (const domain of ['localhost', '127.0.0.1', '::1']) {
    const [line = ''] = await writeToken('d.e.f', MAIN, { ...SITE, domain })
    t.notMatch(line, /Domain/, domain)
  }
  t.match((await writeToken('d.e.f', MAIN, OTHER_SITE))[0], /; Domain=example\.org;/)
})

import t from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { until } from '../../../../scripts/test/until.ts'
import { textsIn } from '../../src/pages/languages.ts'
import { SHARED_DOMAIN } from '../app.ts'
import { bothCookies } from '../helpers/both-cookies.ts'
import { MAIN, signIn } from '../portal/kit.ts'
import { SHAPES } from '../shapes.ts'
import { actionsIn, passes, startAccounts } from './kit.ts'

const en = textsIn('en')

// What is wrong in these tests, and said.
expectWarnings(t, 'FWA_RATE_LIMITED')

const CHROME =
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36'
const ADMIN = { claims: { groups: ['admin'] } }
const MINUTE = 60_000

t.test('the account lists the sessions of its person at its portal, and no other', async (t) => {
  const { person, clock, check: _, ...test } = await startAccounts(t)
  const first = await person('ada', { agent: CHROME })
  await clock.advance(MINUTE)
  const second = await person('ada')
  await person('bob')
  await person('ada', { portal: 'other' })

  const [newest, oldest, ...others] = await second.sessions()
  t.match(newest, { text: /Firefox on Linux.*This browser/, isHere: true, id: undefined })
  t.match(oldest, { text: /Chrome on Windows/, isHere: false, id: String })
  t.strictSame(others, [])
  const seen = await first.sessions()
  t.match(seen, [
    { isHere: false, id: String },
    { isHere: true, id: undefined },
  ])
  const page = await first.open('/account')
  t.strictSame(actionsIn(page), ['/account/end', '/account/end-others', '/account/end-all'])
  t.notMatch(page.body, `${MAIN}/sessions`, 'nothing for administrators')
  t.match(page, { statusCode: 200, headers: { 'cache-control': 'no-store' } })
  t.equal(test.ended().length, 0)
})

t.test('the account of a single session has nothing to end but itself', async (t) => {
  const { person } = await startAccounts(t)
  const ada = await person('ada')
  const page = await ada.open('/account')
  t.strictSame(actionsIn(page), [])
  t.match(page.body, `href="${MAIN}/logout"`)
})

t.test(
  'a session shows the apps that let it pass, at once, and none that refused it',
  async (t) => {
    const rules = `rules: [{ hosts: [app.example.com, wiki.example.com], require: signedIn },
    { hosts: [ops.example.com], require: admin }]`
    const test = await startAccounts(t, { more: `, ${rules}`, domains: SHARED_DOMAIN })
    const ada = await test.person('ada')
    const cookie = await test.signIn('main')
    const open = async (host: string) =>
      (await test.check(SHAPES[0]!, { cookie, 'X-Forwarded-Host': host })).statusCode
    const used = async () => {
      const all = await ada.sessions()
      return all.find(({ isHere }) => !isHere)?.text.replace(/.*Used at|End session/g, '')
    }
    t.equal(await open('ops.example.com'), 403)
    t.equal(await used(), '')
    t.equal(await open('app.example.com'), 200)
    // The clock stands: what is written is not written by the minute.
    await until(async () => (await used()) === 'app.example.com')
    t.equal(await open('wiki.example.com'), 200)
    t.equal(await open('app.example.com'), 200)
    t.equal(await open('ops.example.com'), 403)
    await until(async () => (await used())?.includes('wiki.example.com') === true)
    t.match(await used(), 'app.example.com')
    t.notMatch(await used(), 'ops.example.com')
  },
)

t.test('people end one of their sessions, all others, or all', async (t) => {
  const test = await startAccounts(t)
  const { person, ended } = test
  const [here, there, third, bob] = [
    await person('ada'),
    await person('ada'),
    await person('ada'),
    await person('bob'),
  ]
  const areIn = async () => Promise.all([here, there, third, bob].map(async (each) => each.isIn()))
  const id = (await third.sessions()).find(({ isHere, id }) => !isHere && id)?.id ?? ''

  const one = await third.send('/account/end', { session: id })
  t.match(one, { statusCode: 303, headers: { location: `${MAIN}/account` } })
  const left = await areIn()
  t.equal(left.filter((isIn) => isIn).length, 3)
  t.strictSame(left.slice(2), [true, true], 'the one that ends it and that of another person stay')
  t.strictSame(ended(), [['corp:ada', 'person', 'corp:ada']])

  const others = await third.send('/account/end-others')
  t.match(others, { statusCode: 303, headers: { location: `${MAIN}/account` } })
  t.strictSame(await areIn(), [false, false, true, true])
  t.equal((await third.sessions()).length, 1)

  const back = await person('ada')
  const all = await third.send('/account/end-all')
  t.match(all, { statusCode: 200, body: en.signedOut.title })
  t.match([all.headers['set-cookie']].flat().join('\n'), /^__Host-gatehouse\.main=; Max-Age=0;/m)
  t.strictSame(await areIn(), [false, false, false, true])
  t.equal(await back.isIn(), false)
  t.strictSame(ended(), Array(4).fill(['corp:ada', 'person', 'corp:ada']))
})

t.test('the end of a session reaches the apps that it was used at', async (t) => {
  const test = await startAccounts(t)
  const cookies = await bothCookies(test, { sub: 'ada' })
  t.equal(await passes(test, cookies.app), true)
  const ada = await test.person('ada')
  await ada.send('/account/end-others')
  t.equal(await passes(test, cookies.app), false)
})

t.test('a session that ends itself by its ID signs out', async (t) => {
  const { person } = await startAccounts(t)
  const [ada, other] = [await person('ada'), await person('ada')]
  const session = (await other.sessions()).find(({ isHere }) => !isHere)?.id ?? ''
  t.match(await ada.send('/account/end', { session }), {
    statusCode: 200,
    body: en.signedOut.title,
  })
  t.equal(await ada.isIn(), false)
  t.equal(await other.isIn(), true)
})

t.test('nobody ends a session of another person or portal', async (t) => {
  const { person, ended } = await startAccounts(t)
  const [ada, bob, bobToo] = [await person('ada'), await person('bob'), await person('bob')]
  const [elsewhere, elsewhereToo] = [
    await person('ada', { portal: 'other' }),
    await person('ada', { portal: 'other' }),
  ]
  const idOf = async (whose: typeof ada) =>
    (await whose.sessions()).find(({ isHere }) => !isHere)?.id ?? ''
  const ids = [await idOf(bobToo), await idOf(elsewhereToo)]
  t.notOk(ids.includes(''))
  const tried = [...ids, '', 'x', '__proto__', 'a'.repeat(10_000)]
  for (const session of tried) {
    const answer = await ada.send('/account/end', { session })
    t.match(answer, { statusCode: 303, headers: { location: `${MAIN}/account` } })
  }
  await ada.send('/account/end')
  for (const path of ['/account/end', '/account/end-others', '/account/end-all'])
    await (await person('ada')).send(path, { person: 'bob', session: ids[0] ?? '' })
  for (const each of [bob, bobToo, elsewhere, elsewhereToo]) t.equal(await each.isIn(), true)
  t.notOk(ended().some(([who]) => who !== 'corp:ada'))
})

t.test('nothing but our own forms ends a session', async (t) => {
  const { person, ended } = await startAccounts(t)
  const [ada, other] = [await person('ada', ADMIN), await person('ada', ADMIN)]
  const session = (await ada.sessions()).find(({ isHere }) => !isHere)?.id ?? ''
  for (const path of ['/account/end', '/account/end-others', '/account/end-all', '/sessions/end'])
    for (const origin of [
      undefined,
      'null',
      'https://evil.test',
      'https://app.example.com',
      'http://auth.example.com',
      'https://auth.example.com:8443',
      'https://auth.example.com.evil.test',
    ]) {
      const answer = await ada.send(path, { session, person: 'ada' }, { origin })
      t.match(answer, { statusCode: 403 }, `${path} of ${origin}`)
      t.notOk(answer.headers['set-cookie'])
    }
  for (const [type, status] of [
    ['application/json', 400],
    ['text/plain', 400],
    ['multipart/form-data', 415],
  ] as const) {
    const headers = { 'content-type': type }
    t.equal((await ada.send('/account/end', { session }, headers)).statusCode, status, type)
  }
  for (const each of [ada, other]) t.equal(await each.isIn(), true)
  t.strictSame(ended(), [])
})

t.test('whoever is not signed in signs in, and comes back', async (t) => {
  const { visitor, corp, person } = await startAccounts(t)
  const nobody = visitor()
  for (const path of ['/account', '/sessions']) {
    const answer = await nobody.open(`${MAIN}${path}`)
    const rd = new URLSearchParams({ rd: `${MAIN}${path}` })
    t.match(answer, { statusCode: 303, headers: { location: `${MAIN}/signin?${rd}` } })
    const signedIn = await signIn(nobody, corp, 'ada', answer.headers.location)
    t.equal(signedIn.headers.location, `${MAIN}${path}`)
    nobody.jar.clear()
  }
  const out = await person('ada')
  out.browser.jar.clear()
  for (const [path, page] of [
    ['/account/end', '/account'],
    ['/account/end-others', '/account'],
    ['/account/end-all', '/account'],
    ['/sessions/end', '/sessions'],
  ] as const) {
    const rd = new URLSearchParams({ rd: `${MAIN}${page}` })
    const answer = await out.send(path, { session: 'x' })
    t.match(answer, { statusCode: 303, headers: { location: `${MAIN}/signin?${rd}` } }, path)
  }
})

t.test('/signin without a return URL leads people to their account', async (t) => {
  const { person } = await startAccounts(t)
  const ada = await person('ada')
  const answer = await ada.open('/signin')
  t.match(answer, { statusCode: 303, headers: { location: `${MAIN}/account` } })
})

t.test('administrators see the sessions of everybody at their portal', async (t) => {
  const { person } = await startAccounts(t)
  const [ada, grace] = [await person('ada'), await person('grace', ADMIN)]
  await person('ada', { portal: 'other' })
  const page = await grace.open('/account')
  t.match(page.body, `href="${MAIN}/sessions"`, 'the account leads there')
  const all = await grace.sessions('/sessions')
  t.match(all.map(({ text }) => text).sort(), [/Name of ada/, /Name of grace/])
  t.equal(all.length, 2)

  const refused = await ada.open('/sessions')
  t.equal(refused.statusCode, 403)
  t.notMatch(refused.body, 'grace')
  const elsewhere = await person('grace', { ...ADMIN, portal: 'other' })
  t.equal((await elsewhere.open('/sessions')).statusCode, 403, 'a portal without administrators')
})

t.test('administrators find people by address and identifier', async (t) => {
  const { person } = await startAccounts(t)
  await person('ada', { claims: { email: 'Ada@Example.com' } })
  await person('ada', { claims: { email: 'ada@example.com' } })
  await person('bob', { claims: { email: 'bob@example.com' } })
  const grace = await person('grace', ADMIN)
  for (const [whom, names] of [
    ['ada@example.com', ['ada', 'ada']],
    ['ADA@EXAMPLE.COM', ['ada', 'ada']],
    ['ada', ['ada', 'ada']],
    ['corp:ada', ['ada', 'ada']],
    ['bob@example.com', ['bob']],
    ['bob', ['bob']],
    ['Bob', []],
    ['bo', []],
    ['corp:', []],
    ['other:ada', []],
    ['%', []],
    ['', ['bob', 'ada', 'ada', 'grace']],
  ] as const) {
    const found = await grace.sessions(`/sessions?${new URLSearchParams({ person: whom })}`)
    const said = found.map(({ text }) => /Name of (ada|bob|grace)/.exec(text)?.[1])
    t.strictSame(said.sort(), [...names].sort(), whom)
  }
  const odd = '"><script>alert(1)</script>'
  const page = await grace.open(`/sessions?${new URLSearchParams({ person: odd })}`)
  t.match(page, { statusCode: 200, body: en.sessions.none })
  t.notMatch(page.body, '<script>')
})

t.test('administrators end one session, all of a person, or their own', async (t) => {
  const { person, ended } = await startAccounts(t)
  const [ada, adaToo, bob] = [await person('ada'), await person('ada'), await person('bob')]
  const elsewhere = await person('ada', { portal: 'other' })
  const elsewhereToo = await person('ada', { portal: 'other' })
  const grace = await person('grace', ADMIN)
  const found = await grace.sessions('/sessions?person=bob')
  const toSessions = { statusCode: 303, headers: { location: `${MAIN}/sessions` } }
  t.match(await grace.send('/sessions/end', { session: found[0]?.id ?? '' }), toSessions)
  t.equal(await bob.isIn(), false)
  t.strictSame([await ada.isIn(), await adaToo.isIn()], [true, true])
  t.strictSame(ended(), [['corp:bob', 'administrator', 'corp:grace']])

  const foreign = (await elsewhereToo.sessions()).find(({ isHere }) => !isHere)?.id ?? ''
  t.match(await grace.send('/sessions/end', { session: foreign }), toSessions)
  t.match(await grace.send('/sessions/end', {}), toSessions)
  t.equal(ended().length, 1, 'those of another portal are none')

  t.match(await grace.send('/sessions/end', { person: 'ada' }), toSessions)
  t.strictSame([await ada.isIn(), await adaToo.isIn()], [false, false])
  t.strictSame([await elsewhere.isIn(), await elsewhereToo.isIn()], [true, true])
  t.strictSame(ended().slice(1), Array(2).fill(['corp:ada', 'administrator', 'corp:grace']))

  const own = await grace.send('/sessions/end', { person: 'grace' })
  t.match(own, { statusCode: 200, body: en.signedOut.title })
  t.equal(await grace.isIn(), false)
})

t.test('nobody else ends sessions of others', async (t) => {
  const { person, ended } = await startAccounts(t)
  const [ada, bob] = [await person('ada'), await person('bob')]
  const grace = await person('grace', ADMIN)
  const session = (await grace.sessions('/sessions?person=bob'))[0]?.id ?? ''
  t.not(session, '')
  for (const fields of [{ session }, { person: 'bob' }, {}]) {
    const answer = await ada.send('/sessions/end', fields)
    t.equal(answer.statusCode, 303)
    t.match(answer.headers.location, `${MAIN}/signin?rd=`)
  }
  t.equal(await bob.isIn(), true)
  t.strictSame(ended(), [])
})

t.test('administrators sign in anew where their policy demands it', async (t) => {
  const policy = `{ condition: 'Group("admin")', maxAge: 5m }`
  const { person, clock, corp } = await startAccounts(t, { admins: policy })
  const claims = () => ({ groups: ['admin'], auth_time: clock.now() / 1_000 })
  const [ada, grace] = [await person('ada'), await person('grace', { claims: claims() })]
  t.equal((await grace.open('/sessions')).statusCode, 200)
  const session = (await grace.sessions('/sessions?person=ada'))[0]?.id ?? ''
  await clock.advance(6 * MINUTE)
  const answer = await grace.open('/sessions')
  const query = new URLSearchParams({ rd: `${MAIN}/sessions`, policy: 'admin' })
  t.match(answer, { statusCode: 303, headers: { location: `${MAIN}/signin?${query}` } })
  t.notMatch((await grace.open('/account')).body, `href="${MAIN}/sessions"`)
  t.equal((await grace.send('/sessions/end', { session })).statusCode, 303)
  t.equal(await ada.isIn(), true, 'nor ends a form anything')

  corp.state.claims = claims()
  const back = await signIn(grace.browser, corp, 'grace', answer.headers.location)
  t.equal(back.headers.location, `${MAIN}/sessions`)
  t.equal((await grace.open('/sessions')).statusCode, 200)
  t.equal((await ada.open('/sessions')).statusCode, 403, 'no sign-in makes one of others')
})

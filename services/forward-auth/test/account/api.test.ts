import t from 'tap'
import {
  AUDIENCE,
  startTokenIssuer,
} from '../../../../packages/identity-providers/test/stand-ins/token-issuer.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { portalOf, startApp, yamlOf } from '../app.ts'
import { bothCookies } from '../helpers/both-cookies.ts'
import { API_KEY, passes, startAccounts } from './kit.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'AUTH_')

const KEY = { authorization: `APIKey ${API_KEY}` }

async function start(t: Parameters<typeof startAccounts>[0]) {
  const test = await startAccounts(t)
  const end = (payload: unknown, headers: object = KEY, portal = 'main') =>
    test.app.inject({
      ...{ method: 'POST', url: `/api/portals/${portal}/sessions/end` },
      headers: { host: 'auth.example.com', 'content-type': 'application/json', ...headers },
      payload: typeof payload === 'string' ? payload : JSON.stringify(payload),
    })
  return { ...test, end }
}

t.test('a program ends the sessions of a person, or one', async (t) => {
  const test = await start(t)
  const { person, end, ended } = test
  const claims = { email: 'ada@example.com' }
  const [ada, adaToo] = [await person('ada', { claims }), await person('ada', { claims })]
  const [bob, bobToo] = [await person('bob'), await person('bob')]
  const elsewhere = await person('ada', { claims, portal: 'other' })
  const app = (await bothCookies(test, { sub: 'ada', ...claims })).app
  t.equal(await passes(test, app), true)

  const answer = await end({ person: 'Ada@example.com' })
  t.match(answer, { statusCode: 200, headers: { 'cache-control': 'no-store' } })
  t.strictSame(answer.json(), { ended: 3 })
  t.strictSame(
    [await ada.isIn(), await adaToo.isIn(), await passes(test, app)],
    [false, false, false],
  )
  t.strictSame([await bob.isIn(), await elsewhere.isIn()], [true, true])
  t.strictSame(ended(), Array(3).fill(['corp:ada', 'program', 'psk:leave']))
  t.strictSame((await end({ person: 'corp:ada' })).json(), { ended: 0 }, 'once more')

  const session = (await bobToo.sessions()).find(({ isHere }) => !isHere)?.id
  t.strictSame((await end({ session })).json(), { ended: 1 })
  t.strictSame([await bob.isIn(), await bobToo.isIn()], [false, true])
  t.strictSame((await end({ session })).json(), { ended: 0 }, 'once more')
  t.strictSame((await end({ person: 'bob' })).json(), { ended: 1 })
})

t.test('nothing of another portal ends', async (t) => {
  const { person, end, ended } = await start(t)
  const [ada, adaToo] = [
    await person('ada', { portal: 'other' }),
    await person('ada', { portal: 'other' }),
  ]
  const session = (await adaToo.sessions()).find(({ isHere }) => !isHere)?.id
  for (const body of [{ session }, { person: 'ada' }, { session: 'unknown' }, { person: 'nobody' }])
    t.strictSame((await end(body)).json(), { ended: 0 })
  t.equal((await end({ person: 'ada' }, KEY, 'other')).statusCode, 401, 'a portal without keys')
  t.equal((await end({ person: 'ada' }, KEY, 'none')).statusCode, 404)
  t.strictSame([await ada.isIn(), await adaToo.isIn()], [true, true])
  t.strictSame(ended(), [])
})

t.test('a program needs a key with the scope', async (t) => {
  const { person, end, signIn, ended } = await start(t)
  const ada = await person('ada')
  const cookie = await signIn('main', { groups: ['admin'] }, { host: 'auth.example.com' })
  const token = cookie.slice(cookie.indexOf('=') + 1)
  const table: [what: string, headers: object, status: number, code: string][] = [
    ['nothing', {}, 401, 'AUTH_CREDENTIALS_MISSING'],
    ['a key that nobody has', { authorization: `APIKey ${API_KEY}x` }, 401, 'AUTH_'],
    [
      'a key without the scope',
      { authorization: `APIKey ${API_KEY}-2` },
      403,
      'AUTH_SCOPE_MISSING',
    ],
    ['the session of an administrator', { cookie, host: 'auth.example.com' }, 401, 'AUTH_'],
    ['its token', { authorization: `Bearer ${token}` }, 401, 'AUTH_'],
  ]
  for (const [what, headers, status, code] of table) {
    const answer = await end({ person: 'ada' }, headers)
    t.match(answer, { statusCode: status, headers: { 'cache-control': 'no-store' } }, what)
    t.match(answer.json().code, code, what)
    t.ok(answer.headers['www-authenticate'], what)
  }
  t.equal(await ada.isIn(), true)
  t.strictSame(ended(), [])
})

t.test('a row of callers counts as at a check, at the sign-in host', async (t) => {
  const { person, end, ended, log } = await start(t)
  const ada = await person('ada')
  const key = (number: string) => ({ authorization: `APIKey ${API_KEY}${number}` })
  const table: [what: string, headers: object, status: number, code: string, by?: string][] = [
    ['`hosts` names an app', key('-3'), 403, 'FWA_FORBIDDEN', 'hosts'],
    ['`policies`: no policy is for this', key('-4'), 403, 'FWA_FORBIDDEN', 'policies'],
    ['both', key('-5'), 403, 'FWA_FORBIDDEN', 'policies'],
    ['at the host of an app', { ...KEY, host: 'app.example.com' }, 403, 'FWA_HOST_UNKNOWN'],
    ['the app that `hosts` names', { ...key('-3'), host: 'app.example.com' }, 403, 'FWA_HOST_'],
    ['at another address', { ...KEY, host: '127.0.0.1:4181' }, 403, 'FWA_HOST_UNKNOWN'],
  ]
  for (const [what, headers, status, code, by] of table) {
    const answer = await end({ person: 'ada' }, headers)
    t.match([answer.statusCode, answer.json().code], [status, code], what)
    const refused = log.filter(({ event }) => event === 'access-refused').at(-1)
    if (by) t.match(refused, { host: 'auth.example.com', code, refusedBy: by }, what)
  }
  t.equal(await ada.isIn(), true)
  const password = Buffer.from(`password:${API_KEY}-6`).toString('base64')
  const answer = await end({ person: 'ada' }, { authorization: `Basic ${password}` })
  t.strictSame(answer.json(), { ended: 1 }, 'a key as a password, where its row says so')
  t.equal(ended().length, 1)
})

t.test('what an issuer allows counts', async (t) => {
  const issuer = await startTokenIssuer(t)
  const row =
    `{ name: corp-ci, issuerUrl: "${issuer.origin}", audience: "${AUDIENCE}", hosts: [auth.example.com],
    allow: 'caller.claims.team == "people"' }`.replace(/\s+/g, ' ')
  const { app } = await startApp(t, yamlOf(portalOf('main', `callers: { issuers: [${row}] }`)))
  const end = (claims: object) =>
    app.inject({
      ...{ method: 'POST', url: '/api/portals/main/sessions/end' },
      headers: {
        ...{ host: 'auth.example.com', 'content-type': 'application/json' },
        authorization: `Bearer ${issuer.issue({ scope: 'sessions:end', ...claims })}`,
      },
      payload: '{"person":"ada"}',
    })
  t.match((await end({ team: 'sales' })).json(), { status: 403, code: 'FWA_FORBIDDEN' })
  t.match((await end({})).json(), { status: 403, code: 'FWA_FORBIDDEN' })
  t.strictSame((await end({ team: 'people' })).json(), { ended: 0 })
  const other = await end({ team: 'people', scope: 'other' })
  t.match(other.json(), { status: 403, code: 'AUTH_SCOPE_MISSING' })
  t.match(other.headers['www-authenticate'], 'scope="sessions:end"')
})

t.test('a body names one person or one session', async (t) => {
  const { person, end, ended } = await start(t)
  const ada = await person('ada')
  const json = {}
  const table: [body: unknown, headers: object, status: number][] = [
    [{}, json, 400],
    [[], json, 400],
    ['null', json, 400],
    ['', json, 400],
    ['{"person":', json, 400],
    [{ person: 1 }, json, 400],
    [{ person: null }, json, 400],
    [{ person: ['ada'] }, json, 400],
    [{ person: 'ada', session: 'x' }, json, 400],
    [{ person: 'ada', portal: 'other' }, json, 400],
    [{ person: 'a'.repeat(321) }, json, 400],
    [{ session: 'a'.repeat(65) }, json, 400],
    ['person=ada', { 'content-type': 'application/x-www-form-urlencoded' }, 415],
    ['ada', { 'content-type': 'text/plain' }, 400],
    [{ person: 'a'.repeat(2 ** 21) }, json, 413],
  ]
  for (const [body, headers, status] of table)
    t.equal(
      (await end(body, { ...KEY, ...headers })).statusCode,
      status,
      JSON.stringify(body).slice(0, 60),
    )
  t.strictSame((await end({ person: '' })).json(), { ended: 0 })
  t.equal(await ada.isIn(), true)
  t.strictSame(ended(), [])
})

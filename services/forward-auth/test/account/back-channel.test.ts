import { ProviderError } from '@gatehouse/identity-providers'
import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { createFakeProvider, type FakeProvider } from '../fake-provider.ts'
import {
  goalOf,
  MAIN,
  signIn,
  signInUrl,
  start as startService,
  WANTED,
  whoIs,
} from '../portal/kit.ts'
import type { Visitor } from '../visitor.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'FWA_LOGOUT_TOKEN', 'FWA_PROVIDER_UNREACHABLE')

const FORM = { 'content-type': 'application/x-www-form-urlencoded' }
/** The `iat` of the ID token of a sign-in, in s. */
const AT = 1_893_456_000

const githubOf = (): FakeProvider => {
  const github = createFakeProvider('github')
  const { readLogoutToken: _, ...provider } = github.provider
  return { ...github, provider: { ...provider, relation: undefined } }
}

/** Two portals that share a client, and an endpoint for its provider. */
async function start(t: Test) {
  const [lab, github] = [createFakeProvider('lab'), githubOf()]
  const others = [lab.provider, github.provider]
  const test = await startService(t, { others, admits: () => true })
  const { app, corp, visitor, log } = test

  /** Somebody who has signed in at a portal, in a session of the provider. */
  async function person(sub: string, sid?: string, { portal = 'main', provider = corp } = {}) {
    const browser = visitor()
    provider.state.signedIn = { tokens: {}, issuedAt: AT, ...(sid !== undefined && { sid }) }
    const rd = new URLSearchParams({ rd: WANTED })
    const url = `${MAIN.replace('main', portal)}/providers/${provider.provider.name}?${rd}`
    await signIn(browser, provider, sub, url)
    return { browser, isIn: async () => (await whoIs(browser, portal)) === sub }
  }

  /** A form of a provider; the fake one has JSON for a logout token. */
  const post = (
    payload: string | undefined,
    { headers = FORM as object, path = 'main/providers/corp' } = {},
  ) =>
    app.inject({
      ...{ method: 'POST', url: `/portals/${path}/backchannel-logout` },
      headers: { host: 'auth.example.com', ...headers } as Record<string, string>,
      ...(payload !== undefined && { payload }),
    })
  const formOf = (...tokens: (object | string)[]) =>
    String(
      new URLSearchParams(
        tokens.map((token): [string, string] => [
          'logout_token',
          typeof token === 'string' ? token : JSON.stringify({ issuedAt: AT, jti: 'a', ...token }),
        ]),
      ),
    )
  const told = () => log.filter(({ msg }) => String(msg).startsWith('logout token refused'))
  /** By whom sessions have ended, and where. */
  const ended = () =>
    log
      .filter(({ event }) => event === 'session-ended')
      .map(({ portal, person, caller }) => [portal, person, caller])
  return { ...test, lab, github, person, post, formOf, told, ended }
}

const areIn = (people: readonly { isIn(): Promise<boolean> }[]) =>
  Promise.all(people.map((each) => each.isIn()))

t.test('the end of a session at the provider ends it in all portals of the client', async (t) => {
  const { person, post, formOf, ended } = await start(t)
  const people = [
    await person('ada', 'one'),
    await person('ada', 'one', { portal: 'other' }),
    await person('ada', 'two'),
    await person('ada'),
    await person('bob', 'three'),
  ]
  const answer = await post(formOf({ sid: 'one', sub: 'ada' }))
  t.match(answer, { statusCode: 200, body: '' })
  t.match(answer.headers, { 'cache-control': 'no-store', connection: 'close' })
  t.strictSame(await areIn(people), [false, false, true, true, true])
  t.strictSame(ended().sort(), [
    ['main', 'corp:ada', 'corp'],
    ['other', 'corp:ada', 'corp'],
  ])
})

t.test('without a session all of the person end', async (t) => {
  const { person, post, formOf, ended, lab } = await start(t)
  const people = [
    await person('ada', 'one'),
    await person('ada', undefined, { portal: 'other' }),
    await person('bob', 'one-of-bob'),
    await person('ada', 'one', { provider: lab }),
  ]
  t.strictSame(await areIn(people), [true, true, true, true])
  const path = 'other/providers/corp'
  t.equal((await post(formOf({ sub: 'ada' }), { path })).statusCode, 200)
  t.strictSame(await areIn(people), [false, false, true, true], 'nobody of another provider')
  t.equal(ended().length, 2)
})

t.test('what began after the logout token stays', async (t) => {
  const { person, post, formOf } = await start(t)
  const people = [await person('ada', 'one')]
  for (const token of [{ sid: 'one' }, { sub: 'ada' }])
    t.equal((await post(formOf({ ...token, issuedAt: AT - 1 }))).statusCode, 200)
  t.strictSame(await areIn(people), [true])
  await post(formOf({ sid: 'one', issuedAt: AT }))
  t.strictSame(await areIn(people), [false])
})

t.test('a session that nobody knows is no error', async (t) => {
  const { person, post, formOf, ended } = await start(t)
  const people = [await person('ada', 'one')]
  for (const token of [{ sid: 'none' }, { sub: 'nobody' }, { sid: '' }, {}]) {
    const answer = await post(formOf(token))
    t.match(answer, { statusCode: 200, body: '' }, JSON.stringify(token))
    t.match(answer.headers, { 'cache-control': 'no-store', connection: 'close' })
  }
  t.strictSame(await areIn(people), [true])
  t.strictSame(ended(), [])
})

t.test('what is no logout token is refused, and told once', async (t) => {
  const { person, post, formOf, told, clock } = await start(t)
  const people = [await person('ada', 'one')]
  const token = { sid: 'one' }
  const table: [what: string, payload: string | undefined, headers: object, status: number][] = [
    ['no JSON', formOf('nonsense'), FORM, 400],
    ['nothing', '', FORM, 400],
    ['an empty one', 'logout_token=', FORM, 400],
    ['another field', `token=${encodeURIComponent(JSON.stringify(token))}`, FORM, 400],
    ['several', formOf(token, token), FORM, 400],
    ['one and a bad one', formOf('nonsense', token), FORM, 400],
    ['a form of 1 MB', formOf(token, 'x'.repeat(2 ** 20)), FORM, 413],
    ['JSON', JSON.stringify(token), { 'content-type': 'application/json' }, 400],
    ['plain text', formOf(token), { 'content-type': 'text/plain' }, 400],
    ['a type that is none', formOf(token), { 'content-type': 'form' }, 415],
    ['no type', formOf(token), {}, 400],
    ['a form without a body', undefined, FORM, 400],
    ['JSON without a body', undefined, { 'content-type': 'application/json' }, 400],
    ['no body', undefined, {}, 400],
    ['1 MB of plain text', 'x'.repeat(2 ** 20), { 'content-type': 'text/plain' }, 413],
  ]
  for (const [what, payload, headers, status] of table) {
    const answer = await post(payload, { headers })
    t.equal(answer.statusCode, status, what)
    if (status === 400) {
      t.equal(answer.json().code, 'FWA_LOGOUT_TOKEN', what)
      t.match(answer.headers, { 'cache-control': 'no-store', connection: 'close' }, what)
    }
  }
  t.strictSame(await areIn(people), [true])
  t.match(told(), [{ level: 40, code: 'FWA_LOGOUT_TOKEN', portal: 'main', provider: 'corp' }])
  t.equal(told().length, 1, 'once a minute')
  await clock.advance(60_000)
  await post(formOf('nonsense'))
  t.equal(told().length, 2)
})

t.test('only providers that send logout tokens have the page', async (t) => {
  const { person, post, formOf, app } = await start(t)
  const people = [await person('ada', 'one')]
  for (const path of [
    'main/providers/github',
    'main/providers/none',
    'main/providers/__proto__',
    'none/providers/corp',
  ])
    t.equal((await post(formOf({ sid: 'one' }), { path })).statusCode, 404, path)
  const url = '/portals/main/providers/corp/backchannel-logout'
  t.equal((await app.inject({ url, headers: { host: 'auth.example.com' } })).statusCode, 405)
  t.strictSame(await areIn(people), [true])
})

t.test('a provider whose keys cannot be had is asked to send the token again', async (t) => {
  const { person, post, formOf, corp, told } = await start(t)
  const people = [await person('ada', 'one')]
  const { readLogoutToken } = corp.provider
  corp.provider.readLogoutToken = async () => {
    throw new ProviderError('FWA_PROVIDER_UNREACHABLE', 'corp plays FWA_PROVIDER_UNREACHABLE')
  }
  t.equal((await post(formOf({ sid: 'one' }))).statusCode, 503)
  t.strictSame(told(), [], 'which is no refusal')
  Object.assign(corp.provider, { readLogoutToken })
  t.equal((await post(formOf({ sid: 'one' }))).statusCode, 200)
  t.strictSame(await areIn(people), [false])
})

/** Has something happen when the provider has named somebody, and their session is not stored yet. */
function beforeStored(app: FastifyInstance, happen: () => Promise<unknown>): void {
  const { authStore } = app
  const beginSession = authStore.beginSession.bind(authStore)
  authStore.beginSession = async (row) => {
    authStore.beginSession = beginSession
    await happen()
    return beginSession(row)
  }
}

for (const token of [{ sid: 'one' }, { sub: 'ada' }])
  t.test(`a logout by ${Object.keys(token)} outruns a sign-in that is being stored`, async (t) => {
    const { person, post, formOf, app, visitor, corp } = await start(t)
    beforeStored(app, () => post(formOf(token)))
    corp.state.signedIn = { tokens: {}, issuedAt: AT, sid: 'one' }
    const ada: Visitor = visitor()
    const answer = await signIn(ada, corp, 'ada', signInUrl().replace('/signin', '/providers/corp'))
    t.equal(goalOf(answer), WANTED)
    t.notMatch([answer.headers['set-cookie']].flat().join(), '__Host-gatehouse.main=ey')
    t.equal(await whoIs(ada), 401)

    corp.state.signedIn = { tokens: {}, issuedAt: AT + 1, sid: 'one' }
    await signIn(ada, corp, 'ada', signInUrl().replace('/signin', '/providers/corp'))
    t.equal(await whoIs(ada), 'ada', 'who signs in anew is in')
    t.equal(await (await person('bob', 'two')).isIn(), true)
  })

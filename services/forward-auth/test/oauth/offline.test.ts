import type { LightMyRequestResponse } from 'fastify'
import t from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { portalOf, yamlOf } from '../app.ts'
import { AUTH } from '../portal/kit.ts'
import type { Visitor } from '../visitor.ts'
import { answerIn, NOTES, portalWith, REDIRECT, sendForm, startIssuer } from './kit.ts'

expectWarnings(t, 'FWA_', 'AUTH_')

const DAY = 86_400_000
const HOUR = 3_600_000
const TOKENS = { refresh: 'of-the-session', id: 'x' }
const OFFLINE = { refresh: 'of-the-agents' }

/** What the provider answers, without and with its page. */
interface Answer {
  readonly tokens?: object
  readonly consented?: object
  readonly sub?: string
  readonly error?: string
}

const PORTAL = portalWith('session: { lifetime: 8h, refresh: 1h }')

/** An issuer with a resource whose agents work without their person. */
async function startOffline(t: Parameters<typeof startIssuer>[0], lifetime = '30d') {
  const portal = PORTAL.replace(`{ url: "${NOTES}", `, `{ url: "${NOTES}", lifetime: ${lifetime}, `)
  const issuer = await startIssuer(t, { yaml: yamlOf(portal + portalOf('elsewhere')) })
  const { corp, authorizeUrl, decide, redeem } = issuer
  corp.state.signedIn = { tokens: TOKENS }

  const prompts: (string | null)[] = []

  /** Goes through what follows the Allow of a person; the provider answers with `tokens`, for `sub`. */
  async function follow(
    browser: Visitor,
    first: LightMyRequestResponse,
    { tokens = OFFLINE, sub = 'ada', error = '', consented = tokens }: Answer = {},
  ) {
    const ways: string[] = []
    let answer = first
    while (!answerIn(answer).to.startsWith(REDIRECT)) {
      const { location = '' } = answer.headers
      ways.push(new URL(location).pathname)
      if (!location.startsWith('https://corp.test/')) answer = await browser.open(location)
      else {
        const prompt = new URL(location).searchParams.get('prompt')
        prompts.push(prompt)
        corp.state.signedIn = { tokens: prompt === 'consent' ? consented : tokens }
        const callback = corp.authorize(location, sub)
        if (error) callback.searchParams.set('error', error)
        if (error) callback.searchParams.delete('code')
        answer = await browser.open(callback)
        corp.state.signedIn = { tokens: TOKENS }
      }
      if (ways.length > 8) throw new Error(ways.join(' '))
    }
    return { ways, answer: answerIn(answer) }
  }

  async function connect(browser: Visitor, of: Parameters<typeof follow>[2] = {}) {
    const page = await browser.open(authorizeUrl())
    const first = page.statusCode === 200 ? await decide(browser, page) : page
    const { ways, answer } = await follow(browser, first, of)
    return { ways, tokens: (await redeem(answer.code)).json() }
  }
  const send = (browser: Visitor, path: string, fields: Record<string, string> = {}) =>
    sendForm(issuer, browser, path, fields)
  /** Whether an agent still works, by a call with a token that it renews first. */
  const works = async (token: string) => {
    const renewed = await issuer.refresh(token)
    if (renewed.statusCode !== 200) return undefined
    const { access_token: access, refresh_token: next } = renewed.json()
    return (await issuer.call(access)).statusCode === 200 ? (next as string) : undefined
  }
  return { ...issuer, connect, follow, prompts, send, works }
}

t.test('an agent works without its person, for as long as the resource says', async (t) => {
  const { person, connect, send, works, clock, corp } = await startOffline(t, '3d')
  const asked: unknown[] = []
  corp.state.reRead = (before) => {
    asked.push(before.id)
    return { kind: 'read', signedIn: { profile: before, tokens: OFFLINE } }
  }
  const browser = await person()
  const { ways, tokens } = await connect(browser)
  t.strictSame(ways, [
    '/portals/main/authorize/granted',
    '/authorize',
    '/portals/main/authorize/granted',
  ])
  t.strictSame((await connect(browser)).ways, [], 'the provider is asked once')
  await send(browser, '/logout')
  let token =
    (await works(tokens.refresh_token)) ?? (await connect(await person())).tokens.refresh_token
  for (let hour = 12; hour < 72; hour += 12) {
    await clock.advance(12 * HOUR)
    token = (await works(token)) ?? ''
    t.ok(token, `after ${hour} hours`)
  }
  t.ok(asked.length >= 5, 'the provider is asked again and again')
  await clock.advance(12 * HOUR)
  t.notOk(await works(token), 'after three days')
})

t.test('what ends the person ends what works without them', async (t) => {
  for (const [why, end] of [
    ['signing out everywhere', ({ send, browser }) => send(browser, '/account/end-all')],
    [
      'an administrator',
      async ({ send, person }) =>
        send(await person('root', { groups: ['admin'] }), '/sessions/end', { person: 'ada' }),
    ],
    [
      'an administrator, of somebody who has signed out',
      async ({ send, person, browser }) => {
        await send(browser, '/logout')
        await send(await person('root', { groups: ['admin'] }), '/sessions/end', { person: 'ada' })
      },
    ],
    [
      'a resource that lets no agent work without its person any more',
      ({ reload }) => reload(yamlOf(PORTAL + portalOf('elsewhere'))),
    ],
    [
      'a provider whose sign-ins are not read again',
      async ({ corp, clock }) => {
        Object.assign(corp.provider, { reReads: false })
        corp.state.reRead = { kind: 'ended', why: 'gone' }
        await clock.advance(2 * HOUR)
      },
    ],
    [
      'the provider, which knows the account no more',
      async ({ corp, clock }) => {
        corp.state.reRead = { kind: 'ended', why: 'gone' }
        await clock.advance(2 * HOUR)
      },
    ],
    [
      'a provider that gives nothing to ask with any more',
      async ({ corp, clock }) => {
        corp.state.reRead = { kind: 'impossible' }
        await clock.advance(2 * HOUR)
      },
    ],
  ] as readonly (readonly [string, (of: Ending) => Promise<unknown>])[]) {
    const issuer = await startOffline(t)
    const browser = await issuer.person()
    const { tokens } = await issuer.connect(browser)
    const token = await issuer.works(tokens.refresh_token)
    t.ok(token, why)
    await end({ ...issuer, browser })
    t.notOk(await issuer.works(token ?? ''), why)
  }
})

type Ending = Awaited<ReturnType<typeof startOffline>> & { readonly browser: Visitor }

t.test('without a token of its own, an agent ends with the session', async (t) => {
  for (const [why, of] of [
    ['the provider gives none', { tokens: {} }],
    ['the provider gives one that ends', { tokens: { access: 'a', accessUntil: 9e12 } }],
    ['the provider would have to ask', { error: 'login_required' }],
    ['somebody else is there', { sub: 'eve' }],
  ] as const) {
    const { person, connect, works, send } = await startOffline(t)
    const browser = await person()
    const { tokens } = await connect(browser, of)
    const token = await works(tokens.refresh_token)
    t.ok(token, why)
    await send(browser, '/logout')
    t.notOk(await works(token ?? ''), why)
  }
})

t.test('a provider shows its page where it gives nothing without', async (t) => {
  for (const [of, shown] of [
    [{}, ['none']],
    [{ tokens: { access: 'of GitHub, without end' } }, ['none']],
    [{ tokens: {}, consented: OFFLINE }, ['none', 'consent']],
    [{ tokens: {} }, ['none', 'consent']],
  ] as const) {
    const { person, connect, prompts } = await startOffline(t)
    await connect(await person(), of)
    t.strictSame(prompts, shown, JSON.stringify(of))
  }
})

t.test('an agent goes on after its person has signed in anew as it asked (RFC 9470)', async (t) => {
  const { person, connect, follow, call, works, corp, clock, ...issuer } = await startOffline(t)
  const now = () => Math.floor(clock.now() / 1_000)
  corp.state.reRead = (before) => ({
    kind: 'read',
    signedIn: { profile: before, tokens: OFFLINE },
  })
  const browser = await person('ada', { auth_time: now() })
  const { tokens } = await connect(browser)
  const path = '/mcp/lately'
  t.equal((await call(tokens.access_token, { path })).statusCode, 200)
  await clock.advance(HOUR)
  await works(tokens.refresh_token)
  const { code } = await follow(browser, await browser.open(issuer.authorizeUrl())).then(
    (one) => one.answer,
  )
  const old = (await issuer.redeem(code)).json()
  t.match((await call(old.access_token, { path })).headers['www-authenticate'], /max_age="900"/)
  const first = await browser.open(issuer.authorizeUrl({ max_age: '900' }))
  const toProvider = await browser.open(String(first.headers.location))
  corp.state.claims = { auth_time: now() }
  const back = await browser.open(corp.authorize(String(toProvider.headers.location), 'ada'))
  const { answer } = await follow(browser, back)
  const fresh = (await issuer.redeem(answer.code)).json()
  t.equal((await call(fresh.access_token, { path })).statusCode, 200)
})

t.test('what a person has allowed makes sessions of agents at a bounded rate', async (t) => {
  const { person, authorizeUrl, decide } = await startOffline(t)
  const browser = await person()
  const { headers } = await decide(browser, await browser.open(authorizeUrl()))
  const statuses = new Set<number>()
  for (let n = 0; n < 60; n += 1)
    statuses.add((await browser.open(String(headers.location))).statusCode)
  t.strictSame([...statuses], [303, 429])
})

t.test('nobody goes on with what somebody else has allowed, or twice', async (t) => {
  const { person, authorizeUrl, decide } = await startOffline(t)
  const browser = await person()
  const first = await decide(browser, await browser.open(authorizeUrl()))
  const link = `${first.headers.location}&tried=1`
  t.equal((await (await person('eve')).open(link)).statusCode, 400, 'another person')
  t.equal((await browser.open(link)).statusCode, 303)
  t.equal((await browser.open(link)).statusCode, 400, 'once')
})

t.test('it is no session of a browser', async (t) => {
  const { person, connect, app } = await startOffline(t)
  const browser = await person()
  await connect(browser)
  const rows = await app.authStore.listSessions({ portal: 'main' }, 9)
  const lasting = rows.find(({ ends, begun }) => ends - begun === 30 * DAY)
  t.equal(lasting?.idle, 14 * DAY, 'and ends after two weeks without a call')
  const page = await browser.open(`${AUTH}/portals/main/account`)
  t.equal(page.body.match(/class="sessions".*?<\/ul>/s)?.[0].match(/<li>/g)?.length, 1)
})

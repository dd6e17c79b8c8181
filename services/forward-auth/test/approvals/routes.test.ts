import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { withOther } from '../../../../scripts/test/with-other.ts'
import { attribute, hrefsIn, named, text } from '../pages/read.ts'
import { AUTH, goalOf, MAIN, SCRIPT, signIn, signInUrl } from '../portal/kit.ts'
import { BROWSER } from '../shapes.ts'
import { formIn, MINUTE, startApprovals, titleIn } from './kit.ts'

/** A portal, a person, and a call that waits for them. */
async function startHere(t: Test, rest = '') {
  const test = await startApprovals(t, rest)
  const ada = await test.person('ada')
  const agent = await test.agentOf(ada)
  const { approvals } = test.app
  const stateOf = async (call: ReturnType<typeof agent.call>) =>
    (await approvals.request(call)).state
  const call = agent.call('delete_note', { id: 7, reason: 'it is <b>old</b>' })
  const { id } = await approvals.request(call)
  return { ...test, approvals, ada, agent, stateOf, call, id }
}

t.test('a page shows who calls what, with all arguments', async (t) => {
  const { open, ada, id } = await startHere(t)
  const { statusCode, body, headers } = await open(ada, id)
  t.equal(statusCode, 200)
  t.match(headers, { 'cache-control': 'no-store' })
  t.match(headers['content-security-policy'], "frame-ancestors 'none'")
  t.match(headers['content-security-policy'], /form-action 'self';/)
  const facts = named(body, 'dd').map((each) => text(each).replace(/\s+/g, ' '))
  t.match(facts.join('\n'), 'delete_note')
  t.match(facts.join('\n'), 'app.example.com/mcp')
  t.match(facts.join('\n'), 'assistant.testCalls itself Assistant')
  t.strictSame(named(body, 'li').map(text), ['id7', 'reason"it is <b>old</b>"'])
  const buttons = named(body, 'button').map((each) => attribute(each, 'value'))
  t.strictSame(buttons, ['once', 'deny', 'end'])
  t.strictSame(hrefsIn(body), [`${MAIN}/account/calls`], 'no link but to the list')
})

t.test('each answer does what its button says', async (t) => {
  const table: [decision: string, title: string, state: string, next: string][] = [
    ['once', 'Call allowed', 'allowed', 'asked'],
    ['remember', 'Call allowed', 'allowed', 'allowed'],
    ['deny', 'Call denied', 'denied', 'asked'],
    ['end', 'App disconnected', 'limited', 'limited'],
  ]
  for (const [decision, title, state, next] of table) {
    const { answer, ada, agent, approvals, stateOf, open, log } = await startHere(t)
    const call = agent.call('move_note')
    const { id } = await approvals.request(call)
    const { body } = await open(ada, id)
    t.match(body, 'Allow this tool for 15 minutes')
    const answered = await answer(ada, id, decision)
    t.equal(answered.statusCode, 200, decision)
    t.equal(titleIn(answered.body), title)
    t.equal(formIn(answered.body), undefined)
    t.equal(await stateOf(call), state)
    t.equal(await approvals.use(call), state === 'allowed')
    t.equal(await stateOf(agent.call('move_note', { id: 2 })), next)
    const ends = log.filter(({ event }) => event === 'session-ended')
    t.strictSame(
      ends.map(({ endedBy, caller }) => `${endedBy} ${caller}`),
      decision === 'end' ? ['person corp:ada'] : [],
    )
    if (decision === 'end') t.equal((await open(ada, id)).statusCode, 404)
    else t.equal(titleIn((await open(ada, id)).body), title, 'and later')
  }
})

t.test('nobody signed in: to sign in and back', async (t) => {
  const { open, send, visitor, ada, id, stateOf, call, corp } = await startHere(t)
  for (const path of ['', id, 'unknown', '..%2Fsignin']) {
    const { statusCode, headers } = await open(visitor(), path)
    t.equal(statusCode, 303)
    const { pathname, searchParams } = new URL(String(headers.location))
    t.equal(pathname, '/portals/main/signin')
    t.equal(searchParams.get('rd'), `${MAIN}/account/calls${path && `/${path}`}`)
  }
  t.equal((await send(visitor(), id, { form: 'x', decision: 'once' })).statusCode, 303)
  const token = ada.jar.get('__Host-gatehouse.main')
  const bearer = { authorization: `Bearer ${token}` }
  t.equal((await open(visitor(), id, bearer)).statusCode, 303, 'a bearer is no session')
  for (const host of ['app.example.com', 'evil.test']) {
    const elsewhere = { host, cookie: ada.cookies() }
    t.match((await open(ada, id, elsewhere)).body, 'FWA_HOST_UNKNOWN', host)
  }
  t.equal(await stateOf(call), 'asked')
  const again = visitor()
  const back = await signIn(again, corp, 'ada', signInUrl({ rd: `${MAIN}/account/calls/${id}` }))
  t.equal(goalOf(back), `${MAIN}/account/calls/${id}`)
  t.equal((await open(again, id)).statusCode, 200)
})

t.test('whoever only opens the page decides nothing', async (t) => {
  const { open, ada, id, stateOf, call, recorded } = await startHere(t)
  const before = recorded()
  const senders: Record<string, string>[] = [
    { 'user-agent': 'Barracuda Sentinel (EE)' },
    { purpose: 'prefetch', 'sec-purpose': 'prefetch;prerender' },
    { ...SCRIPT, 'x-requested-with': 'XMLHttpRequest' },
  ]
  for (const headers of senders)
    for (const query of [
      '',
      '?decision=once',
      `?decision=once&form=${formIn((await open(ada, id)).body)}`,
    ])
      for (const method of ['GET', 'HEAD'] as const)
        await ada.open(`${MAIN}/account/calls/${id}${query}`, { method, headers })
  t.equal(await stateOf(call), 'asked')
  t.strictSame(recorded(), before)
})

t.test('a form counts once, in its session, for its call, from our page', async (t) => {
  const { open, send, ada, agent, id, stateOf, call, approvals, person, app, answer, clock } =
    await startHere(t)
  const form = formIn((await open(ada, id)).body) ?? ''
  const origins = [
    undefined,
    'null',
    'https://app.example.com',
    'https://evil.test',
    `${AUTH}.evil`,
  ]
  for (const origin of origins) {
    const { statusCode } = await app.inject({
      ...{ method: 'POST', url: `/portals/main/account/calls/${id}` },
      headers: {
        ...BROWSER,
        ...{ host: 'auth.example.com', cookie: ada.cookies() },
        'content-type': 'application/x-www-form-urlencoded',
        ...(origin !== undefined && { origin }),
      },
      payload: String(new URLSearchParams({ form, decision: 'once' })),
    })
    t.equal(statusCode, 403, `Origin: ${origin}`)
  }
  const second = await person('ada')
  const { id: otherId } = await approvals.request(agent.call('move_note'))
  const table: [why: string, browser: typeof ada, id: string, form: string, status: number][] = [
    ['of another session', second, id, form, 404],
    ['of another call', ada, otherId, form, 404],
    ['changed', ada, id, withOther(form, -3), 404],
    ['empty', ada, id, '', 404],
    ['of the page of another call', ada, id, formIn((await open(ada, otherId)).body)!, 404],
    ['of a call that is not known', ada, 'x'.repeat(43), form, 404],
  ]
  for (const [why, browser, at, sent, status] of table)
    t.equal((await send(browser, at, { form: sent, decision: 'once' })).statusCode, status, why)
  t.equal((await send(ada, id, { form, decision: 'always' })).statusCode, 400)
  t.equal((await send(ada, id, { decision: 'once' })).statusCode, 400)
  t.equal(await stateOf(call), 'asked', 'none of them counts')

  t.equal(titleIn((await send(ada, id, { form, decision: 'deny' })).body), 'Call denied')
  for (const decision of ['once', 'remember'])
    t.equal(titleIn((await send(ada, id, { form, decision })).body), 'Call denied', 'sent again')
  await clock.advance(10 * MINUTE)
  t.equal(await stateOf(call), 'asked', 'the same call, later')
  t.equal((await send(ada, id, { form, decision: 'once' })).statusCode, 404, 'an old form')
  t.equal(titleIn((await answer(ada, id, 'once')).body), 'Call allowed')
})

t.test('with an approver, somebody else decides, and nobody else sees it', async (t) => {
  const { open, answer, ada, agent, approvals, person, program, stateOf } = await startHere(t)
  const call = agent.call('pay', { amount: 5 })
  const { id } = await approvals.request(call)
  const bob = await person('bob', { groups: ['editor'] })
  const eve = await person('eve')
  const adaAsEditor = await person('ada', { groups: ['editor'] })
  const whole = ({ body }: { body: string }) => body.replace(/Request [\w-]+/g, '')
  for (const browser of [ada, eve, adaAsEditor]) {
    const page = await open(browser, id)
    t.equal(page.statusCode, 404)
    t.equal(whole(page), whole(await open(browser, 'x'.repeat(43))), 'as an unknown one')
    t.equal((await answer(browser, id, 'once')).statusCode, 404)
    t.notMatch((await open(browser)).body, 'pay')
  }
  const ofProgram = await open(bob, (await approvals.request(program('pay'))).id)
  t.match(ofProgram.body, 'psk:ci')
  t.notMatch(ofProgram.body, /On behalf of|Registered itself|Deny and disconnect/)
  const page = await open(bob, id)
  t.match(page.body, 'On behalf of')
  t.match(page.body, 'Name of ada')
  t.match((await open(bob)).body, id)
  t.equal(await stateOf(call), 'asked')
  t.equal(titleIn((await answer(bob, id, 'once')).body), 'Call allowed')
  t.equal(await approvals.use(call), true)
})

t.test('with a step-up, the answer leads to another sign-in first, and back', async (t) => {
  const { open, answer, agent, approvals, clock, stateOf, visitor, corp } = await startHere(t)
  const now = () => Math.floor(clock.now() / 1_000)
  const ada = visitor()
  corp.state.claims = { auth_time: now() - 3_600 }
  await signIn(ada, corp, 'ada', signInUrl({}))
  const call = agent.call('wire')
  const { id, url } = await approvals.request(call)
  const page = await open(ada, id)
  t.match(page.headers['content-security-policy'], /form-action 'self' https:;/)
  const sent = await answer(ada, id, 'once')
  t.equal(sent.statusCode, 303)
  const signInPage = new URL(String(sent.headers.location))
  t.strictSame(Object.fromEntries(signInPage.searchParams), { rd: url, policy: 'lately' })
  t.equal(await stateOf(call), 'asked')
  corp.state.claims = { auth_time: now() }
  t.equal(goalOf(await signIn(ada, corp, 'ada', signInPage.href)), url)
  t.equal(titleIn((await answer(ada, id, 'once')).body), 'Call allowed')
  await clock.advance(6 * MINUTE)
  const other = await approvals.request(agent.call('wire', { id: 2 }))
  t.equal((await answer(ada, other.id, 'once')).statusCode, 303, 'each time')
})

t.test('of two answers at once one counts, and a late one does not', async (t) => {
  const { open, send, ada, id, stateOf, call, clock, recorded, agent, approvals } =
    await startHere(t)
  const form = formIn((await open(ada, id)).body) ?? ''
  const decisions = ['once', 'deny', 'deny', 'once']
  const answers = await Promise.all(decisions.map((decision) => send(ada, id, { form, decision })))
  const state = await stateOf(call)
  const title = state === 'allowed' ? 'Call allowed' : 'Call denied'
  t.ok(['allowed', 'denied'].includes(state))
  for (const { body } of answers) t.equal(titleIn(body), title)
  t.equal(recorded().length, 2, 'one question, one answer')

  const late = await approvals.request(agent.call('move_note'))
  const lateForm = formIn((await open(ada, late.id)).body) ?? ''
  await clock.advance(10 * MINUTE)
  const sent = await send(ada, late.id, { form: lateForm, decision: 'once' })
  t.equal(titleIn(sent.body), 'Call has expired')
  t.equal(titleIn((await open(ada, late.id)).body), 'Call has expired')
  t.equal(await approvals.use(agent.call('move_note')), false)
})

t.test('the list and the account say which calls wait', async (t) => {
  const { open, ada, agent, approvals, id, answer, person } = await startHere(t)
  const account = async () => (await ada.open(`${MAIN}/account`)).body
  t.match(await account(), 'Calls that wait for you: 1')
  await approvals.request(agent.call('move_note'))
  const list = await open(ada)
  t.match(list, { statusCode: 200, headers: { refresh: '5' } })
  t.match(hrefsIn(list.body)[0], id)
  t.equal(hrefsIn(list.body).length, 2)
  t.match(await account(), 'Calls that wait for you: 2')
  await answer(ada, id, 'deny')
  t.match(await account(), 'Calls that wait for you: 1')
  const bob = await person('bob')
  t.match((await open(bob)).body, 'No call is waiting.')
  t.notMatch((await bob.open(`${MAIN}/account`)).body, 'account/calls')
})

t.test('the list of a session that may become idle is not renewed by itself', async (t) => {
  const { open, person } = await startApprovals(t, '', { session: { idle: '5m' } })
  const { statusCode, headers } = await open(await person('ada'))
  t.equal(statusCode, 200)
  t.equal(headers.refresh, undefined)
})

t.test('who waits at one replica learns what was decided at another one', async (t) => {
  const path = testFolder(t)
  const storage = `storage: { path: ${path} }`
  const [here, there] = [await startHere(t, storage), await startApprovals(t, storage)]
  const over = here.approvals.decided(here.id, new AbortController().signal)
  const visitor = (await there.visitorOf(here.ada))!
  const opened = (await there.app.approvals.find(here.id, visitor))!
  await there.app.approvals.decide(opened, 'once', visitor, undefined as never)
  await here.clock.advance(1_000)
  await over
  const uses = await Promise.all(
    Array.from({ length: 20 }, (_, i) => (i % 2 ? here : there).app.approvals.use(here.call)),
  )
  t.equal(uses.filter(Boolean).length, 1)
})

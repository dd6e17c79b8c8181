import { setImmediate } from 'node:timers/promises'
import type { LightMyRequestResponse } from 'fastify'
import t, { type Test } from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { withOther } from '../../../../scripts/test/with-other.ts'
import { endTarget } from '../../src/account/end.ts'
import { oldToolCall, toolCall, VERSION } from '../helpers/mcp-requests.ts'
import { startToolServer } from '../helpers/tool-servers.ts'
import { CLIENT } from '../oauth/kit.ts'
import { type RequestHeaders, SHAPES } from '../shapes.ts'
import { startApprover } from './approver.ts'
import { messagesIn } from './kit.ts'

expectWarnings(t, 'check refused')

const SECOND = 1_000

interface CallOptions {
  readonly body?: object
  readonly headers?: RequestHeaders
}

/** A server behind the proxy, an agent of Ada, and what she decides. */
async function startHere(t: Test, { approve = '', rest = '', sdk = 2 as 1 | 2 } = {}) {
  const server = await startToolServer(t, sdk)
  const here = await startApprover(t, server.port, { approve, rest })
  const { app, token, waiting, clock } = here
  const call = (
    { body = toolCall('delete_note'), headers = {} }: CallOptions = {},
    bearer = token,
  ) =>
    app.inject({
      ...{ method: 'POST', url: '/portals/main/mcp-proxy/mcp' },
      headers: {
        host: 'app.example.com',
        'x-forwarded-proto': 'https',
        accept: 'application/json, text/event-stream',
        'content-type': 'application/json',
        authorization: `Bearer ${bearer}`,
        ...(sdk === 2 && {
          'mcp-protocol-version': VERSION,
          'mcp-method': 'tools/call',
          'mcp-name': 'delete_note',
        }),
        ...headers,
      },
      payload: JSON.stringify(body),
    })
  /** Lets time pass until an answer is there, once so many calls wait. */
  const later = async (answer: Promise<LightMyRequestResponse>, count = 1) => {
    let isDone = false
    answer.finally(() => {
      isDone = true
    })
    while (!isDone && (await waiting()) < count) await setImmediate()
    for (let i = 0; i < 100 && !isDone; i++) {
      await clock.advance(5 * SECOND)
      for (let turn = 0; turn < 20; turn++) await setImmediate()
    }
    if (!isDone) throw new Error('there is no answer')
    return answer
  }
  return { ...here, server, send: call, later }
}

const textIn = (answer: LightMyRequestResponse) =>
  messagesIn(answer).map((message) => Object(message).result?.content?.[0]?.text)

t.test('a call waits for its person, and runs once', async (t) => {
  for (const sdk of [1, 2] as const)
    await t.test(`SDK ${sdk}`, async (t) => {
      const { send, decide, server, waiting } = await startHere(t, { sdk })
      const body = sdk === 2 ? toolCall('delete_note') : oldToolCall('delete_note')
      const answer = send({ body })
      t.equal(await decide('once'), true)
      const { headers, body: events } = await answer
      t.match(headers['content-type'], /^text\/event-stream/)
      t.match(events, /^:\n\n/)
      t.strictSame(textIn(await answer), ['delete_note'])
      t.strictSame(server.ran, ['delete_note'])
      t.equal(await waiting(), 0)
      const next = send({ body })
      await decide('deny')
      t.match(textIn(await next), [/refused by somebody/])
      t.match(textIn(await send({ body })), [/refused by somebody/], 'at once')
      t.strictSame(server.ran, ['delete_note'])
    })
})

t.test('other tools run at once', async (t) => {
  const { send, server } = await startHere(t)
  const headers = { 'mcp-name': 'read_note' }
  t.strictSame(textIn(await send({ body: toolCall('read_note'), headers })), ['read_note'])
  t.strictSame(server.ran, ['read_note'])
})

t.test('a client that waited for too long is told, and its next call passes once', async (t) => {
  const { send, decide, server, later } = await startHere(t, { sdk: 1 })
  const body = oldToolCall('delete_note')
  const answer = await later(send({ body }))
  t.match(textIn(answer), [
    /https:\/\/auth\.example\.com\/portals\/main\/account\/calls\/[\w-]{43} /,
  ])
  t.match(messagesIn(answer), [{ id: 1, result: { isError: true } }])
  t.equal(answer.body.match(/^:$/gm)?.length, 9, 'a comment each five seconds')
  await decide('once')
  t.strictSame(textIn(await send({ body })), ['delete_note'])
  t.strictSame(server.ran, ['delete_note'])
})

t.test('progress says where to decide', async (t) => {
  const { send, later } = await startHere(t, { sdk: 1 })
  const { params, ...message } = oldToolCall('delete_note')
  const body = { ...message, params: { ...params, _meta: { progressToken: 'p' } } }
  const [first, second] = messagesIn(await later(send({ body })))
  const progress = {
    method: 'notifications/progress',
    params: { progressToken: 'p', message: /account\/calls/ },
  }
  t.match(first, progress)
  t.match(second, progress)
  t.ok(Object(second).params.progress > Object(first).params.progress)
})

t.test('a client that takes no stream is told at once', async (t) => {
  const { send, server } = await startHere(t)
  const answer = await send({ headers: { accept: 'application/json' } })
  t.match(answer.headers['content-type'], /^application\/json/)
  t.match(messagesIn(answer), [{ result: { resultType: 'input_required', requestState: /./ } }])
  t.strictSame(server.ran, [])
})

t.test('rounds: a client of the newest protocol asks again by itself', async (t) => {
  const { send, decide, server, later } = await startHere(t)
  let { params, ...message } = toolCall('delete_note') as ReturnType<typeof toolCall> & {
    params: Record<string, unknown>
  }
  for (let round = 0; round < 8; round++) {
    const answer = await later(send({ body: { ...message, params } }))
    const [{ result }] = messagesIn(answer) as [{ result: Record<string, unknown> }]
    t.match(result, { resultType: 'input_required', requestState: /^[\w-]+$/ }, `round ${round}`)
    t.notOk(result.inputRequests)
    params = { ...params, requestState: result.requestState } as typeof params
    if (round === 3) break
  }
  const answer = send({ body: { ...message, params } })
  await decide('once')
  t.strictSame(textIn(await answer), ['delete_note'])
  t.strictSame(server.ran, ['delete_note'])
})

t.test('after eight rounds a client is told to call again', async (t) => {
  const { send, later, server } = await startHere(t, { approve: 'wait: 1s' })
  const { params, ...message } = toolCall('delete_note')
  let requestState: unknown
  for (let round = 0; round < 8; round++) {
    const answer = await later(send({ body: { ...message, params: { ...params, requestState } } }))
    const [{ result }] = messagesIn(answer) as [{ result: Record<string, unknown> }]
    requestState = result.requestState
    t.type(requestState, 'string')
  }
  const last = await later(send({ body: { ...message, params: { ...params, requestState } } }))
  t.match(messagesIn(last), [{ result: { isError: true, resultType: 'complete' } }])
  t.strictSame(server.ran, [])
})

t.test('a client that opens URLs is told of the page at once', async (t) => {
  const { send, decide, server } = await startHere(t)
  const { params, ...message } = toolCall('delete_note')
  const capabilities = 'io.modelcontextprotocol/clientCapabilities'
  const _meta = { ...params._meta, [capabilities]: { elicitation: { url: {} } } }
  const body = (more = {}) => ({ body: { ...message, params: { ...params, _meta, ...more } } })
  const [{ result }] = messagesIn(await send(body())) as [{ result: Record<string, unknown> }]
  const elicitation = {
    method: 'elicitation/create',
    params: {
      mode: 'url',
      url: /^https:\/\/auth\.example\.com\/portals\/main\/account\/calls\/[\w-]{43}$/,
    },
  }
  t.match(result, { resultType: 'input_required', inputRequests: { approval: elicitation } })
  const inputResponses = { approval: { action: 'accept' } }
  const answer = send(body({ requestState: result.requestState, inputResponses }))
  await decide('once')
  t.strictSame(textIn(await answer), ['delete_note'])
  t.strictSame(server.ran, ['delete_note'])
})

t.test(
  'state that is not ours is no round, and what is asked again is another question',
  async (t) => {
    const { send, later, server, token, ada, connect } = await startHere(t, { approve: 'wait: 1s' })
    const { params, ...message } = toolCall('delete_note')
    const withState = (requestState: unknown, args: object = {}) => ({
      body: { ...message, params: { ...params, arguments: args, requestState } },
    })
    const [{ result }] = messagesIn(await later(send(withState(undefined)))) as [
      { result: Record<string, string> },
    ]
    const state = result.requestState ?? ''
    const flipped = withOther(state, -3)
    for (const foreign of ['of the server', flipped, ''])
      t.match(messagesIn(await later(send(withState(foreign)))), [{ result: { isError: true } }])
    t.match(messagesIn(await later(send(withState(state, { id: 2 })), 2)), [
      { result: { isError: true } },
    ])
    const { access_token: again } = await connect(ada)
    t.not(again, token)
    t.strictSame(server.ran, [])
  },
)

t.test('twenty equal calls at once run once for one yes', async (t) => {
  const { send, decide, server, waiting } = await startHere(t)
  const answers = Array.from({ length: 16 }, () => send())
  await decide('once')
  const texts = (await Promise.all(answers)).flatMap(textIn)
  t.equal(texts.filter((text) => text === 'delete_note').length, 1)
  t.strictSame(server.ran, ['delete_note'])
  t.equal(await waiting(), 0, 'and nobody is asked again')
})

t.test('after the yes, everything is decided anew', async (t) => {
  type Here = Awaited<ReturnType<typeof startHere>>
  const changes: Record<string, (here: Here) => unknown> = {
    'the agent has ended': async ({ app }) => {
      const [portal] = [...app.portals.values()]
      const target = { client: CLIENT }
      if (portal) await endTarget(app, portal, target, {})
    },
    'the rule demands more': ({ reload, yaml }) =>
      reload(yaml().replace('require: signedIn, approve', 'require: editors, approve')),
    'somebody else has to approve': ({ reload, yaml }) => reload(yaml('approver: editors')),
    'nobody has to approve any more': ({ reload, yaml }) =>
      reload(yaml().replace(/, approve: \{[^}]*\}/, '')),
    'the resource has no upstream any more': ({ reload, yaml }) =>
      reload(
        yaml()
          .replace(/ upstream: \{[^}]*\},/, '')
          .replace(/, approve: \{[^}]*\}/, ''),
      ),
  }
  for (const [title, change] of Object.entries(changes))
    await t.test(title, async (t) => {
      const here = await startHere(t)
      const { send, decide, server, waiting, ada } = here
      const answer = send()
      while ((await waiting()) === 0) await setImmediate()
      await change(here)
      if ((await waiting()) > 0) await decide('once', ada)
      await here.later(answer)
      t.strictSame(server.ran, [])
    })
})

t.test('the audit trail has who asked, from where, and what it came to', async (t) => {
  const { send, decide, app } = await startHere(t)
  const answer = send({ headers: { 'x-forwarded-for': '192.0.2.7' } })
  await decide('once')
  await answer
  await app.auditTrail.flush()
  const rows = await Array.fromAsync(app.authStore.audit.rows(0))
  const calls = rows.filter(({ tool }) => tool === 'delete_note')
  const common = { person: 'corp:ada', client: CLIENT, host: 'app.example.com' }
  t.match(calls, [
    { ...common, event: 'call-asked', clientAddress: '192.0.2.7', requestId: /./ },
    { ...common, event: 'call-allowed', actor: 'corp:ada' },
    { ...common, event: 'tool-called', outcome: 'ran', clientAddress: '192.0.2.7', requestId: /./ },
  ])
})

t.test('a call without an id waits for nobody', async (t) => {
  const { send, server, waiting } = await startHere(t)
  const { id: _, ...notification } = toolCall('delete_note')
  t.match(await send({ body: notification }), { statusCode: 403, body: /FWA_TOOL_REFUSED/ })
  t.equal(await waiting(), 0)
  t.strictSame(server.ran, [])
})

t.test('what a client answers to its server is a part of the question', async (t) => {
  const { send, decide, server, later, waiting } = await startHere(t, { approve: 'wait: 1s' })
  const { params, ...message } = toolCall('delete_note')
  const withResponses = (inputResponses: object) => ({
    body: { ...message, params: { ...params, requestState: 'of the server', inputResponses } },
  })
  await later(send(withResponses({ sure: 'no' })))
  await decide('once')
  await later(send(withResponses({ sure: 'yes' })))
  t.equal(await waiting(), 1, 'another question')
  t.strictSame(server.ran, [])
  await send(withResponses({ sure: 'no' }))
  t.strictSame(server.ran, ['delete_note'])
})

t.test('a call with members that nobody would see is refused', async (t) => {
  const { send, server, waiting } = await startHere(t)
  const { params, ...message } = toolCall('delete_note')
  const body = { ...message, params: { ...params, args: { id: 'all' } } }
  t.match(await send({ body }), { statusCode: 403, body: /nobody would see/ })
  t.equal(await waiting(), 0)
  t.strictSame(server.ran, [])
})

t.test('the check lets nothing pass that only the proxy can ask about', async (t) => {
  const { call, check, token, server } = await startHere(t)
  t.equal((await call(token, { tool: 'delete_note' })).statusCode, 403)
  t.equal((await call(token, { tool: 'read_note' })).statusCode, 403, 'no header is believed')
  t.type(check, 'function')
  t.strictSame(server.ran, [])
})

t.test('nor for anyone, where a rule is for no tools', async (t) => {
  const { check, reload, yaml } = await startHere(t)
  const open = (more: string) =>
    yaml().replace(
      /rules: \[.*\]/,
      `rules: [{ hosts: [app.example.com], paths: [/mcp], require: anyone${more} }]`,
    )
  const statusOf = async () =>
    (await check(SHAPES[0]!, { 'X-Forwarded-Uri': '/mcp', 'x-forwarded-method': 'POST' }))
      .statusCode
  await reload(open(''))
  t.equal(await statusOf(), 200)
  await reload(open(', approve: {}'))
  t.equal(await statusOf(), 403)
})

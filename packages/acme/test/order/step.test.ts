import { X509Certificate } from 'node:crypto'
import { sleep } from '@gatehouse/net'
import { fromPem, parseName } from '@gatehouse/pki'
import t from 'tap'
import {
  AcmeError,
  afterError,
  isOver,
  isPrepared,
  type OrderIo,
  type OrderState,
  prepareOrder,
  revokeCertificate,
  type Solver,
  step,
} from '../../src/index.ts'
import type { StepState } from '../../src/order/state.ts'
import { enrol, last, orderFor, problem, recordingSolver, run, stepsOf, WHOLE } from '../helpers.ts'
import type { Kind, Reply, ScriptedCaOptions } from '../scripted-ca/index.ts'

t.test('takes an order from its creation to its chain', async (t) => {
  const rows: [what: string, names: string[], ScriptedCaOptions, type?: Solver['type']][] = [
    ['one name', ['app.example'], {}],
    ['a name and its wildcard', ['app.example', '*.app.example'], {}],
    ['an address', ['192.0.2.1'], { challenges: ['http-01'] }, 'http-01'],
    ['an IPv6 address', ['2001:db8::1'], {}, 'tls-alpn-01'],
    ['an asynchronous CA', ['app.example'], { processing: 3 }],
  ]
  for (const [what, names, options, type] of rows) {
    const { io, ca } = await enrol(t, options)
    const { solver, log, present } = recordingSolver(type)
    const states = await run(await orderFor(names), { ...io, solversFor: () => [solver] })
    t.equal(stepsOf(states), WHOLE, what)
    const { chain, request: wanted } = last(states, 'downloaded')
    const [leaf = Buffer.alloc(0), issuer] = fromPem(chain).map((der) => new X509Certificate(der))
    t.ok((leaf as X509Certificate).checkIssued(issuer as X509Certificate), `${what}: the chain`)
    t.equal(wanted.identifiers.length, names.length)
    t.strictSame(
      log.toSorted(),
      ['cleanUp', 'present'].flatMap((did) => names.map((name) => `${did} ${name}`)).toSorted(),
      `${what}: what the solver did`,
    )
    t.equal(present.size, 0, `${what}: nothing stays behind`)
    t.equal(ca.count('finalize'), 1, `${what}: finalised once`)
  }
})

t.test(
  'continues an order that the CA gives again (starchart#651, cert-manager#8960)',
  async (t) => {
    const { io } = await enrol(t, { reuseOrders: true })
    const mine = await orderFor(['a.example'])
    const placed = [await step(mine, io), await step(mine, io)]
    t.strictSame(placed[0], placed[1], 'the same order')
    const ends = await Promise.all(
      placed.map((state) =>
        run(state, io).then(
          (states) => last(states, 'downloaded').step,
          (error) => error,
        ),
      ),
    )
    t.ok(ends.includes('downloaded'))
    t.ok(
      ends.every((end) => end === 'downloaded' || end instanceof AcmeError),
      'the other goes on or may resume',
    )

    const open = await step(await orderFor(['b.example']), io)
    const theirs = await step(await orderFor(['b.example']), io)
    await run(open, io)
    const { error } = last(await run(theirs, io), 'failed')
    t.equal(error.code, 'ACME_CERTIFICATE_MISMATCH', 'a certificate for another key is not taken')
  },
)

t.test('proves names before there is a CSR', async (t) => {
  const names = ['app.example', '*.app.example']
  for (const reuseAuthorizations of [false, true]) {
    const { io, ca } = await enrol(t, { reuseAuthorizations })
    const prepare = async () => {
      let state: OrderState = prepareOrder(names.map(parseName), { askedBy: 'psk:web' })
      const steps = [state.step as string]
      while (!isPrepared(state)) {
        state = JSON.parse(JSON.stringify(await step(state, io)))
        steps.push(state.step)
      }
      return { state, steps: steps.join(' ') }
    }
    const { state, steps } = await prepare()
    t.equal(steps, 'created ordered authorizing ordered ready')
    t.equal(state.request.askedBy, 'psk:web')
    t.strictSame(await step(state, io), state, 'as long as it is')

    const { request: wanted } = await orderFor(names)
    const states = await run({ ...(state as StepState<'ready'>), request: wanted }, io)
    t.equal(stepsOf(states), 'ready finalizing valid downloaded')
    t.equal((await step(state, io)).step, 'created', 'not after it was used')
    t.equal(ca.count('finalize'), 1)
    if (reuseAuthorizations) t.equal((await prepare()).steps, 'created ordered ready')
  }
})

t.test('looks at an order that is ready before it is used', async (t) => {
  const rows: [what: string, reply: Reply, outcome: object][] = [
    ['it is gone', problem(404, 'malformed'), { step: 'created' }],
    ['it is not shown', problem(403, 'unauthorized'), { step: 'created' }],
    ['a fault of the CA', problem(500, 'serverInternal'), { code: 'ACME_SERVER_INTERNAL' }],
    ['a closed connection', 'reset', { code: 'ACME_UNREACHABLE' }],
  ]
  const { io, ca } = await enrol(t)
  let ready: OrderState = prepareOrder([parseName('a.example')], {})
  while (!isPrepared(ready)) ready = await step(ready, io)
  for (const [what, reply, outcome] of rows) {
    ca.answer('order', reply)
    t.match(await step(ready, io).catch((error) => error), outcome, what)
  }
})

t.test('takes no order for other names than it requested', async (t) => {
  const { io, ca } = await enrol(t)
  const others = [
    [{ type: 'dns', value: 'bank.example' }],
    ['a.example', 'bank.example'].map((value) => ({ type: 'dns', value })),
    [],
  ]
  for (const identifiers of others) {
    const body = { status: 'pending', identifiers, authorizations: [], finalize: '/finalize/x' }
    ca.answer('newOrder', { headers: { location: '/order/x' }, body })
    await t.rejects(step(await orderFor(['a.example']), io), {
      code: 'ACME_ANSWER_INVALID',
      message: 'the order has other names than requested',
    })
  }
})

t.test('an order without a CSR ends before it is ready', async (t) => {
  const { io, ca } = await enrol(t)
  const placed = await step(prepareOrder([parseName('app.example')], {}), io)
  for (const status of ['invalid', 'processing'])
    for (const first of ['pending', status]) {
      const looks = [first, status].map((status) => ({
        body: {
          status,
          identifiers: [{ type: 'dns', value: 'app.example' }],
          authorizations: [],
          finalize: 'http://127.0.0.1/',
        },
      }))
      ca.answer('order', ...looks.slice(first === status ? 1 : 0))
      t.match(await step(placed, io), { step: 'failed', error: { code: 'ACME_ORDER_INVALID' } })
    }
})

t.test('continues after a crash at any request, and finalizes once', async (t) => {
  const crash = new Error('crash')
  for (let at = 1; ; at++) {
    const { io, ca, present } = await enrol(t, { processing: 1 })
    let left = at
    const transport: OrderIo['transport'] = {
      directory: (signal) => io.transport.directory(signal),
      get: (url, process, signal) => io.transport.get(url, process, signal),
      async send(call, signer, signal) {
        const answer = await io.transport.send(call, signer, signal)
        if (--left === 0) throw crash
        return answer
      },
    }
    let state: OrderState = await orderFor(['a.example', '*.a.example'])
    while (!isOver(state)) {
      state = await step(state, { ...io, transport }).catch((error) => {
        if (error !== crash) throw error
        return state
      })
    }
    if (left > 0) break
    t.match(state, { step: 'downloaded' }, `crash after request ${at}`)
    t.equal(ca.count('finalize'), 1, `crash after request ${at}: finalised once`)
    t.equal(present.size, 0, `crash after request ${at}: nothing stays behind`)
    t.ok(ca.count('newOrder') <= (at === 1 ? 2 : 1), `crash after request ${at}: one order`)
    await ca.close()
  }
})

t.test('ends the order at a refusal, and reports it', async (t) => {
  const rows: [what: string, kind: Kind, reply: Reply, code: string][] = [
    ['a name', 'newOrder', problem(400, 'rejectedIdentifier'), 'ACME_REJECTED_IDENTIFIER'],
    ['a profile', 'newOrder', problem(400, 'invalidProfile'), 'ACME_INVALID_PROFILE'],
    ['the request', 'finalize', problem(400, 'badCSR'), 'ACME_BAD_CSR'],
    ['CAA', 'finalize', problem(403, 'caa'), 'ACME_CAA'],
  ]
  for (const [what, kind, reply, code] of rows) {
    const { io, ca } = await enrol(t)
    ca.answer(kind, reply)
    const { error } = last(await run(await orderFor(['a.example']), io), 'failed')
    t.match(error, { code, message: /^the CA says: / }, what)
  }
})

t.test('keeps the state after a temporary error', async (t) => {
  const unpause = {
    status: 429,
    body: {
      type: 'urn:ietf:params:acme:error:rateLimited',
      detail: 'Please visit https://unpause.ca.example/?jwt=x',
    },
  }
  const rows: [what: string, kind: Kind, reply: Reply, code: string, retryAfterMs?: number][] = [
    [
      'a rate limit (cert-manager#5867)',
      'newOrder',
      problem(429, 'rateLimited', { 'retry-after': '3600' }),
      'ACME_RATE_LIMITED',
      3_600_000,
    ],
    ['a pause', 'newOrder', unpause, 'ACME_PAUSED'],
    ['new terms', 'newOrder', problem(403, 'userActionRequired'), 'ACME_USER_ACTION_REQUIRED'],
    ['a fault', 'newOrder', problem(500, 'serverInternal'), 'ACME_SERVER_INTERNAL'],
    ['a page of a proxy', 'order', { status: 403, body: '<html>' }, 'ACME_PROBLEM'],
    ['a page of a proxy for a new order', 'newOrder', { status: 403, body: '' }, 'ACME_PROBLEM'],
    ['a replica without the order', 'order', problem(404, 'malformed'), 'ACME_MALFORMED'],
    ['an order that is not shown', 'order', problem(403, 'unauthorized'), 'ACME_UNAUTHORIZED'],
    ['a replica without the request', 'finalize', problem(404, 'malformed'), 'ACME_MALFORMED'],
    ['a replica without the certificate', 'certificate', { status: 404, body: '' }, 'ACME_PROBLEM'],
    ['an answer of another kind', 'order', { body: '{"status":"fine"}' }, 'ACME_ANSWER_INVALID'],
    ['a closed connection', 'order', 'reset', 'ACME_UNREACHABLE'],
    ['an early request', 'finalize', problem(403, 'orderNotReady'), 'ACME_ORDER_NOT_READY'],
    [
      'a busy CA',
      'finalize',
      problem(503, 'serverInternal', { 'retry-after': '60' }),
      'ACME_SERVER_INTERNAL',
      60_000,
    ],
    ['a broken chain', 'certificate', { body: 'nothing' }, 'ACME_ANSWER_INVALID'],
  ]
  for (const [what, kind, reply, code, retryAfterMs] of rows) {
    const { io, ca } = await enrol(t)
    ca.answer(kind, reply)
    let state: OrderState = await orderFor(['a.example'])
    let error: unknown
    while (!isOver(state)) {
      const before = JSON.stringify(state)
      state = await step(state, io).catch((reason) => {
        error = reason
        t.equal(JSON.stringify(state), before)
        return state
      })
    }
    t.match(error, { code, ...(retryAfterMs && { retryAfterMs }) }, what)
    t.equal(state.step, 'downloaded', `${what}: and then`)
  }
})

t.test('gives up an order that the CA has not known for a day, and cleans up', async (t) => {
  const rows: [what: string, at: OrderState['step'], kind: Kind][] = [
    ['the order', 'ordered', 'order'],
    ['the authorization', 'authorizing', 'authorization'],
    ['the certificate', 'valid', 'certificate'],
  ]
  for (const [what, at, kind] of rows) {
    const { io, ca, clock, log } = await enrol(t)
    let state: OrderState = await orderFor(['a.example'])
    while (state.step !== at) state = await step(state, io)
    ca.always(kind, problem(404, 'malformed'))
    const start = clock.now()
    while (state.step === at) {
      const tried = state
      state = await step(tried, io).catch(async (error) => {
        await sleep(clock, 3_600_000)
        return afterError(tried, error, clock.now())
      })
    }
    t.match(state, { step: 'failed', error: { code: 'ACME_MALFORMED' } }, what)
    const hours = (clock.now() - start) / 3_600_000
    t.ok(hours >= 24 && hours < 30, `${what}: after ${hours} hours`)
    t.strictSame(log, at === 'authorizing' ? ['cleanUp a.example'] : log, what)
  }
})

t.test('forgets an earlier denial once the CA knows the order', async (t) => {
  const { io, ca } = await enrol(t)
  const ordered = await step(await orderFor(['a.example']), io)
  ca.answer('order', problem(404, 'malformed'))
  const error = await step(ordered, io).catch((reason) => reason)
  const kept = afterError(ordered, error, 5)
  t.match(kept, { deniedSince: 5 })
  t.notOk('deniedSince' in (await step(kept, io)))
})

/** Of a CA that offers ARI. */
const renewalWindow = () => ({ start: '2030-03-01T00:00:00Z', end: '2030-03-02T00:00:00Z' })

t.test('leaves out `replaces` at a CA without ARI', async (t) => {
  const { io, ca } = await enrol(t)
  const states = await run(await orderFor(['a.example'], { replaces: 'aki.serial' }), io)
  t.equal(stepsOf(states), `created ${WHOLE}`)
  const asked = ca.exchanges.filter(({ kind }) => kind === 'newOrder')
  t.strictSame(
    asked.map(({ payload }) => payload.replaces),
    [undefined],
  )
})

t.test(
  '`replaces` is left out once the CA refuses it (lego#2474, cert-manager#9074)',
  async (t) => {
    const rows: [what: string, reply: Reply, steps: string][] = [
      ['replaced before', problem(409, 'alreadyReplaced'), `created ${WHOLE}`],
      ['unknown to this CA', problem(404, 'malformed'), `created ${WHOLE}`],
      ['of another account', problem(403, 'unauthorized'), `created ${WHOLE}`],
      ['a name is refused', problem(400, 'rejectedIdentifier'), 'created failed'],
    ]
    for (const [what, reply, steps] of rows) {
      const { io, ca } = await enrol(t, { renewalWindow })
      ca.answer('newOrder', reply)
      const states = await run(await orderFor(['a.example'], { replaces: 'aki.serial' }), io)
      t.equal(stepsOf(states), steps, what)
      const asked = ca.exchanges.filter(({ kind }) => kind === 'newOrder')
      const replaces = asked.map(({ payload }) => payload.replaces)
      t.strictSame(
        replaces,
        steps.startsWith('created created') ? ['aki.serial', undefined] : ['aki.serial'],
      )
    }
    const { io, ca } = await enrol(t, { renewalWindow })
    ca.answer('newOrder', problem(409, 'alreadyReplaced'), problem(409, 'alreadyReplaced'))
    const states = await run(await orderFor(['a.example'], { replaces: 'x' }), io)
    t.equal(stepsOf(states), 'created created failed', 'once and no more')
  },
)

t.test('a profile and what is replaced are asked for', async (t) => {
  const { io, ca } = await enrol(t, { renewalWindow, profiles: { shortlived: 'six days' } })
  await run(await orderFor(['a.example'], { profile: 'shortlived', replaces: 'aki.serial' }), io)
  const asked = ca.exchanges.find(({ kind }) => kind === 'newOrder')?.payload
  t.strictSame(asked, {
    identifiers: [{ type: 'dns', value: 'a.example' }],
    profile: 'shortlived',
    replaces: 'aki.serial',
  })
})

t.test('takes the preferred chain if there is one', async (t) => {
  const many = Array.from({ length: 9 }, (_, i) => `Root ${i}`)
  type Row = [
    preferredChain: string | undefined,
    issuer: string,
    downloads: number,
    roots?: string[],
  ]
  const rows: Row[] = [
    [undefined, 'Root One R1', 1],
    ['Root One', 'Root One R1', 1],
    ['Root Three', 'Root Three R1', 3],
    ['Root Nine', 'Root One R1', 3],
    ['Root 5', 'Root 5 R1', 6, many],
    ['Root 6', 'Root 0 R1', 6, many],
  ]
  const three = ['Root One', 'Root Two', 'Root Three']
  for (const [preferredChain, issuer, downloads, roots = three] of rows) {
    const { io, ca } = await enrol(t, { roots })
    const options = { ...(preferredChain && { preferredChain }) }
    const { chain } = last(await run(await orderFor(['a.example'], options), io), 'downloaded')
    t.equal(new X509Certificate(chain).issuer, `CN=${issuer}`, preferredChain ?? 'none')
    t.equal(ca.count('certificate'), downloads)
  }
})

t.test('ignores errors with alternate chains', async (t) => {
  const rows: [what: string, reply: Reply][] = [
    ['it is gone', { status: 404, body: '' }],
    ['it is no chain', { body: 'nothing' }],
    ['the connection is closed', 'reset'],
  ]
  for (const [what, reply] of rows) {
    const { io, ca, warnings } = await enrol(t, { roots: ['Root One', 'Root Two'] })
    ca.answer('certificate', () => undefined, reply)
    const order = await orderFor(['a.example'], { preferredChain: 'Root Two' })
    const { chain } = last(await run(order, io), 'downloaded')
    t.equal(new X509Certificate(chain).issuer, 'CN=Root One R1', what)
    t.equal(warnings.length, 1, what)
  }
})

t.test('a certificate is revoked by its account or by its own key', async (t) => {
  const { io, ca, transport } = await enrol(t)
  const { chain } = last(await run(await orderFor(['a.example']), io), 'downloaded')
  const [leaf = Buffer.alloc(0)] = fromPem(chain)
  await t.rejects(transport.send(revokeCertificate(leaf), { key: io.account.key }), {
    code: 'ACME_UNAUTHORIZED',
  })
  await transport.send(revokeCertificate(leaf, 'superseded'), io.account)
  t.equal(ca.exchanges.at(-1)?.payload.reason, 4)
  await t.rejects(transport.send(revokeCertificate(leaf), io.account), {
    code: 'ACME_ALREADY_REVOKED',
  })
})

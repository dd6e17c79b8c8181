import t, { type Test } from 'tap'
import { type OrderIo, type OrderState, type Solver, step } from '../../src/index.ts'
import { enrol, last, orderFor, problem, recordingSolver, run, stepsOf, WHOLE } from '../helpers.ts'
import type { Kind, Reply } from '../scripted-ca/index.ts'

t.test('lets the CA validate while the answer is in place', async (t) => {
  const seen: boolean[] = []
  const { io, present } = await enrol(t, {
    validate: async ({ token, keyAuthorization }) => {
      seen.push(present.get(token)?.keyAuthorization === keyAuthorization)
      return undefined
    },
  })
  await run(await orderFor(['a.example', '*.a.example']), io)
  t.strictSame(seen, [true, true])
})

t.test('answers nothing for authorizations that are valid', async (t) => {
  const { io, log } = await enrol(t, { reuseAuthorizations: true })
  await run(await orderFor(['a.example', 'b.example']), io)
  log.length = 0
  const states = await run(await orderFor(['b.example', 'a.example']), io)
  t.equal(stepsOf(states), 'created ordered finalizing valid downloaded')
  t.strictSame(log, [])
  await run(await orderFor(['a.example', 'c.example']), io)
  t.strictSame(log, ['present c.example', 'cleanUp c.example'], 'only the one that is open')
})

t.test('does not validate a name again that became valid meanwhile', async (t) => {
  const { io, ca } = await enrol(t)
  const ordered = await step(await orderFor(['a.example']), io)
  const byDns = await step(ordered, io)
  const { solver } = recordingSolver('http-01')
  const present = async () => void (await step(byDns, io))
  const slow = { ...io, solversFor: () => [{ ...solver, present }] }
  t.equal(
    stepsOf(await run(ordered, slow)),
    'ordered authorizing ordered finalizing valid downloaded',
  )
  t.equal(ca.count('challenge'), 1)
})

t.test('reports why a name failed, and lets the other names end', async (t) => {
  const { io, log, present } = await enrol(t, {
    validate: async ({ identifier }) =>
      ({ 'a.example': 'dns', 'b.example': 'connection' })[identifier.value],
  })
  const names = ['a.example', 'b.example', 'c.example']
  const { error } = last(await run(await orderFor(names), io), 'failed')
  t.equal(error.code, 'ACME_DNS')
  t.equal(
    error.message,
    'a.example: the CA says: the CA saw a fault of kind dns; b.example: the CA says: the CA saw a fault of kind connection',
  )
  t.strictSame(
    error.problem?.subproblems.map(({ type, identifier }) => `${identifier?.value} ${type}`),
    ['a.example dns', 'b.example connection'],
    'each with its name',
  )
  t.equal(log.filter((line) => line.startsWith('cleanUp')).length, 3)
  t.equal(present.size, 0)
})

/** An order whose answer the CA has not been told of, and its authorization as long as that is so. */
async function authorizing(io: OrderIo) {
  let state: OrderState = await orderFor(['a.example'])
  while (state.step !== 'authorizing') state = await step(state, io)
  const [task] = state.tasks
  if (!task) throw new Error('nothing is to be proven')
  const { type, token, identifier, challengeUrl: url } = task
  const challenges = [{ type, token, url, status: 'pending' }]
  return { state, pending: { status: 'pending', identifier, challenges } }
}

t.test('asks the CA once to validate, although it does not begin yet', async (t) => {
  const { io, ca } = await enrol(t)
  const { state, pending } = await authorizing(io)
  const looks = Array.from({ length: 5 }, () => ({ body: pending }))
  ca.answer('authorization', ...looks, { body: { ...pending, status: 'valid' } })
  ca.always('challenge', { body: {} })
  t.equal((await step(state, io)).step, 'ordered')
  t.equal(ca.count('challenge'), 1)
})

t.test('reports why the CA does not begin to validate', async (t) => {
  const { io, ca } = await enrol(t)
  const { state } = await authorizing(io)
  ca.always('challenge', problem(429, 'rateLimited', { 'retry-after': '3600' }))
  await t.rejects(step(state, io), { code: 'ACME_RATE_LIMITED', retryAfterMs: 3_600_000 })
})

t.test('ends the order at once if the CA fails to validate', async (t) => {
  const { io, ca, clock } = await enrol(t, { validate: async () => 'serverInternal' })
  const start = clock.now()
  const { error } = last(await run(await orderFor(['a.example']), io), 'failed')
  t.equal(error.code, 'ACME_SERVER_INTERNAL')
  t.ok(clock.now() - start < 5000)
  t.equal(ca.count('challenge'), 1)
})

t.test('tries again with the order if an answer could not be published', async (t) => {
  const failing = new Error('no such zone')
  const { io, log, solver } = await enrol(t)
  const broken = { ...solver, present: () => Promise.reject(failing) }
  const states = [await orderFor(['a.example'])] as OrderState[]
  for (const _ of [1, 2]) states.push(await step(states.at(-1) as OrderState, io))
  const authorizing = states.at(-1) as OrderState
  await t.rejects(step(authorizing, { ...io, solversFor: () => [broken] }), failing)
  t.strictSame(log, [], 'part of it may be there, and the CA has not decided')
  await run(authorizing, io)
  t.strictSame(log, ['present a.example', 'cleanUp a.example'])
})

t.test('continues the order if a clean-up fails', async (t) => {
  const failing = new Error('no such zone')
  const { io, solver, warnings } = await enrol(t)
  const broken = { ...solver, cleanUp: () => Promise.reject(failing) }
  const states = await run(await orderFor(['a.example']), { ...io, solversFor: () => [broken] })
  t.equal(stepsOf(states), WHOLE)
  t.strictSame(warnings, [failing])
})

/** An order that is stopped while the CA validates, and what it needs to go on. */
async function stopAtValidation(t: Test, validate: () => string | undefined) {
  const stop = new AbortController()
  const { io, log, present } = await enrol(t, {
    validate: async () => {
      stop.abort(new Error('shutting down'))
      return validate()
    },
  })
  let state: OrderState = await orderFor(['a.example'])
  const stopped = { ...io, signal: stop.signal }
  while (state.step !== 'authorizing') state = await step(state, stopped)
  await t.rejects(step(state, stopped), { message: 'shutting down' })
  return { io, log, present, state: JSON.parse(JSON.stringify(state)) as OrderState }
}

t.test('leaves the answers of a stopped order in place until the CA has decided', async (t) => {
  const { io, log, present, state } = await stopAtValidation(t, () => undefined)
  t.strictSame(log, ['present a.example'])
  t.equal(present.size, 1, 'the CA may still look')
  t.equal(stepsOf(await run(state, io)), 'authorizing ordered finalizing valid downloaded')
  t.strictSame(log, ['present a.example', 'cleanUp a.example'], 'taken away when it is resumed')
})

t.test('an order that is stopped has not failed, although a name was refused', async (t) => {
  const stop = new AbortController()
  const refused = Promise.withResolvers<void>()
  const { io, log, solver } = await enrol(t, {
    validate: async ({ identifier }) => (identifier.value === 'a.example' ? 'dns' : undefined),
  })
  const transport: OrderIo['transport'] = {
    directory: (signal) => io.transport.directory(signal),
    get: (url, process, signal) => io.transport.get(url, process, signal),
    async send(call, signer, signal) {
      const answer = await io.transport.send(call, signer, signal)
      if (Object(answer).status === 'invalid') refused.resolve()
      return answer
    },
  }
  const stopping: Solver = {
    ...solver,
    async present(task, signal) {
      if (task.identifier.value === 'a.example') return solver.present(task, signal)
      await refused.promise
      await new Promise(setImmediate)
      stop.abort(new Error('shutting down'))
      signal.throwIfAborted()
    },
  }
  const stopped = { ...io, transport, signal: stop.signal, solversFor: () => [stopping] }
  let state: OrderState = await orderFor(['a.example', 'b.example'])
  while (state.step !== 'authorizing') state = await step(state, stopped)
  await t.rejects(step(state, stopped), { message: 'shutting down' })
  t.strictSame(log, ['present a.example'])
})

t.test('cleans up an order that was refused while it was stopped', async (t) => {
  const { io, log, state } = await stopAtValidation(t, () => 'dns')
  t.equal(last(await run(state, io), 'failed').error.code, 'ACME_DNS')
  t.strictSame(log, ['present a.example', 'cleanUp a.example'])
})

t.test('stores the location of an answer before publishing it', async (t) => {
  const { io, solver } = await enrol(t)
  const places: string[] = []
  const note =
    (what: string): Solver['present'] =>
    async ({ place }) =>
      void places.push(`${what} ${place}`)
  let target = 'here.example'
  const moving: Solver = {
    ...solver,
    locate: async () => target,
    present: note('present'),
    cleanUp: note('cleanUp'),
  }
  const moved = { ...io, solversFor: () => [moving] }
  let state: OrderState = await orderFor(['a.example'])
  while (state.step !== 'authorizing') state = await step(state, moved)
  t.match(state, { tasks: [{ place: 'here.example' }] })
  target = 'there.example'
  await run(JSON.parse(JSON.stringify(state)), moved)
  t.strictSame(places, ['present here.example', 'cleanUp here.example'])
})

t.test('challenges are chosen by what the solvers can do', async (t) => {
  const rows: [what: string, offered: string[], types: Solver['type'][], done: string][] = [
    ['the preferred one', ['http-01', 'dns-01'], ['dns-01', 'http-01'], 'dns-01'],
    ['the only one', ['http-01'], ['dns-01', 'http-01'], 'http-01'],
    ['among unknown ones (AcmeSwift#22)', ['dns-persist-01', 'x', 'dns-01'], ['dns-01'], 'dns-01'],
  ]
  for (const [what, challenges, types, done] of rows) {
    const { io } = await enrol(t, { challenges })
    const solvers = types.map(recordingSolver)
    const used = { ...io, solversFor: () => solvers.map(({ solver }) => solver) }
    await run(await orderFor(['a.example']), used)
    t.strictSame(
      solvers.filter(({ log }) => log.length > 0).map(({ solver }) => solver.type),
      [done],
      what,
    )
  }
  const { io } = await enrol(t, { challenges: ['dns-persist-01'] })
  await t.rejects(run(await orderFor(['a.example']), io), {
    code: 'ACME_NO_CHALLENGE',
    message: 'a.example: no solver for what the CA offers (dns-persist-01)',
  })
})

t.test('chooses another challenge if the solver of a resumed order is gone', async (t) => {
  const { io } = await enrol(t)
  const states = [await orderFor(['a.example'])] as OrderState[]
  for (const _ of [1, 2]) states.push(await step(states.at(-1) as OrderState, io))
  const { solver, log } = recordingSolver('http-01')
  const rest = await run(states.at(-1) as OrderState, { ...io, solversFor: () => [solver] })
  t.equal(stepsOf(rest), 'authorizing ordered authorizing ordered finalizing valid downloaded')
  t.equal(log.length, 2)
})

t.test('refuses hostile responses before it acts on them', async (t) => {
  const order = (part: object): Reply => ({
    headers: { location: '/order/x' },
    body: {
      status: 'pending',
      identifiers: [{ type: 'dns', value: 'a.example' }],
      authorizations: ['https://ca.example/1'],
      finalize: 'https://ca.example/2',
      ...part,
    },
  })
  const authorization = (part: object): Reply => ({
    body: {
      status: 'pending',
      identifier: { type: 'dns', value: 'a.example' },
      challenges: [],
      ...part,
    },
  })
  const challenge = { type: 'dns-01', url: 'https://ca.example/3', status: 'pending' }
  const rows: [what: string, kind: Kind, reply: Reply, code: string][] = [
    [
      'another name in the order',
      'newOrder',
      order({ identifiers: [{ type: 'dns', value: 'bank.example' }] }),
      'ACME_ANSWER_INVALID',
    ],
    ['no name', 'newOrder', order({ identifiers: [] }), 'ACME_ANSWER_INVALID'],
    ['an unknown status', 'newOrder', order({ status: 'fine' }), 'ACME_ANSWER_INVALID'],
    [
      'a thousand authorizations',
      'newOrder',
      order({ authorizations: Array(1000).fill('https://ca.example/') }),
      'ACME_ANSWER_INVALID',
    ],
    [
      'an internal address without TLS',
      'newOrder',
      order({ finalize: 'http://169.254.169.254/' }),
      'ACME_ANSWER_INVALID',
    ],
    [
      'another name in an authorization',
      'authorization',
      authorization({ identifier: { type: 'dns', value: 'bank.example' } }),
      'ACME_ANSWER_INVALID',
    ],
    [
      'the wildcard that was not ordered',
      'authorization',
      authorization({ wildcard: true }),
      'ACME_ANSWER_INVALID',
    ],
    [
      'a status that is a line of a log',
      'authorization',
      authorization({ status: 'a\nb' }),
      'ACME_ANSWER_INVALID',
    ],
    [
      'a kind of challenge that is a line of a log',
      'authorization',
      authorization({ challenges: [{ ...challenge, token: 'abc', type: 'a\nb' }] }),
      'ACME_NO_CHALLENGE',
    ],
    [
      'a token that is a path',
      'authorization',
      authorization({ challenges: [{ ...challenge, token: '../../etc' }] }),
      'ACME_NO_CHALLENGE',
    ],
    [
      'a token that is a command (acme.sh#4659)',
      'authorization',
      authorization({ challenges: [{ ...challenge, token: '$(id)' }] }),
      'ACME_NO_CHALLENGE',
    ],
  ]
  for (const [what, kind, reply, code] of rows) {
    const { io, ca, log } = await enrol(t)
    ca.answer(kind, reply)
    await t.rejects(run(await orderFor(['a.example']), io), { code, message: /^.*$/ }, what)
    t.strictSame(log, [], `${what}: nothing was presented`)
  }
})

t.test('does not answer for other names if the CA changes an order', async (t) => {
  const { io, ca, log } = await enrol(t)
  const bank = { type: 'dns', value: 'bank.example' }
  const url = `${ca.directoryUrl.origin}/authorization/x`
  ca.answer('order', {
    body: { status: 'pending', identifiers: [bank], authorizations: [url], finalize: url },
  })
  const challenges = [{ type: 'dns-01', url, status: 'pending', token: 'abc' }]
  ca.answer('authorization', { body: { status: 'pending', identifier: bank, challenges } })
  const code = 'ACME_ANSWER_INVALID'
  await t.rejects(run(await orderFor(['a.example']), io), { code })
  t.strictSame(log, [])
})

t.test('answers for a name as it was ordered, however the CA spells it', async (t) => {
  const { io, ca, log } = await enrol(t)
  const url = `${ca.directoryUrl.origin}/authorization/x`
  const challenges = [{ type: 'dns-01', url, status: 'pending', token: 'abc' }]
  const identifier = { type: 'dns', value: 'A.Example' }
  const body = { status: 'pending', wildcard: true, identifier, challenges }
  ca.answer('authorization', { body }, { body }, { body: { ...body, status: 'invalid' } })
  const { error } = last(await run(await orderFor(['*.a.example']), io), 'failed')
  t.equal(error.message, '*.a.example: the authorization is invalid')
  t.strictSame(log, ['present *.a.example', 'cleanUp *.a.example'])
})

import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { systemClock } from '@gatehouse/service-kit/clock'
import { manualClock, testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { startMailServer } from '../../../packages/service-kit/test/events/mail-server.ts'
import { startPostgres } from '../../../scripts/test/postgres.ts'
import { expectWarnings } from '../../../scripts/test/quiet.ts'
import { until } from '../../../scripts/test/until.ts'
import type {} from '../src/events.ts'
import { portalOf, startApp, type TestApp, yamlOf } from './app.ts'
import { ENGINES, HOUR } from './store/kit.ts'

const DAY = 24 * HOUR
const SECRET = 'canary-of-the-secret'
const REQUEST = {
  type: 'approval-requested',
  portal: 'main',
  host: 'notes.example.com',
  tool: 'delete_note',
  url: 'https://auth.example.com/portals/main/account/calls/c1',
} as const
const EMAIL = 'ada@example.com'

interface Delivery {
  readonly path: string | undefined
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** A receiver over HTTP, which keeps what it gets. */
async function startReceiver(t: Test, status = 200) {
  const deliveries: Delivery[] = []
  const server = createServer(async (request, response) => {
    const { url, headers } = request
    deliveries.push({ path: url, headers, body: await text(request) })
    response.writeHead(status).end()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => server.close())
  return { deliveries, origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}

/** An instance whose receivers are told, until the test ends. */
async function startInstance(t: Test, receivers: readonly object[], rest = ''): Promise<TestApp> {
  const events = `events: { receivers: ${JSON.stringify(receivers)} }`
  const yaml = yamlOf(portalOf('main'), `${events}\n${rest}`)
  const instance = await startApp(t, yaml, undefined, { clock: systemClock })
  await instance.app.listen({ host: '127.0.0.1', port: 0 })
  return instance
}

const webhookAt = (origin: string) => ({
  ...{ name: 'ops', type: 'webhook', url: `${origin}/`, secret: SECRET },
})

const STORAGES: Readonly<Record<string, (t: Test) => Promise<string>>> = {
  'a folder': async (t) => `storage: { path: "${testFolder(t)}" }`,
  async PostgreSQL(t) {
    const { url } = await startPostgres(t)
    return `storage: { url: "${url}" }`
  },
}

for (const [engine, storageOf] of Object.entries(STORAGES))
  t.test(`of several instances on ${engine}, one delivers an event`, async (t) => {
    const storage = await storageOf(t)
    const { deliveries, origin } = await startReceiver(t)
    const instances = [
      await startInstance(t, [webhookAt(origin)], storage),
      await startInstance(t, [webhookAt(origin)], storage),
    ]
    for (const { app } of instances)
      for (let i = 0; i < 20; i += 1) app.events.add({ ...REQUEST, tool: `tool${i}`, email: EMAIL })
    await until(() => deliveries.length >= 40)
    const { outbox } = instances[0]!.app.authStore
    const now = Date.now() + 2 * HOUR
    await until(async () => (await outbox.claimDueEvents('ops', now, 9, now)).length === 0)
    t.equal(deliveries.length, 40, 'each once')
    const bodies = deliveries.map(({ body }) => JSON.parse(body))
    t.equal(new Set(bodies.map(({ id }) => id)).size, 40)
  })

t.test('a webhook gets what an event is, signed, and nothing else', async (t) => {
  const { deliveries, origin } = await startReceiver(t)
  const { app } = await startInstance(t, [webhookAt(origin)])
  const call = { ...REQUEST, email: EMAIL, arguments: { note: 'canary-of-the-arguments' } }
  app.events.add(call)
  const { headers, body } = (await until(() => deliveries[0]))!
  const { id, at, ...event } = JSON.parse(body)
  t.match(id, /^[-0-9a-f]{36}$/)
  t.match(at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  t.strictSame(event, REQUEST)
  const signed = `${headers['x-gatehouse-timestamp']}.${body}`
  const signature = createHmac('sha256', SECRET).update(signed).digest('hex')
  t.equal(headers['x-gatehouse-signature'], `sha256=${signature}`)
  t.match(headers['user-agent'], /^gatehouse-forward-auth\//)
})

t.test('ntfy gets a text of one line for each part, however the tool is called', async (t) => {
  const { deliveries, origin } = await startReceiver(t)
  const ntfy = { name: 'phone', type: 'ntfy', url: `${origin}/my-topic`, token: SECRET }
  const { app } = await startInstance(t, [ntfy])
  app.events.add({ ...REQUEST, email: undefined })
  app.events.add({
    ...REQUEST,
    tool: `delete\r\n\u0007\u202e${'x'.repeat(9_000)}`,
    email: undefined,
  })
  await until(() => deliveries.length > 1)
  const [first, second] = deliveries
  t.equal(first?.headers.authorization, `Bearer ${SECRET}`)
  t.strictSame(JSON.parse(first?.body ?? ''), {
    topic: 'my-topic',
    title: 'May an agent call delete_note?',
    message: [
      'An agent wants to call the tool delete_note at notes.example.com, and waits for a person.',
      `What to do: Decide at ${REQUEST.url}. If nobody expects this call, refuse it there.`,
      'Tool: delete_note\nServer: notes.example.com\nPortal: main',
    ].join('\n\n'),
    priority: 4,
    tags: ['warning'],
  })
  const { title, message } = JSON.parse(second?.body ?? '')
  t.match(title, /^May an agent call delete x{192}…\?$/)
  t.ok(Buffer.byteLength(message) < 4_096)
})

t.test('an e-mail goes to the person whom the agent acts for', async (t) => {
  const { mails, config } = await startMailServer(t, { disabledCommands: ['STARTTLS'] })
  const smtp = { type: 'email', host: '127.0.0.1', port: config.port, tls: 'off', from: 'a@a.test' }
  const { app } = await startInstance(t, [
    { name: 'person', ...smtp, to: ['person'] },
    { name: 'both', ...smtp, to: ['person', 'ops@example.com'] },
  ])
  app.events.add({ ...REQUEST, email: EMAIL })
  await until(() => mails.length > 1)
  t.strictSame(mails.map(({ to }) => to).toSorted(), [[EMAIL], [EMAIL, 'ops@example.com']])
  t.match(mails[0]?.raw, /^Subject: May an agent call delete_note\?\r$/m)
  t.match(mails[0]?.raw, /^From: "?Gatehouse forward-auth"? <a@a\.test>\r$/m)

  app.events.add({ ...REQUEST, email: undefined })
  await until(() => mails.length > 2)
  const waiting = () => {
    const now = Date.now()
    // It is due again at once, so that looking delays nothing.
    return app.authStore.outbox.claimDueEvents('person', now + HOUR, 9, now)
  }
  await until(async () => (await waiting()).length === 0)
  t.strictSame(mails[2]?.to, ['ops@example.com'])
  t.equal(mails.length, 3, 'nothing is sent to nobody')
})

t.test('an event is sealed where it waits, and no other one is sent', async (t) => {
  const { deliveries, origin } = await startReceiver(t)
  const events = `events: { receivers: [${JSON.stringify(webhookAt(origin))}] }`
  const { app } = await startApp(t, yamlOf(portalOf('main'), events), undefined, {
    clock: systemClock,
  })
  const { outbox } = app.authStore
  const forged = JSON.stringify({ body: JSON.stringify({ ...REQUEST, url: 'https://evil.test/' }) })
  await outbox.addEvent({ body: forged, at: 0, receivers: ['ops'] })
  app.events.add({ ...REQUEST, email: EMAIL })
  const row = await until(async () => {
    const now = Date.now()
    return (await outbox.claimDueEvents('ops', now, 9, now))[1]
  })
  t.match(row?.body, /^[-\w]{200,}$/)

  app.loops.start()
  await until(() => deliveries.length > 0)
  t.match(JSON.parse(deliveries[0]?.body ?? ''), REQUEST)
  t.equal(deliveries.length, 1)
})

t.test('no secret of a receiver is logged, and a failure of the store is', async (t) => {
  const { deliveries, origin } = await startReceiver(t, 500)
  expectWarnings(t, 'an event was not accepted', 'an event was lost')
  const { app, log } = await startInstance(t, [
    { name: 'phone', type: 'ntfy', url: `${origin}/${SECRET}`, token: SECRET },
    { ...webhookAt(origin), url: `${origin}/${SECRET}` },
  ])
  app.events.add({ ...REQUEST, email: EMAIL })
  const saying = (message: string) => log.filter(({ msg }) => msg === message)
  await until(() => saying('an event was not accepted').length > 1)
  t.ok(deliveries.length > 1)
  t.notMatch(JSON.stringify(log), SECRET)
  t.notMatch(JSON.stringify(log), EMAIL)

  const failing = async () => {
    throw new Error('the store is away')
  }
  Object.assign(app.authStore.outbox, { addEvent: failing })
  app.events.add({ ...REQUEST, email: EMAIL })
  await until(() => saying('an event was lost').length > 0)
})

t.test('without a receiver nothing is stored', async (t) => {
  const { app } = await startApp(t, yamlOf(portalOf('main')))
  Object.assign(app.authStore.outbox, { addEvent: () => t.fail('an event is stored') })
  app.events.add({ ...REQUEST, email: EMAIL })
})

t.test('receivers that cannot be are refused', async (t) => {
  const email = { name: 'a', type: 'email', host: 'smtp.test', from: 'a@a.test' }
  const webhook = { ...webhookAt('https://hook.test'), name: 'a' }
  for (const [receivers, path] of [
    [[{ ...email, to: ['somebody'] }], '/events/receivers/0/to/0'],
    [[{ ...email, to: ['person'] }, webhook], '/events/receivers/1/name'],
    [[{ ...webhook, url: 'http://hook.test/' }], '/events/receivers/0/url'],
    [[{ ...webhook, events: ['issued'] }], '/events/receivers/0/events/0'],
  ] as const) {
    const refused = await startInstance(t, receivers).catch((error) => error)
    t.match(refused.faults, [{ path }])
    t.notMatch(JSON.stringify(refused.faults), SECRET)
  }
})

for (const [engine, prepare] of Object.entries(ENGINES))
  t.test(
    `on ${engine}, no more than 1,000 events wait for a receiver, and none for a day`,
    async (t) => {
      const open = (await prepare(t))(t)
      const clock = manualClock(Date.UTC(2030, 0, 1))
      const time = { passed: 0 }
      const { store } = await open({ clock, monotonic: () => time.passed })
      const add = (body: string, receivers: readonly string[]) =>
        store.outbox.addEvent({ body, at: clock.now(), receivers })
      await add('0', ['ops', 'phone'])
      // Few at once, which wait for a connection: that is in vain after ten seconds.
      for (let n = 0; n < 37; n++)
        await Promise.all(Array.from({ length: 27 }, (_, i) => add(`${n * 27 + i + 1}`, ['ops'])))
      await add('1000', ['ops'])
      const due = async (receiver: string) => {
        const rows = await store.outbox.claimDueEvents(receiver, clock.now(), 2_000, clock.now())
        return rows.map(({ body }) => body)
      }
      const waiting = await due('ops')
      t.equal(waiting.length, 1_000)
      t.notOk(waiting.includes('0'), 'the oldest went')
      t.strictSame(await due('phone'), ['0'])

      await clock.advance(DAY - 1)
      time.passed = DAY - 1
      await store.prune()
      t.equal((await due('ops')).length, 1_000)
      await clock.advance(1)
      time.passed = DAY
      await store.prune()
      t.strictSame(await due('ops'), [])
    },
  )

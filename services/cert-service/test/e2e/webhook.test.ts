import { createHmac } from 'node:crypto'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Ca, Issuer } from '@gatehouse/issuance/issuers'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { until } from '../../../../scripts/test/until.ts'
import { DAY, type LeapClock, leapClock, NOW, rest, settle, start } from '../helpers/app.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'an event was not accepted')

const SECRET = 'a-secret-for-the-webhook'
const MINUTE = 60_000
const HOUR = 60 * MINUTE
/** The pause of the loop of each receiver. */
const SEND_EVERY = 1_000

interface Post {
  readonly path: string | undefined
  readonly headers: IncomingHttpHeaders
  readonly body: string
  // biome-ignore lint/suspicious/noExplicitAny: tests look at whatever came.
  readonly event: any
}

/** Lets what is due be sent to so many receivers, until each has answered. */
async function send(clock: LeapClock, receivers = 1): Promise<void> {
  const isResting = () => clock.waiting(SEND_EVERY) === receivers
  await settle(isResting)
  await clock.advance(SEND_EVERY)
  await settle(isResting)
}

t.test('events are posted, signed, and tell no secret', async (t) => {
  const receiver = await receive(t)
  const { call, service, clock } = await start(t, configOf(receiver.url))
  service.start()
  const { body } = await call('POST', '/api/certificate', { domain: 'a.test' })
  await settle()
  await send(clock)
  await clock.advance(4 * DAY)
  await rest(clock, service.issuance)
  await send(clock)

  t.equal(receiver.posts.length, 2)
  const [issued, renewed] = receiver.posts
  t.match(issued?.event, { type: 'issued', names: ['a.test'], serialNumber: body.serialNumber })
  t.match(renewed?.event, { type: 'renewed', names: ['a.test'], issuer: 'ca' })
  t.not(issued?.event.id, renewed?.event.id)
  for (const { headers, body: text } of receiver.posts) {
    t.equal(headers['content-type'], 'application/json')
    const timestamp = headers['x-gatehouse-timestamp']
    const hmac = createHmac('sha256', SECRET).update(`${timestamp}.${text}`).digest('hex')
    t.equal(headers['x-gatehouse-signature'], `sha256=${hmac}`)
    t.notMatch(text, /PRIVATE KEY|sealed|certificate"/)
  }
  t.equal(renewed?.headers['x-gatehouse-timestamp'], String(clock.now() / 1000))
})

t.test('a receiver that fails is tried again, over a restart, for seven days', async (t) => {
  expectWarnings(t, 'an event could not be delivered')
  const receiver = await receive(t)
  receiver.status = 500
  const folder = testFolder(t)
  const clock = leapClock(NOW)
  const first = await start(t, configOf(receiver.url), { folder, clock })
  first.service.start()
  const answer = await first.call('POST', '/api/certificate', { domain: 'a.test' })
  t.equal(answer.status, 200, 'issuing does not wait for it')
  await settle()
  await send(clock)
  t.equal(receiver.posts.length, 1)
  await first.close()

  const { service, logged } = await start(t, configOf(receiver.url), { folder, clock })
  // Certificates are not renewed here: that would be another event.
  const [held] = await service.store.list({ after: 0, limit: 1 })
  await service.store.setRenewAt(held!.id, null)
  service.start()
  await send(clock)
  t.equal(receiver.posts.length, 1, 'the time of the next try was kept')
  for (const [wait, posts] of [
    [MINUTE, 2],
    [10 * MINUTE, 3],
    [100 * MINUTE, 4],
    [DAY, 5],
    [DAY, 6],
    [DAY, 7],
    [DAY, 8],
    [DAY, 9],
    [DAY, 10],
    [DAY, 10],
    [9 * DAY, 10],
  ] as const) {
    await clock.advance(wait + 2_000)
    await send(clock)
    t.equal(receiver.posts.length, posts)
  }
  t.equal(new Set(receiver.posts.map(({ event }) => event.id)).size, 1)
  t.match(logged.join(''), 'could not be delivered within 7 days')
  t.match(logged.join(''), 'was answered 500')
  t.notMatch(logged.join(''), SECRET)
  t.notMatch(logged.join(''), 'path-with-a-token')
  t.strictSame(
    await service.store.claimDueEvents('webhook', clock.now() + 99 * DAY, 9, clock.now()),
    [],
  )
})

t.test('each receiver is told in its own format, whatever happens to the others', async (t) => {
  const [down, phone, chat] = await Promise.all([receive(t), receive(t), receive(t)])
  down.status = 500
  const receivers = [
    { name: 'phone', type: 'ntfy', url: phone.url, token: SECRET },
    { name: 'chat', type: 'slack', url: chat.url, events: ['renewed'] },
  ]
  const events = { ...configOf(down.url).events, receivers }
  const { call, service, clock, logged } = await start(t, { events })
  service.start()
  await call('POST', '/api/certificate', { domain: 'a.test' })
  await settle()
  await send(clock, 3)
  t.equal(down.posts.length, 1)
  await clock.advance(4 * DAY)
  await rest(clock, service.issuance)
  await send(clock, 3)

  const titles = phone.posts.map(({ event }) => event.title)
  t.strictSame(titles, ['New certificate for a.test', 'Renewed certificate for a.test'])
  for (const { path, headers, event } of phone.posts) {
    t.equal(path, '/', 'the topic is in the body')
    t.match(event, { topic: 'path-with-a-token', tags: ['white_check_mark'] })
    t.equal(headers.authorization, `Bearer ${SECRET}`)
  }
  t.match(chat.posts, [{ path: '/path-with-a-token', event: { text: /^Renewed certificate/ } }])
  t.equal(chat.posts.length, 1, 'only of what it asked for')
  t.match(await service.store.countEvents(), { webhook: 2, phone: undefined, chat: undefined })
  t.match(logged.join(''), '"receiver":"webhook"')
  t.notMatch(logged.join(''), /path-with-a-token|a-secret-for/)
})

t.test('a receiver that never answers holds up nothing', async (t) => {
  // Whatever waits for it then waits for ever.
  const { timeout } = AbortSignal
  AbortSignal.timeout = () => new AbortController().signal
  t.teardown(() => {
    AbortSignal.timeout = timeout
  })
  const receiver = await receive(t)
  receiver.status = 0
  const { call, clock, service, close } = await start(t, configOf(receiver.url))
  service.start()
  await call('POST', '/api/certificate', { domain: 'a.test' })
  await settle()
  await clock.advance(1_000)
  await receiver.until(1)
  t.equal((await call('POST', '/api/certificate', { domain: 'b.test' })).status, 200)
  await close()
})

t.test('a failure is told when it begins and once a day', async (t) => {
  expectWarnings(t, 'CERT_ISSUE_FAILED', 'a certificate could not be issued')
  const receiver = await receive(t)
  const fail = { now: true }
  const { call, service, clock } = await start(t, configOf(receiver.url, ['failing', 'expiring']), {
    issuer: (ca) => failing(ca, fail),
  })
  service.start()
  await settle()
  const told = async (expected: number) => {
    await send(clock)
    t.equal(receiver.posts.length, expected)
  }
  const post = () => call('POST', '/api/certificate', { domain: 'a.test' })
  t.equal((await post()).status, 503)
  await told(1)
  t.match(receiver.posts[0]?.event, { type: 'failing', failures: 1, names: ['a.test'] })
  for (const wait of [MINUTE, 10 * MINUTE, 100 * MINUTE]) {
    await clock.advance(wait)
    t.equal((await post()).status, 503)
  }
  await told(1)
  await clock.advance(DAY)
  t.equal((await post()).status, 503)
  await told(2)
  t.match(receiver.posts[1]?.event, { failures: 5 })

  fail.now = false
  await clock.advance(DAY)
  t.equal((await post()).status, 200)
  fail.now = true
  await clock.advance(3.5 * DAY + 60_000)
  await rest(clock, service.issuance)
  await told(3)
  t.match(receiver.posts[2]?.event, { type: 'failing', failures: 1 })

  const late = () => receiver.posts.filter(({ event }) => event.type === 'expiring').length
  for (let hours = 0; hours < 96; hours += 6) {
    await clock.advance(6 * HOUR)
    await rest(clock, service.issuance)
    await settle()
    await send(clock)
  }
  t.equal(late(), 3, 'at each third')
})

function configOf(url: string, events?: readonly string[]) {
  return { events: { webhook: { url, secret: SECRET, ...(events && { events }) } } }
}

function failing(ca: Ca, fail: { readonly now: boolean }): Issuer {
  return {
    ...ca.servers,
    issue(request) {
      if (fail.now) throw new Error('the CA is away')
      return ca.issue(request)
    },
  }
}

/** A receiver on loopback that answers as it is told. */
async function receive(t: Test) {
  const posts: Post[] = []
  const receiver = {
    posts,
    status: 204,
    url: '',
    until: (count: number) => until(() => posts.length >= count),
  }
  // Status 0: no answer.
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk) => chunks.push(chunk))
    request.on('end', () => {
      const body = Buffer.concat(chunks).toString()
      posts.push({ path: request.url, headers: request.headers, body, event: JSON.parse(body) })
      if (receiver.status > 0) response.writeHead(receiver.status).end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  receiver.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/path-with-a-token`
  return receiver
}

import { BACKDATE } from '@gatehouse/pki'
import t from 'tap'
import { DAY, KEY, type Running, start } from '../helpers/app.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const SHORT = 'a-key-for-what-is-short-lived'
const ca = { leafLifetime: '7d', maxLifetime: '30d' }
/** The key of everything, and one whose row has a lifetime. */
const auth = {
  psk: {
    keys: [
      { name: 'ops', key: KEY },
      { name: 'short', key: SHORT, domains: ['*.test'], lifetime: '2d' },
    ],
  },
}

const post = ({ call }: Running, body: object, key = KEY) =>
  call(
    'POST',
    '/api/certificate',
    { domain: 'a.test', ...body },
    { authorization: `APIKey ${key}` },
  )
const livesFor = ({ notBefore, notAfter }: { notBefore: string; notAfter: string }) =>
  Date.parse(notAfter) - Date.parse(notBefore) - BACKDATE
const madeOf = async ({ service }: Running) => (await service.store.listHistory('a.test')).length

const ASKED: readonly [why: string, key: string, lifetime: unknown, ms: number | RegExp][] = [
  ['nothing', KEY, undefined, 7 * DAY],
  ['days', KEY, '6d', 6 * DAY],
  ['the least', KEY, '1h', HOUR],
  ['minutes', KEY, '90m', 90 * MINUTE],
  ['longer than usual', KEY, '30d', 30 * DAY],
  ['longer than there is', KEY, '31d', /from 1h to 30d/],
  ['far too long', KEY, '999999d', /from 1h to 30d/],
  ['too short', KEY, '59m', /from 1h to 30d/],
  ['nothing, by a key with a lifetime', SHORT, undefined, 2 * DAY],
  ['less than the key has', SHORT, '1d', DAY],
  ['more than the key has', SHORT, '3d', /from 1h to 2d/],
]

t.test('a request asks how long its certificate lives', async (t) => {
  for (const [why, key, lifetime, expected] of ASKED) {
    const running = await start(t, { ca, auth })
    const { status, body } = await post(running, { lifetime }, key)
    if (typeof expected === 'number') t.equal(livesFor(body), expected, why)
    else {
      t.match({ status, body }, { status: 400, body: { code: 'CERT_LIFETIME_REFUSED' } }, why)
      t.match(body.errors, [{ pointer: '/lifetime', detail: expected }], why)
    }
  }
  const running = await start(t, { ca })
  for (const lifetime of ['', '6', '0d', '-1d', '1.5d', '6 d', '1000000d', '6w', 6, null])
    t.equal((await post(running, { lifetime })).status, 400, String(lifetime))
})

t.test('what lives longer than was asked for is replaced, once', async (t) => {
  const running = await start(t, { ca })
  const first = await post(running, {})
  const shorter = await post(running, { lifetime: '2d' })
  t.equal(livesFor(shorter.body), 2 * DAY)
  t.not(shorter.body.serialNumber, first.body.serialNumber)
  for (const lifetime of [undefined, '2d', '6d', '30d']) {
    const { body } = await post(running, { lifetime })
    t.match(body, { cached: true, serialNumber: shorter.body.serialNumber }, String(lifetime))
  }
  t.equal(await madeOf(running), 2)
})

t.test('a dry run says that what lives too long is replaced', async (t) => {
  const running = await start(t, { ca })
  await post(running, {})
  for (const [lifetime, isHeld] of [
    ['7d', true],
    ['6d', false],
  ] as const) {
    const body = { domain: 'a.test', lifetime }
    const run = await running.call('POST', '/api/certificate?dryRun=true', body)
    t.equal(run.body.held !== undefined, isHeld, lifetime)
  }
})

t.test('a dry run of a replacement takes no more names than the replacement does', async (t) => {
  const running = await start(t, { ca, auth, limits: { perCaller: { names: 1 } } })
  await post(running, {}, SHORT)
  const headers = { authorization: `APIKey ${SHORT}` }
  const dryRun = (body: object) =>
    running.call('POST', '/api/certificate?dryRun=true', body, headers)
  t.match(await dryRun({ domain: 'b.test' }), { body: { obstacles: [/1 of 1 names/] } })
  const shorter = { domain: 'a.test', lifetime: '1d' }
  t.strictSame((await dryRun(shorter)).body.obstacles, [])
  t.equal(livesFor((await post(running, shorter, SHORT)).body), DAY)
})

t.test('who may have none that lives long renews none that does', async (t) => {
  const running = await start(t, { ca, auth })
  for (const [lifetime, renewed] of [
    ['30d', 2 * DAY],
    [undefined, 2 * DAY],
    ['1d', DAY],
  ] as const) {
    const domain = `of-${lifetime}.test`
    const { body } = await post(running, { domain, lifetime })
    await running.clock.advance(Date.parse(body.renewAt) - running.clock.now())
    const headers = { authorization: `APIKey ${SHORT}` }
    const answer = await running.call('POST', '/api/certificate/renew', { domain }, headers)
    t.equal(livesFor(answer.body), renewed, String(lifetime))
    const [held] = await running.service.store.findByDomain(domain)
    t.equal(held?.lifetime, renewed, 'and so it goes on')
  }
})

t.test('two callers of one certificate do not renew it in turns', async (t) => {
  const running = await start(t, { ca, auth })
  running.service.start()
  for (let hour = 0; hour < 10 * 24; hour += 6) {
    const [one, other] = [await post(running, { lifetime: '6d' }), await post(running, {}, SHORT)]
    t.ok(livesFor(one.body) <= 6 * DAY)
    t.ok(livesFor(other.body) <= 2 * DAY)
    await running.clock.advance(6 * HOUR)
  }
  // Renewed about once a day, as half of two days, however often they ask.
  const made = await madeOf(running)
  t.ok(made >= 9 && made <= 14, `${made} in ten days`)
})

t.test('requests at the same time each get what they ask for', async (t) => {
  const running = await start(t, { ca })
  const lifetimes = ['30d', undefined, '1d', '6d', '2d']
  const answers = await Promise.all(lifetimes.map((lifetime) => post(running, { lifetime })))
  const allowed = [30, 7, 1, 6, 2]
  for (const [i, { status, body }] of answers.entries()) {
    t.equal(status, 200)
    t.ok(lifetimes[i] === undefined || livesFor(body) <= (allowed[i] ?? 0) * DAY, `${lifetimes[i]}`)
  }
  t.equal(livesFor((await post(running, {})).body), DAY, 'the shortest stays')
})

t.test('a replacement has the limits of a renewal', async (t) => {
  const limits = {
    perCaller: { names: 1, issuancesPerMinute: 1, burst: 2 },
  }
  const running = await start(t, { ca, auth, limits })
  t.equal((await post(running, { lifetime: '2d' }, SHORT)).status, 200)
  t.equal((await post(running, { lifetime: '1d' }, SHORT)).status, 200, 'it is no other name')
  t.match(await post(running, { lifetime: '1h' }, SHORT), {
    status: 429,
    body: { limit: 'perCaller.issuancesPerMinute' },
  })
})

t.test('the service renews for as long as was asked', async (t) => {
  const running = await start(t, { ca })
  running.service.start()
  await post(running, { lifetime: '2d' })
  await running.clock.advance(1.1 * DAY)
  const { body } = await running.call('GET', '/api/certificate/a.test')
  t.equal(livesFor(body), 2 * DAY)
  t.equal(await madeOf(running), 2)
})

t.test('the longest lifetime of today also bounds renewals', async (t) => {
  const running = await start(t, { ca })
  await post(running, { lifetime: '30d' })
  await running.close()
  const { folder, clock } = running
  const again = await start(t, { ca: { leafLifetime: '1d' } }, { folder, clock })
  again.service.start()
  await again.clock.advance(21 * DAY)
  const { body } = await again.call('GET', '/api/certificate/a.test')
  t.equal(livesFor(body), DAY)
})

t.test('a CA that decides by itself is asked for no lifetime', async (t) => {
  const issuer = { name: 'public', permits: () => true, issue: () => t.fail('nothing is issued') }
  const running = await start(t, {}, { issuer: () => issuer as never })
  t.match((await post(running, { lifetime: '6d' })).body, {
    code: 'CERT_LIFETIME_REFUSED',
    detail: 'the CA behind public decides',
  })
})

t.test('certificates of an hour are renewed all day, each in time', async (t) => {
  const running = await start(t, {
    ca: { leafLifetime: '1h' },
    certificates: [{ names: ['a.test'] }],
  })
  const { clock, service } = running
  service.start()
  await clock.advance(MINUTE)
  const left: number[] = []
  for (let at = MINUTE; at < DAY; at += 5 * MINUTE) {
    const [current] = await service.store.findByDomain('a.test')
    left.push((current?.notAfter ?? 0) - clock.now())
    await clock.advance(5 * MINUTE)
  }
  t.ok(Math.min(...left) > 20 * MINUTE, `${Math.min(...left) / MINUTE} minutes at least`)
  const made = await madeOf(running)
  t.ok(made >= 48 && made <= 62, `${made} in a day`)
})

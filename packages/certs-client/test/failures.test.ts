import { generateKeyPairSync } from 'node:crypto'
import { type BoundedFetch, type FetchInit, NetError } from '@gatehouse/net'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import {
  DAY,
  type LeapClock,
  leapClock,
  NOW,
  start,
} from '../../../services/cert-service/test/helpers/app.ts'
import { getOnce, keepGetting, untilNextLook, waitAfter } from '../src/keep.ts'
import { clientOf, injected, listAll, lookAt } from './helpers/client.ts'

interface Canned {
  readonly status?: number
  readonly headers?: Record<string, string>
  readonly body?: unknown
}

/** A fetch that gives these answers one after the other, and the last one from then on. */
function scripted(...answers: readonly (Canned | NetError)[]): BoundedFetch & { asked: string[] } {
  const asked: string[] = []
  const fetch = async (url: URL | string, { method = 'GET', status = [200] }: FetchInit = {}) => {
    const answer = answers[Math.min(asked.length, answers.length - 1)]!
    asked.push(`${method} ${new URL(url).pathname}`)
    if (answer instanceof Error) throw answer
    if (!status.includes(answer.status ?? 200))
      throw new NetError('NET_FETCH_STATUS', `was answered ${answer.status}`)
    const { body = '' } = answer
    return {
      status: answer.status ?? 200,
      headers: answer.headers ?? {},
      body: Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)),
    }
  }
  return Object.assign(fetch, { asked, close: async () => {} })
}

const AWAY = new NetError('NET_FETCH_FAILED', 'GET http://certs.test/ failed: ECONNREFUSED')
const problem = (status: number, code: string, more: object = {}): Canned => ({
  status,
  body: { type: 'about:blank', status, code, title: 'T', detail: `d of ${code}`, ...more },
})

/** A clock on which every pause passes at once; notes how long they were. */
function hasty(start = NOW): LeapClock & { readonly pauses: number[] } {
  const clock = leapClock(start)
  const pauses: number[] = []
  return {
    ...clock,
    pauses,
    setTimer(fn, ms) {
      pauses.push(ms)
      clock.shift(ms)
      const immediate = setImmediate(fn)
      return { cancel: () => clearImmediate(immediate) }
    },
  }
}

/** The service that issued what is in place; the clients ask another one. */
const issuing = await start(t)

/** A certificate in place, a service that can be asked for more, and a clock of the client. */
async function stage(t: Test, fetch: BoundedFetch, { at = NOW } = {}) {
  const folder = { dir: testFolder(t) }
  await getOnce(clientOf(issuing, { folder }).get)
  const before = lookAt(folder.dir, 'a.test')
  const clock = hasty(at)
  const client = clientOf({ ...issuing, clock }, { fetch, folder })
  return { ...client, clock, before }
}

t.test('whatever the service says, the old files stay', async (t) => {
  const { body: other } = await issuing.call('POST', '/api/certificate', { domain: 'b.test' })
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const anotherKey = privateKey.export({ format: 'pem', type: 'pkcs8' })
  const cases: readonly [title: string, answer: Canned | NetError, code: string, wait?: true][] = [
    ['refused', problem(403, 'CERT_NAME_NOT_ALLOWED'), 'CERT_NAME_NOT_ALLOWED'],
    ['no valid key', problem(401, 'AUTH_KEY_INVALID'), 'AUTH_KEY_INVALID'],
    ['refused for good', problem(422, 'CERT_NOT_PERMITTED'), 'CERT_NOT_PERMITTED'],
    ['a web page', { body: '<html>' }, 'CERT_CLIENT_ANSWER_INVALID'],
    ['another JSON', { body: { certificate: 5 } }, 'CERT_CLIENT_ANSWER_INVALID'],
    ['no JSON in an error', { status: 404, body: 'nope' }, 'CERT_CLIENT_REFUSED'],
    ['a redirect', { status: 302 }, 'CERT_CLIENT_REFUSED'],
    ['another name', { body: other }, 'CERT_CLIENT_CERTIFICATE_INVALID'],
    [
      'another key',
      { body: { ...other, privateKey: anotherKey } },
      'CERT_CLIENT_CERTIFICATE_INVALID',
    ],
    ['no key', { body: { ...other, privateKey: undefined } }, 'CERT_KEY_WITHHELD'],
    [
      'half a certificate',
      { body: { ...other, certificate: other.certificate.slice(0, 300) } },
      'CERT_CLIENT_CERTIFICATE_INVALID',
    ],
    [
      'a chain upside down',
      { body: { ...other, certificate: other.issuerCert + other.certificate } },
      'CERT_CLIENT_CERTIFICATE_INVALID',
    ],
    ['a proxy that gives up', { status: 502, body: 'x' }, 'CERT_CLIENT_REFUSED', true],
    ['away', AWAY, 'CERT_CLIENT_UNREACHABLE', true],
    ['too many', problem(429, 'CERT_RATE_LIMITED'), 'CERT_RATE_LIMITED', true],
  ]
  for (const [title, answer, code, mayWait = false] of cases)
    await t.test(title, async (t) => {
      // The certificate is due, or the client would not insist.
      const fetch = scripted({ status: 404, body: {} }, answer)
      const { get, dir, before, clock } = await stage(t, fetch, { at: NOW + 5 * DAY })
      const listed = listAll(dir)
      await t.rejects(getOnce(get), { name: 'ClientError', code })
      t.same(lookAt(dir, 'a.test'), before)
      t.same(listAll(dir), listed)
      t.equal(clock.pauses.length > 0, mayWait, 'it tries again only what may succeed')
    })
})

t.test('an expired certificate or one of the future is not put in place', async (t) => {
  for (const days of [-400, 400]) {
    const clock = hasty(NOW + days * DAY)
    const options = { fetch: injected(issuing), folder: { dir: testFolder(t) } }
    const { get, dir } = clientOf({ ...issuing, clock }, options)
    const why = days > 0 ? /it expired at 2030-01-08T00:00:00Z/ : /not valid before 2029-12-31/
    await t.rejects(getOnce(get), { code: 'CERT_CLIENT_CERTIFICATE_INVALID', message: why })
    t.same(listAll(dir), [])
  }
})

t.test('nor does one take the place of a certificate that is valid', async (t) => {
  for (const days of [-400, 400]) {
    const other = await start(t, {}, { clock: leapClock(NOW + days * DAY) })
    const { body } = await other.call('POST', '/api/certificate', { domain: 'a.test' })
    const issued = { body }
    const refused = problem(422, 'ACME_CAA')
    for (const [way, answers, at, code] of [
      ['the newest', [issued, refused], NOW, 'ACME_CAA'],
      ['renewed', [{ status: 304 }, issued], NOW + 5 * DAY],
      ['requested', [{ status: 404, body: {} }, issued], NOW, 'CERT_CLIENT_CERTIFICATE_INVALID'],
    ] as const) {
      const { get, dir, before } = await stage(t, scripted(...answers), { at })
      if (code) await t.rejects(getOnce(get), { code }, way)
      else await getOnce(get)
      t.same(lookAt(dir, 'a.test'), before, `${way}, of ${days} days from now`)
    }
  }
})

t.test('a certificate that has expired is none, whatever the service says', async (t) => {
  const fetch = scripted({ status: 304 }, problem(429, 'CERT_RENEW_TOO_SOON'))
  const { get } = await stage(t, fetch, { at: NOW + 400 * DAY })
  await t.rejects(getOnce(get), { name: 'ClientError' })
  t.equal(fetch.asked[0], 'POST /api/certificate')
})

t.test('text of the service cannot rule the terminal', async (t) => {
  const detail = `no\u001b[2J\u0007\r\nway\u202e${'x'.repeat(1_000)}`
  const { get } = await stage(t, scripted(problem(403, 'CERT_NAME_NOT_ALLOWED', { detail })))
  await t.rejects(getOnce(get), { message: /^no\\u001b\[2J\\u0007 way\\u202ex{400,500}…$/ })
})

t.test('errors say what to do', async (t) => {
  for (const [answer, action] of [
    [problem(403, 'CERT_NAME_NOT_ALLOWED'), /Request a name that/],
    [problem(401, 'AUTH_KEY_INVALID'), /key/],
    [problem(503, 'ACME_CAA', { action: 'Do this.' }), /^Do this\.$/],
    [AWAY, /Check that the service runs/],
  ] as const) {
    const { get } = await stage(t, scripted(answer), { at: NOW + 5 * DAY })
    t.match(await getOnce(get).catch((error) => error), { action })
  }
})

t.test('a service that is away is asked again, ever less often, until it is back', async (t) => {
  const running = await start(t)
  const clock = hasty()
  const real = injected(running)
  let left = 5
  const fetch: BoundedFetch = Object.assign(
    async (url: URL | string, init?: FetchInit) => {
      left -= 1
      if (left >= 0) throw AWAY
      return real(url, init)
    },
    { close: async () => {} },
  )
  const { get, dir, messages } = clientOf({ ...running, clock }, { fetch })
  await getOnce(get)
  t.ok(lookAt(dir, 'a.test'))
  t.same(clock.pauses, [500, 1_000, 2_000, 4_000, 8_000])
  t.equal(messages().filter((text) => text === 'the certificate could not be obtained').length, 5)
})

t.test('Retry-After is kept to', async (t) => {
  for (const [retryAfter, pause] of [
    ['20', 20_000],
    [new Date(NOW + 5 * DAY + 30_000).toUTCString(), 30_000],
    ['0', 500],
    ['soon', 500],
  ] as const) {
    const busy = { ...problem(503, 'CERT_BUSY'), headers: { 'retry-after': retryAfter } }
    const { get, clock } = await stage(t, scripted(busy), { at: NOW + 5 * DAY })
    await t.rejects(getOnce(get), { code: 'CERT_BUSY' })
    t.equal(clock.pauses[0], pause, retryAfter)
  }
  const later = { ...problem(429, 'CERT_RATE_LIMITED'), headers: { 'retry-after': '3600' } }
  const { get, clock } = await stage(t, scripted(later), { at: NOW + 5 * DAY })
  await t.rejects(getOnce(get), { code: 'CERT_RATE_LIMITED' })
  t.same(clock.pauses, [], 'nor does it wait in vain')
})

t.test('if nothing is due, a run does not mind that the service is away', async (t) => {
  const { get, clock, logged } = await stage(t, scripted(AWAY))
  await getOnce(get)
  t.same(clock.pauses, [])
  t.match(logged, [{ level: 'warn', code: 'CERT_CLIENT_UNREACHABLE' }])
})

t.test('an order is followed until it is done', async (t) => {
  const running = await start(t)
  const { body } = await running.call('POST', '/api/certificate', { domain: 'a.test' })
  const order = (status: string, step: string, more: object = {}) => ({
    ...{ id: 'o-1', status, step, since: 'x', names: ['a.test'], ...more },
  })
  const accepted = {
    status: 202,
    headers: { 'retry-after': '7' },
    body: order('pending', 'starting'),
  }
  await t.test('done', async (t) => {
    const fetch = scripted(
      accepted,
      { body: order('pending', 'waiting for DNS') },
      { body: order('pending', 'waiting for DNS') },
      { body: order('done', 'done') },
      { body },
    )
    const clock = hasty()
    const { get, dir, logged } = clientOf({ ...running, clock }, { fetch })
    await getOnce(get)
    t.same(fetch.asked, [
      'POST /api/certificate',
      ...Array(3).fill('GET /api/orders/o-1'),
      'POST /api/certificate',
    ])
    t.same(clock.pauses, [7_000, 7_000, 7_000])
    t.match(logged.slice(0, 2), [{ step: 'starting' }, { step: 'waiting for DNS' }])
    t.ok(lookAt(dir, 'a.test'))
  })
  await t.test('failed', async (t) => {
    const lastError = { code: 'ACME_CAA', detail: 'CAA forbids it', action: 'Change the record.' }
    const clock = hasty()
    const fetch = scripted(accepted, { body: order('failed', 'x', { lastError }) })
    const folder = { dir: testFolder(t) }
    const { get } = clientOf({ ...running, clock }, { fetch, folder })
    await t.rejects(getOnce(get), { ...lastError, detail: undefined, message: 'CAA forbids it' })
  })
  await t.test('not done in time', async (t) => {
    const clock = hasty()
    const fetch = scripted(accepted, { body: order('pending', 'x') })
    const { get } = clientOf({ ...running, clock }, { fetch, folder: { dir: testFolder(t) } })
    await t.rejects(getOnce(get), { code: 'CERT_CLIENT_ORDER_PENDING' })
  })
  await t.test('an id that would lead elsewhere', async (t) => {
    const evil = { status: 202, body: { ...order('pending', 'x'), id: '../../ca/root.pem' } }
    const { get } = clientOf(running, { fetch: scripted(evil), folder: { dir: testFolder(t) } })
    await t.rejects(getOnce(get), { code: 'CERT_CLIENT_ANSWER_INVALID' })
  })
})

t.test('a failed renewal of the service is told once it is due', async (t) => {
  const fetch = scripted({ status: 304 }, problem(422, 'ACME_CAA'))
  const { get, dir, before } = await stage(t, fetch, { at: NOW + 5 * DAY })
  await t.rejects(getOnce(get), { code: 'ACME_CAA' })
  t.same(lookAt(dir, 'a.test'), before)
  t.same(fetch.asked, ['GET /api/certificate/a.test', 'POST /api/certificate/renew'])
  for (const code of ['CERT_RENEW_TOO_SOON', 'CERT_NAME_NOT_ALLOWED']) {
    const patient = scripted({ status: 304 }, problem(429, code))
    const { get } = await stage(t, patient, { at: NOW + 5 * DAY })
    await getOnce(get)
  }
})

t.test(
  'as a service, a client goes on whatever happens, and ends when it is told to',
  async (t) => {
    const running = await start(t)
    const real = injected(running)
    const clock = hasty()
    const stop = new AbortController()
    let asked = 0
    const fetch: BoundedFetch = Object.assign(
      async (url: URL | string, init?: FetchInit) => {
        asked += 1
        if (asked > 300) stop.abort()
        if (asked % 7 === 0) throw AWAY
        running.clock.shift(clock.now() - running.clock.now())
        return real(url, init)
      },
      { close: async () => {} },
    )
    const { get, dir, messages } = clientOf({ ...running, clock }, { fetch, signal: stop.signal })
    await keepGetting(get)
    const weeks = (clock.now() - NOW) / (7 * DAY)
    t.ok(weeks > 1, 'weeks have passed')
    t.ok(lookAt(dir, 'a.test').notAfter > clock.now(), 'it never was without one')
    const renewed = messages().filter((text) => text === 'a new certificate is in place').length
    t.ok(renewed >= weeks, `${renewed} in ${weeks} weeks`)
  },
)

t.test('a pause ends when the client is told to end', async (t) => {
  const running = await start(t)
  const stop = new AbortController()
  const { get, place } = clientOf(running, { signal: stop.signal })
  const ended = keepGetting(get)
  while (!(await place.read())) await new Promise(setImmediate)
  stop.abort()
  await ended
})

t.test('when the service is asked again', async (t) => {
  const HOUR = 3_600_000
  const year = { notBefore: 0, notAfter: 90 * DAY }
  const cases: readonly [held: Parameters<typeof untilNextLook>[0], now: number, ms: number][] = [
    [{ ...year, renewAt: 60 * DAY }, 0, HOUR],
    [{ ...year, renewAt: 60 * DAY }, 60 * DAY - 60_000, 60_000 + 45_000],
    [{ ...year, renewAt: 60 * DAY }, 60 * DAY, 30_000],
    [{ ...year, renewAt: 60 * DAY }, 60 * DAY + 600_000, 300_000],
    [{ ...year, renewAt: 60 * DAY }, 61 * DAY, HOUR],
    [{ ...year, renewAt: undefined }, 0, HOUR],
    [{ notBefore: 0, notAfter: HOUR, renewAt: HOUR / 2 }, 0, 150_000],
  ]
  for (const [held, now, ms] of cases)
    t.equal(
      untilNextLook(held, now, () => 0.5),
      ms,
    )
  for (const failures of [1, 5, 9, 2_000]) {
    const [least, most] = [() => 0, () => 1].map((random) =>
      waitAfter({ retryAfterMs: undefined }, failures, random),
    )
    t.ok(least! >= 500 && most! <= 300_000 && least! < most!, `${failures}`)
  }
  t.equal(
    waitAfter({ retryAfterMs: 10 * DAY }, 1, () => 0),
    300_000,
    'never longer than five minutes: the cause may be removed meanwhile',
  )
})

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

import t from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { createIdp, KEY, NOW, start } from '../helpers/app.ts'
import { HOST } from '../helpers/browse.ts'
import { browse, enter, type Sent } from '../helpers/enter.ts'

const LIMITED = 'a-key-of-team-a-only'
const keys = [
  { name: 'ops', key: KEY },
  { name: 'team a', key: LIMITED, domains: ['*.a.test'] },
]

t.test('a key opens a session, signing out ends it', async (t) => {
  const running = await start(t)
  const asked = await browse(running, 'GET', '/')
  t.equal(asked.status, 401)
  t.match(asked.text, '<input id="key" name="key" type="password"')
  t.equal(asked.headers['www-authenticate'], 'APIKey realm="api"')

  const entered = await enter(running, ` ${KEY}\n`)
  t.match(entered, { status: 303, headers: { location: '/' } })
  t.match(
    entered.set,
    /^__Host-gatehouse-certs=[\w-]{43}; Path=\/; HttpOnly; Secure; SameSite=Strict$/,
  )
  const { cookie } = entered
  const seen = await browse(running, 'GET', '/', { cookie })
  t.equal(seen.status, 200)
  t.match(seen.text, 'Key <bdi>default</bdi>')

  const left = await browse(running, 'POST', '/sign-out', { cookie })
  t.match(left, { status: 303, headers: { location: '/' }, cookie: '__Host-gatehouse-certs=' })
  t.equal((await browse(running, 'GET', '/', { cookie })).status, 401, 'also for a kept cookie')
})

t.test('a session ends with its key, and with time', async (t) => {
  const running = await start(t, { auth: { psk: { keys } } })
  const [ops, team] = [await enter(running, KEY), await enter(running, LIMITED)]
  const status = async ({ cookie }: { cookie: string }) =>
    (await browse(running, 'GET', '/', { cookie })).status
  t.same([await status(ops), await status(team)], [200, 200])
  running.app.callers.reload({ psk: { keys: [keys[0]!] } })
  t.same([await status(ops), await status(team)], [200, 401])
  running.app.callers.reload({
    psk: { keys: [{ ...keys[0]!, key: 'another-key-of-the-same-name' }] },
  })
  t.equal(await status(ops), 401, 'a changed key')
  running.app.callers.reload({ psk: { keys } })
  const again = await enter(running, KEY)
  await running.clock.advance(15 * 60_000)
  t.equal(await status(again), 401)
})

t.test('forms of other sites do nothing', async (t) => {
  const running = await start(t)
  const { cookie } = await enter(running, KEY)
  const origins = [
    undefined,
    'null',
    'https://evil.test',
    `https://${HOST}.evil.test`,
    `https://${HOST}:8443`,
    `http://${HOST}`,
    HOST,
  ]
  for (const origin of origins) {
    const entered = await enter(running, KEY, { origin })
    t.match(entered, { status: 403, set: '' }, `enter: ${origin}`)
    t.match(entered.text, 'Form was sent from another site')
    t.equal((await browse(running, 'POST', '/sign-out', { cookie, origin })).status, 403)
  }
  t.equal((await browse(running, 'GET', '/', { cookie })).status, 200, 'still signed in')
})

t.test('a request that is not a form with one key is refused with a page', async (t) => {
  const running = await start(t)
  const cases: [why: string, sent: Sent, status: number][] = [
    ['nothing', { body: '' }, 400],
    ['another member', { body: `key=${KEY}&x=1` }, 400],
    ['long', { body: `key=${'x'.repeat(1_025)}` }, 400],
    ['very long', { body: `key=${'x'.repeat(5_000)}` }, 413],
    ['JSON', { body: JSON.stringify({ key: [] }), type: 'application/json' }, 400],
    ['text', { body: KEY, type: 'text/plain' }, 415],
    ['__proto__', { body: `__proto__=x&key=${KEY}` }, 400],
  ]
  for (const [why, sent, status] of cases) {
    const answer = await browse(running, 'POST', '/', sent)
    t.equal(answer.status, status, why)
    t.match(answer.headers['content-type'], 'text/html', why)
    t.equal(answer.set, '', why)
  }
})

t.test('wrong keys are counted and appear nowhere', async (t) => {
  const running = await start(t)
  for (let n = 0; n < 10; n += 1) {
    const answer = await enter(running, `canary-of-a-wrong-key-${n}`)
    t.match(answer, { status: 401, set: '' })
    t.match(answer.text, 'aria-invalid="true"')
    t.notMatch(answer.text, 'canary')
  }
  t.equal((await enter(running, KEY)).status, 303, 'a valid key is not refused')
  const limited = await enter(running, 'canary-of-one-too-many')
  t.match(limited, { status: 429, headers: { 'retry-after': '60' }, set: '' })
  t.match(limited.text, 'Too many invalid keys')
  await running.clock.advance(60_000)
  t.equal((await enter(running, 'canary-after-a-minute')).status, 401)
  const log = running.logged.join('\n')
  t.match(log, '"code":"AUTH_KEY_INVALID"')
  t.match(log, '"actor":"psk:default"')
  t.notMatch(log, /canary|a-key-that-may|__Host-gatehouse-certs=/)
})

t.test('if only tokens are accepted, the page explains the alternative', async (t) => {
  expectWarnings(t, 'every token may have every name')
  const { issuerUrl } = await createIdp(t, () => NOW)
  const running = await start(t, { auth: { jwt: { issuerUrl, audience: 'certs' } } })
  const answer = await browse(running, 'GET', '/')
  t.equal(answer.status, 403)
  t.match(answer.text, `://${HOST}/api/certificates`)
  t.notMatch(answer.text, '<form')
  t.equal((await enter(running, KEY)).status, 403)
})

t.test('behind a proxy, forms and pages go by the name that people see', async (t) => {
  const running = await start(t, { server: { trustedProxies: ['10.0.0.2'] } })
  const send = (remoteAddress: string, origin: string, forwarded: object) =>
    running.app.inject({
      method: 'POST',
      url: '/',
      remoteAddress,
      headers: {
        host: 'inside:7401',
        origin,
        'content-type': 'application/x-www-form-urlencoded',
        ...forwarded,
      },
      payload: `${new URLSearchParams({ key: KEY })}`,
    })
  const forwarded = { 'x-forwarded-host': HOST, 'x-forwarded-proto': 'https' }
  const cases: [why: string, peer: string, origin: string, forwarded: object, status: number][] = [
    ['the name outside', '10.0.0.2', `https://${HOST}`, forwarded, 303],
    ['the name inside', '10.0.0.2', 'https://inside:7401', forwarded, 403],
    ['another site', '10.0.0.2', 'https://evil.example', forwarded, 403],
    ['without TLS', '10.0.0.2', `http://${HOST}`, forwarded, 403],
    ['a proxy that passes Host on', '10.0.0.2', 'https://inside:7401', {}, 303],
    ['headers of a stranger', '198.51.100.7', `https://${HOST}`, forwarded, 403],
  ]
  for (const [why, peer, origin, headers, status] of cases)
    t.equal((await send(peer, origin, headers)).statusCode, status, why)

  const { headers } = await send('10.0.0.2', `https://${HOST}`, forwarded)
  const cookie = String(headers['set-cookie']).split(';', 1)[0] ?? ''
  const page = await running.app.inject({
    url: '/',
    remoteAddress: '10.0.0.2',
    headers: { host: 'inside:7401', cookie, ...forwarded },
  })
  t.match(page.payload, `https://${HOST}/`)
  t.notMatch(page.payload, 'inside:7401')
})

t.test('wrong keys of one client lock out no other, also behind the same proxy', async (t) => {
  const running = await start(t, { server: { trustedProxies: ['10.0.0.2'] } })
  const from = async (client: string, key: string) => {
    const { statusCode } = await running.app.inject({
      method: 'POST',
      url: '/',
      remoteAddress: '10.0.0.2',
      headers: {
        host: HOST,
        origin: `https://${HOST}`,
        'x-forwarded-for': client,
        'content-type': 'application/x-www-form-urlencoded',
      },
      payload: `${new URLSearchParams({ key })}`,
    })
    return statusCode
  }
  for (let n = 0; n < 10; n += 1) t.equal(await from('198.51.100.7', 'guess'), 401)
  t.equal(await from('198.51.100.7', 'guess'), 429)
  t.equal(await from('198.51.100.8', 'guess'), 401, 'another client')
  t.equal(await from('198.51.100.7', KEY), 303, 'a valid key')
})

import { X509Certificate } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import type { Test } from 'tap'
import {
  admin,
  app,
  auth,
  certs,
  cookiesOf,
  FORGED,
  holdSignIns,
  identityIn,
  PROJECT,
  signIn,
  startDemo,
} from './demo.ts'
import type { Docker } from './docker.ts'

export const REPLICAS = 'compose.replicas.yml'
const NUMBERS = [1, 2, 3] as const
const PAIRS = [
  [1, 2],
  [1, 3],
  [2, 3],
] as const
const PATIENCE = 60_000

type Demo = Awaited<ReturnType<typeof startReplicas>>

/** A request to one replica. */
interface Question {
  readonly url: string
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** Three replicas of each service on one database, of which any two may be missing. */
export async function holdReplicas(t: Test, found: Docker): Promise<void> {
  const demo = await startReplicas(t, found)
  await t.test('they have one CA, and issue once', (t) => holdOneAuthority(t, demo))
  const [alice, bob] = [await demo.openContext(), await demo.openContext()]
  await holdSignIns(t, demo.ask, alice, bob)
  const cookie = await cookiesOf(alice, admin)
  await t.test('each of them believes only the proxy', (t) => holdTrust(t, demo, cookie))
  for (const pair of PAIRS)
    await t.test(`without the replicas ${pair.join(' and ')}`, (t) =>
      holdWithout(t, demo, pair, cookie),
    )
  await t.test('who signs out at one is signed out at all', (t) => holdSignOut(t, demo))
  await t.test('what is revoked at one is answered by none', (t) => holdRevocation(t, demo))
  await t.test('without the database', (t) => holdWithoutDatabase(t, demo, cookie))
}

async function startReplicas(t: Test, found: Docker) {
  const demo = await startDemo(t, found, [REPLICAS], 'forward-auth-1')
  const proxy = (await demo.compose('ps', '-q', 'proxy')).trim()
  const keyFile = '/var/lib/gatehouse/keys/api.key'
  const key = (await demo.compose('exec', '-T', 'cert-service-1', 'cat', keyFile)).trim()
  const headers = { authorization: `APIKey ${key}`, 'content-type': 'application/json' }
  /** Asks replicas one by one, from the address of the proxy. */
  const askInside = async (questions: readonly Question[]): Promise<readonly Answer[]> => {
    const run = ['run', '--rm', '--network', `container:${proxy}`, 'gatehouse/demo', '-e', PROGRAM]
    return JSON.parse(await found.docker(...run, JSON.stringify(questions)))
  }
  /** Has any replica answer or issue a certificate. */
  const order = (domain: string) =>
    demo.ask({
      ...{ method: 'POST', host: certs, path: '/api/certificate', headers },
      body: JSON.stringify({ domain }),
    })
  const replicas = { ...demo, ...found, compose: demo.compose, headers, askInside, order }
  // Each of them looks for the identity provider by itself, and refuses sign-ins until it has found it.
  await untilReady(t, replicas, [])
  return replicas
}

/** Asks what it is given as an argument, and prints the answers. */
const PROGRAM = `
  const ask = ({ url, method = 'GET', headers = {}, body }) => new Promise((resolve) => {
    const { request } = require(url.startsWith('https') ? 'node:https' : 'node:http')
    // In the network of the test, where certificates are not the point.
    const options = { method, headers, rejectUnauthorized: false, timeout: 20_000 }
    request(url, options, async (response) => {
      const { statusCode: status, headers } = response
      resolve({ status, headers, body: (await response.toArray()).join('') })
    })
      .on('timeout', function () { this.destroy(new Error('no answer')) })
      .on('error', ({ message }) => resolve({ status: 0, headers: {}, body: message }))
      .end(body)
  })
  void (async () => {
    const answers = []
    for (const question of JSON.parse(process.argv[1])) answers.push(await ask(question))
    console.log(JSON.stringify(answers))
  })()`

const certUrls = (path: string) => NUMBERS.map((n) => `https://cert-service-${n}:7401${path}`)
const authUrls = (path: string) => NUMBERS.map((n) => `http://forward-auth-${n}:4181${path}`)

/** A check of Alice's session at an app, as the proxy sends it. */
function checks(cookie: string, host = admin): Question[] {
  const headers = {
    ...{ 'x-forwarded-host': host, 'x-forwarded-proto': 'https', 'x-forwarded-uri': '/' },
    ...{ 'x-forwarded-method': 'GET', cookie, accept: 'text/html' },
  }
  return authUrls('/portals/main?policy=any').map((url) => ({ url, headers }))
}

async function holdOneAuthority(t: Test, { root, askInside, order }: Demo): Promise<void> {
  for (const path of ['/ca/root.pem', '/ca/intermediate.pem']) {
    const answers = await askInside(certUrls(path).map((url) => ({ url })))
    const prints = answers.map(({ body }) => new X509Certificate(body).fingerprint256)
    t.equal(new Set(prints).size, 1, path)
    if (path.includes('root')) t.equal(prints[0], new X509Certificate(root).fingerprint256)
  }
  const answers = await Promise.all(Array.from({ length: 30 }, () => order('once.example.com')))
  t.strictSame([...new Set(answers.map(({ status }) => status))], [200])
  t.equal(new Set(answers.map(({ body }) => JSON.parse(body).certificate)).size, 1)
}

async function holdTrust(t: Test, { docker, compose, askInside }: Demo, cookie: string) {
  const passed = await askInside(checks(cookie))
  t.strictSame(
    passed.map(({ status }) => status),
    [200, 200, 200],
    'asked by the proxy',
  )
  for (const n of NUMBERS) {
    const id = (await compose('ps', '-q', `forward-auth-${n}`)).trim()
    const format = `{{(index .NetworkSettings.Networks "${PROJECT}_front").IPAddress}}`
    const address = (await docker('inspect', '--format', format, id)).trim()
    const headers = { ...FORGED, 'x-forwarded-host': admin, cookie }
    const answer = await fetch(`http://${address}:4181/portals/main`, { headers })
    t.match(await answer.json(), { status: 403, code: 'FWA_PEER_UNTRUSTED' }, `replica ${n}`)
  }
}

async function holdWithout(
  t: Test,
  demo: Demo,
  pair: readonly [number, number],
  cookie: string,
): Promise<void> {
  const { compose, ask, order, openContext } = demo
  const before = await order('lasting.example.com')
  const gone = pair.flatMap((n) => [`forward-auth-${n}`, `cert-service-${n}`])
  await compose('kill', ...gone)
  // Until the proxy has noticed.
  await eventually(t, async () => {
    const answers = await Promise.all(
      NUMBERS.flatMap(() => [ask({ host: auth, path: '/readyz' }), order('lasting.example.com')]),
    )
    return answers.every(({ status }) => status === 200)
  })

  const { status, body } = await ask({ host: admin, headers: { cookie } })
  t.match({ status, body }, { status: 200, body: /<dt>x-forwarded-user<\/dt><dd>alice<\/dd>/ })
  const tab = await (await openContext()).newPage()
  await signIn(tab, 'Bob')
  t.match(await identityIn(tab), /x-forwarded-userbob(x-|$)/)
  t.equal(
    JSON.parse((await order('lasting.example.com')).body).certificate,
    JSON.parse(before.body).certificate,
  )
  t.equal((await order(`without-${pair.join('-')}.example.com`)).status, 200)

  await compose('start', ...gone)
  await untilReady(t, demo, [])
}

async function holdSignOut(t: Test, { ask, askInside, openContext }: Demo): Promise<void> {
  const context = await openContext()
  await signIn(await context.newPage(), 'Alice')
  const atApp = checks(await cookiesOf(context, app), app)
  const before = await askInside(atApp)
  t.strictSame(
    before.map(({ status }) => status),
    [200, 200, 200],
  )
  const origin = `https://${auth}`
  const answer = await ask({
    ...{ method: 'POST', host: auth, path: '/portals/main/logout' },
    headers: { cookie: await cookiesOf(context, auth), origin, 'sec-fetch-site': 'same-origin' },
  })
  t.ok(answer.status < 400, `signed out: ${answer.status}`)
  // The others are told after the answer; the container that asks them takes longer to start.
  const after = await askInside(atApp)
  t.strictSame(
    after.map(({ status }) => status),
    [302, 302, 302],
  )
}

async function holdRevocation(t: Test, { headers, askInside, order }: Demo): Promise<void> {
  const domain = 'revoked.example.com'
  t.equal((await order(domain)).status, 200)
  const asked = certUrls(`/api/certificate/${domain}`).map((url) => ({ url, headers }))
  t.strictSame(
    (await askInside(asked)).map(({ status }) => status),
    [200, 200, 200],
  )
  const [first = ''] = certUrls('/api/certificate/revoke')
  const body = JSON.stringify({ domain })
  const [revoked, ...answers] = await askInside([
    { url: first, method: 'POST', headers, body },
    ...asked,
  ])
  t.equal(revoked?.status, 200, revoked?.body ?? '')
  t.notOk(JSON.parse(revoked?.body ?? '').unconfirmed, 'the others confirmed it before the answer')
  t.strictSame(
    answers.map(({ status }) => status),
    [404, 404, 404],
  )
}

async function holdWithoutDatabase(t: Test, demo: Demo, cookie: string): Promise<void> {
  const { compose, headers, askInside, ask, order, openContext } = demo
  const held = certUrls('/api/certificate/held.example.com').map((url) => ({ url, headers }))
  t.equal((await order('held.example.com')).status, 200)
  const before = await askInside(held)
  // Each of them knows the sessions that it has seen since its start.
  await askInside(checks(cookie))

  await compose('stop', 'database')
  await untilReady(t, demo, ['store'])
  // By one container, since sessions are believed for a minute only.
  const meanwhile = await askInside([...checks(cookie), ...held])
  t.equal(
    (await ask({ host: admin, headers: { cookie } })).status,
    200,
    'who is signed in stays so',
  )
  t.strictSame(
    meanwhile.map(({ status, body }) => [status, body]).slice(NUMBERS.length),
    before.map(({ status, body }) => [status, body]),
  )
  t.strictSame(meanwhile.map(({ status }) => status).slice(0, NUMBERS.length), [200, 200, 200])
  const refused = await order('new.example.com')
  t.match(refused, { status: 503, headers: { 'retry-after': /^\d+$/ } }, 'nothing new is issued')

  await compose('start', 'database')
  await untilReady(t, demo, [])
  t.equal((await order('new.example.com')).status, 200)
  const tab = await (await openContext()).newPage()
  await signIn(tab, 'Bob')
  t.match(await identityIn(tab), /x-forwarded-userbob(x-|$)/)
}

/** Until each replica is ready, with exactly these troubles. */
async function untilReady(
  t: Test,
  { askInside }: Pick<Demo, 'askInside'>,
  degraded: readonly string[],
): Promise<void> {
  const questions = [...certUrls('/readyz'), ...authUrls('/readyz')].map((url) => ({ url }))
  await eventually(t, async () => {
    const answers = await askInside(questions)
    return answers.every(
      ({ status, body }) =>
        status === 200 && JSON.stringify(JSON.parse(body).degraded) === JSON.stringify(degraded),
    )
  })
}

async function eventually(t: Test, holds: () => Promise<boolean>): Promise<void> {
  const end = Date.now() + PATIENCE
  while (!(await holds().catch(() => false))) {
    if (Date.now() > end) throw new Error(`${t.name}: not within ${PATIENCE} ms`)
    await setTimeout(250)
  }
}

import t, { type Test } from 'tap'
import { DAILY_URLS } from '../../../../packages/gate/test/paths.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { portalOf, startApp, yamlOf } from '../app.ts'
import { BROWSER, type RequestHeaders, SHAPES, type Shape } from '../shapes.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'FWA_HEADER_INVALID')

const KEY = 'correct-horse-battery-staple'
const PORTAL = portalOf(
  'main',
  `policies: { metrics: 'Group("ops") || Scope("metrics")', admins: 'Group("admins")',
     money: { condition: 'Group("admins")', maxAge: 15m } },
   callers: { keys: [
     { name: monitor, key: ${KEY}, scopes: [metrics], policies: [metrics] },
     { name: both, key: ${KEY}-2, scopes: [metrics], policies: [metrics], hosts: [app.example.com] }] },
   rules: [
     { paths: [/metrics], methods: [GET], from: [203.0.113.0/24], require: metrics },
     { hosts: [app.example.com], paths: [/grafana/admin/*, /admin/*], require: admins },
     { paths: [/payments/*], require: money },
     { hosts: [app.example.com], paths: [/public/*], require: anyone },
     { hosts: [open.example.com], require: anyone }]`.replace(/\s+/g, ' '),
)
const TRAEFIK = SHAPES[0] as Shape
const NGINX = SHAPES.find(({ proxy }) => proxy === 'nginx') as Shape

interface Asked {
  readonly url?: string
  readonly host?: string
  readonly method?: string
  readonly headers?: RequestHeaders
}

/** A request as two dialects tell it. */
const TOLD: readonly [shape: Shape, tell: (asked: Required<Asked>) => RequestHeaders][] = [
  [
    TRAEFIK,
    ({ url, host, method, headers }) => ({
      'X-Forwarded-Uri': url,
      'X-Forwarded-Host': host,
      'X-Forwarded-Method': method,
      ...headers,
    }),
  ],
  [
    NGINX,
    ({ url, host, method, headers }) => ({
      ...headers,
      'X-Original-URL': `https://${host}${url}`,
      'X-Original-Method': method,
    }),
  ],
]

async function start(t: Test) {
  const test = await startApp(t, yamlOf(PORTAL))
  const ask = (asked: Asked) => {
    const { url = '/', host = 'app.example.com', method = 'GET', headers = {} } = asked
    return Promise.all(
      TOLD.map(([shape, tell]) => test.check(shape, tell({ url, host, method, headers }))),
    )
  }
  /** The statuses in both dialects. */
  const statuses = async (asked: Asked) => (await ask(asked)).map(({ statusCode }) => statusCode)
  return { ...test, ask, statuses }
}

t.test('a key for a policy opens no other path by an odd spelling', async (t) => {
  const { statuses } = await start(t)
  const odd = [
    ...['/admin//users', '/./secret', '/secret;x', '/%2e/secret', '/x%2fy', '/..;/x', '/x/%2e%2e'],
    ...[
      '//metrics',
      '/METRICS',
      '/metrics;x',
      '/metrics%00',
      '/metrics.',
      '/%6detrics%2f',
      '/\xff',
    ],
  ]
  for (const key of [KEY, `${KEY}-2`]) {
    const Authorization = `APIKey ${key}`
    t.strictSame(await statuses({ url: '/metrics', headers: { Authorization } }), [200, 200])
    const refused: Asked[] = [
      { url: '/admin/users' },
      { url: '/' },
      ...odd.map((url) => ({ url })),
      ...odd.map((url) => ({ url, host: 'open2.example.com' })),
      ...['POST', 'get', 'PROPFIND'].map((method) => ({ method, url: '/metrics' })),
      { method: 'POST', url: '/x', headers: { 'X-HTTP-Method-Override': 'GET' } },
      { url: '/metrics', headers: { 'X-HTTP-Method': 'GET' } },
      { url: '/metrics', headers: { 'X-Forwarded-For': '198.51.100.1' } },
      { url: '/metrics', headers: { 'X-Forwarded-For': 'unknown' } },
      { url: '/metrics', headers: { 'X-Forwarded-For': '' } },
      { url: '/metrics', headers: { 'X-Rewrite-URL': '/admin/users' } },
    ]
    for (const asked of refused) {
      const headers = { ...asked.headers, Authorization }
      t.strictSame(await statuses({ ...asked, headers }), [403, 403], JSON.stringify(asked))
    }
  }
})

t.test('nothing of a path is known if a header names another, or a prefix is gone', async (t) => {
  const test = await start(t)
  const cookie = await test.signIn('main')
  const others: RequestHeaders[] = [
    { 'X-Rewrite-URL': '/admin/x' },
    { 'X_Rewrite.URL': '/admin/x' },
    { Destination: 'https://app.example.com/admin/x' },
    { 'X-Forwarded-Prefix': '/grafana' },
  ]
  t.strictSame(await test.statuses({ url: '/public/x' }), [200, 200], 'open')
  t.strictSame(await test.statuses({ url: '/users', headers: { cookie } }), [200, 200])
  for (const headers of others) {
    const name = JSON.stringify(headers)
    t.strictSame(await test.statuses({ url: '/public/x', headers }), [401, 401], name)
    const signedIn = { url: '/users', headers: { ...headers, cookie } }
    t.strictSame(
      await test.statuses(signedIn),
      [403, 403],
      `${name}: /grafana/admin/x may be meant`,
    )
  }
  const sent = {
    'X-Forwarded-Uri': '/public/x',
    'X-Original-URL': 'https://app.example.com/admin/x',
  }
  t.equal((await test.check(TRAEFIK, sent)).statusCode, 401, 'where nginx does not set it')
})

t.test('URLs that apps use daily pass', async (t) => {
  const test = await start(t)
  const headers = { cookie: await test.signIn('main') }
  for (const [app, url] of DAILY_URLS) {
    t.strictSame(await test.statuses({ url, headers }), [200, 200], `${app}: with a session`)
    const open = { url, host: 'open.example.com' }
    t.strictSame(await test.statuses(open), [200, 200], `${app}: where anyone may pass`)
  }
  const rare = [
    '/Subsonic//rest//ping',
    '/?path=C:\\Users',
    '/m%C3%BCll?q=\xe4',
    '/x/caf\xc3\xa9/y',
  ]
  for (const url of rare)
    t.strictSame(await test.statuses({ url, headers }), [200, 200], `${url}: with a session`)
})

t.test(
  'what may climb, or begins with two slashes, opens nothing and is not refused as such',
  async (t) => {
    const test = await start(t)
    const groups = ['admins', 'ops']
    const headers = {
      cookie: await test.signIn('main', { groups, auth_time: test.clock.now() / 1_000 }),
    }
    const old = { cookie: await test.signIn('main', { groups }) }
    for (const url of [
      '//public/x',
      '//evil.example/public',
      '/\xff/public',
      '/public/../x',
      '/...',
    ]) {
      t.strictSame(await test.statuses({ url }), [401, 401], `${url}: nobody`)
      t.strictSame(await test.statuses({ url, headers }), [200, 200], `${url}: who meets all`)
      t.strictSame(await test.statuses({ url, headers: old }), [401, 401], `${url}: too old`)
    }
  },
)

t.test('a return URL follows the host, in ASCII', async (t) => {
  const { ask } = await start(t)
  const urls: Readonly<Record<string, string>> = {
    '//evil.example/x': '//evil.example/x',
    '/x?u=\\\\evil.example': '/x?u=%5C%5Cevil.example',
    '/caf\xc3\xa9?q=\xff': '/caf%C3%A9?q=%FF',
  }
  for (const [url, sent] of Object.entries(urls))
    for (const { headers } of await ask({ url, headers: BROWSER })) {
      const location = String(headers.location ?? headers['x-auth-redirect'])
      t.match(location, /^https:\/\/auth\.example\.com\/portals\/main\/signin\?[!-~]+$/)
      t.equal(new URL(location).searchParams.get('rd'), `https://app.example.com${sent}`, url)
    }
})

t.test('the log names the URL of a check that cannot be read', async (t) => {
  const { ask, log } = await start(t)
  for (const { statusCode } of await ask({ url: '/a b\x07' })) t.match(statusCode, /^40[03]$/)
  const line = log.find(({ code }) => code === 'FWA_HEADER_INVALID')
  t.match(line?.msg, 'holds no valid path: "https://app.example.com/a b\\u0007"')
})

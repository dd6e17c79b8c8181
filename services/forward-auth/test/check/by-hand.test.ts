import t from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { portalOf, startApp, yamlOf } from '../app.ts'
import { waysIn } from '../pages/read.ts'
import { MAIN, SCRIPT } from '../portal/kit.ts'
import { BROWSER, SHAPES, type Shape } from '../shapes.ts'

expectWarnings(t, 'check refused')

const AUTH = 'auth.example.com'
const [FORWARDED, NGINX] = ['caddy', 'nginx'].map((name) =>
  SHAPES.find(({ proxy }) => proxy === name),
) as [Shape, Shape]

t.test('URLs of the sign-in host that people type lead to their apps', async (t) => {
  const { app } = await startApp(t, yamlOf(portalOf('main') + portalOf('other')))
  const rows: [url: string, headers: object, status: number, location?: string][] = [
    ['/', { ...BROWSER, host: AUTH }, 303, `${MAIN}/signin`],
    ['/', { ...BROWSER, host: 'app.example.com' }, 404],
    ['/portals/main', { ...BROWSER, host: AUTH }, 303, `${MAIN}/signin`],
    ['/portals/main/', { ...BROWSER, host: AUTH }, 303, `${MAIN}/signin`],
    ['/portals/none', { ...BROWSER, host: AUTH }, 404],
    ['/portals/main', { ...SCRIPT, host: AUTH }, 400],
    ['/portals/main', { ...BROWSER, host: 'app.example.com' }, 400],
    ['/portals/main', { ...BROWSER, host: AUTH, 'x-forwarded-uri': '/' }, 400],
  ]
  for (const [url, headers, status, location] of rows) {
    const answer = await app.inject({ url, headers: headers as Record<string, string> })
    t.equal(answer.statusCode, status, `${url} ${JSON.stringify(headers)}`)
    t.equal(answer.headers.location, location)
  }
})

t.test('an app on plain http is refused, rather than sent to sign in for ever', async (t) => {
  const domains = 'domains: [{ domain: example.com }, { domain: localhost }]'
  const yaml = yamlOf(portalOf('main')).replace(/^domains: .*$/m, domains)
  const { check, log } = await startApp(t, yaml)
  const plain = await check(FORWARDED, { ...BROWSER, 'x-forwarded-proto': 'http' })
  t.match(plain, { statusCode: 403, body: /FWA_APP_INSECURE/ })
  t.match(plain.body, 'http://app.example.com is not https')
  t.match(
    log.filter(({ level }) => level === 40),
    [{ code: 'FWA_APP_INSECURE' }],
  )
  const get = { ...BROWSER, 'x-forwarded-method': 'GET' }
  const secure = await check(FORWARDED, get)
  t.equal(secure.statusCode, 302)
  const headers = { 'x-forwarded-proto': 'http', 'x-forwarded-host': 'app.localhost' }
  t.equal((await check(FORWARDED, { ...get, ...headers })).statusCode, 302, 'loopback')
})

t.test('a refused header or host says which one, and why', async (t) => {
  const { check } = await startApp(t, yamlOf(portalOf('main')))
  const rows = [
    [
      FORWARDED,
      { 'x-forwarded-proto': 'https,http' },
      'X-Forwarded-Proto is http or https, and not "https,http"',
    ],
    [
      NGINX,
      { 'x-original-url': 'ftp://app.example.com/' },
      'the scheme of X-Original-URL is http or https, and not "ftp"',
    ],
    [
      FORWARDED,
      { 'x-forwarded-host': 'my_app.example.com' },
      'since no host name holds "_" (RFC 1123)',
    ],
  ] as const
  for (const [shape, headers, detail] of rows)
    t.match((await check(shape, { ...SCRIPT, ...headers })).json().detail, detail)
})

t.test('pages have a way on: to the account, to the profile, and out', async (t) => {
  const { app, check, signIn } = await startApp(
    t,
    yamlOf(portalOf('main', 'policies: { no: "false" }')),
  )
  const claims = { name: 'Ada' }
  const cookie = await signIn('main', claims)
  const refused = await check(FORWARDED, { ...BROWSER, cookie }, { query: '?policy=no' })
  t.equal(refused.statusCode, 403)
  t.strictSame(waysIn(refused.body), [`${MAIN}/account`, `${MAIN}/logout`])
  t.match(refused.body, 'This account may not open this page of app.example.com.')
  const page = await app.inject({
    url: '/portals/main/account',
    headers: { ...BROWSER, host: AUTH, cookie: await signIn('main', claims, { host: AUTH }) },
  })
  t.match(page.body, `href="${MAIN}/profile"`)
  t.match(page.body, '<title>You are signed in · example.com</title>', 'a portal without title')
  const french = await check(NGINX, { ...BROWSER, 'accept-language': 'fr', 'x-original-url': 'x' })
  t.match(french.body, 'Détails\u202f: <bdi')
})

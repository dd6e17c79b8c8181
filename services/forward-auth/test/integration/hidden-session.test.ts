import t from 'tap'
import { readDocument } from '../../../../scripts/test/markdown.ts'
import type { Echo } from '../helpers/echo.ts'
import { CONFIG, type GateOptions, startGate } from '../helpers/gate.ts'

const SHARED = CONFIG.replace(
  'authHost: auth.example.com',
  'authHost: auth.example.com\n    session: { scope: domain }',
)

/** What the guide of a proxy says to add, with the indentation of the example. */
const told = (proxy: string, language: string) =>
  readDocument(`docs/${proxy}.md`).blocks.find(({ info }) => info === `${language} hidden-session`)
    ?.text ?? ''

/** The examples with it. */
const PROXIES: Readonly<
  Record<'nginx' | 'caddy' | 'haproxy', NonNullable<GateOptions['changes']>>
> = {
  nginx: {
    'nginx.conf': [
      ['  # A host that is not listed', `${told('nginx', 'nginx')}\n  # A host that is not listed`],
      [
        '      proxy_set_header Host $host;\n      proxy_set_header X-Forwarded-For $remote_addr;\n      proxy_set_header X-Forwarded-Host $host;\n      proxy_set_header X-Forwarded-Proto',
        '      proxy_set_header Cookie $own_cookies;\n      proxy_set_header Host $host;\n      proxy_set_header X-Forwarded-For $remote_addr;\n      proxy_set_header X-Forwarded-Host $host;\n      proxy_set_header X-Forwarded-Proto',
      ],
    ],
  },
  caddy: { Caddyfile: [['\t\treverse_proxy 127.0.0.1:8080\n', told('caddy', 'caddyfile')]] },
  haproxy: {
    'haproxy.cfg': [
      ['  server app 127.0.0.1:8080', `${told('haproxy', 'haproxy')}  server app 127.0.0.1:8080`],
    ],
  },
}

/** Cookies beside the session, and what the app gets. */
const ORDERS: Readonly<Record<string, readonly [order: (session: string) => string, own: string]>> =
  {
    'between those of the app': [(session) => `a=1; ${session}; b=2`, 'a=1; b=2'],
    'before those of the app': [(session) => `${session}; a=1`, 'a=1'],
    'after one of the app': [(session) => `a=1; ${session}`, 'a=1'],
    alone: [(session) => session, ''],
    'beside one of the sign-in pages': [
      (session) => `a=1; __Host-gatehouse.main=x; ${session}; b=2`,
      'a=1; b=2',
    ],
  }

for (const [proxy, changes] of Object.entries(PROXIES))
  t.test(`behind ${proxy}, an app does not see the session of its domain`, async (t) => {
    const name = proxy as keyof typeof PROXIES
    const { gatehouse, ask } = await startGate(t, name, { yaml: SHARED, changes })
    const session = await gatehouse.signIn('main')
    t.match(session, /^__Secure-gatehouse-app\.main=/)
    const seen = async (cookie: string) => {
      const { status, body } = await ask({ path: '/', headers: { cookie } })
      t.equal(status, 200)
      // A semicolon that is left at the end separates nothing.
      return (JSON.parse(body) as Echo).cgi.HTTP_COOKIE?.join('; ').replace(/; ?$/, '') ?? ''
    }
    for (const [order, [cookiesOf, own]] of Object.entries(ORDERS))
      t.equal(await seen(cookiesOf(session)), own, order)
    const planted = await seen(`__Secure-gatehouse-app.x=1; a=1; ${session}; b=2`)
    t.notMatch(planted, /gatehouse/, 'nor if another site has planted a look-alike')
  })

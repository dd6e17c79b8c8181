import { PROXY_NAMES } from '@gatehouse/service-kit/proxies'
import t from 'tap'
import type { Echo } from '../helpers/echo.ts'
import { CONFIG, startGate } from '../helpers/gate.ts'
import { missingProgram, TESTED } from '../proxies/index.ts'

const SHARED = CONFIG.replace(
  'authHost: auth.example.com',
  'authHost: auth.example.com\n    session: { scope: domain }',
)

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

for (const proxy of PROXY_NAMES) {
  const { hidesSession } = TESTED[proxy]
  if (!hidesSession) continue
  const skip = missingProgram(proxy)
  t.test(`behind ${proxy}, an app does not see the session of its domain`, { skip }, async (t) => {
    const changes = hidesSession()
    const { gatehouse, ask } = await startGate(t, proxy, { yaml: SHARED, changes })
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
}

import t from 'tap'
import { sendOddBodies } from '../../../../packages/service-kit/test/http/odd-bodies.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { API_KEY, startAccounts } from '../account/kit.ts'
import { AUTH } from '../portal/kit.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'FWA_LOGOUT_TOKEN', 'check refused')

t.test('no body is a fault of the service, whoever sends it', async (t) => {
  const headers = { host: 'auth.example.com', origin: AUTH }
  const ada = { headers: { ...headers, cookie: '' } }
  const program = { headers: { ...headers, authorization: `Bearer ${API_KEY}` } }
  const start = async () => {
    const { app, signIn } = await startAccounts(t)
    ada.headers.cookie = await signIn('main', { groups: ['admin'] }, { host: headers.host })
    return app
  }
  const values: Record<string, string> = { portal: 'main', provider: 'corp' }
  const routes = await sendOddBodies(
    t,
    start,
    [{ headers }, ada, program],
    (name) => values[name] ?? name,
  )
  for (const path of ['logout', 'token', 'sessions/end', 'providers/:provider/backchannel-logout'])
    t.ok(routes.includes(`POST /portals/:portal/${path}`), path)
})

import { createMetrics } from '@gatehouse/service-kit'
import t from 'tap'
import { AUTH, MAIN, signIn, signInUrl, start } from './routes/kit.ts'

t.test('logins that came back are counted by result, and sessions that people end', async (t) => {
  const metrics = createMetrics({ service: 'test', version: '0' })
  const { corp, visitor } = await start(t, { metrics })
  const ada = visitor()
  await signIn(ada, corp, 'ada')
  await signIn(visitor(), corp, 'bob')
  for (const failure of ['FWA_LOGIN_REFUSED', 'FWA_PROVIDER_INVALID'] as const) {
    const eve = visitor()
    const begun = await eve.open(signInUrl())
    corp.state.failure = failure
    await eve.open(corp.authorize(begun.headers.location, 'eve'))
    corp.state.failure = undefined
  }
  await visitor().open(signInUrl())
  await ada.open(`${MAIN}/logout`, {
    method: 'POST',
    headers: { origin: AUTH, 'content-type': 'application/x-www-form-urlencoded' },
  })
  t.strictSame((await metrics.text()).match(/^gatehouse_auth_log.*$/gm), [
    'gatehouse_auth_logins_total{result="finished"} 2',
    'gatehouse_auth_logins_total{result="refused"} 1',
    'gatehouse_auth_logins_total{result="failed"} 1',
    'gatehouse_auth_logouts_total 1',
  ])
})

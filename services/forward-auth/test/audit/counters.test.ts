import { createMetrics } from '@gatehouse/service-kit/telemetry'
import t from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { portalOf, yamlOf } from '../app.ts'
import { AUTH, MAIN, signIn, signInUrl, start, WANTED } from '../portal/kit.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'FWA_PROVIDER_INVALID')

const ENDED_BY = ['person', 'provider', 'administrator', 'operator', 'program', 'sign-in', 'reuse']
const RESULTS = ['read', 'ended', 'fault', 'misconfigured', 'impossible']

/** The lines of ended sessions, 0 unless a number is given. */
const endedAt = (portal: string, numbers: Record<string, number> = {}) =>
  ENDED_BY.map(
    (by) =>
      `gatehouse_auth_sessions_ended_total{portal="${portal}",by="${by}"} ${numbers[by] ?? 0}`,
  )
const readAgainAt = (portal: string) =>
  RESULTS.map(
    (result) => `gatehouse_auth_sessions_read_again_total{portal="${portal}",result="${result}"} 0`,
  )

t.test('sign-ins, sign-outs and ended sessions are counted by portal', async (t) => {
  const metrics = createMetrics({ service: 'test', version: '0' })
  const { corp, visitor, reload } = await start(t, { metrics, yaml: yamlOf(portalOf('main')) })
  const ada = visitor()
  await signIn(ada, corp, 'ada')
  await signIn(visitor(), corp, 'bob')
  for (const failure of ['FWA_LOGIN_REFUSED', 'FWA_PROVIDER_INVALID'] as const) {
    const eve = visitor()
    const begun = await eve.open(signInUrl())
    corp.state.failure = failure
    const callback = corp.authorize(begun.headers.location, 'eve')
    if (failure === 'FWA_LOGIN_REFUSED') callback.searchParams.set('error', 'access_denied')
    await eve.open(callback)
    corp.state.failure = undefined
  }
  await visitor().open(signInUrl())
  // An error page, which anybody gets by an old link.
  t.equal((await visitor().open(signInUrl({ policy: 'gone' }))).statusCode, 400)
  await ada.open(`${MAIN}/logout`, {
    method: 'POST',
    headers: { origin: AUTH, 'content-type': 'application/x-www-form-urlencoded' },
  })
  await signIn(ada, corp, 'ada')
  await signIn(ada, corp, 'bob', signInUrl({ rd: WANTED, switch: '1' }))
  const counted = async () =>
    (await metrics.text()).match(/^gatehouse_auth_(log|ses).*$/gm)?.toSorted()
  const expected = [
    'gatehouse_auth_logins_total{portal="main",result="finished"} 4',
    'gatehouse_auth_logins_total{portal="main",result="refused"} 1',
    'gatehouse_auth_logins_total{portal="main",result="failed"} 1',
    'gatehouse_auth_logouts_total{portal="main"} 1',
    ...endedAt('main', { 'sign-in': 1 }),
    ...readAgainAt('main'),
  ]
  t.strictSame(await counted(), expected.toSorted())

  await reload(yamlOf(portalOf('main') + portalOf('other')))
  const ofOther = (await counted())?.filter((line) => line.includes('other'))
  t.strictSame(
    ofOther,
    [
      'gatehouse_auth_logins_total{portal="other",result="finished"} 0',
      'gatehouse_auth_logins_total{portal="other",result="refused"} 0',
      'gatehouse_auth_logins_total{portal="other",result="failed"} 0',
      'gatehouse_auth_logouts_total{portal="other"} 0',
      ...endedAt('other'),
      ...readAgainAt('other'),
    ].toSorted(),
    'a new portal begins at 0',
  )
})

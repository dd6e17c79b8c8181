import t from 'tap'
import { newProbe } from '../../../../packages/cert-store/test/helpers/store.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { briskClock, issuerAt, post, problem, startAcme, startCa } from '../helpers/acme.ts'
import { DAY, KEY, type Running } from '../helpers/app.ts'
import { browse } from '../helpers/browse.ts'

expectWarnings(t, 'ACME_', 'CERT_ISSUE_FAILED')

const DOMAIN = 'app.example.com'
const REFUSED = problem(400, 'rejectedIdentifier')
const AWAY = problem(500, 'serverInternal')

interface Failing {
  readonly lastError?: { readonly detail: string; readonly failedAt: string }
  readonly lastFailure?: Failing['lastError']
  readonly nextTryAt?: string
}

/** The page of the name, as a key sees it. */
async function pageOf(running: Running) {
  const { cookie } = await browse(running, '/', { body: { key: KEY } })
  const named = await browse(running, `/certificates/${DOMAIN}`, { cookie })
  return named.location ? browse(running, named.location, { cookie }) : named
}

interface Case {
  readonly why: string
  readonly issuer?: object
  /** Brings it about that something fails. */
  fail(running: Running, ca: Awaited<ReturnType<typeof startCa>>): Promise<unknown>
  /** What `gatehouse-certs get` or `renew` is answered. */
  ask?(running: Running): ReturnType<typeof post>
  /** Whether a certificate is in force, which `gatehouse-certs list` shows. */
  readonly isInForce: boolean
}

const renew = ({ call }: Running) => call('POST', '/api/certificate/renew', { domain: DOMAIN })
const CASES: readonly Case[] = [
  {
    why: 'a failed issuance',
    fail: async (running, ca) => {
      ca.answer('newOrder', ...Array.from({ length: 9 }, () => AWAY))
      await post(running, DOMAIN)
    },
    ask: (running) => post(running, DOMAIN),
    isInForce: false,
  },
  {
    why: 'a refused order',
    fail: async (running, ca) => {
      ca.answer('newOrder', REFUSED)
      await post(running, DOMAIN)
    },
    ask: (running) => post(running, DOMAIN),
    isInForce: false,
  },
  {
    why: 'a failed renewal with a certificate in force',
    fail: async (running, ca) => {
      await post(running, DOMAIN)
      ca.answer('newOrder', ...Array.from({ length: 9 }, () => AWAY))
      await running.clock.advance(61 * DAY)
      await renew(running)
    },
    ask: renew,
    isInForce: true,
  },
  {
    why: 'a fallback',
    issuer: { fallback: 'ca' },
    fail: async (running, ca) => {
      ca.answer('newOrder', REFUSED)
      await post(running, DOMAIN)
    },
    isInForce: true,
  },
]

t.test('get, list and the page of a certificate tell the same story of what waits', async (t) => {
  for (const { why, issuer, fail, ask, isInForce } of CASES)
    await t.test(why, async (t) => {
      const clock = briskClock(undefined, [])
      const ca = await startCa(t, clock)
      const config = { issuers: [issuerAt(ca, issuer)] }
      const { running } = await startAcme(t, {}, { clock, ca, config })
      await fail(running, ca)
      await clock.advance(1_000)

      const lists: readonly { readonly url: string; readonly member: string }[] = [
        { url: '/api/orders?state=failing', member: 'orders' },
        ...(isInForce ? [{ url: '/api/certificates', member: 'certificates' }] : []),
      ]
      const answers = await Promise.all(lists.map(({ url }) => running.call('GET', url)))
      const rows = answers.map(({ body }, i) => body[lists[i]?.member ?? ''][0] as Failing)
      const [{ lastError, nextTryAt } = {}] = rows
      if (!lastError || !nextTryAt) return t.fail('nothing fails')
      for (const row of rows)
        t.match([row.lastError ?? row.lastFailure, row.nextTryAt], [lastError, nextTryAt])

      const command = `gatehouse-certs renew ${DOMAIN} --now`
      const { said, text } = await pageOf(running)
      t.match(said, lastError.detail)
      t.match(text, `<time datetime="${lastError.failedAt}"`, 'since when')
      t.match(text, `<time datetime="${nextTryAt}"`, 'when next')
      t.match(said, `To try now: ${command}`)
      if (!ask) return
      const { body } = await ask(running)
      t.match(body, { failedAt: lastError.failedAt, nextTryAt })
      for (const part of [lastError.detail, lastError.failedAt, nextTryAt, command])
        t.match(body.detail, part)
    })
})

t.test(
  'list and the page say since when another certificate than the newest is served',
  async (t) => {
    const clock = briskClock(undefined, [])
    const ca = await startCa(t, clock)
    const { running } = await startAcme(t, {}, { clock, ca, config: { issuers: [issuerAt(ca)] } })
    await post(running, DOMAIN)
    await running.service.store.saveProbe(
      newProbe({ name: DOMAIN, state: 'older', since: clock.now() - DAY }),
    )
    const { body } = await running.call('GET', '/api/certificates')
    const [{ served, places }] = body.certificates
    t.match([served, places], ['older', [{ state: 'older', since: '2029-12-31T00:00:00Z' }]])
    const { said, text } = await pageOf(running)
    t.match(said, /An older certificate is served\. .* Reload the server\./)
    t.match(text, `<time datetime="${places[0].since}"`)
  },
)

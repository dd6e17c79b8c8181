import { createMetrics } from '@gatehouse/service-kit/telemetry'
import t, { type Test } from 'tap'
import {
  newAudit,
  newCertificate,
  newOrder,
} from '../../../../packages/cert-store/test/helpers/store.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { DAY, KEY, NOW, type Running, start } from '../helpers/app.ts'
import { browse } from '../helpers/browse.ts'

const LIMITED = 'a-key-of-team-a-only'
const auth = {
  psk: {
    keys: [
      { name: 'ops', key: KEY },
      { name: 'team a', key: LIMITED, domains: ['*.a.test'] },
    ],
  },
}
const HELD = 60
const uuid = (n: number) => `6b1f5c1e-7a52-4d0c-9f0e-${String(n).padStart(12, '0')}`

/** Many certificates, of which 15 fail, and 25 names that never had one; in no order. */
async function fill({ service: { store } }: Running): Promise<void> {
  const fail = (name: string, id: number, nextTryAt: number) =>
    store.saveOrder(
      newOrder({
        ...{ id: uuid(id), requestKey: `ca|server|p256|${name}`, names: [name], nextTryAt },
        ...{ status: 'failed', failures: 3 },
        lastError: { code: 'ACME_DNS', detail: `no TXT record for ${name}`, at: NOW },
      }),
    )
  for (let n = 0; n < HELD; n += 1) {
    const name = `app${n}.${n % 2 ? 'a' : 'b'}.test`
    const notAfter = NOW + (1 + ((n * 7) % HELD)) * DAY
    await store.addCertificate(newCertificate({ names: [name], notAfter }), newAudit())
    if (n % 4 === 0) await fail(name, n, NOW + (HELD - n) * 60_000)
  }
  for (let n = 0; n < 25; n += 1)
    await fail(`never${n}.${n % 2 ? 'a' : 'b'}.test`, 100 + n, NOW + (1 + ((n * 7) % 25)) * 60_000)
}

async function enter(running: Running, key: string) {
  const { cookie } = await browse(running, '/', { body: { key } })
  return (url: string) => browse(running, url, { cookie })
}

const namesOf = ({ text }: { text: string }) =>
  [...text.matchAll(/<b title="[^"]+">([^<]+\.test)<\/b>/g)].map(([, name]) => name as string)

/** What has to come out: by the end of the certificate, then by the next try. */
function mostUrgent(only = /./): string[] {
  const held = Array.from({ length: 15 }, (_, n) => n * 4)
    .sort((a, b) => ((a * 7) % HELD) - ((b * 7) % HELD))
    .map((n) => `app${n}.b.test`)
  const never = Array.from({ length: 25 }, (_, n) => n)
    .sort((a, b) => ((a * 7) % 25) - ((b * 7) % 25))
    .map((n) => `never${n}.${n % 2 ? 'a' : 'b'}.test`)
  return [...held, ...never].filter((name) => only.test(name))
}

async function listed({ call }: Running, query: string, key = KEY) {
  const headers = { authorization: `APIKey ${key}` }
  const { body } = await call('GET', `/api/orders?${query}`, undefined, headers)
  return body as { orders: { names: string[]; notAfter?: string }[]; next?: string }
}

async function stage(t: Test) {
  const metrics = createMetrics({ service: 'test', version: '0' })
  const running = await start(t, { auth }, { metrics })
  await fill(running)
  return { running, metrics }
}

t.test('the inventory counts, lists and searches names without a certificate', async (t) => {
  const { running } = await stage(t)
  const cases: [key: string, only: RegExp, counts: string[]][] = [
    [KEY, /./, [`${HELD + 25} All`, '40 Failing']],
    [LIMITED, /\.a\.test/, ['42 All', '12 Failing']],
  ]
  for (const [key, only, counts] of cases) {
    const see = await enter(running, key)
    const first = await see('/')
    for (const count of counts) t.match(first.said, ` ${count} `, key)
    const urgent = mostUrgent(only)
    t.strictSame(namesOf(first).slice(0, 3), urgent.slice(0, 3), `${key}: the most urgent first`)
    const [, all = ''] = /href="([^"]+)">All failing/.exec(first.text) ?? []
    t.strictSame(namesOf(await see(all.replaceAll('&amp;', '&'))), urgent, `${key}: all of them`)
    t.match(first.text, `class="tile failing" href="${all}"`, 'where the tile leads as well')
  }
  const see = await enter(running, KEY)
  t.strictSame(namesOf(await see('/?q=never7.')), ['never7.a.test'])
  const found = await see('/?q=never7.a.test')
  t.match(found.said, 'You can see no certificate that is valid for never7.a.test now.')
  t.match(
    found.said,
    'never7.a.test No certificate: no TXT record for never7.a.test Failing, next try in 25 minutes',
  )
  t.notMatch(found.said, 'No name that you may see contains')
  t.strictSame(namesOf(await see('/?q=never&state=renews')), [])
  const limited = await enter(running, LIMITED)
  t.match((await limited('/?q=never8')).said, 'No name that you may see contains “never8”')
})

t.test('pages of the inventory have each name once, with a certificate or without', async (t) => {
  const { running } = await stage(t)
  const see = await enter(running, KEY)
  for (const order of ['next', 'expiry', 'name', 'newest']) {
    const forth: string[][] = []
    let last = `/?order=${order}&refresh=off`
    for (let url: string | undefined = last; url; ) {
      last = url
      const { text } = await see(url)
      // Not those that need attention, above the list of the first page.
      forth.push(namesOf({ text: text.slice(text.indexOf('<p class="row heads">')) }))
      url = /href="([^"]+)" rel="next"/.exec(text)?.[1]?.replaceAll('&amp;', '&')
    }
    t.equal(forth.flat().length, HELD + 25, order)
    t.equal(new Set(forth.flat()).size, HELD + 25, order)
    const [, back = ''] = /href="([^"]+)" rel="prev"/.exec((await see(last)).text) ?? []
    t.strictSame(namesOf(await see(back.replaceAll('&amp;', '&'))).slice(-50), forth[0], 'and back')
  }
})

t.test('GET /api/orders has what fails, page by page, for those who may read it', async (t) => {
  const { running } = await stage(t)
  for (const [key, only] of [
    [KEY, /./],
    [LIMITED, /\.a\.test/],
  ] as const) {
    const read = []
    for (let after: string | undefined = ''; after !== undefined; ) {
      const page = await listed(running, `state=failing&limit=7${after && `&after=${after}`}`, key)
      t.ok(page.orders.length <= 7)
      read.push(...page.orders)
      after = page.next
    }
    t.strictSame(
      read.map(({ names }) => names[0]),
      mostUrgent(only),
      key,
    )
  }
  const { orders } = await listed(running, '')
  t.match(orders[0], {
    id: uuid(0),
    status: 'failed',
    issuer: 'ca',
    lastError: { code: 'ACME_DNS', action: /\w/ },
    notAfter: '2030-01-02T00:00:00Z',
  })
  t.equal(orders.filter(({ notAfter }) => notAfter === undefined).length, 25)
  t.strictSame(
    (await listed(running, 'name=Never3.A.test')).orders.map(({ names }) => names),
    [['never3.a.test']],
  )
  t.strictSame((await listed(running, 'name=never4.b.test', LIMITED)).orders, [], 'not its own')
  t.strictSame((await listed(running, 'name=app1.a.test')).orders, [], 'this one does not fail')
})

t.test('the page of a name shows its order, also beside a history', async (t) => {
  const { running } = await stage(t)
  const see = await enter(running, KEY)
  t.match(await see('/certificates/never3.a.test'), { location: `/orders/${uuid(103)}` })
  await running.call('DELETE', '/api/certificate/app0.b.test')
  const { said, text } = await see('/certificates/app0.b.test')
  t.match(said, 'No certificate of this name is in service.')
  t.match(
    said,
    /The last order failed \(.*\). Last try failed this minute ?: no TXT record for app0.b.test/,
  )
  t.match(text, `href="/orders/${uuid(0)}"`)
  const limited = await enter(running, LIMITED)
  t.equal((await limited('/certificates/never4.b.test')).status, 403)
})

t.test('a certificate that ended because it could not be renewed fails', async (t) => {
  const running = await start(t)
  const { store } = running.service
  await store.addCertificate(newCertificate({ notAfter: NOW - DAY }), newAudit())
  const { requestKey } = newCertificate()
  await store.saveOrder(newOrder({ requestKey, id: uuid(1), status: 'failed', nextTryAt: NOW }))
  const see = await enter(running, KEY)
  t.match((await see('/')).said, / 1 Failing 0 Expired .* Failing, expired 24 hours ago/)
  t.match(
    (await see('/certificates/app.example.com')).said,
    /Expired 24 hours ago , as it could not be renewed/,
  )
})

t.test('a metric counts what fails, by issuer', async (t) => {
  expectWarnings(t, 'ACME_DNS')
  const { metrics, running } = await stage(t)
  const failing = async () => (await metrics.text()).match(/^gatehouse_certs_failing.*/gm)
  const failingAt = (count: number) => [
    `gatehouse_certs_failing{issuer="ca"} ${count}`,
    'gatehouse_certs_failing{issuer="ca-client"} 0',
  ]
  t.strictSame(await failing(), failingAt(40))
  await running.call('POST', '/api/certificate', { domain: 'never0.b.test' })
  await running.clock.advance(60 * 60_000)
  t.equal((await running.call('POST', '/api/certificate', { domain: 'never0.b.test' })).status, 200)
  t.strictSame(await failing(), failingAt(39))
})

import type { CertificateRecord, OrderRecord } from '@gatehouse/cert-store/port'
import t from 'tap'
import { NOW, newOrder } from '../../../../packages/cert-store/test/helpers/store.ts'
import { chart, type Summary, spansUntil } from '../../src/inventory/chart.ts'
import type { Inventory } from '../../src/inventory/page.ts'
import { failure } from '../../src/pages/failure.ts'
import { stateOf } from '../../src/pages/state.ts'
import { holdPage, shapeOf as shape } from '../helpers/html.ts'
import { failed, inventoryPages, page, record } from '../helpers/pages.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR

t.test('by which way a certificate came is shown, and for whom', async (t) => {
  for (const [certificate, said] of [
    [{ way: 'acme', client: 'Caddy/2.11.9' }, '<span>ACME: Caddy/2.11.9</span>'],
    [{ way: 'acme', client: null }, '<span>ACME</span>'],
    [{ way: 'api', client: 'curl/8.0' }, undefined],
    [{ issuer: 'ca-client' }, '<span>for a client</span>'],
  ] as const) {
    const { html } = page({ rows: [{ record: record(certificate), order: undefined }] })
    t.equal(/<\/b>\s*<small>(.*?)<\/small>/.exec(html)?.[1]?.trim(), said)
  }
})

t.test('the state of a certificate is shown', async (t) => {
  const cases: [
    why: string,
    certificate: Partial<CertificateRecord>,
    order: OrderRecord | undefined,
    said: string,
  ][] = [
    ['renewal ahead', {}, undefined, 'Renews in 3 days'],
    ['renewal soon', { renewAt: NOW + 90_000 }, undefined, 'Renews in 1 minute'],
    ['due', { renewAt: NOW }, undefined, 'Being renewed'],
    ['due, by an ACME client', { renewAt: NOW, account: 'a-1' }, undefined, 'Its client is late'],
    [
      'abandoned',
      { renewAt: null, notAfter: NOW + 5 * HOUR },
      undefined,
      'Not renewed, expires in 5 hours',
    ],
    ['failing', {}, failed(), 'Failing, expires in 7 days'],
    ['renewed after a failure', {}, newOrder({ status: 'done' }), 'Renews in 3 days'],
    ['expired', { notAfter: NOW - 3 * DAY }, undefined, 'Expired 3 days ago'],
    ['expires now', { notAfter: NOW }, undefined, 'Expired this minute'],
    ['expired and failing', { notAfter: NOW - DAY }, failed(), 'Failing, expired 24 hours ago'],
  ]
  for (const [why, certificate, order, said] of cases) {
    const { html } = page({ rows: [{ record: record(certificate), order }] })
    const state =
      /<\/svg><span>([^<]*(?:<time[^>]*>[^<]*<\/time>)?)<\/span><\/span><span class="until/.exec(
        html,
      )
    t.equal(state?.[1]?.replace(/<[^>]*>/g, ''), said, why)
  }
  t.equal(stateOf({ notAfter: 2, renewAt: null }, undefined, 1), 'unrenewed')
})

t.test('what fails comes first, with its cause and what comes of it', async (t) => {
  const cases: [why: string, failing: Inventory['failed'][number], said: string][] = [
    [
      'never had one',
      { order: failed() },
      'app.example.com No certificate: the intermediate ends first Failing, next try in 60 minutes',
    ],
    ['is to be tried', { order: failed({ nextTryAt: NOW - 1 }) }, 'ends first Failing'],
    [
      'has one',
      { record: record(), order: failed() },
      'app.example.com the intermediate ends first Failing, expires in 7 days',
    ],
  ]
  for (const [why, failing, said] of cases) {
    const { html } = page({ failed: [failing], hasMoreFailed: true })
    const [, urgent = ''] = /class="urgent">(.*?)<\/ul>/s.exec(html) ?? []
    t.match(urgent.replace(/<[^>]*>/g, ' ').replace(/\s+/g, ' '), said, why)
    t.match(urgent, 'href="/?order=expiry&amp;state=failing"', why)
  }
})

t.test('a failed order says why, what to do, and when the next try is', async (t) => {
  const said = (order: OrderRecord) =>
    String(failure('en', order, NOW))
      .replace(/<[^>]*>/g, ' ')
      .replace(/\s+/g, ' ')
  t.match(
    said(failed()),
    'Last try failed this minute : the intermediate ends first Replace the root or intermediate that ends, or set the clock: see the guide of the embedded CA. PKI_CA_EXPIRED Next try: in 60 minutes at the earliest. To try now: gatehouse-certs renew app.example.com --now',
  )
  t.match(
    said(failed({ nextTryAt: NOW - 1 })),
    'Next try: with the next request for it; a renewal within a minute.',
  )
  const internal = failed({ lastError: { code: 'INTERNAL', detail: 'an internal error', at: NOW } })
  t.match(said(internal), 'The log of the service shows the cause')
  const permitted = failed({ lastError: { code: 'CERT_NOT_PERMITTED', detail: 'no', at: NOW } })
  t.match(String(failure('en', permitted, NOW)), '<code>ca.permitted</code>', 'names as code')
})

t.test(
  'every page is valid HTML, and its policy allows only its own style sheet and script',
  async (t) => {
    for (const [name, page] of Object.entries(inventoryPages('said'))) holdPage(t, name, page)
  },
)

t.test('names of keys, issuers and errors never become markup', async (t) => {
  const usual = inventoryPages('said')
  for (const said of [
    '<script>alert(1)</script>',
    '"><img src=x onerror=alert(1)>',
    '</title></style>',
    '&lt;b&gt;',
  ])
    for (const [name, { html }] of Object.entries(inventoryPages(said)))
      t.same(shape(html), shape(usual[name as keyof typeof usual].html), `${name}: ${said}`)
})

t.test('bars reach to the furthest event, in the smallest unit that does', async (t) => {
  const cases: [days: number, title: string][] = [
    [0, 'Coming up, by day'],
    [14, 'Coming up, by day'],
    [15, 'Coming up, by week'],
    [98, 'Coming up, by week'],
    [99, 'Coming up, by 30 days'],
    [9_999, 'Coming up, by 30 days'],
  ]
  for (const [days, title] of cases) {
    const spans = spansUntil(NOW + days * DAY, NOW)
    t.equal(spans.title, title, `${days} days`)
    t.equal(spans.starts[0], NOW)
  }
})

t.test('a chart has a text for each bar, and is left out where it says nothing', async (t) => {
  const none = Array.from({ length: 14 }, () => 0)
  const summary = (renewals: number[], ends: number[]): Summary => ({
    counts: { renews: 7, due: 0, unrenewed: 1, failing: 2, ended: 0 },
    renewals: none.map((_, i) => renewals[i] ?? 0),
    ends: none.map((_, i) => ends[i] ?? 0),
    spans: spansUntil(NOW + 5 * DAY, NOW),
    isPartial: false,
  })
  const shown = String(chart('en', summary([3, 0, 5_000], [1])))
  const bars = [...shown.matchAll(/<span class="detail">(.*?)<\/span>/g)].map(([, text = '']) =>
    text.replace(/<[^>]*>/g, ''),
  )
  t.equal(bars.length, 14)
  t.strictSame(bars.slice(0, 3), [
    '1 Jan: 3 renewed, 1 expire without renewal',
    '2 Jan: 0 renewed, 0 expire without renewal',
    '3 Jan: 5000 renewed, 0 expire without renewal',
  ])
  t.match(bars.at(-1), /^14 Jan and later: /)
  for (const [why, renewals, ends] of [
    ['nothing', [], []],
    ['one bar', [7], [2]],
  ] as const)
    t.equal(chart('en', summary([...renewals], [...ends])), '', why)
})

import { createHash } from 'node:crypto'
import type { CertificateRecord, OrderRecord } from '@gatehouse/cert-store/port'
import fc from 'fast-check'
import t from 'tap'
import {
  NOW,
  newCertificate,
  newOrder,
} from '../../../../packages/cert-store/test/helpers/store.ts'
import { spansUntil } from '../../src/inventory/chart.ts'
import { type Inventory, inventoryPage } from '../../src/inventory/page.ts'
import { problemPage } from '../../src/pages/problem.ts'
import { stateOf } from '../../src/pages/state.ts'
import { bar, fromNow, timeLineOf } from '../../src/pages/time.ts'
import { signInPage, tokensOnlyPage } from '../../src/visitors/sign-in-page.ts'
import { shapeOf as shape } from '../helpers/html.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR

const record = (overrides: Partial<CertificateRecord> = {}): CertificateRecord => ({
  ...newCertificate(overrides),
  id: 1,
})
const failed = (overrides: Partial<OrderRecord> = {}) =>
  newOrder({
    status: 'failed',
    lastError: { code: 'PKI_CA_EXPIRING', detail: 'the intermediate ends first' },
    nextTryAt: NOW + HOUR,
    ...overrides,
  })

function page(overrides: Partial<Inventory> = {}) {
  return inventoryPage({
    visitor: { key: 'ops' },
    view: { order: 'next' },
    rows: [{ record: record(), order: undefined }],
    failed: [],
    hasMoreFailed: false,
    neighbours: {},
    issuers: ['ca'],
    origin: 'https://certs.example.com',
    now: NOW,
    ...overrides,
  })
}

t.test('by which way a certificate came is shown, and for whom', async (t) => {
  for (const [certificate, said] of [
    [{ way: 'acme', client: 'Caddy/2.11.9' }, 'ACME: Caddy/2.11.9'],
    [{ way: 'acme', client: null }, 'ACME'],
    [{ way: 'api', client: 'curl/8.0' }, undefined],
    [{ issuer: 'ca-client' }, 'for a client'],
  ] as const) {
    const { html } = page({ rows: [{ record: record(certificate), order: undefined }] })
    t.equal(/<small>([^<]*)<\/small>/.exec(html)?.[1], said)
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
      'Not renewed, ends in 5 hours',
    ],
    ['failing', {}, failed(), 'Failing, ends in 7 days'],
    ['renewed after a failure', {}, newOrder({ status: 'done' }), 'Renews in 3 days'],
    ['expired', { notAfter: NOW - 3 * DAY }, undefined, 'Ended 3 days ago'],
    ['expires now', { notAfter: NOW }, undefined, 'Ended this minute'],
    ['expired and failing', { notAfter: NOW - DAY }, failed(), 'Failing, ended 24 hours ago'],
  ]
  for (const [why, certificate, order, said] of cases) {
    const { html } = page({ rows: [{ record: record(certificate), order }] })
    const state = /<span>([^<]*(?:<time[^>]*>[^<]*<\/time>)?)<\/span><\/span><\/a>/.exec(html)
    t.equal(state?.[1]?.replace(/<[^>]*>/g, ''), said, why)
  }
  t.equal(stateOf({ notBefore: 0, notAfter: 2, renewAt: null }, undefined, 1), 'unrenewed')
})

t.test('a failure says why, what to do, and when the next try is', async (t) => {
  const said = (order: OrderRecord) =>
    page({ failed: [order], rows: [] })
      .html.replace(/<[^>]*>/g, ' ')
      .replace(/\s+/g, ' ')
  t.match(
    said(failed()),
    'app.example.com Last try failed: the intermediate ends first Replace the root or intermediate that ends, or set the clock: see the guide of the embedded CA. PKI_CA_EXPIRING Next try: in 60 minutes at the earliest.',
  )
  t.match(said(failed({ nextTryAt: NOW - 1 })), 'Next try: with the next request for it.')
  const internal = failed({ lastError: { code: 'INTERNAL', detail: 'an internal error' } })
  t.match(said(internal), 'The log of the service shows the cause')
  const permitted = failed({ lastError: { code: 'CERT_NOT_PERMITTED', detail: 'no' } })
  t.match(page({ failed: [permitted] }).html, '<code>ca.permitted</code>', 'names as code')
})

t.test('moments are relative, in a unit of which there are at least two', async (t) => {
  const cases: [number, string][] = [
    [0, 'this minute'],
    [119 * 60_000, 'in 119 minutes'],
    [2 * HOUR, 'in 2 hours'],
    [47 * HOUR, 'in 47 hours'],
    [48 * HOUR, 'in 2 days'],
    [-400 * DAY, '400 days ago'],
  ]
  for (const [ms, said] of cases) t.equal(fromNow(NOW + ms, NOW), said)
})

t.test(
  'a bar stays within the time line, and the remaining part follows the used one',
  async () => {
    const at = fc.integer({ min: NOW - 800 * DAY, max: NOW + 800 * DAY })
    const moments = fc
      .tuple(at, at, fc.option(at))
      .map(([a, b, renewAt]) => ({ notBefore: Math.min(a, b), notAfter: Math.max(a, b), renewAt }))
    fc.assert(
      fc.property(fc.array(moments, { minLength: 1, maxLength: 5 }), (certificates) => {
        const line = timeLineOf(certificates, NOW)
        return certificates.every((certificate) => {
          const numbers = [
            ...String(bar(certificate, line)).matchAll(/(?:x|cx|x1|width)="(-?[\d.]+)%"/g),
          ]
          const [x = 0, width = 0, left = 0, rest = 0] = numbers.map(([, digits]) => Number(digits))
          return (
            numbers.every(([, digits]) => Number(digits) >= 0 && Number(digits) <= 100) &&
            left >= x - 0.01 &&
            Math.abs(left + rest - x - width) < 0.03
          )
        })
      }),
    )
  },
)

const pages = (said: string) => ({
  inventory: page({
    visitor: { person: said },
    view: {
      search: said,
      order: 'name',
      state: 'failing',
      issuer: said,
      place: { position: { key: said, id: 1 }, isBackwards: false },
    },
    issuers: ['ca', said],
    query: { search: { part: said }, name: { text: said, kind: 'dns', labels: [] } },
    origin: said,
    rows: [
      {
        record: record({ issuer: said, renewAt: null }),
        order: failed({ lastError: { code: said, detail: said } }),
      },
    ],
    failed: [failed({ names: [said], lastError: { code: said, detail: said } })],
    hasMoreFailed: true,
    neighbours: { previous: { key: said, id: 1 }, next: { key: said, id: 2 } },
  }),
  empty: page({ rows: [], origin: said }),
  overview: page({
    summary: {
      counts: { renews: 7, due: 0, unrenewed: 1, failing: 2, ended: 0 },
      renewals: Array.from({ length: 14 }, (_, i) => i % 3),
      ends: Array.from({ length: 14 }, (_, i) => i % 2),
      spans: spansUntil(NOW, NOW),
      isPartial: true,
    },
  }),
  still: page({ view: { order: 'next', isStill: true } }),
  covered: page({
    view: { search: said, order: 'next' },
    query: {
      search: { part: said, wildcard: 'app.example.com' },
      name: { text: said, kind: 'dns', labels: [] },
    },
    covering: record(),
  }),
  nothing: page({
    rows: [],
    view: { search: said, order: 'next' },
    query: { search: { part: said, serialNumber: said } },
  }),
  'sign-in': signInPage({ isWrong: true }),
  tokens: tokensOnlyPage(said),
  problem: problemPage({ type: '', title: said, status: 400, code: said, detail: said }),
})

t.test(
  'every page is valid HTML without scripts, and its policy allows only its own style sheet',
  async (t) => {
    for (const [name, { html, policy }] of Object.entries(pages('said'))) {
      const elements = shape(html)
      for (const element of elements)
        t.notMatch(
          element,
          /^(script|img|iframe|object)| (on\w+|style)( |$)/,
          `${name}: ${element}`,
        )
      t.equal(elements.filter((element) => /^h1( |$)/.test(element)).length, 1, name)
      const [, style = ''] = /<style>(.*)<\/style>/.exec(html) ?? []
      const digest = createHash('sha256').update(style).digest('base64')
      t.equal(
        policy,
        `default-src 'none'; style-src 'sha256-${digest}'; img-src data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'`,
        name,
      )
    }
  },
)

t.test('names of keys, issuers and errors never become markup', async (t) => {
  const usual = pages('said')
  for (const said of [
    '<script>alert(1)</script>',
    '"><img src=x onerror=alert(1)>',
    '</title></style>',
    '&lt;b&gt;',
  ])
    for (const [name, { html }] of Object.entries(pages(said)))
      t.same(shape(html), shape(usual[name as keyof typeof usual].html), `${name}: ${said}`)
})

t.test('bars reach to the furthest event, in the smallest unit that does', async (t) => {
  const cases: [days: number, unit: string][] = [
    [0, 'day'],
    [14, 'day'],
    [15, 'week'],
    [98, 'week'],
    [99, '30 days'],
    [9_999, '30 days'],
  ]
  for (const [days, unit] of cases) {
    const spans = spansUntil(NOW + days * DAY, NOW)
    t.equal(spans.unit, unit, `${days} days`)
    t.equal(spans.starts[0], NOW)
  }
  const { html } = page()
  t.notMatch(html, 'class="bars"', 'no chart where nothing was counted')
})

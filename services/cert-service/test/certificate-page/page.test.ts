import { createHash } from 'node:crypto'
import type { AuditRecord, PastCertificate } from '@gatehouse/cert-store/port'
import { createIntermediate, createRoot } from '@gatehouse/pki'
import type { Page } from '@gatehouse/service-kit/pages'
import fc from 'fast-check'
import t from 'tap'
import {
  NOW,
  newAudit,
  newCertificate,
  newOrder,
} from '../../../../packages/cert-store/test/helpers/store.ts'
import { donePage } from '../../src/actions/done.ts'
import { dryRunPage } from '../../src/actions/dry-run-page.ts'
import { ACTIONS, confirmPage } from '../../src/actions/page.ts'
import {
  type CertificateView,
  certificatePage,
  nameWithoutCertificatePage,
  orderPage,
} from '../../src/certificate-page/page.ts'
import { problemPage } from '../../src/pages/problem.ts'
import { confirmRequest, requestPage } from '../../src/request-page/page.ts'
import { shapeOf } from '../helpers/html.ts'

const HOUR = 3_600_000
const IN_SERVICE = { isCurrent: true, revokedAt: null, revocationReason: null }

const record = (changes: Partial<CertificateView['record']> = {}): CertificateView['record'] => ({
  ...{
    ...newCertificate(changes),
    ...IN_SERVICE,
    id: 1,
    serialNumber: 'ab',
    certificate: Buffer.from('x'),
  },
  ...changes,
})
const past = (changes: Partial<PastCertificate> = {}): PastCertificate => ({
  ...record(),
  ...changes,
})

const view = (changes: Partial<CertificateView> = {}): CertificateView => ({
  visitor: { person: 'Ada' },
  record: record(),
  order: undefined,
  history: [past()],
  activity: undefined,
  actions: [],
  root: undefined,
  done: undefined,
  origin: 'https://certs.example.com',
  now: NOW,
  ...changes,
})

const textOf = ({ html }: Page) =>
  html
    .replace(/<style>.*?<\/style>/s, '')
    .replace(/<[^>]*>/g, ' ')
    .replace(/\s+/g, ' ')

const failed = (said: string) =>
  newOrder({
    id: said,
    status: 'failed',
    names: [said],
    issuer: said,
    step: said,
    lastError: { code: said, detail: said },
    nextTryAt: NOW + HOUR,
  })

/** Every page about a certificate, with a text wherever one comes from elsewhere. */
const pages = (said: string): Record<string, Page> => {
  const names = [said, said]
  const audit: AuditRecord = {
    ...{ ...newAudit({ names, actor: said, detail: said, remoteAddress: said }), id: 1, count: 2 },
  }
  const history = [
    past({ id: 4, names, serialNumber: said, issuer: said, lineage: said }),
    past({
      id: 3,
      names,
      serialNumber: said,
      isCurrent: false,
      revokedAt: NOW,
      revocationReason: 'superseded',
    }),
    past({ id: 2, names, serialNumber: said, isCurrent: false, lineage: said }),
    past({ id: 1, names, serialNumber: said, isCurrent: false, lineage: 'gone' }),
  ]
  const of = { names, serialNumber: said, issuer: said, explanationUrl: said, checkAt: NOW }
  const window = { windowStart: null, windowEnd: null }
  const done = { domain: said, order: said, unknownAtCa: 1, unconfirmed: 1 } as const
  const common = {
    ...{ visitor: { person: said }, history, activity: [audit], actions: ACTIONS, origin: said },
    done: { ...done, action: 'renew' as const },
  }
  const issued = { id: 1, lineage: said, issuer: said, names, serialNumber: said }
  return {
    details: certificatePage(
      view({ ...common, record: record({ ...of, ...window }), order: failed(said) }),
    ),
    'by a key': certificatePage(view({ ...common, visitor: { key: said } })),
    nothing: nameWithoutCertificatePage({
      ...{ ...common, domain: said, profile: 'client', order: failed(said), now: NOW },
    }),
    order: orderPage({
      visitor: { person: said },
      order: failed(said),
      actions: ACTIONS,
      now: NOW,
    }),
    done: donePage({ ...done, action: 'revoke', count: 2 }),
    problem: problemPage({
      type: '',
      title: said,
      status: 400,
      code: said,
      detail: said,
      errors: [{ pointer: said, detail: `${said}!` }],
    }),
    'dry run': dryRunPage({
      ...{ domain: said, names, issuer: said, obstacles: [said] },
      order: { id: said, status: 'failed', step: said, since: '', names },
      proofs: [{ name: said, challenge: 'dns-01', status: 'failed', detail: said }],
      budgets: [{ limit: 'names', subject: said, left: 1, count: 2, per: said }],
    }),
    request: requestPage(
      { domain: said, names: said, keyType: 'p384' },
      { detail: said, isAboutNames: true, action: said },
    ),
    'dry run of a request': dryRunPage(
      { domain: said, names, issuer: said, obstacles: [], proofs: [], budgets: [] },
      confirmRequest({ domain: said, names: said }),
    ),
    ...Object.fromEntries(
      ACTIONS.map((action) => [
        action,
        confirmPage(action, {
          domain: said,
          profile: 'client',
          affected: [issued],
          order: said,
          now: NOW,
        }),
      ]),
    ),
  }
}

t.test(
  'every page is valid HTML without scripts, under a policy of its own style alone',
  async (t) => {
    for (const [name, { html, policy }] of Object.entries(pages('said'))) {
      const elements = shapeOf(html)
      for (const element of elements)
        t.notMatch(
          element,
          /^(script|img|iframe|object)| (on\w+|style)( |$)/,
          `${name}: ${element}`,
        )
      t.equal(elements.filter((element) => /^h1( |$)/.test(element)).length, 1, name)
      const [, style = ''] = /<style>(.*)<\/style>/.exec(html) ?? []
      t.match(policy, createHash('sha256').update(style).digest('base64'), name)
      t.match(policy, "default-src 'none'", name)
    }
  },
)

t.test('property: whatever names, callers and CAs say never becomes markup', async (t) => {
  const usual = Object.fromEntries(
    Object.entries(pages('said')).map(([name, { html }]) => [name, shapeOf(html)]),
  )
  // Backticks are code, and a line of a subject is a part of it.
  const hostile = fc.oneof(
    fc.constantFrom(
      '<script>alert(1)</script>',
      '"><img src=x onerror=alert(1)>',
      '</title></style></textarea>',
      '\n</textarea><b>',
      "' autofocus onfocus=alert(1) x='",
      '&lt;b&gt;',
      'javascript:alert(1)',
      '__proto__',
      'constructor',
      'toString',
    ),
    fc.string({ unit: fc.constantFrom(...'<>"\'&/=- \n\u202eabcé'), minLength: 1, maxLength: 40 }),
  )
  fc.assert(
    fc.property(hostile, (said) => {
      for (const [name, { html }] of Object.entries(pages(said)))
        t.strictSame(shapeOf(html), usual[name], `${name}: ${said}`)
    }),
    { numRuns: 60 },
  )
})

t.test('links stay within this service, whatever the names are', async (t) => {
  for (const said of ['javascript:alert(1)', '//evil.test/', '..', 'a/../../b', 'a?b#c', '\\evil'])
    for (const [name, { html }] of Object.entries(pages(said))) {
      const links = [...html.matchAll(/ (?:href|action)="([^"]*)"/g)].map(([, href]) => href!)
      for (const href of links.filter((one) => !one.startsWith('data:image')))
        t.match(href, /^\/(?!\/)[\w%.*#/?=&;!'()~-]*$/, `${name}: ${href}`)
    }
})

t.test('what becomes of a certificate is said in words', async (t) => {
  const cases: [why: string, changes: Partial<CertificateView>, said: RegExp][] = [
    ['in service', {}, /In service\. It renews in 3 days/],
    ['due', { record: record({ renewAt: NOW }) }, /In service, and being renewed/],
    ['ended', { record: record({ notAfter: NOW }) }, /Ended this minute.*Clients refuse it/],
    [
      'abandoned',
      { record: record({ renewAt: null }) },
      /no longer renewed.*fetched for two of its lifetimes/,
    ],
    ['failing', { order: failed('why') }, /could not be renewed.*Last try failed: why/],
    ['under way', { order: newOrder({ step: 'proving' }) }, /An order is under way.*It is proving/],
    ['done', { order: newOrder({ status: 'done' }) }, /In service\. It renews/],
    [
      'revoked',
      {
        record: record({
          ...{ isCurrent: false },
          revokedAt: NOW,
          revocationReason: 'keyCompromise',
        }),
      },
      /Revoked on 1 Jan 2030, 00:00.*private key.*keyCompromise/,
    ],
    [
      'key of the caller',
      { record: record({ csr: Buffer.from('x') }) },
      /p256, held by the caller.*get app\.example\.com --csr/,
    ],
  ]
  for (const [why, changes, said] of cases)
    t.match(textOf(certificatePage(view(changes))), said, why)
})

t.test('commands name what a shell and a server take', async (t) => {
  const cases: [names: string[], said: RegExp, unsaid?: RegExp][] = [
    [
      ['*.a.test', 'a.test'],
      /get &#39;\*\.a\.test&#39; a\.test|get '\*\.a\.test' a\.test/,
      /openssl/,
    ],
    [['192.0.2.1'], /-connect (?:'|&#39;)192\.0\.2\.1:443/, /-servername/],
    [['2001:db8::1'], /-connect (?:'|&#39;)\[2001:db8::1\]:443/, /-servername/],
    [['a.test'], /-servername (?:'|&#39;)a\.test/],
  ]
  for (const [names, said, unsaid] of cases) {
    const { html } = certificatePage(view({ record: record({ names }) }))
    t.match(html, said, `${names}`)
    if (unsaid) t.notMatch(html, unsaid, `${names}`)
  }
})

t.test('a chain shows subjects, issuers and fingerprints up to the root', async (t) => {
  const root = await createRoot({ commonName: 'Test Root', now: NOW })
  const intermediate = await createIntermediate({ root, commonName: 'Test Issuing', now: NOW })
  const chain = [intermediate.certificate]
  const said = textOf(certificatePage(view({ record: record({ chain }), root: root.certificate })))
  t.match(
    said,
    /Issuing CA.*Subject CN=Test Issuing Issuer CN=Test Root.*Root Subject CN=Test Root/,
  )
  t.match(said, intermediate.info.fingerprint256.toUpperCase().match(/../g)!.join(':'))
})

import { createCross, createIntermediate, createRoot } from '@gatehouse/pki'
import type { Page } from '@gatehouse/service-kit/pages'
import fc from 'fast-check'
import t from 'tap'
import { NOW, newOrder } from '../../../../packages/cert-store/test/helpers/store.ts'
import { type CertificateView, certificatePage } from '../../src/certificate-page/page.ts'
import { holdPage, shapeOf } from '../helpers/html.ts'
import {
  certificatePages,
  certificateView,
  failedOrder,
  inService,
  PORTAL,
} from '../helpers/pages.ts'

const textOf = ({ html }: Page) =>
  html
    .replace(/<style>.*?<\/style>/s, '')
    .replace(/<[^>]*>/g, ' ')
    .replace(/\s+/g, ' ')

t.test('every page is valid HTML, under a policy of its own style and script alone', async (t) => {
  for (const [name, page] of Object.entries(certificatePages('said'))) holdPage(t, name, page)
})

t.test('property: whatever names, callers and CAs say never becomes markup', async (t) => {
  const usual = Object.fromEntries(
    Object.entries(certificatePages('said')).map(([name, { html }]) => [name, shapeOf(html)]),
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
      for (const [name, { html }] of Object.entries(certificatePages(said)))
        t.strictSame(shapeOf(html), usual[name], `${name}: ${said}`)
    }),
    { numRuns: 60 },
  )
})

t.test('links stay within this service, whatever the names are', async (t) => {
  for (const said of ['javascript:alert(1)', '//evil.test/', '..', 'a/../../b', 'a?b#c', '\\evil'])
    for (const [name, { html }] of Object.entries(certificatePages(said))) {
      const links = [...html.matchAll(/ (?:href|action)="([^"]*)"/g)].map(([, href]) => href!)
      for (const href of links.filter(
        (one) => !one.startsWith('data:image') && !one.startsWith(PORTAL),
      ))
        t.match(href, /^\/(?!\/)[\w%.*#/?=&;!'()~-]*$/, `${name}: ${href}`)
    }
})

t.test('what becomes of a certificate is said in words', async (t) => {
  const cases: [why: string, changes: Partial<CertificateView>, said: RegExp][] = [
    ['in service', {}, /In service\. It renews in 3 days/],
    ['due', { record: inService({ renewAt: NOW }) }, /In service, and being renewed/],
    ['ended', { record: inService({ notAfter: NOW }) }, /Expired this minute.*Clients refuse it/],
    ...(
      [
        [
          'late',
          { notAfter: NOW + 3_600_000, renewAt: NOW },
          /In service but late\. It expires in/,
        ],
        ['ended', { notAfter: NOW, renewAt: NOW }, /Expired this minute *\. Clients refuse it\./],
      ] as const
    ).flatMap(([why, times, said]) => {
      const record = inService(times)
      const all = (of: string) => new RegExp(`${said.source}.*${of} all of its names`)
      return [
        [`${why}, covered`, { record, coverage: 'caller' }, all('Newer certificates have')],
        [
          `${why}, covered by others`,
          { record, coverage: 'other' },
          all('Another caller has newer certificates for'),
        ],
      ] satisfies typeof cases
    }),
    [
      'ended, of a client',
      { record: inService({ notAfter: NOW, account: 'a', client: 'lego' }), lastSeen: NOW },
      /Expired this minute.*The client lego at \? was last seen this minute *\. Restart it there/,
    ],
    [
      'abandoned',
      { record: inService({ renewAt: null }) },
      /no longer renewed.*fetched for two of its lifetimes/,
    ],
    [
      'failing',
      { order: failedOrder('why') },
      /could not be renewed.*Last try failed this minute ?: why/,
    ],
    [
      'under way',
      { order: newOrder({ step: 'proving' }) },
      /An order is under way.*Its step is proving/,
    ],
    ['done', { order: newOrder({ status: 'done' }) }, /In service\. It renews/],
    [
      'revoked',
      {
        record: inService({
          ...{ isCurrent: false },
          revokedAt: NOW,
          revocationReason: 'keyCompromise',
        }),
      },
      /Revoked on 1 Jan 2030, 00:00.*private key.*keyCompromise/,
    ],
    [
      'key of the caller',
      { record: inService({ csr: Buffer.from('x') }) },
      /get app\.example\.com --csr.*p256, held by the caller/,
    ],
  ]
  for (const [why, changes, said] of cases)
    t.match(textOf(certificatePage(certificateView(changes))), said, why)
})

t.test('commands name what a shell and a server take', async (t) => {
  const cases: [names: string[], said: RegExp, unsaid?: RegExp][] = [
    [
      ['*.a.test', 'a.test'],
      /get &#39;\*\.a\.test&#39; a\.test|get '\*\.a\.test' a\.test/,
      /openssl s_client/,
    ],
    [['192.0.2.1'], /-connect (?:'|&#39;)192\.0\.2\.1:443/, /-servername/],
    [['2001:db8::1'], /-connect (?:'|&#39;)\[2001:db8::1\]:443/, /-servername/],
    [['a.test'], /-servername (?:'|&#39;)a\.test/],
  ]
  for (const [names, said, unsaid] of cases) {
    const { html } = certificatePage(certificateView({ record: inService({ names }) }))
    t.match(html, said, `${names}`)
    if (unsaid) t.notMatch(html, unsaid, `${names}`)
  }
})

t.test('a chain shows subjects, issuers and fingerprints up to the root', async (t) => {
  const root = await createRoot({ commonName: 'Test Root', now: NOW })
  const intermediate = await createIntermediate({ root, commonName: 'Test Issuing', now: NOW })
  const chain = [intermediate.certificate]
  const said = textOf(
    certificatePage(certificateView({ record: inService({ chain }), root: root.certificate })),
  )
  t.match(
    said,
    /Issuing CA.*Subject CN=Test Issuing Issuer CN=Test Root.*Root Subject CN=Test Root/,
  )
  t.match(said, intermediate.info.fingerprint256.toUpperCase().match(/../g)!.join(':'))
})

t.test('a chain shows which certificate leads to another root', async (t) => {
  const signer = await createRoot({ commonName: 'Old Root', now: NOW })
  const root = await createRoot({ commonName: 'New Root', now: NOW })
  const intermediate = await createIntermediate({ root, commonName: 'Test Issuing', now: NOW })
  const chain = [intermediate.certificate, createCross({ signer, root, now: NOW })]
  const record = inService({ chain })
  const said = textOf(certificatePage(certificateView({ record, root: root.certificate })))
  t.match(
    said,
    /Issuing CA Subject CN=Test Issuing Issuer CN=New Root.*Cross certificate Subject CN=New Root Issuer CN=Old Root.*Root Subject CN=New Root Issuer CN=New Root/,
  )
})

import t from 'tap'
import { paragraphsOf } from '../../../../packages/service-kit/src/events/text.ts'
import type { EventBody } from '../../src/events/event.ts'
import { textOf } from '../../src/events/text.ts'

const head = { id: 'id-1', at: '2030-01-01T00:00:00Z', names: ['app.example.com'], issuer: 'ca' }
const held = {
  ...head,
  serialNumber: 'ab01',
  notBefore: '2030-01-01T00:00:00Z',
  notAfter: '2030-01-08T00:00:00Z',
  renewAt: '2030-01-04T00:00:00Z',
}
const DETAILS = `Names: app.example.com
Issuer: ca
Serial number: ab01
Valid until: 8 January 2030 at 00:00 UTC`

const served = {
  ...head,
  type: 'not-served',
  state: 'older',
  host: 'app.example.com',
  address: '10.1.2.3',
  port: 443,
  protocol: 'tls',
  since: '2029-12-31T12:00:00Z',
  served: { fingerprint256: 'a'.repeat(64), issuer: 'CN=Test', notAfter: '2030-01-03T00:00:00Z' },
} as const
const PLACE = `Names: app.example.com
Issuer: ca
Place: 10.1.2.3:443, tls, for app.example.com
Since: 31 December 2029 at 12:00 UTC
It is valid until: 3 January 2030 at 00:00 UTC`
const RELOAD =
  'What to do: Fetch the certificate there if that is not done, then reload the server.'

/** The whole text of each kind of event. */
const CASES: readonly [event: EventBody, severity: string, text: readonly string[]][] = [
  [
    served,
    'warning',
    [
      'An older certificate is served for app.example.com',
      '10.1.2.3:443 does not serve the newest certificate. The server still serves one that was replaced.',
      RELOAD,
      PLACE,
    ],
  ],
  [
    {
      ...served,
      ...{ state: 'other', host: 'fd00::1', address: 'fd00::1', port: 25, protocol: 'smtp' },
      served: { fingerprint256: null, issuer: null },
    },
    'warning',
    [
      'Another certificate is served for app.example.com',
      '[fd00::1]:25 does not serve the newest certificate. It is one of an issuer that is not known.',
      RELOAD,
      `Names: app.example.com
Issuer: ca
Place: [fd00::1]:25, smtp
Since: 31 December 2029 at 12:00 UTC`,
    ],
  ],
  [
    { ...served, type: 'served-again', state: 'newest' },
    'info',
    [
      'The newest certificate is served for app.example.com',
      '10.1.2.3:443 serves the newest certificate again.',
      'What to do: Nothing.',
      PLACE,
    ],
  ],
  [
    { ...held, type: 'issued' },
    'info',
    [
      'New certificate for app.example.com',
      'A new certificate was issued.',
      'What to do: Nothing. cert-service renews it on 4 January 2030 at 00:00 UTC.',
      DETAILS,
    ],
  ],
  [
    { ...held, type: 'renewed' },
    'info',
    [
      'Renewed certificate for app.example.com',
      'The certificate was renewed.',
      'What to do: Nothing, if your servers fetch it automatically. If you copied it by hand, copy it again. cert-service renews it on 4 January 2030 at 00:00 UTC.',
      DETAILS,
    ],
  ],
  [
    { ...held, type: 'expiring', at: '2030-01-06T00:00:00Z' },
    'warning',
    [
      'The certificate for app.example.com expires soon',
      'The certificate is due for renewal, but it was not renewed. It expires on 8 January 2030 at 00:00 UTC.',
      'What to do: The inventory of cert-service shows the cause. Correct it, then renew the certificate there.',
      DETAILS,
    ],
  ],
  [
    {
      ...held,
      type: 'expiring',
      at: '2030-01-06T00:00:00Z',
      client: 'lego/4.17',
      address: '10.1.2.3',
    },
    'warning',
    [
      'The certificate for app.example.com expires soon',
      'The certificate is due for renewal, but it was not renewed. It expires on 8 January 2030 at 00:00 UTC.',
      'What to do: lego/4.17 at 10.1.2.3 renews it: restart it there. The page of the certificate says when it was last seen.',
      DETAILS,
    ],
  ],
  [
    { ...held, type: 'expiring', at: '2030-01-08T00:00:00Z', client: 'lego/4.17', isCovered: true },
    'warning',
    [
      'An older certificate for app.example.com is not renewed',
      'The certificate is late, and another caller has a newer one for the same names.',
      'What to do: Nothing if the names have moved to that caller. Otherwise: lego/4.17 renews it: restart it there. The page of the certificate says when it was last seen.',
      DETAILS,
    ],
  ],
  [
    { ...held, type: 'renewed', client: 'lego/4.17' },
    'info',
    [
      'Renewed certificate for app.example.com',
      'The certificate was renewed.',
      'What to do: Nothing. lego/4.17 renews it.',
      DETAILS,
    ],
  ],
  [
    { ...held, type: 'expiring', at: '2030-01-08T00:00:00Z' },
    'critical',
    [
      'The certificate for app.example.com has expired',
      'The certificate was not renewed and has expired. Clients refuse it.',
      'What to do: The inventory of cert-service shows the cause. Correct it, then renew the certificate there.',
      DETAILS,
    ],
  ],
  [
    {
      ...head,
      type: 'failing',
      names: ['app.example.com', '*.example.com'],
      failures: 3,
      error: { code: 'ACME_CAA', detail: 'CAA forbids\r\n  it' },
      nextTryAt: '2030-01-01T00:10:00Z',
    },
    'warning',
    [
      'No certificate for app.example.com and 1 more name',
      'The certificate could not be issued. 3 attempts in a row have failed. If there is an older one, it is served until it expires.',
      'What to do: Add this CA to the CAA records of the domain, or remove the records.',
      'Names: app.example.com, *.example.com\nIssuer: ca\nCause: ACME_CAA: CAA forbids it\nNext attempt: 1 January 2030 at 00:10 UTC',
    ],
  ],
  [
    { ...head, type: 'failing', failures: 1 },
    'warning',
    [
      'No certificate for app.example.com',
      'The certificate could not be issued. If there is an older one, it is served until it expires.',
      'What to do: The log of cert-service has the cause.',
      'Names: app.example.com\nIssuer: ca',
    ],
  ],
]

t.test('each kind of event says what happened, to which certificate, and what to do', async (t) => {
  for (const [event, severity, [title = '', ...paragraphs]] of CASES) {
    const text = textOf(event)
    t.equal(text.title, title)
    t.equal(text.severity, severity, title)
    t.strictSame(paragraphsOf(text), paragraphs)
  }
})

t.test('a certificate that is not renewed says so', async (t) => {
  const { renewAt: _, ...rest } = held
  const { action } = textOf({ ...rest, type: 'issued' })
  t.equal(action, 'It is not renewed automatically: request a new one before it expires.')
})

t.test('many names and a long cause are cut, unless there is room', async (t) => {
  const names = Array.from({ length: 100 }, (_, n) => `${n}.example.com`)
  const error = { code: 'ACME_DNS', detail: 'x'.repeat(5_000) }
  const event = { ...head, type: 'failing', names, failures: 1, error } as const
  const brief = Object.fromEntries(textOf(event).details)
  t.match(brief.Names, /^0\.example\.com, .*, 4\.example\.com and 95 more names$/)
  t.equal(brief.Cause?.length, 'ACME_DNS: '.length + 350)
  const whole = Object.fromEntries(textOf(event, 'whole').details)
  t.match(whole.Names, /99\.example\.com$/)
  t.equal(whole.Cause?.length, 'ACME_DNS: '.length + 5_000)
})

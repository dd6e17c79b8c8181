import t, { type Test } from 'tap'
import { signAws } from '../../../src/dns/providers/route53.ts'
import { createDnsProvider } from '../../../src/index.ts'
import { NAME, NOW, type Received, type Reply, recordAt, signal, standIn } from './stand-in.ts'

const CREDENTIALS = {
  accessKeyId: 'AKIDEXAMPLE',
  secretAccessKey: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY',
}

// The published test suite of Signature Version 4.
const VECTORS: [
  title: string,
  method: 'GET' | 'POST',
  url: string,
  headers: Record<string, string>,
  body: string,
  signed: string,
  signature: string,
][] = [
  [
    'get-vanilla',
    'GET',
    'https://example.amazonaws.com/',
    {},
    '',
    'host;x-amz-date',
    '5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31',
  ],
  [
    'get-vanilla-query-order-key-case',
    'GET',
    'https://example.amazonaws.com/?Param2=value2&Param1=value1',
    {},
    '',
    'host;x-amz-date',
    'b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500',
  ],
  [
    'post-vanilla',
    'POST',
    'https://example.amazonaws.com/',
    {},
    '',
    'host;x-amz-date',
    '5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b',
  ],
  [
    'post-x-www-form-urlencoded',
    'POST',
    'https://example.amazonaws.com/',
    { 'content-type': 'application/x-www-form-urlencoded' },
    'Param1=value1',
    'content-type;host;x-amz-date',
    'ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a',
  ],
]

for (const [title, method, url, headers, body, signed, signature] of VECTORS)
  t.test(`Signature Version 4: ${title}`, async (t) => {
    const request = { method, url: new URL(url), headers, body, service: 'service' }
    const now = Date.UTC(2015, 7, 30, 12, 36, 0)
    const sent = await signAws(request, { ...CREDENTIALS, region: 'us-east-1' }, now)
    t.equal(sent['x-amz-date'], '20150830T123600Z')
    t.equal(
      sent.authorization,
      `AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=${signed}, Signature=${signature}`,
    )
  })

const XMLNS = 'xmlns="https://route53.amazonaws.com/doc/2013-04-01/"'
const PATH = '/2013-04-01/hostedzone/Z1PUBLIC'

/** One record set, in the public one of two zones with the same name. */
async function route53(
  t: Test,
  first: readonly string[] = [],
  more: { conflicts?: number; refuse?: Reply } = {},
) {
  let values = [...first]
  let polls = 0
  let conflicts = more.conflicts ?? 0
  const xml = (body: string): Reply => ({ body: `<?xml version="1.0"?>\n${body}` })
  const zone = (id: string, name: string, isPrivate: boolean) =>
    `<HostedZone><Id>/hostedzone/${id}</Id><Name>${name}</Name><Config><PrivateZone>${isPrivate}</PrivateZone></Config></HostedZone>`
  const recordSet = (name: string, type: string, contents: readonly string[]) =>
    `<ResourceRecordSet><Name>${name}</Name><Type>${type}</Type><TTL>300</TTL><ResourceRecords>${contents.map((value) => `<ResourceRecord><Value>${value.replaceAll('"', '&quot;')}</Value></ResourceRecord>`).join('')}</ResourceRecords></ResourceRecordSet>`

  const api = await standIn(t, ({ method, url, body }: Received): Reply => {
    if (more.refuse) return more.refuse
    if (url.pathname === '/2013-04-01/hostedzonesbyname') {
      const isOurs = url.searchParams.get('dnsname') === 'example.test'
      const zones = isOurs
        ? [zone('Z0PRIVATE', 'example.test.', true), zone('Z1PUBLIC', 'example.test.', false)]
        : []
      // The list goes on with names that come later.
      return xml(
        `<ListHostedZonesByNameResponse ${XMLNS}><HostedZones>${zones.join('')}${zone('Z9', 'zzz.test.', false)}</HostedZones></ListHostedZonesByNameResponse>`,
      )
    }
    if (url.pathname.startsWith('/2013-04-01/change/'))
      return xml(
        `<GetChangeResponse ${XMLNS}><ChangeInfo><Id>/change/C1</Id><Status>${++polls < 3 ? 'PENDING' : 'INSYNC'}</Status></ChangeInfo></GetChangeResponse>`,
      )
    if (method === 'GET') {
      const sets = [
        ...(values.length > 0 ? [recordSet(`${NAME}.`, 'TXT', values)] : []),
        recordSet('zzz.example.test.', 'A', ['192.0.2.1']),
      ]
      return xml(
        `<ListResourceRecordSetsResponse ${XMLNS}><ResourceRecordSets>${sets[0]}</ResourceRecordSets></ListResourceRecordSetsResponse>`,
      )
    }
    if (conflicts-- > 0)
      return {
        status: 400,
        body: `<ErrorResponse ${XMLNS}><Error><Type>Sender</Type><Code>InvalidChangeBatch</Code><Message>it exists already</Message></Error></ErrorResponse>`,
      }
    const [, created = ''] = body.split('<Action>CREATE</Action>')
    values = [...created.matchAll(/<Value>(.*?)<\/Value>/g)].map(([, value = '']) => value)
    return xml(
      `<ChangeResourceRecordSetsResponse ${XMLNS}><ChangeInfo><Id>/change/C1</Id><Status>PENDING</Status></ChangeInfo></ChangeResourceRecordSetsResponse>`,
    )
  })
  const config = {
    type: 'route53',
    ...CREDENTIALS,
    region: 'us-east-1',
    endpoint: api.url,
  } as const
  return {
    ...api,
    provider: createDnsProvider(config, api.deps),
    values: () => values,
    polls: () => polls,
    config,
  }
}

t.test(
  'adds a value beside others once, waits until it is in sync, and removes only it',
  async (t) => {
    const { provider, values, polls, requests } = await route53(t, ['"of-another"'])
    await provider.present(recordAt(NAME), signal)
    t.strictSame(values(), ['"of-another"', '"our-value"'])
    t.equal(polls(), 3, 'until INSYNC')
    await provider.present(recordAt(NAME), signal)
    t.equal(requests.filter(({ method }) => method === 'POST').length, 1)
    await provider.cleanUp(recordAt(NAME), signal)
    t.strictSame(values(), ['"of-another"'])
    t.equal(polls(), 3, 'clean-up does not wait')
  },
)

t.test('deletes the record set with its last value', async (t) => {
  const { provider, values, requests } = await route53(t, ['"our-value"'])
  await provider.cleanUp(recordAt(NAME), signal)
  t.strictSame(values(), [])
  t.notMatch(requests.at(-1)?.body, 'CREATE')
})

t.test('the change is byte by byte as documented, and signed', async (t) => {
  const { provider, requests, url, config } = await route53(t, ['"a & b"'])
  await provider.present(recordAt(NAME), signal)
  const { body, headers, url: asked } = requests.find(({ method }) => method === 'POST') as Received
  const set = (values: string) =>
    `<ResourceRecordSet><Name>${NAME}.</Name><Type>TXT</Type><TTL>300</TTL><ResourceRecords>${values}</ResourceRecords></ResourceRecordSet>`
  const other = '<ResourceRecord><Value>"a &#38; b"</Value></ResourceRecord>'
  const own = '<ResourceRecord><Value>"our-value"</Value></ResourceRecord>'
  t.equal(
    body,
    `<?xml version="1.0" encoding="UTF-8"?>\n<ChangeResourceRecordSetsRequest ${XMLNS}><ChangeBatch><Changes><Change><Action>DELETE</Action>${set(other)}</Change><Change><Action>CREATE</Action>${set(other + own)}</Change></Changes></ChangeBatch></ChangeResourceRecordSetsRequest>`,
  )
  t.equal(asked.pathname, `${PATH}/rrset/`)
  const request = {
    method: 'POST',
    url: new URL(asked.pathname, url),
    headers: { 'content-type': 'text/xml' },
    body,
    service: 'route53',
  } as const
  const expected = await signAws(request, { ...config, region: 'us-east-1' }, NOW)
  t.equal(headers.authorization, expected.authorization)
  t.equal(headers['x-amz-date'], '20300101T000000Z')
})

t.test('does not look up a configured zone, and signs the session token', async (t) => {
  const { deps, config, requests } = await route53(t)
  const provider = createDnsProvider(
    { ...config, hostedZoneId: 'Z1PUBLIC', sessionToken: 'canary' },
    deps,
  )
  await provider.present(recordAt(NAME), signal)
  t.equal(requests[0]?.url.pathname, `${PATH}/rrset`)
  t.equal(requests[0]?.headers['x-amz-security-token'], 'canary')
  t.match(requests[0]?.headers.authorization, 'SignedHeaders=host;x-amz-date;x-amz-security-token')
})

t.test('reads and tries again a limited number of times if another was faster', async (t) => {
  const won = await route53(t, ['"of-another"'], { conflicts: 2 })
  await won.provider.present(recordAt(NAME), signal)
  t.strictSame(won.values(), ['"of-another"', '"our-value"'])
  const lost = await route53(t, [], { conflicts: 99 })
  await t.rejects(lost.provider.present(recordAt(NAME), signal), {
    code: 'ACME_DNS_PROVIDER',
    message: /InvalidChangeBatch it exists already/,
  })
  t.equal(lost.requests.filter(({ method }) => method === 'POST').length, 5)
})

const REFUSALS: [
  title: string,
  refuse: Reply,
  expected: { code: string; message?: string | RegExp },
][] = [
  [
    'credentials',
    {
      status: 403,
      body: '<ErrorResponse><Error><Code>InvalidClientTokenId</Code><Message>no</Message></Error></ErrorResponse>',
    },
    { code: 'ACME_DNS_CREDENTIALS', message: 'Route 53 answered 403: InvalidClientTokenId no' },
  ],
  ['a page', { status: 500, body: '<html>' }, { code: 'ACME_DNS_PROVIDER' }],
  ['another document', { body: '<Other/>' }, { code: 'ACME_DNS_PROVIDER', message: /documented/ }],
  ['no XML', { body: '{"a":1}' }, { code: 'ACME_DNS_PROVIDER', message: /documented/ }],
]

for (const [title, refuse, expected] of REFUSALS)
  t.test(`refused: ${title}`, async (t) => {
    const { provider } = await route53(t, [], { refuse })
    await t.rejects(provider.present(recordAt(NAME), signal), expected)
  })

t.test('no zone for the name', async (t) => {
  const { provider } = await route53(t)
  await t.rejects(provider.present(recordAt('_acme-challenge.zz.test'), signal), {
    code: 'ACME_DNS_NO_ZONE',
  })
})

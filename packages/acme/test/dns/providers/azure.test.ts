import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { createDnsProvider, type DnsProviderConfig } from '../../../src/index.ts'
import { NAME, type Received, type Reply, recordAt, signal, standIn } from './stand-in.ts'

const ZONES = '/subscriptions/sub/resourceGroups/group/providers/Microsoft.Network/dnsZones'
const TXT = `${ZONES}/example.test/TXT/_acme-challenge.app`
const VERSION = '?api-version=2018-05-01'

interface World {
  readonly values?: string[][]
  /** How many writes another is faster than. */
  readonly conflicts?: number
  readonly refuse?: (request: Received) => Reply | undefined
}

/** One zone, which alone the role is for; tokens come from the same address. */
async function azure(t: Test, { values = [], conflicts = 0, refuse }: World = {}) {
  let records = values.map((value) => ({ value }))
  let etag = 1
  let races = conflicts
  const api = await standIn(t, (request): Reply => {
    const { method, url, headers, body } = request
    const refusal = refuse?.(request)
    if (refusal) return refusal
    if (url.pathname.endsWith('/token'))
      return {
        body: {
          token_type: 'Bearer',
          expires_in: url.pathname.startsWith('/metadata') ? '3599' : 3599,
          access_token: 'canary-token',
        },
      }
    if (headers.authorization !== 'Bearer canary-token') return { status: 401 }
    t.equal(url.search, VERSION)
    if (url.pathname === `${ZONES}/example.test`) return { body: { name: 'example.test' } }
    if (url.pathname !== TXT)
      return { status: 403, body: { error: { code: 'AuthorizationFailed', message: 'no' } } }
    if (method === 'GET')
      return records.length === 0
        ? { status: 404 }
        : {
            body: {
              etag: `e${etag}`,
              properties: { TTL: 300, metadata: { owner: 'ops' }, TXTRecords: records },
            },
          }
    if (races-- > 0) etag++
    const isNew = records.length === 0
    if (isNew ? headers['if-none-match'] !== '*' : headers['if-match'] !== `e${etag}`)
      return { status: 412 }
    records = method === 'DELETE' ? [] : JSON.parse(body).properties.TXTRecords
    etag++
    return { status: isNew ? 201 : 200, body: {} }
  })
  const config = (own: object) =>
    ({
      type: 'azure',
      subscriptionId: 'sub',
      resourceGroup: 'group',
      endpoint: api.url,
      authority: api.url,
      metadataEndpoint: api.url,
      ...own,
    }) as DnsProviderConfig
  const make = (own: object) => createDnsProvider(config(own), api.deps)
  const secret = { tenantId: 'tenant', clientId: 'client', clientSecret: 'canary-secret' }
  return { ...api, make, provider: make(secret), records: () => records }
}

t.test('adds a value beside others once, and removes only it', async (t) => {
  const { provider, records, requests } = await azure(t, { values: [['of', 'another']] })
  await provider.present(recordAt(NAME), signal)
  await provider.present(recordAt(NAME), signal)
  t.strictSame(records(), [{ value: ['of', 'another'] }, { value: ['our-value'] }])
  const puts = requests.filter(({ method }) => method === 'PUT')
  t.match(puts, [
    {
      body: '{"properties":{"TTL":300,"metadata":{"owner":"ops"},"TXTRecords":[{"value":["of","another"]},{"value":["our-value"]}]}}',
    },
  ])
  t.equal(puts.length, 1)
  await provider.cleanUp(recordAt(NAME), signal)
  t.strictSame(records(), [{ value: ['of', 'another'] }])
})

t.test('creates the record set with the first value, and deletes it with the last', async (t) => {
  const { provider, records, requests } = await azure(t)
  await provider.present(recordAt(NAME), signal)
  t.strictSame(records(), [{ value: ['our-value'] }])
  await provider.cleanUp(recordAt(NAME), signal)
  t.strictSame(records(), [])
  t.match(requests.at(-1), { method: 'DELETE', headers: { 'if-match': 'e2' } })
  t.equal(
    requests.filter(({ url }) => url.pathname.endsWith('/token')).length,
    1,
    'one token for all',
  )
})

t.test('reads and tries again a limited number of times if another was faster', async (t) => {
  const won = await azure(t, { values: [['x']], conflicts: 2 })
  await won.provider.present(recordAt(NAME), signal)
  t.equal(won.records().length, 2)
  const lost = await azure(t, { values: [['x']], conflicts: 99 })
  await t.rejects(lost.provider.present(recordAt(NAME), signal), {
    code: 'ACME_DNS_PROVIDER',
    message: /by another/,
  })
})

t.test('a client secret is sent to the tenant', async (t) => {
  const { provider, requests, url } = await azure(t)
  await provider.present(recordAt(NAME), signal)
  t.match(requests[0], { method: 'POST', url: { pathname: '/tenant/oauth2/v2.0/token' } })
  t.strictSame(Object.fromEntries(new URLSearchParams(requests[0]?.body)), {
    grant_type: 'client_credentials',
    client_id: 'client',
    scope: `${url}/.default`,
    client_secret: 'canary-secret',
  })
})

t.test('sends the token file of a workload identity', async (t) => {
  const tokenPath = join(t.testdir({}), 'token')
  const { make, requests } = await azure(t)
  const provider = make({ tenantId: 'tenant', clientId: 'client', tokenPath })
  await t.rejects(provider.present(recordAt(NAME), signal), {
    code: 'ACME_DNS_CREDENTIALS',
    message: /cannot be read/,
  })
  writeFileSync(tokenPath, 'assertion\n')
  await provider.present(recordAt(NAME), signal)
  t.match(Object.fromEntries(new URLSearchParams(requests[0]?.body)), {
    client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
    client_assertion: 'assertion',
  })
})

t.test('a managed identity gets its token from the machine', async (t) => {
  const { make, requests, url } = await azure(t)
  await make({ clientId: 'client' }).present(recordAt(NAME), signal)
  t.match(requests[0], {
    method: 'GET',
    headers: { metadata: 'true' },
    url: { pathname: '/metadata/identity/oauth2/token' },
  })
  t.strictSame(Object.fromEntries(requests[0]?.url.searchParams ?? []), {
    'api-version': '2018-02-01',
    resource: `${url}/`,
    client_id: 'client',
  })
})

const REFUSALS: [
  title: string,
  path: RegExp,
  reply: Reply,
  name: string,
  expected: { code: string; message?: string | RegExp },
][] = [
  ['no zone for the name', /never/, {}, '_acme-challenge.other.test', { code: 'ACME_DNS_NO_ZONE' }],
  [
    'credentials, without what was said of them',
    /oauth2/,
    { status: 401, body: { error: 'invalid_client', error_description: 'canary-secret is wrong' } },
    NAME,
    { code: 'ACME_DNS_CREDENTIALS', message: 'Microsoft Entra ID answered 401: invalid_client' },
  ],
  [
    'a reason',
    /TXT/,
    { status: 409, body: { error: { code: 'Conflict', message: 'a CNAME is there' } } },
    NAME,
    { code: 'ACME_DNS_PROVIDER', message: 'Azure DNS answered 409: Conflict a CNAME is there' },
  ],
  [
    'a token without an end',
    /oauth2/,
    { body: { access_token: 'x' } },
    NAME,
    { code: 'ACME_DNS_PROVIDER', message: /documented/ },
  ],
]

for (const [title, path, reply, name, expected] of REFUSALS)
  t.test(`refused: ${title}`, async (t) => {
    const { provider } = await azure(t, {
      refuse: ({ url }) => (path.test(url.pathname) ? reply : undefined),
    })
    await t.rejects(provider.present(recordAt(name), signal), expected)
  })

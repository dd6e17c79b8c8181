import { generateKeyPairSync, verify } from 'node:crypto'
import t, { type Test } from 'tap'
import { createDnsProvider, type DnsProviderConfig } from '../../../src/index.ts'
import { NAME, NOW, type Received, type Reply, recordAt, signal, standIn } from './stand-in.ts'

const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
const PEM = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
const PROJECT = '/dns/v1/projects/acme-1'
const SET = { name: `${NAME}.`, type: 'TXT', ttl: 300 }

interface World {
  readonly values?: string[]
  readonly conflicts?: number
  readonly refuse?: (request: Received) => Reply | undefined
}

/** A public and a private zone with one name; a change fails unless it deletes just what is there. */
async function google(t: Test, { values = [], conflicts = 0, refuse }: World = {}) {
  let rrdatas = values
  let polls = 0
  let races = conflicts
  const api = await standIn(t, (request): Reply => {
    const { method, url, headers, body } = request
    const refusal = refuse?.(request)
    if (refusal) return refusal
    if (url.pathname.endsWith('/token'))
      return { body: { access_token: 'canary-token', expires_in: 3599 } }
    if (headers.authorization !== 'Bearer canary-token') return { status: 401 }
    if (url.pathname === `${PROJECT}/managedZones`) {
      const zones = ['private', 'public'].map((visibility) => ({
        name: `zone-${visibility}`,
        dnsName: 'example.test.',
        visibility,
      }))
      return {
        body: url.searchParams.get('dnsName') === 'example.test.' ? { managedZones: zones } : {},
      }
    }
    if (url.pathname === `${PROJECT}/managedZones/zone-public/rrsets`) {
      t.equal(url.searchParams.get('name'), `${NAME}.`)
      const others = [
        { ...SET, name: 'other.test.', rrdatas: ['"of-another-name"'] },
        { ...SET, type: 'A', rrdatas: ['192.0.2.1'] },
      ]
      const rrsets = [...others, ...(rrdatas.length === 0 ? [] : [{ ...SET, rrdatas }])]
      return { body: { rrsets } }
    }
    if (method === 'GET') return { body: { id: '7', status: ++polls < 2 ? 'pending' : 'done' } }
    if (races-- > 0) return { status: 412, body: { error: { message: 'Precondition not met' } } }
    const { additions, deletions } = JSON.parse(body)
    t.strictSame(deletions, rrdatas.length === 0 ? [] : [{ ...SET, rrdatas }])
    rrdatas = additions[0]?.rrdatas ?? []
    return { body: { id: '7', status: 'pending' } }
  })
  const serviceAccount = (changes: object = {}) =>
    JSON.stringify({
      client_email: 'robot@acme-1.test',
      private_key: PEM,
      private_key_id: 'kid',
      token_uri: `${api.url}/token`,
      ...changes,
    })
  const make = (own: object) =>
    createDnsProvider(
      {
        type: 'google',
        project: 'acme-1',
        endpoint: api.url,
        metadataEndpoint: api.url,
        ...own,
      } as DnsProviderConfig,
      api.deps,
    )
  return {
    ...api,
    make,
    serviceAccount,
    provider: make({ serviceAccount: serviceAccount() }),
    values: () => rrdatas,
    polls: () => polls,
  }
}

t.test('adds a value beside others once, waits for the change, and removes only it', async (t) => {
  const { provider, values, polls, requests } = await google(t, { values: ['"of-another"'] })
  await provider.present(recordAt(NAME), signal)
  t.strictSame(values(), ['"of-another"', '"our-value"'])
  t.equal(polls(), 2, 'until done')
  const before = requests.length
  await provider.present(recordAt(NAME), signal)
  t.notOk(requests.slice(before).some(({ method }) => method === 'POST'))
  await provider.cleanUp(recordAt(NAME), signal)
  t.strictSame(values(), ['"of-another"'])
  t.equal(requests.filter(({ url }) => url.pathname === '/token').length, 1, 'one token for all')
})

t.test('waits a limited time for a change, and can undo it', async (t) => {
  const { provider, values, requests } = await google(t, {
    refuse: ({ url }) =>
      url.pathname.endsWith('/changes/7') ? { body: { id: '7', status: 'pending' } } : undefined,
  })
  await t.rejects(provider.present(recordAt(NAME), signal), { code: 'ACME_DNS_PROPAGATION' })
  t.equal(requests.filter(({ url }) => url.pathname.endsWith('/changes/7')).length, 60)
  t.strictSame(values(), ['"our-value"'])
  await provider.cleanUp(recordAt(NAME), signal)
  t.strictSame(values(), [])
})

t.test('creates the record set with the first value, and deletes it with the last', async (t) => {
  const { provider, values, requests } = await google(t)
  await provider.present(recordAt(NAME), signal)
  t.equal(
    requests.find(({ url }) => url.pathname.endsWith('/changes'))?.body,
    `{"deletions":[],"additions":[{"name":"${NAME}.","type":"TXT","ttl":60,"rrdatas":["\\"our-value\\""]}]}`,
  )
  const alone = await google(t, { values: ['"our-value"'] })
  await alone.provider.cleanUp(recordAt(NAME), signal)
  t.strictSame(alone.values(), [])
  t.strictSame(values(), ['"our-value"'])
})

t.test('reads and tries again a limited number of times if another was faster', async (t) => {
  const won = await google(t, { conflicts: 2 })
  await won.provider.present(recordAt(NAME), signal)
  t.strictSame(won.values(), ['"our-value"'])
  const lost = await google(t, { conflicts: 99 })
  await t.rejects(lost.provider.present(recordAt(NAME), signal), { code: 'ACME_DNS_PROVIDER' })
})

t.test('a service account signs for its token', async (t) => {
  const { provider, requests, url } = await google(t)
  await provider.present(recordAt(NAME), signal)
  const form = new URLSearchParams(requests[0]?.body)
  t.equal(form.get('grant_type'), 'urn:ietf:params:oauth:grant-type:jwt-bearer')
  const [header = '', claims = '', signature = ''] = (form.get('assertion') ?? '').split('.')
  const decode = (part: string) => JSON.parse(Buffer.from(part, 'base64url').toString())
  t.strictSame(decode(header), { alg: 'RS256', typ: 'JWT', kid: 'kid' })
  t.strictSame(decode(claims), {
    iss: 'robot@acme-1.test',
    scope: 'https://www.googleapis.com/auth/ndev.clouddns.readwrite',
    aud: `${url}/token`,
    iat: NOW / 1_000,
    exp: NOW / 1_000 + 3_600,
  })
  t.ok(
    verify(
      'sha256',
      Buffer.from(`${header}.${claims}`),
      publicKey,
      Buffer.from(signature, 'base64url'),
    ),
  )
})

t.test('a machine gets its token from the metadata service', async (t) => {
  const { make, requests } = await google(t)
  await make({}).present(recordAt(NAME), signal)
  t.match(requests[0], {
    method: 'GET',
    headers: { 'metadata-flavor': 'Google' },
    url: { pathname: '/computeMetadata/v1/instance/service-accounts/default/token' },
  })
})

t.test('refuses an invalid key without quoting it', async (t) => {
  const { make, serviceAccount } = await google(t)
  for (const [given, expected] of [
    ['canary', { code: 'ACME_DNS_PROVIDER', message: /documented/ }],
    [
      serviceAccount({ private_key: 'canary' }),
      { code: 'ACME_DNS_CREDENTIALS', message: /cannot be read/ },
    ],
  ] as const) {
    const error = await make({ serviceAccount: given })
      .present(recordAt(NAME), signal)
      .catch((error) => error)
    t.match(error, expected)
    t.notMatch(String(error), 'canary')
  }
})

t.test('reports errors', async (t) => {
  const { provider } = await google(t, {
    refuse: ({ url }) =>
      url.pathname.includes('rrsets')
        ? { status: 403, body: { error: { message: 'API is off' } } }
        : undefined,
  })
  await t.rejects(provider.present(recordAt(NAME), signal), {
    code: 'ACME_DNS_CREDENTIALS',
    message: 'Google Cloud DNS answered 403: API is off',
  })
  const other = recordAt('_acme-challenge.other.test')
  await t.rejects((await google(t)).provider.present(other, signal), { code: 'ACME_DNS_NO_ZONE' })
})

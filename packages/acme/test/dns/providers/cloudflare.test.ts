import t, { type Test } from 'tap'
import { createDnsProvider } from '../../../src/index.ts'
import { NAME, type Received, type Reply, recordAt, signal, standIn } from './stand-in.ts'

const TOKEN = 'canary-token-0123456789'

/** Zones `example.test` and `deep.example.test`, and what is in them. */
async function cloudflare(t: Test, refuse?: (request: Received) => Reply | undefined) {
  const zones = new Map([
    ['z1', 'example.test'],
    ['z2', 'deep.example.test'],
  ])
  let records: { id: string; zone: string; name: string; content: string; ttl: number }[] = []
  const ok = (result: unknown): Reply => ({
    body: { success: true, errors: [], messages: [], result },
  })
  const api = await standIn(t, (request) => {
    const { method, url, headers, body } = request
    const refusal = refuse?.(request)
    if (refusal) return refusal
    if (headers.authorization !== `Bearer ${TOKEN}`)
      return {
        status: 403,
        body: {
          success: false,
          errors: [{ code: 9109, message: `Invalid access token ${headers.authorization}` }],
        },
      }
    if (url.pathname === '/client/v4/zones')
      return ok(
        [...zones]
          .filter(([, name]) => name === url.searchParams.get('name'))
          .map(([id, name]) => ({ id, name })),
      )
    const [, zone = '', id] =
      /^\/client\/v4\/zones\/(z\d)\/dns_records(?:\/(r\d+))?$/.exec(url.pathname) ?? []
    if (method === 'GET') {
      const query = url.searchParams
      t.equal(query.get('type'), 'TXT')
      return ok(
        records.filter((record) => record.zone === zone && record.name === query.get('name')),
      )
    }
    if (method === 'DELETE') {
      records = records.filter((record) => record.id !== id)
      return ok({ id })
    }
    const record = JSON.parse(body)
    records.push({ id: `r${records.length}`, zone, ...record })
    return ok(record)
  })
  const config = { type: 'cloudflare', apiToken: TOKEN, endpoint: `${api.url}/client/v4` } as const
  return { ...api, provider: createDnsProvider(config, api.deps), records: () => records, config }
}

t.test('checks zone and token without a change', async (t) => {
  const { provider, records } = await cloudflare(t)
  await provider.check?.(NAME, signal)
  t.strictSame(records(), [])
  await t.rejects(async () => provider.check?.('_acme-challenge.other.test', signal), {
    code: 'ACME_DNS_NO_ZONE',
  })
  const locked = await cloudflare(t, () => ({ status: 403, body: { errors: [] } }))
  await t.rejects(async () => locked.provider.check?.(NAME, signal), {
    code: 'ACME_DNS_CREDENTIALS',
  })
})

t.test('adds a value beside others once, and removes only it', async (t) => {
  const { provider, records } = await cloudflare(t)
  await provider.present(recordAt(NAME, 'of-another'), signal)
  await provider.present(recordAt(NAME), signal)
  await provider.present(recordAt(NAME), signal)
  t.match(records(), [
    { content: '"of-another"' },
    { zone: 'z1', name: NAME, content: '"our-value"', ttl: 60, type: 'TXT' },
  ])
  t.equal(records().length, 2)
  await provider.cleanUp(recordAt(NAME), signal)
  await provider.cleanUp(recordAt(NAME), signal)
  t.match(records(), [{ content: '"of-another"' }])
  t.equal(records().length, 1)
})

t.test('recognizes a value without quotes', async (t) => {
  const { provider, records } = await cloudflare(t)
  records().push({ id: 'r9', zone: 'z1', name: NAME, content: 'our-value', ttl: 1 })
  await provider.present(recordAt(NAME), signal)
  t.equal(records().length, 1)
})

t.test('takes the zone with the longest name', async (t) => {
  const { provider, records } = await cloudflare(t)
  await provider.present(recordAt('_acme-challenge.a.deep.example.test'), signal)
  t.match(records(), [{ zone: 'z2' }])
})

t.test('reports errors without the token', async (t) => {
  const { provider, config, deps } = await cloudflare(t)
  await t.rejects(provider.present(recordAt('_acme-challenge.other.test'), signal), {
    code: 'ACME_DNS_NO_ZONE',
  })
  const stranger = createDnsProvider({ ...config, apiToken: 'canary-of-another' }, deps)
  const error = await stranger.present(recordAt(NAME), signal).catch((error) => error)
  t.match(error, { code: 'ACME_DNS_CREDENTIALS', message: /answered 403$/ })
})

const REFUSALS: [
  title: string,
  reply: Reply,
  expected: { code: string; message?: string | RegExp },
][] = [
  [
    'a reason',
    {
      status: 400,
      body: { success: false, errors: [{ code: 81058, message: 'A\nreason\u0007' }] },
    },
    { code: 'ACME_DNS_PROVIDER', message: 'Cloudflare answered 400: 81058 A reason ' },
  ],
  [
    'a page',
    { status: 502, body: '<html>' },
    { code: 'ACME_DNS_PROVIDER', message: 'Cloudflare answered 502' },
  ],
  ['a redirect', { status: 302, headers: { location: '/' } }, { code: 'ACME_DNS_PROVIDER' }],
  [
    'success without the documented form',
    { body: { result: 'none' } },
    { code: 'ACME_DNS_PROVIDER', message: /documented/ },
  ],
  [
    'an identifier that leads out of the path',
    { body: { success: true, result: [{ id: '..', content: 'x' }] } },
    { code: 'ACME_DNS_PROVIDER', message: /documented/ },
  ],
  [
    'our token where the reason is cut',
    { status: 400, body: { errors: [{ code: 1, message: `${'x'.repeat(185)} ${TOKEN}` }] } },
    { code: 'ACME_DNS_PROVIDER', message: /answered 400$/ },
  ],
  ['no JSON', { body: 'ok' }, { code: 'ACME_DNS_PROVIDER', message: /documented/ }],
  [
    'too much',
    { body: 'x'.repeat(2_000_000) },
    { code: 'ACME_DNS_PROVIDER', message: /cannot be asked/ },
  ],
]

for (const [title, reply, expected] of REFUSALS)
  t.test(`refused with ${title}`, async (t) => {
    const { provider } = await cloudflare(t, () => reply)
    await t.rejects(provider.present(recordAt(NAME), signal), expected)
  })

t.test('an abort ends the request', async (t) => {
  const controller = new AbortController()
  const { provider } = await cloudflare(t, () => {
    controller.abort(new Error('enough'))
    return undefined
  })
  await t.rejects(provider.present(recordAt(NAME), controller.signal), { message: 'enough' })
})

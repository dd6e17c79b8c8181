import t from 'tap'
import { createDnsProvider } from '../../../src/index.ts'
import { NAME, recordAt, signal, standIn } from './stand-in.ts'

const BODIES: [title: string, mode: 'default' | 'raw', body: string][] = [
  ['the record', 'default', `{"fqdn":"${NAME}.","value":"our-value"}`],
  [
    'the challenge',
    'raw',
    '{"domain":"app.example.test","token":"the-token","keyAuth":"the-token.thumbprint"}',
  ],
]

for (const [title, mode, body] of BODIES)
  t.test(`httpreq sends ${title}`, async (t) => {
    const { url, deps, requests } = await standIn(t, () => ({ status: 204 }))
    const endpoint = `${url}/bridge/`
    const provider = createDnsProvider(
      { type: 'httpreq', endpoint, mode, username: 'me', password: 'canary' },
      deps,
    )
    await provider.present(recordAt(NAME), signal)
    await provider.cleanUp(recordAt(NAME), signal)
    t.match(requests, [
      { method: 'POST', url: { pathname: '/bridge/present' }, body },
      { method: 'POST', url: { pathname: '/bridge/cleanup' }, body },
    ])
    t.equal(
      requests[0]?.headers.authorization,
      `Basic ${Buffer.from('me:canary').toString('base64')}`,
    )
  })

t.test('httpreq sends no password without one, and reports a refusal', async (t) => {
  const { url, deps, requests } = await standIn(t, () => ({ status: 500, body: 'secret inside' }))
  const provider = createDnsProvider({ type: 'httpreq', endpoint: url, mode: 'default' }, deps)
  await t.rejects(provider.present(recordAt(NAME), signal), {
    code: 'ACME_DNS_PROVIDER',
    message: 'the DNS bridge answered 500',
  })
  t.equal(requests[0]?.headers.authorization, undefined)
})

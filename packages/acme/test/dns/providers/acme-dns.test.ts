import t from 'tap'
import { createDnsProvider, type DnsProviderConfig } from '../../../src/index.ts'
import { NAME, recordAt, signal, standIn } from './stand-in.ts'

t.test('acme-dns updates the account that the CNAME leads to', async (t) => {
  const { url, deps, requests } = await standIn(t, () => ({ body: { txt: 'our-value' } }))
  const accounts = ['one', 'two'].map((name) => ({
    subdomain: name,
    username: `user-${name}`,
    password: `canary-${name}`,
  }))
  const config: DnsProviderConfig = { type: 'acme-dns', endpoint: url, accounts }
  const provider = createDnsProvider(config, deps)
  await provider.present(recordAt('two.auth.example.test'), signal)
  await provider.cleanUp(recordAt('two.auth.example.test'), signal)
  t.equal(requests.length, 1, 'the server forgets by itself')
  t.match(requests, [
    {
      method: 'POST',
      url: { pathname: '/update' },
      headers: {
        'x-api-user': 'user-two',
        'x-api-key': 'canary-two',
        'content-type': 'application/json',
      },
      body: '{"subdomain":"two","txt":"our-value"}',
    },
  ])
  await t.rejects(provider.present(recordAt(NAME), signal), {
    code: 'ACME_DNS_NO_ZONE',
    message: /_acme-challenge\.app\.example\.test leads to/,
  })
})

t.test('acme-dns reports wrong credentials', async (t) => {
  const { url, deps } = await standIn(t, () => ({ status: 401, body: '{"error":"forbidden"}' }))
  const accounts = [{ subdomain: 'one', username: 'user', password: 'canary' }]
  const provider = createDnsProvider({ type: 'acme-dns', endpoint: url, accounts }, deps)
  await t.rejects(provider.present(recordAt('one.auth.example.test'), signal), {
    code: 'ACME_DNS_CREDENTIALS',
  })
})

import { AcmeError, type Checked, type Solver } from '@gatehouse/acme'
import t, { type Test } from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import type { AppDeps } from '../../src/app.ts'
import { NOW, settle, start, written } from '../helpers/app.ts'

const DNS = {
  type: 'dns-01',
  providers: [{ type: 'cloudflare', apiToken: 'token-of-the-dns' }],
}
const LETSENCRYPT = {
  name: 'letsencrypt',
  type: 'acme',
  directory: 'letsencrypt',
  names: ['*.example.com', '=*.example.com', 'example.com'],
  agreeToTerms: true,
  challenges: [DNS],
}

type Check = () => Promise<Checked>
const DRY = '/api/certificate?dryRun=true'

t.test('the embedded CA needs no proof', async (t) => {
  const running = await start(t)
  const { call } = running
  const before = await written(running)
  const { status, headers, body } = await call('POST', DRY, { domain: 'App.lan', names: ['b.lan'] })
  t.equal(status, 200)
  t.equal(headers['cache-control'], 'no-store')
  t.strictSame(body, {
    domain: 'app.lan',
    names: ['app.lan', 'b.lan'],
    issuer: 'ca',
    proofs: [],
    budgets: [],
    obstacles: [],
  })
  t.equal(await written(running), before, 'nothing was written')
  t.equal((await call('GET', '/api/certificate/app.lan')).status, 404)
})

t.test('a held certificate is described without its key', async (t) => {
  const { call } = await start(t)
  const issued = await call('POST', '/api/certificate?dryRun=false', { domain: 'app.lan' })
  t.match(issued.body, { cached: false, privateKey: /PRIVATE KEY/ })
  const { body, text } = await call('POST', DRY, { domain: 'app.lan' })
  const { names, issuer, serialNumber, fingerprint256, notBefore, notAfter, renewAt } = issued.body
  t.strictSame(body.held, {
    domain: 'app.lan',
    names,
    issuer,
    serialNumber,
    fingerprint256,
    notBefore,
    notAfter,
    renewAt,
  })
  t.notMatch(text, /PRIVATE KEY|BEGIN/)
})

const proofs = [
  {
    name: 'a zone and credentials that are right',
    domain: 'app.example.com',
    check: async () => ({ target: '_acme-challenge.app.example.com', isProviderChecked: true }),
    proof: { challenge: 'dns-01', status: 'ready', detail: /its provider accepts the credentials/ },
  },
  {
    name: 'a provider that cannot be asked',
    domain: '*.example.com',
    check: async () => ({ target: 'x.example.net', isProviderChecked: false }),
    proof: {
      challenge: 'dns-01',
      status: 'ready',
      detail: /goes to x.example.net; its provider/,
    },
  },
  {
    name: 'credentials that are refused',
    domain: 'app.example.com',
    check: () => Promise.reject(new AcmeError('ACME_DNS_CREDENTIALS', 'the token is refused')),
    proof: { challenge: 'dns-01', status: 'failed', code: 'ACME_DNS_CREDENTIALS' },
    obstacles: ['app.example.com cannot be proven: the token is refused'],
  },
  {
    name: 'http-01',
    domain: 'app.example.com',
    names: ['*.example.com'],
    challenges: [{ type: 'http-01', listen: { port: 0 } }],
    proof: { challenge: 'http-01', status: 'unchecked', detail: /only the CA can check/ },
  },
  {
    name: 'the first challenge that can prove the name',
    domain: '*.example.com',
    challenges: [{ type: 'http-01', listen: { port: 0 } }, DNS],
    check: async () => ({ target: 'x', isProviderChecked: true }),
    proof: { challenge: 'dns-01', status: 'ready' },
  },
]

for (const { name, domain, names, challenges, check, proof, obstacles = [] } of proofs)
  t.test(`how a name would be proven: ${name}`, async (t) => {
    const { call } = await startAcme(t, check, {
      ...(challenges && { challenges }),
      ...(names && { names }),
    })
    const { body } = await call('POST', DRY, { domain })
    t.match(body, { issuer: 'letsencrypt', proofs: [{ name: domain, ...proof }] })
    t.equal(body.proofs.length, 1)
    t.strictSame(body.obstacles, obstacles)
  })

t.test('the budgets of an order', async (t) => {
  const { call, service } = await startAcme(t, ready)
  const order = {
    issuer: 'letsencrypt',
    directory: 'https://acme-v02.api.letsencrypt.org/directory',
    names: ['a.example.com'],
    renewal: false,
  }
  await service.ledger.ordered(order)
  await service.ledger.issued(order)
  for (let n = 0; n < 5; n += 1) await service.ledger.failed(order, ['b.example.com'])
  const { body } = await call('POST', DRY, { domain: 'b.example.com' })
  t.strictSame(body.budgets, [
    { limit: 'orders', subject: 'the account', left: 299, count: 300, per: '3h' },
    { limit: 'domain', subject: 'example.com', left: 49, count: 50, per: '7d' },
    { limit: 'names', subject: 'exactly these names', left: 5, count: 5, per: '7d' },
    {
      limit: 'failures',
      subject: 'b.example.com',
      left: 0,
      count: 5,
      per: '1h',
      freeAt: '2030-01-01T00:12:00Z',
    },
    {
      limit: 'failuresInARow',
      subject: 'b.example.com',
      left: 1147,
      count: 1152,
      per: '1152d',
    },
  ])
  t.strictSame(body.obstacles, ['the limit `failures` for b.example.com is used up'])
})

t.test('a failed order is shown with the time of its next try', async (t) => {
  expectWarnings(t, 'ACME_CAA')
  const { call } = await start(
    t,
    {},
    {
      issuer: (ca) => ({
        ...ca.servers,
        issue() {
          throw new AcmeError('ACME_CAA', 'CAA forbids it')
        },
      }),
    },
  )
  await call('POST', '/api/certificate', { domain: 'app.lan' })
  const { body } = await call('POST', DRY, { domain: 'app.lan' })
  t.match(body.order, { status: 'failed', lastError: { code: 'ACME_CAA' } })
  t.strictSame(body.obstacles, [
    'app.lan could not be issued: CAA forbids it. This is the failure of 2030-01-01T00:00:00Z; ' +
      'the next try is at 2030-01-01T00:01:00Z. To try now: gatehouse-certs renew app.lan --now',
  ])
})

t.test('a dry run is refused like the request itself', async (t) => {
  const { call, service } = await start(t, {
    server: { names: ['certs.lan'] },
    ca: { permitted: ['*.lan'] },
    auth: {
      psk: {
        keys: [{ name: 'narrow', key: 'a-key-for-two-names-only', domains: ['a.lan', 'b.test'] }],
      },
    },
  })
  const authorization = 'APIKey a-key-for-two-names-only'
  for (const [url, domain, status] of [
    [DRY, 'a.lan', 200],
    [DRY, 'b.lan', 403],
    [DRY, 'b.test', 422],
    [DRY, 'a.test', 403],
    ['/api/certificate', 'a.test', 403],
    [DRY, '-.lan', 400],
    ['/api/certificate?dryrun=true', 'a.lan', 400],
    ['/api/certificate?dryRun=yes', 'a.lan', 400],
    ['/api/certificate?dryRun', 'a.lan', 400],
    ['/api/certificate?dryRun=true&dryRun=false', 'a.lan', 400],
    ['/api/certificate?dryRun=true&x=1', 'a.lan', 400],
  ] as const)
    t.equal((await call('POST', url, { domain }, { authorization })).status, status, url + domain)
  t.equal((await call('POST', DRY, { domain: 'a.lan' }, { authorization: '' })).status, 401)
  t.strictSame(await service.store.list({ after: 0, limit: 9 }), [])
})

t.test('the number of dry runs at once is limited', async (t) => {
  expectWarnings(t, 'CERT_BUSY')
  const { promise, resolve } = Promise.withResolvers<Checked>()
  const { call } = await startAcme(t, () => promise)
  const dry = () => call('POST', DRY, { domain: 'app.example.com' })
  const running = Array.from({ length: 8 }, dry)
  await settle()
  t.match(await dry(), { status: 503, body: { code: 'CERT_BUSY' } })
  resolve({ target: 'x', isProviderChecked: true })
  for (const { status } of await Promise.all(running)) t.equal(status, 200)
  t.equal((await dry()).status, 200)
})

const ready = async () => ({ target: 'x', isProviderChecked: true })

/** With an ACME issuer whose CA is never asked. */
async function startAcme(t: Test, check?: Check, changes: object = {}) {
  const createSolver: AppDeps['createSolver'] = ({ type }): Solver => ({
    type,
    present: async () => {},
    cleanUp: async () => {},
    ...(type === 'dns-01' && check && { check }),
  })
  const config = { issuers: [{ ...LETSENCRYPT, ...changes }] }
  const running = await start(t, config, { createSolver })
  t.equal(running.clock.now(), NOW)
  return running
}

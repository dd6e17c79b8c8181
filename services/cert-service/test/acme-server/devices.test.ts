import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import {
  createHttp01,
  createHttp01Server,
  createTlsAlpn01,
  createTlsAlpn01Server,
} from '@gatehouse/acme'
import t, { type Test } from 'tap'
import { keyAuthorization } from '../../../../packages/acme/src/protocol/jws.ts'
import { briskClock, issuerAt, startCa } from '../helpers/acme.ts'
import { type AcmeAnswer, AcmeClient } from '../helpers/acme-client.ts'
import { PSK, startAcme } from '../helpers/acme-service.ts'
import { createIdp, NOW, reload } from '../helpers/app.ts'

const PROBLEM = 'urn:ietf:params:acme:error:'
const problem = (status: number, type: string) => ({ status, body: { type: PROBLEM + type } })

const OPEN = {
  acme: { open: ['127.0.0.0/8', '::1/128'] },
  rules: [
    {
      names: ['device.localhost', '*.lan.localhost', '127.0.0.0/8', '10.9.9.9', 'example.com'],
      acme: 'open',
    },
    { names: ['secret.lan.localhost'], effect: 'deny' },
  ],
}

/** A device that answers both challenges on loopback. */
async function startDevice(t: Test) {
  const values = new Map<string, string>()
  const store = {
    put: async (key: string, value: string) => void values.set(key, value),
    get: async (key: string) => values.get(key),
    delete: async (key: string) => void values.delete(key),
  }
  const servers = [createHttp01Server(store), createTlsAlpn01Server(store, { now: Date.now })]
  const ports = await Promise.all(
    servers.map(async (server) => {
      server.listen(0, '127.0.0.1')
      await once(server, 'listening')
      t.teardown(() => server.close())
      return (server.address() as AddressInfo).port
    }),
  )
  const solvers = { 'http-01': createHttp01(store), 'tls-alpn-01': createTlsAlpn01(store) }
  return { solvers, proofPorts: { 'http-01': ports[0] ?? 0, 'tls-alpn-01': ports[1] ?? 0 } }
}

async function setup(t: Test) {
  const device = await startDevice(t)
  const running = await startAcme(t, OPEN, { proofPorts: device.proofPorts })
  const client = new AcmeClient(running.app, { ip: '127.0.0.1' })
  const prove = async (order: AcmeAnswer, type: 'http-01' | 'tls-alpn-01', answer?: string) => {
    const { body } = await client.post(order.body.authorizations[0])
    const challenge = body.challenges.find((one: { type: string }) => one.type === type)
    const { token } = challenge
    await device.solvers[type].present(
      {
        identifier: body.identifier,
        wildcard: false,
        token,
        keyAuthorization: answer ?? keyAuthorization(token, client.key),
      },
      AbortSignal.timeout(5_000),
    )
    return client.post(challenge.url, {})
  }
  return { ...running, client, prove }
}

t.test('a device proves by a challenge that a name leads to it', async (t) => {
  const { client, prove, service } = await setup(t)
  t.match((await client.get(client.at('/acme/directory'))).body, {
    meta: { externalAccountRequired: false },
  })
  t.equal((await client.register()).status, 201)
  for (const [type, name] of [
    ['http-01', 'device.localhost'],
    ['tls-alpn-01', 'a.lan.localhost'],
    ['http-01', '127.0.0.1'],
    ['tls-alpn-01', '127.0.0.1'],
  ] as const) {
    const order = await client.order([name])
    t.match(order, { status: 201, body: { status: 'pending' } }, `${name}: ${order.text}`)
    t.match(await client.finalize(order, [name]), problem(403, 'orderNotReady'))
    t.match(
      (await prove(order, type)).body,
      { type, status: 'valid', validated: String },
      `${type} of ${name}`,
    )
    t.match((await client.post(order.body.authorizations[0])).body, { status: 'valid' })
    t.match((await client.finalize(order, [name])).body, { status: 'valid' })
  }
  const [row] = await service.store.listAudit({ limit: 1 })
  t.match(row, { actor: 'device:127.0.0.1', action: 'issue' })
})

t.test('a wrong answer ends the order, and says nothing of what was there', async (t) => {
  const { client, prove } = await setup(t)
  await client.register()
  for (const type of ['http-01', 'tls-alpn-01'] as const) {
    const order = await client.order(['device.localhost'])
    const tried = await prove(order, type, 'x.y')
    const error = { type: `${PROBLEM}incorrectResponse` }
    t.match(tried.body, { status: 'invalid', error }, tried.text)
    t.notMatch(tried.text, /x\.y/)
    t.match((await client.post(String(order.headers.location))).body, { status: 'invalid' })
    t.match(await client.finalize(order, ['device.localhost']), problem(403, 'orderNotReady'))
    const [url] = order.body.authorizations
    const given = await client.post(url, { status: 'deactivated' })
    t.equal(given.body.status, 'invalid', 'also when it is given up')
    t.notMatch(given.text, /"validated"/)
  }
})

t.test('what no challenge proves is given to no device', async (t) => {
  const running = await setup(t)
  const { client, config } = running
  const names = ['device.localhost', '=*.lan.localhost', '*@device.localhost', 'spiffe://device/*']
  const rules = (['server', 'client'] as const).map((profile) => ({
    ...{ effect: 'allow' as const, names, profile, acme: 'open' as const },
  }))
  await reload(running, { ...config, rules })
  await client.register()
  const order = (type: string, value: string, profile = 'client') =>
    client.post(client.at('/acme/new-order'), { identifiers: [{ type, value }], profile })
  t.match(await order('dns', 'device.localhost'), { status: 201 })
  for (const [type, value, profile] of [
    ['email', 'ada@device.localhost'],
    ['uri', 'spiffe://device/app'],
    ['dns', '*.lan.localhost', 'server'],
  ] as const)
    t.match(await order(type, value, profile), problem(403, 'rejectedIdentifier'), value)
})

t.test('a device has nothing else', async (t) => {
  const running = await setup(t)
  const { app, client, clientOf, prove, config } = running
  await client.register()
  t.match(
    await new AcmeClient(app, { ip: '192.0.2.1' }).register(),
    problem(403, 'externalAccountRequired'),
  )
  for (const [why, name] of [
    ['what no rule gives', 'other.localhost'],
    ['what a rule denies', 'secret.lan.localhost'],
    ['what only a key gives', 'a.example.com'],
  ] as const)
    t.match(await client.order([name]), problem(403, 'rejectedIdentifier'), why)
  const elsewhere = await client.order(['10.9.9.9'])
  t.match((await prove(elsewhere, 'http-01')).body, {
    status: 'invalid',
    error: { type: `${PROBLEM}connection` },
  })
  const byTls = await client.order(['10.9.9.9'])
  t.match((await prove(byTls, 'tls-alpn-01')).body, {
    status: 'invalid',
    error: { type: `${PROBLEM}connection` },
  })
  t.match(
    await (await clientOf('web')).order(['device.localhost']),
    problem(403, 'rejectedIdentifier'),
    'nor has a key what a device has',
  )
  const moved = new AcmeClient(app, { ip: '192.0.2.1', key: client.key })
  moved.url = client.url
  t.match(await moved.order(['device.localhost']), problem(403, 'unauthorized'), 'from elsewhere')
  await reload(running, { ...config, acme: {} })
  t.match(
    await client.order(['device.localhost']),
    problem(403, 'unauthorized'),
    'once it is not open',
  )
})

t.test('a device has no name that is not of a host, as no challenge proves it', async (t) => {
  const rules = [
    { names: ['*'], acme: 'open' },
    { names: ['*'], acme: 'open', profile: 'client' },
  ]
  const { app } = await startAcme(t, { ...OPEN, rules })
  const client = new AcmeClient(app, { ip: '127.0.0.1' })
  await client.register()
  for (const [profile, type, value] of [
    ['server', 'dns', '*.lan.localhost'],
    ['client', 'email', 'owner@device.localhost'],
    ['client', 'uri', 'spiffe://device.localhost/owner'],
  ] as const) {
    const host = { type: 'dns', value: 'device.localhost' }
    const identifiers = [host, { type, value }]
    const refused = await client.post(client.at('/acme/new-order'), { identifiers, profile })
    t.match(refused, problem(403, 'rejectedIdentifier'), value)
  }
})

t.test('a public CA is not asked for what a device has not proven', async (t) => {
  const clock = briskClock()
  const ca = await startCa(t, clock)
  const issuers = [issuerAt(ca, { names: ['example.com'] })]
  const server = { plainHttp: { port: 0 } }
  const { app } = await startAcme(t, { ...OPEN, issuers, server }, { clock })
  const client = new AcmeClient(app, { ip: '127.0.0.1' })
  await client.register()
  t.match((await client.order(['example.com'])).body, { status: 'pending' })
  t.equal(app.issuance.flights.size, 0)
  t.equal(ca.count('newOrder'), 0)
})

t.test('a name of this service is nobody’s', async (t) => {
  const device = await startDevice(t)
  const names = ['device.localhost']
  const spelled = { names: ['Device.Localhost.'] }
  const { app } = await startAcme(
    t,
    { ...OPEN, server: spelled },
    { proofPorts: device.proofPorts },
  )
  const client = new AcmeClient(app, { ip: '127.0.0.1' })
  await client.register()
  const order = await client.order(names)
  const { body } = await client.post(order.body.authorizations[0])
  t.match((await client.post(body.challenges[0].url, {})).body, {
    error: { type: `${PROBLEM}rejectedIdentifier` },
  })
})

t.test('what a device answers is read within bounds, and leads nowhere', async (t) => {
  const asked: string[] = []
  let answer: (token: string) => { status: number; headers: Record<string, string>; body: string }
  const server = createServer((request, response) => {
    asked.push(request.url ?? '')
    const { status, headers, body } = answer(request.url?.split('/').at(-1) ?? '')
    response.writeHead(status, headers).end(body)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const { app } = await startAcme(t, OPEN, { proofPorts: { 'http-01': port, 'tls-alpn-01': port } })
  const client = new AcmeClient(app, { ip: '127.0.0.1' })
  await client.register()
  const right = (token: string) => keyAuthorization(token, client.key)
  const ok = (body: string) => ({ status: 200, headers: {}, body })
  for (const [n, [why, reply, status]] of (
    [
      ['with white space at the end', (token: string) => ok(`${right(token)}\r\n`), 'valid'],
      [
        'by a redirect',
        () => ({ status: 302, headers: { location: '/other' }, body: '' }),
        'invalid',
      ],
      ['by an error', (token: string) => ({ ...ok(right(token)), status: 500 }), 'invalid'],
      ['by too much', (token: string) => ok(right(token) + ' '.repeat(2_000)), 'invalid'],
      ['by an echo', (token: string) => ok(token), 'invalid'],
    ] as const
  ).entries()) {
    answer = reply
    const order = await client.order([`n${n}.lan.localhost`])
    const { body } = await client.post(order.body.authorizations[0])
    const tried = await client.post(body.challenges[0].url, {})
    t.match(tried.body, { type: 'http-01', status }, why)
  }
  t.notOk(asked.includes('/other'))
  const order = await client.order(['device.localhost'])
  const { body } = await client.post(order.body.authorizations[0])
  t.match(
    (await client.post(body.challenges[1].url, {})).body,
    { type: 'tls-alpn-01', status: 'invalid' },
    'no TLS',
  )
})

t.test('accounts of devices are listed for operators alone', async (t) => {
  const idp = await createIdp(t, () => NOW)
  const jwt = { issuerUrl: idp.issuerUrl, audience: 'certs' }
  const rules = [...OPEN.rules, { issuer: idp.issuerUrl, names: ['*'] }]
  const { app, call } = await startAcme(t, { ...OPEN, auth: { psk: PSK, jwt }, rules })
  const device = new AcmeClient(app, { ip: '127.0.0.1' })
  t.equal((await device.register()).status, 201)
  const listed = async (headers: object = {}) =>
    (await call('GET', '/api/acme/accounts', undefined, headers)).body.accounts.length
  t.equal(await listed(), 2)
  t.equal(await listed({ authorization: 'APIKey a-key-of-the-web-servers' }), 1)
  t.equal(await listed({ authorization: `Bearer ${idp.token({ sub: 'job' })}` }), 0)
})

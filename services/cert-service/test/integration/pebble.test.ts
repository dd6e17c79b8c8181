import { generateKeyPairSync, X509Certificate } from 'node:crypto'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { Resolver } from 'node:dns/promises'
import { once } from 'node:events'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { connect, createServer } from 'node:tls'
import { renewalsOf } from '@gatehouse/issuance'
import { parseRequest } from '@gatehouse/issuance/request'
import t, { type Test } from 'tap'
import {
  CURRENT_PEBBLE,
  NO_CURRENT_PEBBLE,
  startPebbleServer,
} from '../../../../packages/acme/test/integration/pebble.ts'
import { freePorts, makeFolder } from '../../../../packages/acme/test/integration/processes.ts'
import { makeCsr } from '../../../../packages/issuance/test/helpers/csr.ts'
import { type AcmeExample, startExample } from '../helpers/acme-example.ts'
import { startDnsBridge, startPublicDns } from '../helpers/public-dns.ts'

const dns = await startPublicDns(t)
const bridge = await startDnsBridge(t, dns)

/** Pebble as it is after installing, strict, but that it does not sleep before it looks. */
const startCa = (t: Test, env: Record<string, string> = {}, config: object = {}) =>
  startPebbleServer(t, { dns: dns.server, env, config })

const byRfc2136 = (own: object) => ({ ...own, server: dns.server })

const DAY = 86_400_000

interface Certificate {
  readonly certificate: string
  readonly privateKey: string
  readonly serialNumber: string
  readonly names: readonly string[]
  readonly cached: boolean
}

async function obtain(t: Test, example: AcmeExample, body: object): Promise<Certificate> {
  const { status, json } = await example.post('/api/certificate', body)
  if (!t.equal(status, 200, 'obtained')) t.comment(example.logged.join(''))
  return json as unknown as Certificate
}

/** Serves TLS with it to a client that trusts this root alone, under that name. */
async function shakesHands(
  { certificate: cert, privateKey: key }: Certificate,
  root: string,
  host: string,
): Promise<boolean> {
  const server = createServer({ cert, key }, (socket) => socket.end())
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const name = host === '127.0.0.1' ? { host } : { host: '127.0.0.1', servername: host }
  const client = connect({ port, ca: root, ...name })
  try {
    await once(client, 'secureConnect')
    return client.authorized
  } finally {
    client.destroy()
    server.close()
  }
}

/** The first parts of the paths that are asked for from here on. */
function recordPaths(t: Test): readonly string[] {
  const paths: string[] = []
  const note = (message: unknown) => {
    const { request } = message as { request: { path: string } }
    paths.push(request.path.split('/')[1] ?? '')
  }
  subscribe('undici:request:create', note)
  t.teardown(() => unsubscribe('undici:request:create', note))
  return paths
}

t.test('orders by rfc2136 at a Pebble that refuses nonces and has alternate chains', async (t) => {
  const [httpPort, tlsPort] = await freePorts(2)
  const pebble = await startCa(t, { PEBBLE_ALTERNATE_ROOTS: '1' }, { httpPort, tlsPort })
  const root = await pebble.root(0)
  const other = await pebble.root(1)
  const around = { pebble, dns, provider: byRfc2136 }
  const issuer = { names: ['*', '=*.example.com', '127.0.0.0/8'] }
  const example = await startExample(t, 'rfc2136.yaml', {
    ...around,
    issuer,
    challenges: [{ type: 'http-01' }],
    server: { plainHttp: { port: httpPort } },
  })

  const ORDERS: [what: string, host: string, body: { domain: string; names?: string[] }][] = [
    ['a name', 'app.example.com', { domain: 'app.example.com' }],
    ['a wildcard', 'any.example.com', { domain: '*.example.com' }],
    [
      'a name and its wildcard',
      'any.example.com',
      { domain: 'example.com', names: ['*.example.com'] },
    ],
    [
      'several names',
      'c.example.com',
      { domain: 'a.example.com', names: ['b.example.com', 'c.example.com'] },
    ],
    [
      'a name whose challenge is elsewhere',
      'delegated.example.com',
      { domain: 'delegated.example.com' },
    ],
    ['an address, by http-01', '127.0.0.1', { domain: '127.0.0.1' }],
  ]
  for (const [what, host, body] of ORDERS)
    t.test(what, async (t) => {
      const held = await obtain(t, example, body)
      t.strictSame(held.names, [body.domain, ...(body.names ?? [])])
      t.ok(await shakesHands(held, root, host), 'a TLS client believes it')
      t.match(await obtain(t, example, body), { serialNumber: held.serialNumber, cached: true })
    })

  t.test('a dry run sees the zone, and orders nothing', async (t) => {
    const path = '/api/certificate?dryRun=true'
    const { json } = await example.post(path, { domain: 'dry.example.com' })
    t.match(json, {
      issuer: 'letsencrypt',
      proofs: [{ status: 'ready' }],
      obstacles: { length: 0 },
    })
    t.notOk('order' in json)
    const lame = await example.post(path, { domain: 'dry.example.edu' })
    t.match(lame.json, { proofs: [{ status: 'failed', code: 'ACME_DNS_NO_ZONE' }] })
    const order = await example.post('/api/certificate', { domain: 'dry.example.edu' })
    t.match(order.json, { code: 'ACME_DNS_NO_ZONE' }, 'as the order that is made of it')
  })

  t.test('names that were proven ahead', async (t) => {
    const { issuance, issuers } = example.service
    const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    const names = ['ahead.example.com', '*.ahead.example.com']
    const [domain = ''] = names
    const csr = makeCsr({ pair, names })
    const request = parseRequest({ domain, csr }, issuers, () => Infinity)
    const by = { actor: 'psk:web' }
    t.equal(await issuance.authorize(request, by), 'ready')

    const asked = recordPaths(t)
    const { certificate } = await issuance.obtain(request, by)
    t.ok(new X509Certificate(certificate?.chain ?? '').checkPrivateKey(pair.privateKey))
    // A request whose nonce was refused is sent again.
    const kinds = asked
      .filter((path) => path !== 'nonce-plz')
      .filter((path, index, paths) => path !== paths[index - 1])
    t.comment(kinds.join(' '))
    t.equal(kinds.filter((kind) => kind === 'finalize-order').length, 1)
    t.equal(kinds.filter((kind) => kind === 'certZ').length, 1)
    const others = kinds.filter((kind) => !['finalize-order', 'certZ'].includes(kind))
    t.same(new Set(others), new Set(['my-order']), 'nothing else but looks at the order')
  })

  t.test('an address, by tls-alpn-01', async (t) => {
    const challenges = [{ type: 'tls-alpn-01', listen: { port: tlsPort } }]
    const own = await startExample(t, 'rfc2136.yaml', { ...around, issuer, challenges })
    const held = await obtain(t, own, { domain: '127.0.0.1' })
    t.ok(await shakesHands(held, root, '127.0.0.1'))
  })

  t.test('the chain that is preferred', async (t) => {
    const [, preferredChain] = /CN=(.*)/.exec(new X509Certificate(other).subject) ?? []
    const own = await startExample(t, 'rfc2136.yaml', { ...around, issuer: { preferredChain } })
    const held = await obtain(t, own, { domain: 'app.example.com' })
    t.ok(await shakesHands(held, other, 'app.example.com'))
    const usual = await obtain(t, example, { domain: 'app.example.com' })
    await t.rejects(shakesHands(usual, other, 'app.example.com'), 'no other leads there')
  })

  t.test('revoked, at the CA as well', async (t) => {
    const { serialNumber } = await obtain(t, example, { domain: 'app.example.com' })
    const { status } = await example.post('/api/certificate/revoke', { domain: 'app.example.com' })
    t.equal(status, 200)
    const url = `${pebble.managementUrl}/cert-status-by-serial/${serialNumber}`
    t.match(JSON.parse((await pebble.fetch(url)).body.toString()), { Status: 'Revoked' })
    const next = await obtain(t, example, { domain: 'app.example.com' })
    t.not(next.serialNumber, serialNumber)
  })

  t.test('renewed, once it is due', async (t) => {
    const before = await obtain(t, example, { domain: 'app.example.com' })
    const renew = () => example.post('/api/certificate/renew', { domain: 'app.example.com' })
    t.equal((await renew()).status, 429)
    const { store, holdings } = example.service
    for (const { id, requestKey } of await store.findByDomain('app.example.com')) {
      await store.setRenewAt(id, Date.now())
      holdings.forget([requestKey])
    }
    const { status, json } = await renew()
    t.equal(status, 200)
    t.not(json.serialNumber, before.serialNumber)
    t.not(json.privateKey, before.privateKey, 'with a new key')
    t.ok(await shakesHands(json as unknown as Certificate, root, 'app.example.com'))
  })

  t.test('nothing is left in DNS', async (t) => {
    const resolver = new Resolver()
    resolver.setServers([dns.server])
    for (const name of ['app', 'a', 'b', 'c', 'delegated'])
      await t.rejects(resolver.resolveTxt(`_acme-challenge.${name}.example.com`))
    await t.rejects(resolver.resolveTxt('_acme-challenge.example.com'))
  })
})

t.test('an external account', async (t) => {
  const hmacKey = 'zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W'
  const pebble = await startCa(
    t,
    {},
    { externalAccountBindingRequired: true, externalAccountMACKeys: { 'kid-1': hmacKey } },
  )
  const around = { pebble, dns, provider: byRfc2136 }
  const without = await startExample(t, 'rfc2136.yaml', around)
  const refused = await without.post('/api/certificate', { domain: 'app.example.com' })
  t.match(refused, { status: 503, json: { code: 'ACME_EXTERNAL_ACCOUNT_REQUIRED' } })
  t.match(without.logged.join(), 'ACME_EXTERNAL_ACCOUNT_REQUIRED')
  const issuer = { externalAccount: { kid: 'kid-1', hmacKey } }
  const example = await startExample(t, 'rfc2136.yaml', { ...around, issuer })
  const held = await obtain(t, example, { domain: 'app.example.com' })
  t.ok(await shakesHands(held, await pebble.root(0), 'app.example.com'))
})

t.test('a name that was proven is not proven again', async (t) => {
  const pebble = await startCa(t, { PEBBLE_AUTHZREUSE: '100' })
  const provider = () => ({ type: 'httpreq', endpoint: bridge.url })
  const example = await startExample(t, 'rfc2136.yaml', { pebble, dns, provider })
  bridge.changes.length = 0
  await obtain(t, example, { domain: 'reused.example.com' })
  await obtain(t, example, { domain: 'reused.example.com', keyType: 'p384' })
  t.strictSame(bridge.changes, [
    'present _acme-challenge.reused.example.com',
    'cleanup _acme-challenge.reused.example.com',
  ])
})

/** What programs ask the bridge with. */
const CALL = `curl -fsS -d "{\\"fqdn\\":\\"$2\\",\\"value\\":\\"$3\\"}"`
const PROGRAMS: Readonly<Record<string, string>> = {
  'change-dns': `#!/bin/sh\nexec ${CALL} "$BRIDGE/$1"\n`,
  'acme.sh': '# Takes no arguments here.\n',
  'dnsapi/dns_desec.sh': `# Options:
#  DEDYN_TOKEN
dns_desec_add() { set -- present "$1" "$2"; ${CALL} "$DEDYN_TOKEN/present"; }
dns_desec_rm() { set -- cleanup "$1" "$2"; ${CALL} "$DEDYN_TOKEN/cleanup"; }
`,
}

t.test('DNS providers, by bridges', async (t) => {
  const pebble = await startCa(t)
  const root = await pebble.root(0)
  const folder = makeFolder(t)
  // As root we run programs as nobody.
  chmodSync(folder, 0o755)
  mkdirSync(join(folder, 'dnsapi'))
  for (const [name, text] of Object.entries(PROGRAMS))
    writeFileSync(join(folder, name), text, { mode: 0o755 })

  const env = [{ name: 'BRIDGE', value: bridge.url }]
  const credentials = [{ name: 'DEDYN_TOKEN', value: bridge.url }]
  const PROVIDERS: [file: string, domain: string, provider: (own: object) => object][] = [
    ['cloudflare.yaml', 'example.com', (own) => ({ ...own, endpoint: bridge.url })],
    ['acme-dns.yaml', 'app.example.org', (own) => ({ ...own, endpoint: bridge.url })],
    ['acme-sh.yaml', 'example.com', (own) => ({ ...own, path: folder, credentials })],
    ['rfc2136.yaml', 'example.com', () => ({ type: 'httpreq', endpoint: bridge.url })],
    [
      'rfc2136.yaml',
      'example.com',
      () => ({ type: 'exec', command: [join(folder, 'change-dns')], env }),
    ],
  ]
  for (const [file, domain, provider] of PROVIDERS) {
    const { type } = provider({ type: file }) as { type: string }
    t.test(type, async (t) => {
      bridge.changes.length = 0
      const example = await startExample(t, file, { pebble, dns, provider })
      const held = await obtain(t, example, { domain, names: [`*.${domain}`] })
      t.ok(await shakesHands(held, root, `any.${domain}`))
      t.equal(bridge.changes.filter((change) => change.startsWith('present')).length, 2)
    })
  }
})

t.test('profile and renewal information', { skip: NO_CURRENT_PEBBLE }, async (t) => {
  const profiles = { short: { description: 'six days', validityPeriod: 518_400 } }
  const pebble = await startPebbleServer(t, {
    dns: dns.server,
    config: { profiles },
    program: CURRENT_PEBBLE as string,
  })
  const around = { pebble, dns, provider: byRfc2136, issuer: { profile: 'short' } }
  const example = await startExample(t, 'rfc2136.yaml', around)
  const { certificate, serialNumber } = await obtain(t, example, { domain: 'app.example.com' })
  const { validFromDate, validToDate } = new X509Certificate(certificate)
  t.equal(Math.round((validToDate.getTime() - validFromDate.getTime()) / DAY), 6)

  const [start, end] = [2, 1].map((days) => new Date(Date.now() - days * DAY).toISOString())
  const ariResponse = JSON.stringify({ suggestedWindow: { start, end } })
  const body = JSON.stringify({ certificate, ariResponse })
  const init = { method: 'POST', headers: { 'user-agent': 'gatehouse' }, body } as const
  await pebble.fetch(`${pebble.managementUrl}/set-renewal-info/`, init)
  const { service } = example
  const fail = (_fields: object, message: string) => void t.fail(message)
  const log = { info: fail, warn: fail }
  const { signal } = new AbortController()
  await renewalsOf({ ...service, log, random: Math.random }).checkWindows(signal)
  const clock = { ...service.clock, now: () => Date.now() + DAY }
  await renewalsOf({ ...service, log, clock, random: Math.random }).renewDue([], signal)
  const renewed = await obtain(t, example, { domain: 'app.example.com' })
  t.ok(renewed.cached)
  t.not(renewed.serialNumber, serialNumber, 'as the CA wished')
})

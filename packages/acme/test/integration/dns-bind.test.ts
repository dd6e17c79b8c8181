import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createFetch } from '@gatehouse/net'
import { parseName } from '@gatehouse/pki'
import { systemClock } from '@gatehouse/service-kit/clock'
import t from 'tap'
import { type Ask, ask } from '../../src/dns/exchange.ts'
import type { DnsQuestion } from '../../src/dns/message.ts'
import {
  type ChallengeTask,
  createDns01,
  createDnsProviders,
  type DnsProviderConfig,
} from '../../src/index.ts'
import { startNamed } from './named.ts'
import { freePort, makeFolder } from './processes.ts'

const folder = makeFolder(t)

const PRIMARY = '127.0.0.1'
/** What the zones say. named listens on addresses of an interface only, so it has another port instead. */
const SECONDARY = '127.0.0.2'
const SECRET = Buffer.alloc(32, 7).toString('base64')
const signal = AbortSignal.timeout(60_000)
const port = await freePort()
const secondaryPort = await freePort()
const asked: Ask = (server, ...rest) =>
  ask(server.host === SECONDARY ? { host: PRIMARY, port: secondaryPort } : server, ...rest)

await startPrimary()
await startSecondary()

const rfc2136 = (changes: object = {}) =>
  ({
    type: 'rfc2136',
    server: `${PRIMARY}:${port}`,
    keyName: 'gatehouse-key',
    keySecret: SECRET,
    algorithm: 'hmac-sha256',
    ...changes,
  }) as DnsProviderConfig

const fetch = createFetch()
t.teardown(() => fetch.close())
const propagation = { check: 'authoritative' as const, timeout: 20_000, wait: 0 }
const solverOf = (provider: DnsProviderConfig, changes: object = {}) =>
  createDns01({
    providers: createDnsProviders([provider], { fetch, clock: systemClock }),
    propagation: { ...propagation, resolvers: [`${PRIMARY}:${port}`], ...changes },
    clock: systemClock,
    ask: asked,
    port,
  })

const task = (value: string, keyAuthorization = `token.${value}`): ChallengeTask => ({
  identifier: { type: 'dns', value },
  wildcard: false,
  token: 'token',
  keyAuthorization,
})

t.test('waits until both name servers have a record, and removes it again', async (t) => {
  const solver = solverOf(rfc2136())
  await solver.present(task('app.example.test'), signal)
  for (const host of [PRIMARY, SECONDARY])
    t.equal((await textsAt(host, '_acme-challenge.app.example.test')).length, 1, host)
  await solver.present(task('app.example.test'), signal)
  t.equal((await textsAt(PRIMARY, '_acme-challenge.app.example.test')).length, 1, 'twice is once')
  await solver.cleanUp(task('app.example.test'), signal)
  await solver.cleanUp(task('app.example.test'), signal)
  t.strictSame(await textsAt(PRIMARY, '_acme-challenge.app.example.test'), [])
})

t.test('name and wildcard have their values side by side', async (t) => {
  const solver = solverOf(rfc2136({ algorithm: 'hmac-sha512', keyName: 'Gatehouse-Key-512.' }))
  const both = [task('two.example.test', 'a.b'), task('two.example.test', 'c.d')] as const
  await Promise.all(both.map((one) => solver.present(one, signal)))
  t.equal((await textsAt(SECONDARY, '_acme-challenge.two.example.test')).length, 2)
  await solver.cleanUp(both[0], signal)
  t.equal((await textsAt(PRIMARY, '_acme-challenge.two.example.test')).length, 1)
  await solver.cleanUp(both[1], signal)
})

t.test('follows a CNAME into another zone, and lets another process clean up', async (t) => {
  await solverOf(rfc2136()).present(task('delegated.example.test'), signal)
  t.equal((await textsAt(PRIMARY, 'far.acme.test')).length, 1)
  await solverOf(rfc2136()).cleanUp(task('delegated.example.test'), signal)
  t.strictSame(await textsAt(PRIMARY, 'far.acme.test'), [])
})

t.test('many values make an answer that needs TCP', async (t) => {
  const solver = solverOf(rfc2136(), { check: 'none' })
  const tasks = Array.from({ length: 14 }, (_, index) => task('many.example.test', `key.${index}`))
  for (const one of tasks) await solver.present(one, signal)
  await solverOf(rfc2136()).present(task('many.example.test', 'key.0'), signal)
  t.equal((await textsAt(PRIMARY, '_acme-challenge.many.example.test')).length, 14)
  for (const one of tasks) await solver.cleanUp(one, signal)
})

const REFUSED: [
  title: string,
  provider: DnsProviderConfig,
  name: string,
  expected: { code: string; message?: string | RegExp },
][] = [
  [
    'a wrong secret',
    rfc2136({ keySecret: Buffer.alloc(32, 8).toString('base64') }),
    'app.example.test',
    { code: 'ACME_DNS_CREDENTIALS' },
  ],
  [
    'an unknown key',
    rfc2136({ keyName: 'nobody' }),
    'app.example.test',
    { code: 'ACME_DNS_CREDENTIALS' },
  ],
  [
    'a zone that the key may not change',
    rfc2136(),
    'app.closed.test',
    { code: 'ACME_DNS_PROVIDER', message: /REFUSED/ },
  ],
  [
    'a zone of somebody else',
    rfc2136({ zone: 'else.test' }),
    'app.example.test',
    { code: 'ACME_DNS_PROVIDER' },
  ],
  ['a CNAME to itself', rfc2136(), 'loop.example.test', { code: 'ACME_DNS_LOOKUP' }],
]

t.test('checks a record set without changing it', async (t) => {
  const look = (provider: DnsProviderConfig, name: string) =>
    solverOf(provider).check?.(parseName(name), signal)
  t.match(await look(rfc2136(), 'delegated.example.test'), {
    target: 'far.acme.test',
    isProviderChecked: true,
  })
  await t.rejects(async () => look(rfc2136({ keyName: 'nobody' }), 'app.example.test'), {
    code: 'ACME_DNS_CREDENTIALS',
  })
  await t.rejects(async () => look(rfc2136(), 'app.nowhere.test'), { code: 'ACME_DNS_LOOKUP' })
})

for (const [title, provider, name, expected] of REFUSED)
  t.test(`refused: ${title}`, (t) =>
    t.rejects(solverOf(provider).present(task(name), signal), expected),
  )

t.test('names a secondary that is not updated', async (t) => {
  const solver = solverOf(rfc2136(), { timeout: 1_000 })
  await t.rejects(solver.present(task('app.stale.test'), signal), {
    code: 'ACME_DNS_PROPAGATION',
    message: /at ns2\.example\.test$/,
  })
  await solver.cleanUp(task('app.stale.test'), signal)
})

async function textsAt(host: string, name: string): Promise<string[]> {
  const question: DnsQuestion = { name, type: 'TXT' }
  const { answers } = await asked({ host, port }, question, { recursive: false, signal })
  return answers.map(({ value }) => value)
}

/** Authoritative for every zone, and takes the updates. */
async function startPrimary(): Promise<void> {
  for (const zone of ['example.test', 'acme.test', 'closed.test', 'stale.test']) writeZone(zone)
  const masters = ['example.test', 'acme.test', 'stale.test'].map(
    (zone) => `zone "${zone}" { type master; file "${zone}"; notify explicit;
      also-notify { ${PRIMARY} port ${secondaryPort}; };
      update-policy { grant gatehouse-key zonesub TXT; grant gatehouse-key-512 zonesub TXT; }; };`,
  )
  const statements = [
    `key "gatehouse-key" { algorithm hmac-sha256; secret "${SECRET}"; };`,
    `key "gatehouse-key-512" { algorithm hmac-sha512; secret "${SECRET}"; };`,
    ...masters,
    'zone "closed.test" { type master; file "closed.test"; };',
  ]
  await startNamed(t, { folder, name: 'primary', port, statements })
}

/** Is told of each update, but of `stale.test` has a copy that stays as it is. */
async function startSecondary(): Promise<void> {
  const slaves = ['example.test', 'acme.test'].map(
    (
      zone,
    ) => `zone "${zone}" { type slave; file "${zone}.copy"; masters { ${PRIMARY} port ${port}; };
      allow-notify { ${PRIMARY}; }; };`,
  )
  writeZone('stale.test', 'stale.test.copy')
  const statements = [...slaves, 'zone "stale.test" { type master; file "stale.test.copy"; };']
  await startNamed(t, { folder, name: 'secondary', port: secondaryPort, statements })
}

function writeZone(zone: string, file = zone): void {
  const servers = zone === 'closed.test' ? ['ns1'] : ['ns1', 'ns2']
  const lines = [
    '$TTL 60',
    `@ SOA ns1.example.test. hostmaster.example.test. 1 60 60 3600 60`,
    ...servers.map((name) => `@ NS ${name}.example.test.`),
  ]
  if (zone === 'example.test')
    lines.push(
      `ns1 A ${PRIMARY}`,
      `ns2 A ${SECONDARY}`,
      '_acme-challenge.delegated CNAME far.acme.test.',
      '_acme-challenge.loop CNAME _acme-challenge.loop2',
      '_acme-challenge.loop2 CNAME _acme-challenge.loop',
    )
  writeFileSync(join(folder, file), `${lines.join('\n')}\n`)
}

import { cpSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { createDns01, createDnsProviders, createHttp01, createTlsAlpn01 } from '@gatehouse/acme'
import { testFolder } from '@gatehouse/service-kit/testing'
import fc from 'fast-check'
import t from 'tap'
import { standIn } from '../../../../packages/acme/test/dns/providers/stand-in.ts'
import { createMemoryStore } from '../../../../packages/acme/test/memory-store.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import type { AppDeps } from '../../src/app.ts'
import { briskClock, issuerAt, post, startAcme, startCa } from '../helpers/acme.ts'
import { NOW, start } from '../helpers/app.ts'
import { createDnsWorld, type Weather } from '../helpers/dns-world.ts'

/** Mostly the first, so that faults come one by one too. */
const mostly = <T>(usual: T, ...others: readonly T[]) =>
  fc.oneof(
    { arbitrary: fc.constant(usual), weight: 3 * others.length },
    { arbitrary: fc.constantFrom(...others), weight: others.length },
  )

const weather: fc.Arbitrary<Weather> = fc.record({
  zones: mostly<Weather['zones']>('shown', 'without name servers', 'hidden'),
  resolver: mostly<Weather['resolver']>('answers', 'silent', 'fails'),
  nameServer: mostly<Weather['nameServer']>('answers', 'silent'),
  alias: mostly<Weather['alias']>('none', 'elsewhere', 'circle'),
})

/** Where it is not in `names`, it is for all of them. Below `door` is what the API makes of us. */
const provider = fc
  .record({
    door: mostly('open', 'bridge', 'empty', 'closed'),
    names: mostly(undefined, ['example.test', 'app.example.test'], ['b.example.test']),
  })
  .map(({ door, names }) => ({
    ...(door === 'bridge' ? { type: 'httpreq' } : { type: 'cloudflare', apiToken: 'a-token' }),
    endpoint: `/${door}`,
    ...(names && { names }),
  }))

const dns01 = fc.record({
  type: fc.constant('dns-01'),
  providers: fc.array(provider, { minLength: 1, maxLength: 2 }),
  propagation: fc.record({
    check: fc.constantFrom('authoritative', 'resolvers', 'none'),
    wait: fc.constantFrom('0s', '30s'),
    resolvers: fc.constant(['192.0.2.53']),
  }),
})
const http01 = fc.constant({ type: 'http-01' })
const tlsAlpn01 = fc.constant({ type: 'tls-alpn-01', listen: { port: 0 } })

const challenges = fc.oneof(
  { arbitrary: fc.tuple(dns01), weight: 6 },
  { arbitrary: fc.tuple(fc.oneof(http01, tlsAlpn01)), weight: 1 },
  { arbitrary: fc.tuple(dns01, http01), weight: 2 },
  { arbitrary: fc.tuple(fc.oneof(http01, tlsAlpn01), dns01), weight: 2 },
)

const names = fc.uniqueArray(
  fc.constantFrom('app.example.test', '*.example.test', 'b.example.test', '192.0.2.7'),
  { minLength: 1, maxLength: 2 },
)

t.test('property: a dry run sees an obstacle exactly where the order fails', async (t) => {
  expectWarnings(t, 'ACME_')
  let world = createDnsWorld({
    zones: 'shown',
    resolver: 'answers',
    nameServer: 'answers',
    alias: 'none',
  })
  const api = await standIn(t, (request) => world.api(request))
  // No loop runs, and DNS is asked again after pauses as long as theirs.
  const clock = briskClock(NOW, [])
  const ca = await startCa(t, clock, {
    validate: async (challenge) =>
      challenge.type !== 'dns-01' || world.shows(challenge) ? undefined : 'unauthorized',
  })
  const createSolver: AppDeps['createSolver'] = (challenge) => {
    if (challenge.type === 'http-01') return createHttp01(createMemoryStore())
    if (challenge.type === 'tls-alpn-01') return createTlsAlpn01(createMemoryStore())
    const providers = createDnsProviders(challenge.providers, api.deps)
    return createDns01({ providers, propagation: challenge.propagation, clock, ask: world.ask })
  }
  const outcomes = { issued: 0, refused: 0 }
  const base = testFolder(t)
  // What each run begins with: a store with its keys takes longer to make than to copy.
  const fresh = join(base, 'fresh')
  mkdirSync(fresh)
  await (await start(t, {}, { folder: fresh, clock })).close()

  await fc.assert(
    fc.asyncProperty(weather, challenges, names, async (weather, challenges, names) => {
      world = createDnsWorld(weather)
      const folder = join(base, `run-${outcomes.issued + outcomes.refused}`)
      cpSync(fresh, folder, { recursive: true })
      const own = JSON.parse(JSON.stringify(challenges).replaceAll('"endpoint":"', `$&${api.url}`))
      const config = {
        server: { plainHttp: { port: 0 } },
        issuance: { wait: '60s' },
        issuers: [issuerAt(ca, { challenges: own })],
      }
      const running = await start(t, config, { folder, clock, createSolver })
      const [domain = '', ...others] = names
      const ask = (query: string) =>
        running.call('POST', `/api/certificate${query}`, { domain, names: others })
      const before = await ask('?dryRun=true')
      const changed = world.count()
      const order = await ask('')
      await running.close()

      outcomes[order.status === 200 ? 'issued' : 'refused'] += 1
      const isReady = before.status === 200 && before.body.obstacles.length === 0
      if (isReady === (order.status === 200) && changed === 0) return
      throw new Error(`${before.text}\nand then ${order.status} ${order.text}`)
    }),
    { numRuns: 50 },
  )
  t.ok(outcomes.issued > 0, `${outcomes.issued} were issued`)
  t.ok(outcomes.refused > 0, `${outcomes.refused} were not`)
})

t.test('the account URL is in the log, and in the dry run once it is registered', async (t) => {
  const folder = testFolder(t)
  const { running, ca, clock } = await startAcme(t, {}, { folder })
  const lookAhead = async ({ call }: typeof running) =>
    (await call('POST', '/api/certificate?dryRun=true', { domain: 'b.example.com' })).body
  t.notOk('accountUrl' in (await lookAhead(running)))
  await post(running)
  const { accountUrl } = await lookAhead(running)
  t.match(accountUrl, new RegExp(`^${ca.directoryUrl.origin}/account/`))
  t.equal(accountUrl, ca.exchanges.find(({ kind }) => kind === 'newOrder')?.header.kid)
  const tells = (lines: readonly string[]) =>
    lines.some((line) => JSON.parse(line).accountUrl === accountUrl)
  t.ok(tells(running.logged))
  await running.close()
  const again = await startAcme(t, {}, { folder, ca, clock })
  await post(again.running, 'b.example.com')
  t.ok(tells(again.running.logged), 'after a restart as well')
})
t.test('a dry run shows the shares', async (t) => {
  expectWarnings(t, 'CERT_RATE_LIMITED')
  const config = {
    auth: {
      psk: { keys: [{ name: 'web', key: 'the-key-of-a-web-server', domains: ['*.example.com'] }] },
    },
  }
  const limits = { domain: { count: 10, per: '7d' } }
  const { running } = await startAcme(t, {}, { issuerOptions: { limits }, config })
  const ask = async (name: string, query = '') => {
    const headers = { authorization: 'APIKey the-key-of-a-web-server' }
    const body = { domain: `${name}.example.com` }
    return (await running.call('POST', `/api/certificate${query}`, body, headers)).body
  }
  for (const name of ['a', 'b', 'c']) await ask(name)
  const own = 'example.com by one caller that is no operator'
  const kept = 'example.com, without 3 for renewals'
  t.match(await ask('d', '?dryRun=true'), {
    budgets: [
      { limit: 'domain', subject: kept, left: 4, count: 10 },
      { limit: 'domain', subject: own, left: 0, count: 3 },
    ],
    obstacles: ['the limit `domain` for example.com by one caller that is no operator is used up'],
  })
  t.match(await ask('d'), {
    code: 'CERT_RATE_LIMITED',
    detail: /3 .* by one caller/,
    action: /an operator can/,
  })
})

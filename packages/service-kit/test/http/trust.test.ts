import { setImmediate } from 'node:timers/promises'
import Fastify from 'fastify'
import t, { type Test } from 'tap'
import { clock } from '../../src/clock.ts'
import { health, problems, trust } from '../../src/http/index.ts'
import { createTrust, type Peer } from '../../src/http/server.ts'
import { reload } from '../../src/reload.ts'
import { createLogger } from '../../src/telemetry/log.ts'
import { manualClock } from '../../src/testing.ts'

const at = (remoteAddress?: string): Peer => ({ remoteAddress })
const withCertificate = (authorized: boolean): Peer => ({
  remoteAddress: '198.51.100.9',
  authorized,
})

t.test('trusts only listed proxies and verified client certificates', async (t) => {
  const table: [list: string[] | undefined, peer: Peer, trusted: boolean, why: string][] = [
    [undefined, at('127.0.0.1'), true, 'loopback by default'],
    [undefined, at('127.9.9.9'), true, 'all of it'],
    [undefined, at('::1'), true, 'loopback, IPv6'],
    [undefined, at('::ffff:127.0.0.1'), true, 'IPv4 on a socket of both'],
    [undefined, at('10.0.0.1'), false, 'a private network is not loopback'],
    [undefined, at(undefined), false, 'a connection that is gone'],
    [undefined, at('nonsense'), false, 'no address'],
    [['10.0.0.0/8'], at('10.2.3.4'), true, 'in the list'],
    [['10.0.0.0/8'], at('::ffff:10.2.3.4'), true, 'in the list, mapped'],
    [['10.0.0.0/8'], at('11.0.0.1'), false, 'beside it'],
    [['10.0.0.0/8'], at('127.0.0.1'), false, 'loopback, when it is not listed'],
    [[], at('127.0.0.1'), false, 'nobody, when the list is empty'],
    [[], withCertificate(true), true, 'a verified client certificate'],
    [[], withCertificate(false), false, 'an unverified one'],
  ]
  for (const [list, peer, trusted, why] of table)
    t.equal(createTrust(list).trusts(peer), trusted, why)
})

t.test('a client certificate counts for its own connection, and not for the address', async (t) => {
  const trust = createTrust([])
  const remoteAddress = '203.0.113.7'
  t.notOk(trust.trusts({ remoteAddress }))
  t.ok(trust.trusts({ remoteAddress, authorized: true }))
  t.notOk(trust.trusts({ remoteAddress }))
})

t.test('the client is the first untrusted hop from the right', async (t) => {
  const trust = createTrust(['10.0.0.0/8', 'fd00::/8'])
  const table: [chain: string | undefined, client: string | undefined, why: string][] = [
    ['203.0.113.7', '203.0.113.7', 'one hop'],
    ['1.1.1.1, 203.0.113.7', '203.0.113.7', 'what the client wrote itself does not count'],
    ['100.64.0.1, 203.0.113.7, 10.0.0.9', '203.0.113.7', 'behind two proxies'],
    ['203.0.113.7,10.0.0.9,fd00::5', '203.0.113.7', 'of both versions, without spaces'],
    ['10.0.0.5', '10.0.0.5', 'a client among the proxies'],
    ['10.0.0.5, 10.0.0.9', '10.0.0.5', 'and behind one'],
    ['203.0.113.7, unknown', undefined, 'an unreadable hop ends it'],
    ['203.0.113.7, ', undefined, 'an empty one too'],
    ['203.0.113.7:4711', undefined, 'a port is not part of an address'],
    ['2001:DB8:0::1', '2001:db8::1', 'canonical'],
    ['', undefined, 'nothing'],
    [undefined, undefined, 'no header'],
    [`${'1.1.1.1,'.repeat(300)}203.0.113.7`, undefined, 'more hops than any chain has'],
  ]
  for (const [chain, client, why] of [...table, ...table])
    t.equal(
      trust.clientIp({ socket: at('10.0.0.1'), headers: { 'x-forwarded-for': chain } }),
      client,
      why,
    )
  t.equal(
    trust.clientIp({ socket: at('198.51.100.9'), headers: { 'x-forwarded-for': '203.0.113.7' } }),
    '198.51.100.9',
    'somebody untrusted is the client, whatever it says',
  )
  t.equal(
    createTrust([]).clientIp({
      socket: withCertificate(true),
      headers: { 'x-forwarded-for': '1.1.1.1, 203.0.113.7' },
    }),
    '203.0.113.7',
    'behind a proxy with a certificate',
  )
})

/** What DNS says: addresses, or the code of an error. */
type Zone = Record<string, string[] | string | Promise<string[]>>

async function start(t: Test, trustedProxies: string[] | undefined, zone: Zone) {
  const time = manualClock()
  const lines: { level: number; msg: string; proxy: string; addresses: string[] }[] = []
  const write = (line: string) => void lines.push(JSON.parse(line))
  const asked: string[] = []
  const lookup = async (name: string) => {
    asked.push(name)
    const answer = zone[name] ?? 'ENOTFOUND'
    if (typeof answer !== 'string') return answer
    throw Object.assign(new Error(), { code: answer })
  }
  const app = Fastify({
    loggerInstance: createLogger({
      name: 'test',
      level: 'info',
      format: 'json',
      stream: { write },
    }),
  })
  await app.register(clock, { clock: time })
  await app.register(problems, { statusOf: {} })
  await app.register(health)
  await app.register(reload)
  await app.register(trust, { server: { trustedProxies }, lookup })
  t.teardown(() => app.close())
  return {
    app,
    time,
    asked,
    trusts: (...addresses: string[]) => addresses.map((one) => app.trust.trusts(at(one))),
    degraded: () => app.readiness().degraded,
    /** The level and text of each line since the last call. */
    said: () => lines.splice(0).map(({ level, msg, addresses }) => [level, msg, addresses]),
    async reload(next: string[] | undefined) {
      const commit = await app.prepareReload({ server: { trustedProxies: next } })
      commit()
    },
  }
}

const INFO = 30
const WARN = 40

t.test('a name stands for the addresses that it has now', async (t) => {
  const zone: Zone = { traefik: ['172.18.0.3'], lb: ['172.18.0.3', '::ffff:172.18.0.4', 'fd00::4'] }
  const { app, time, trusts, degraded, said } = await start(
    t,
    ['10.0.0.0/8', 'Traefik', 'lb'],
    zone,
  )
  const peers = ['172.18.0.3', '172.18.0.4', '::ffff:172.18.0.4', 'fd00::4', 'fd00::4%eth0']
  t.strictSame(trusts(...peers, '10.1.1.1'), [true, true, true, true, false, true])
  t.strictSame(trusts('172.18.0.5', '127.0.0.1'), [false, false])
  t.strictSame(said(), [
    [INFO, 'proxy resolves to 172.18.0.3', ['172.18.0.3']],
    [
      INFO,
      'proxy resolves to 172.18.0.3, 172.18.0.4, fd00::4',
      ['172.18.0.3', '172.18.0.4', 'fd00::4'],
    ],
  ])
  zone.traefik = ['172.18.0.5']
  zone.lb = ['172.18.0.4', 'fd00::4', '172.18.0.3']
  const { trust } = app
  await time.advance(29_000)
  t.equal(app.trust, trust, 'nothing is made anew')
  await time.advance(1_000)
  t.strictSame(trusts('172.18.0.5', '172.18.0.3'), [true, true], 'another name has the old one')
  t.strictSame(
    said(),
    [[INFO, 'proxy resolves to 172.18.0.5', ['172.18.0.5']]],
    'the order is no change',
  )
  zone.lb = ['172.18.0.4']
  await time.advance(30_000)
  t.strictSame(trusts('172.18.0.5', '172.18.0.3'), [true, false])
  t.strictSame(degraded(), [])
})

t.test('a name that is gone loses its addresses at once', async (t) => {
  const zone: Zone = { traefik: ['172.18.0.3'] }
  const { time, trusts, degraded, said } = await start(t, ['traefik'], zone)
  said()
  zone.traefik = 'ENOTFOUND'
  await time.advance(30_000)
  t.strictSame(trusts('172.18.0.3', '127.0.0.1'), [false, false])
  t.strictSame(degraded(), ['proxy traefik'])
  t.strictSame(said(), [[WARN, 'proxy has no address', []]])
  await time.advance(600_000)
  t.strictSame(said(), [], 'said once')
  zone.traefik = ['172.18.0.3']
  await time.advance(5_000)
  t.strictSame([trusts('172.18.0.3'), degraded()], [[true], []], 'back within seconds')
  t.strictSame(said(), [[INFO, 'proxy resolves to 172.18.0.3', ['172.18.0.3']]])
})

t.test('while the resolver fails, the last addresses hold for five minutes', async (t) => {
  for (const answer of ['EAI_AGAIN', new Promise<string[]>(() => {})]) {
    const zone: Zone = { traefik: ['172.18.0.3'] }
    const { time, trusts, degraded, said } = await start(t, ['traefik'], zone)
    said()
    zone.traefik = answer
    await time.advance(299_000)
    t.strictSame([trusts('172.18.0.3'), degraded()], [[true], ['proxy traefik']])
    t.strictSame(said(), [[WARN, 'proxy cannot be looked up now', ['172.18.0.3']]])
    await time.advance(1_000)
    t.strictSame(trusts('172.18.0.3'), [false])
    t.strictSame(said(), [[WARN, 'proxy has lost its addresses', []]])
    await time.advance(600_000)
    t.strictSame(said(), [], 'said once')
  }
})

t.test(
  'a resolver that fails at the start holds it up for two seconds, and trusts nobody',
  async (t) => {
    const answer = Promise.withResolvers<string[]>()
    const time = manualClock()
    const app = Fastify()
    await app.register(clock, { clock: time })
    await app.register(problems, { statusOf: {} })
    await app.register(health)
    await app.register(reload)
    let isReady = false
    const server = { trustedProxies: ['traefik', 'lb'] }
    const starting = app.register(trust, { server, lookup: () => answer.promise }).then(() => {
      isReady = true
    })
    await setImmediate()
    await time.advance(1_999)
    t.notOk(isReady)
    await time.advance(1)
    await starting
    t.notOk(app.trust.trusts(at('172.18.0.3')))
    t.notOk(app.trust.trusts(at('127.0.0.1')), 'not the default')
    answer.resolve(['172.18.0.3'])
    await time.advance(5_000)
    t.ok(app.trust.trusts(at('172.18.0.3')))
    await app.close()
  },
)

t.test('a name of a network does not start, and later counts as none', async (t) => {
  const all = Array.from({ length: 17 }, (_, i) => `172.18.0.${i + 1}`)
  for (const answer of [
    all,
    ['0.0.0.0'],
    ['172.18.0.1', '::'],
    ['224.0.0.1'],
    ['255.255.255.255'],
  ]) {
    const broad = {
      code: 'CONFIG_INVALID',
      message: /^server.trustedProxies: traefik resolves to /,
    }
    await t.rejects(start(t, ['traefik'], { traefik: answer }), broad)
    const zone: Zone = { traefik: ['172.18.0.1'] }
    const { time, trusts, degraded, said } = await start(t, ['traefik'], zone)
    said()
    zone.traefik = answer
    await time.advance(30_000)
    t.strictSame([trusts('172.18.0.1', '0.0.0.0'), degraded()], [[false, false], ['proxy traefik']])
    t.match(said(), [[WARN, /^proxy resolves to /, { length: 0 }]])
  }
})

t.test('a reload takes other names, and stops the old ones', async (t) => {
  const zone: Zone = { traefik: ['172.18.0.3'], caddy: ['172.18.0.4'], all: ['::'] }
  const { app, time, asked, trusts, degraded, reload } = await start(t, ['traefik'], zone)
  await t.rejects(reload(['caddy', 'all']), { code: 'CONFIG_INVALID' })
  t.strictSame(trusts('172.18.0.3', '172.18.0.4'), [true, false], 'a bad list changes nothing')
  await reload(['traefik', 'caddy'])
  t.strictSame(trusts('172.18.0.3', '172.18.0.4'), [true, true])
  zone.traefik = 'EAI_AGAIN'
  await reload(['traefik', '10.0.0.1'])
  t.strictSame(trusts('172.18.0.3', '172.18.0.4', '10.0.0.1'), [true, false, true], 'still known')
  asked.length = 0
  await reload(['caddy'])
  await time.advance(60_000)
  t.strictSame(asked, ['caddy', 'caddy', 'caddy'])
  t.strictSame([trusts('172.18.0.3', '172.18.0.4'), degraded()], [[false, true], []])
  await reload(undefined)
  t.strictSame(trusts('127.0.0.1', '172.18.0.4'), [true, false], 'loopback by default')
  await reload(['caddy'])
  asked.length = 0
  await app.close()
  await time.advance(600_000)
  t.strictSame(asked, [], 'nothing is asked after the end')
})

t.test('an answer that comes after a reload counts for the names of now alone', async (t) => {
  const zone: Zone = { traefik: ['172.18.0.3'], caddy: ['172.18.0.4'] }
  const { time, asked, trusts, degraded, reload } = await start(t, ['traefik', 'caddy'], zone)
  const late = Promise.withResolvers<string[]>()
  zone.traefik = late.promise
  await time.advance(30_000)
  await reload(['caddy'])
  zone.traefik = ['172.18.0.5']
  await reload(['caddy', 'traefik'])
  late.resolve(['172.18.0.6'])
  await setImmediate()
  t.strictSame(trusts('172.18.0.3', '172.18.0.5', '172.18.0.6'), [false, true, false])
  zone.caddy = new Promise<string[]>(() => {})
  await time.advance(30_000)
  asked.length = 0
  await reload(['caddy', 'traefik', '10.0.0.1'])
  t.strictSame(asked, [], 'a reload does not wait for names that are known')
  t.strictSame(trusts('172.18.0.4', '10.0.0.1'), [true, true])
  await time.advance(60_000)
  t.strictSame(new Set(asked), new Set(['traefik']), 'and asks for a name once at a time')
  t.strictSame(degraded(), ['proxy caddy'])
})

t.test('a reload that ends after the app begins nothing', async (t) => {
  const late = Promise.withResolvers<string[]>()
  const zone: Zone = { traefik: ['172.18.0.3'], caddy: late.promise }
  const { app, time, asked, reload } = await start(t, ['traefik'], zone)
  const reloading = reload(['traefik', 'caddy'])
  await app.close()
  late.resolve(['172.18.0.4'])
  await reloading
  asked.length = 0
  await time.advance(600_000)
  t.strictSame(asked, [])
})

t.test('answers that change each time are followed, and two apps ask for themselves', async (t) => {
  const zone: Zone = { traefik: ['172.18.0.1'] }
  const one = await start(t, ['traefik'], zone)
  const other = await start(t, ['traefik'], zone)
  for (let i = 2; i < 20; i++) {
    zone.traefik = [`172.18.0.${i}`]
    await one.time.advance(30_000)
    t.strictSame(one.trusts(`172.18.0.${i}`, `172.18.0.${i - 1}`), [true, false])
  }
  t.strictSame(other.trusts('172.18.0.1', '172.18.0.19'), [true, false])
  await one.app.close()
  await other.time.advance(30_000)
  t.strictSame(other.trusts('172.18.0.1', '172.18.0.19'), [false, true])
})

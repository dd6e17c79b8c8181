import Fastify from 'fastify'
import t from 'tap'
import { checkProxyNames, checkTrustedProxies } from '../../src/config/rules.ts'
import { createTrust, forwardedAddresses } from '../../src/http/server.ts'

const CLIENT = '198.51.100.7'

t.test('only trusted proxies set the address of a client', async (t) => {
  const proxy = ['10.0.0.2', '10.0.1.0/24']
  const cases: [
    why: string,
    list: string[] | undefined,
    peer: string,
    chain: string,
    ip: string,
  ][] = [
    ['a listed proxy', proxy, '10.0.0.2', CLIENT, CLIENT],
    ['a mapped address of it', proxy, '::ffff:10.0.0.2', CLIENT, CLIENT],
    ['two of them', proxy, '10.0.0.2', `${CLIENT}, 10.0.1.9`, CLIENT],
    ['what the client itself wrote', proxy, '10.0.0.2', `1.2.3.4, ${CLIENT}`, CLIENT],
    ['another peer', proxy, CLIENT, '1.2.3.4', CLIENT],
    ['loopback, when it is not listed', proxy, '127.0.0.1', '1.2.3.4', '127.0.0.1'],
    ['loopback by default', undefined, '127.0.0.1', CLIENT, CLIENT],
    ['nobody else by default', undefined, '10.0.0.2', CLIENT, '10.0.0.2'],
    ['nobody, when the list is empty', [], '127.0.0.1', CLIENT, '127.0.0.1'],
    ['a chain that is no address', proxy, '10.0.0.2', 'nonsense', '10.0.0.2'],
    ['such behind another proxy', proxy, '10.0.0.2', '","x":"y, 10.0.1.9', '10.0.1.9'],
    ['nonsense of a client', proxy, '10.0.0.2', `nonsense, ${CLIENT}`, CLIENT],
    ['an address with its port', proxy, '10.0.0.2', `${CLIENT}:4711`, '10.0.0.2'],
  ]
  for (const [why, list, peer, chain, ip] of cases) {
    const app = Fastify({ trustProxy: createTrust(list).isProxy })
    await app.register(forwardedAddresses)
    app.get('/', async (request) => ({ ip: request.ip }))
    const headers = { 'x-forwarded-for': chain }
    const response = await app.inject({ url: '/', remoteAddress: peer, headers })
    t.strictSame(response.json(), { ip }, why)
    await app.close()
  }
})

t.test('only trusted proxies set host and protocol', async (t) => {
  const app = Fastify({ trustProxy: createTrust(['10.0.0.2']).isProxy })
  app.get('/', async ({ host, protocol }) => ({ host, protocol }))
  const headers = {
    host: 'inside:7401',
    'x-forwarded-host': 'certs.example.com',
    'x-forwarded-proto': 'https',
  }
  const ask = async (remoteAddress: string) =>
    (await app.inject({ url: '/', remoteAddress, headers })).json()
  t.strictSame(await ask('10.0.0.2'), { host: 'certs.example.com', protocol: 'https' })
  t.strictSame(await ask('10.0.0.3'), { host: 'inside:7401', protocol: 'http' })
  await app.close()
})

t.test(
  'refuses a list that trusts nearly everybody, and entries that are no networks',
  async (t) => {
    const cases: [network: string, fault: RegExp | undefined][] = [
      ['10.0.0.5', undefined],
      ['10.0.0.0/8', undefined],
      ['fc00::/7', undefined],
      ['2001:db8::1', undefined],
      ['0.0.0.0/0', /^trusts far more/],
      ['128.0.0.0/1', /^trusts far more/],
      ['::/0', /^trusts far more/],
      ['2000::/3', /^trusts far more/],
      ['::ffff:0.0.0.0/96', /^trusts far more/],
      ['10.1.2.3/8', /bits behind the prefix/],
      ['proxy.example.com', undefined],
      ['traefik', undefined],
      ['traefik:8080', /^is not an IP address, a network such as 10.0.0.0\/8, or a host name$/],
      ['http://traefik', /^is not an IP address/],
      ['*.example.com', /^is not an IP address/],
      ['10.0.0.256', /^is not an IP address/],
      ['', /^is not an IP address/],
    ]
    for (const [network, fault] of cases) {
      const [found, ...more] = checkTrustedProxies(['10.0.0.1', network], '/server/trustedProxies')
      t.strictSame(more, [], network)
      t.equal(found?.path, fault && '/server/trustedProxies/1', network)
      if (fault) t.match(found?.message, fault, network)
    }
    t.strictSame(checkTrustedProxies(undefined, '/server/trustedProxies'), [])
  },
)

t.test('refuses more host names than are looked up', async (t) => {
  const names = (count: number) => Array.from({ length: count }, (_, i) => `proxy-${i}`)
  t.strictSame(checkTrustedProxies(['10.0.0.1', ...names(16)], '/at'), [])
  t.match(checkTrustedProxies(names(17), '/at'), [
    { path: '/at', message: 'may have at most 16 host names' },
  ])
})

t.test('looks up names: a network is a fault, an unknown name is not', async (t) => {
  const answers: Record<string, readonly string[] | undefined> = {
    traefik: ['10.0.0.5'],
    pods: Array.from({ length: 17 }, (_, i) => `10.0.0.${i}`),
    any: ['0.0.0.0'],
  }
  const lookup = async (name: string) => answers[name] ?? []
  const list = ['10.0.0.9', 'traefik', 'pods', 'any', 'unknown']
  t.strictSame(await checkProxyNames({ server: {} }, lookup), [])
  t.match(await checkProxyNames({ server: { trustedProxies: list } }, lookup), [
    {
      path: '/server/trustedProxies/2',
      message: 'resolves to a network: list that in its place',
      isWarning: false,
    },
    {
      path: '/server/trustedProxies/3',
      message: 'resolves to 0.0.0.0, which is not the address',
      isWarning: false,
    },
    { path: '/server/trustedProxies/4', message: 'has no address', isWarning: true },
  ])
})

import fc from 'fast-check'
import t from 'tap'
import {
  cidrContains,
  compileNetworks,
  embeddedIp,
  type IpAddress,
  isPublicIp,
  parseCidr,
  parseIp,
} from '../src/ip.ts'

const addresses: [text: string, canonical: string | undefined][] = [
  ['192.0.2.1', '192.0.2.1'],
  ['0.0.0.0', '0.0.0.0'],
  ['255.255.255.255', '255.255.255.255'],
  ['2001:DB8:0:0:1:0:0:1', '2001:db8::1:0:0:1'],
  ['::', '::'],
  ['::1', '::1'],
  ['::ffff:192.0.2.1', '192.0.2.1'],
  ['::ffff:c000:201', '192.0.2.1'],
  ['::192.0.2.1', '::c000:201'],
  ['64:ff9b::192.0.2.1', '64:ff9b::c000:201'],
  ['01.2.3.4', undefined],
  ['1.2.3', undefined],
  ['1.2.3.4.', undefined],
  ['256.1.1.1', undefined],
  ['0x7f.0.0.1', undefined],
  ['2130706433', undefined],
  ['fe80::1%eth0', undefined],
  ['[::1]', undefined],
  ['1::2::3', undefined],
  [' 1.2.3.4', undefined],
  ['', undefined],
]

t.test('parseIp gives the canonical address', async (t) => {
  for (const [text, canonical] of addresses)
    t.equal(parseIp(text)?.text, canonical, `"${text}" is ${canonical ?? 'refused'}`)
  t.strictSame(parseIp('10.0.0.255')?.bytes, Uint8Array.of(10, 0, 0, 255))
  t.equal(parseIp('::1')?.version, 6)
})

const cidrs: [text: string, canonical: string | undefined][] = [
  ['10.0.0.0/8', '10.0.0.0/8'],
  ['10.1.2.3', '10.1.2.3/32'],
  ['0.0.0.0/0', '0.0.0.0/0'],
  ['::/0', '::/0'],
  ['FD00::/8', 'fd00::/8'],
  ['::1', '::1/128'],
  ['::ffff:10.0.0.0/104', '10.0.0.0/8'],
  ['::ffff:0.0.0.0/96', '0.0.0.0/0'],
  ['::ffff:0.0.0.0/95', undefined],
  ['10.0.0.1/8', undefined],
  ['10.0.0.0/33', undefined],
  ['fd00::/129', undefined],
  ['10.0.0.0/08', undefined],
  ['10.0.0.0/', undefined],
  ['10.0.0.0/-1', undefined],
  ['10.0.0.0/8/8', undefined],
  ['/8', undefined],
]

t.test('parseCidr gives the network', async (t) => {
  for (const [text, canonical] of cidrs)
    t.equal(parseCidr(text)?.text, canonical, `"${text}" is ${canonical ?? 'refused'}`)
})

const v4 = fc.ipV4()
const v6 = fc.ipV6()

t.test('addresses and networks have these properties', async (t) => {
  t.test('canonical text parses to itself and is what the URL parser writes', async () => {
    fc.assert(
      fc.property(fc.oneof(v4, v6), (text) => {
        const ip = parseIp(text)!
        const host = new URL(`http://${text.includes(':') ? `[${text}]` : text}`).hostname
        return (
          parseIp(ip.text)!.text === ip.text &&
          parseIp(host.replace(/[[\]]/g, ''))!.text === ip.text
        )
      }),
    )
  })

  t.test('a network contains an address exactly if their leading bits are equal', async () => {
    const bits = (ip: IpAddress) =>
      [...ip.bytes].map((byte) => byte.toString(2).padStart(8, '0')).join('')
    const masked = (text: string, prefix: number) => {
      const ip = parseIp(text)!
      const kept = bits(ip)
        .slice(0, prefix)
        .padEnd(ip.bytes.length * 8, '0')
      const bytes = kept.match(/.{8}/g)!.map((byte) => Number.parseInt(byte, 2))
      return ip.version === 4
        ? bytes.join('.')
        : Buffer.from(bytes).toString('hex').match(/.{4}/g)!.join(':')
    }
    const pair = fc.oneof(
      fc.tuple(v4, v4, fc.nat(32)),
      fc.tuple(v6, v6, fc.nat(128)),
      v4.chain((text) => fc.tuple(fc.constant(text), fc.constant(text), fc.nat(32))),
    )
    fc.assert(
      fc.property(pair, ([network, text, prefix]) => {
        const first = parseIp(network)!
        const ip = parseIp(text)!
        if (first.version === 4 && prefix > 32) return true
        const cidr = parseCidr(`${masked(network, prefix)}/${prefix}`)
        // A mapped network has 96 bits less.
        if (!cidr) return network.startsWith('::')
        const isSame = bits(ip).slice(0, cidr.prefix) === bits(cidr.network).slice(0, cidr.prefix)
        return cidrContains(cidr, ip) === (ip.version === cidr.network.version && isSame)
      }),
    )
  })

  t.test('no text makes the parsers throw', async () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.stringMatching(/^[0-9a-f:./%x]{0,45}$/)), (text) => {
        const ip = parseIp(text)
        const cidr = parseCidr(text)
        return ip === undefined || cidr === undefined || cidr.network.text === ip.text
      }),
    )
  })

  t.test('a network never contains addresses of the other version', async (t) => {
    t.notOk(cidrContains(parseCidr('::/0')!, parseIp('10.0.0.1')!))
    t.notOk(cidrContains(parseCidr('0.0.0.0/0')!, parseIp('::1')!))
  })
})

/** The registries of IANA for IPv4 and IPv6 (RFC 6890), multicast, and what is allocated to nobody. */
const special: [network: string, first: string, last: string][] = [
  ['0.0.0.0/8', '0.0.0.0', '0.255.255.255'],
  ['10.0.0.0/8', '10.0.0.0', '10.255.255.255'],
  ['100.64.0.0/10', '100.64.0.0', '100.127.255.255'],
  ['127.0.0.0/8', '127.0.0.0', '127.255.255.255'],
  ['169.254.0.0/16', '169.254.0.0', '169.254.255.255'],
  ['172.16.0.0/12', '172.16.0.0', '172.31.255.255'],
  ['192.0.0.0/24', '192.0.0.0', '192.0.0.255'],
  ['192.0.2.0/24', '192.0.2.0', '192.0.2.255'],
  ['192.31.196.0/24', '192.31.196.0', '192.31.196.255'],
  ['192.52.193.0/24', '192.52.193.0', '192.52.193.255'],
  ['192.88.99.0/24', '192.88.99.0', '192.88.99.255'],
  ['192.168.0.0/16', '192.168.0.0', '192.168.255.255'],
  ['192.175.48.0/24', '192.175.48.0', '192.175.48.255'],
  ['198.18.0.0/15', '198.18.0.0', '198.19.255.255'],
  ['198.51.100.0/24', '198.51.100.0', '198.51.100.255'],
  ['203.0.113.0/24', '203.0.113.0', '203.0.113.255'],
  ['224.0.0.0/4', '224.0.0.0', '239.255.255.255'],
  ['240.0.0.0/4', '240.0.0.0', '255.255.255.255'],
  ['168.63.129.16/32', '168.63.129.16', '168.63.129.16'],
  ['::/128', '::', '::'],
  ['::1/128', '::1', '::1'],
  ['::/96', '::2', '::ffff:ffff'],
  ['::ffff:10.0.0.0/104', '::ffff:10.0.0.0', '::ffff:aff:ffff'],
  ['::ffff:127.0.0.0/104', '::ffff:127.0.0.1', '::ffff:7fff:ffff'],
  ['::ffff:0:0:0/96', '::ffff:0:127.0.0.1', '::ffff:0:ffff:ffff'],
  ['64:ff9b::/96', '64:ff9b::', '64:ff9b::ffff:ffff'],
  ['64:ff9b:1::/48', '64:ff9b:1::', '64:ff9b:1:ffff:ffff:ffff:ffff:ffff'],
  ['100::/64', '100::', '100::ffff:ffff:ffff:ffff'],
  ['100:0:0:1::/64', '100:0:0:1::', '100:0:0:1:ffff:ffff:ffff:ffff'],
  ['2001::/23', '2001::', '2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff'],
  ['2001:db8::/32', '2001:db8::', '2001:db8:ffff:ffff:ffff:ffff:ffff:ffff'],
  ['2002::/16', '2002::', '2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
  ['2620:4f:8000::/48', '2620:4f:8000::', '2620:4f:8000:ffff:ffff:ffff:ffff:ffff'],
  ['3fff::/20', '3fff::', '3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff'],
  ['4000::/2', '4000::', '7fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
  ['5f00::/16', '5f00::', '5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
  ['8000::/2', '8000::', 'bfff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
  ['fc00::/7', 'fc00::', 'fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
  ['fe80::/10', 'fe80::', 'febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
  ['fec0::/10', 'fec0::', 'feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
  ['ff00::/8', 'ff00::', 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
]
/** Next to the special ranges, and well known. */
const common = [
  ...['1.0.0.0', '8.8.8.8', '9.255.255.255', '11.0.0.0', '100.63.255.255', '100.128.0.0'],
  ...['126.255.255.255', '128.0.0.0', '169.253.255.255', '169.255.0.0', '172.15.255.255'],
  ...['172.32.0.0', '192.0.1.0', '192.0.3.0', '192.167.255.255', '192.169.0.0', '198.17.255.255'],
  ...['198.20.0.0', '198.51.99.255', '203.0.112.255', '203.0.114.0', '223.255.255.255'],
  ...['::ffff:8.8.8.8', '2000::1', '2001:200::1', '2001:db7:ffff::1', '2001:db9::', '2003::1'],
  ...['2606:4700::6810:84e5', '2a00:1450:4001::1', '3ffe:ffff::1', '3fff:1000::1'],
]

const embedded: [address: string, inner: string | undefined][] = [
  ['::808:808', '8.8.8.8'],
  ['::2', '0.0.0.2'],
  ['::1', undefined],
  ['::', undefined],
  ['::ffff:0:808:808', '8.8.8.8'],
  ['64:ff9b::808:808', '8.8.8.8'],
  ['64:ff9b:1:ffff::808:808', '8.8.8.8'],
  ['64:ff9b:2::808:808', undefined],
  ['2002:808:808::1', '8.8.8.8'],
  ['2001:0:102:304::f7f7:f7f7', '8.8.8.8'],
  ['2001:db8::808:808', undefined],
  ['8.8.8.8', undefined],
]

t.test('embeddedIp gives the address that an address leads to', async (t) => {
  for (const [address, inner] of embedded)
    t.equal(embeddedIp(parseIp(address)!)?.text, inner, address)
})

t.test('isPublicIp tells the internet from special-purpose addresses', async (t) => {
  for (const [network, ...ends] of special)
    for (const text of ends) {
      t.equal(isPublicIp(parseIp(text)!), false, `${text} of ${network}`)
      t.equal(compileNetworks([network])(text), true, `${text} is in ${network}`)
    }
  for (const text of common) t.equal(isPublicIp(parseIp(text)!), true, text)
})

t.test('isPublicIp has these properties', async (t) => {
  const isSpecial = compileNetworks(special.map(([network]) => network))
  const ends = fc.constantFrom(...special.flatMap(([, ...ends]) => ends))

  t.test('it is the complement of the special ranges', async () => {
    fc.assert(
      fc.property(fc.oneof(v4, v6, ends), (text) => {
        const ip = parseIp(text)!
        const isRoutable = ip.version === 4 || compileNetworks(['2000::/3'])(ip)
        return isPublicIp(ip) === (isRoutable && !isSpecial(ip))
      }),
    )
  })

  t.test('an address that embeds another is no way around', async () => {
    const hex = (text: string) => Buffer.from(parseIp(text)!.bytes).toString('hex')
    const groups = (text: string) => `${hex(text).slice(0, 4)}:${hex(text).slice(4)}`
    fc.assert(
      fc.property(v4, (text) => {
        const isPublic = isPublicIp(parseIp(text)!)
        const mapped = [`::ffff:${text}`, `::ffff:${groups(text)}`, `0:0:0:0:0:FFFF:${text}`]
        const embedded = [
          ...[`::${text}`, `::ffff:0:${text}`, `64:ff9b::${text}`, `64:ff9b:1::${text}`],
          ...[`2002:${groups(text)}::1`, `2001:0:${groups(text)}::1`, `2001:0::${text}`],
          ...[`fe80::5efe:${text}`, `fd00::${text}`],
        ]
        return (
          mapped.every((each) => isPublicIp(parseIp(each)!) === isPublic) &&
          embedded.every((each) => !isPublicIp(parseIp(each)!))
        )
      }),
    )
  })
})

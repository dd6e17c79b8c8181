import fc from 'fast-check'
import t from 'tap'
import { cidrContains, type IpAddress, parseCidr, parseIp } from '../src/ip.ts'

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

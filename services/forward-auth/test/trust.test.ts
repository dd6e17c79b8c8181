import t from 'tap'
import { createTrust, type Peer } from '../src/trust.ts'

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
  for (const [chain, client, why] of table)
    t.equal(trust.clientIp(at('10.0.0.1'), chain), client, why)
  t.equal(
    trust.clientIp(at('198.51.100.9'), '203.0.113.7'),
    '198.51.100.9',
    'somebody untrusted is the client, whatever it says',
  )
  t.equal(
    createTrust([]).clientIp(withCertificate(true), '1.1.1.1, 203.0.113.7'),
    '203.0.113.7',
    'behind a proxy with a certificate',
  )
})

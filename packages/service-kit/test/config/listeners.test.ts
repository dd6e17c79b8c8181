import t from 'tap'
import { checkListeners, type Listener } from '../../src/rules.ts'

const listener = (path: string, host: string, port: number, kind?: string): Listener => ({
  path,
  address: { host, port },
  ...(kind && { kind }),
})

t.test('a host is an IP address or a host name', async (t) => {
  const table: [host: string, isSound: boolean][] = [
    ['127.0.0.1', true],
    ['0.0.0.0', true],
    ['::', true],
    ['fe80::1%eth0', true],
    ['localhost', true],
    ['gatehouse-1.internal', true],
    ['/run/x.sock', false],
    ['unix:/run/x.sock', false],
    ['http://x', false],
    ['x:80', false],
    ['[::1]', false],
    ['a b', false],
    ['*', false],
    ['1.2.3', false],
  ]
  for (const [host, isSound] of table)
    t.strictSame(
      checkListeners([listener('/server', host, 80)]),
      isSound
        ? []
        : [{ path: '/server/host', message: 'is not an IP address or host name to listen on' }],
      host,
    )
})

t.test('two listeners cannot have one port', async (t) => {
  const table: [a: [string, number], b: [string, number], clash: boolean][] = [
    [['127.0.0.1', 80], ['127.0.0.1', 80], true],
    [['localhost', 80], ['127.0.0.1', 80], true],
    [['0.0.0.0', 80], ['127.0.0.1', 80], true],
    [['127.0.0.1', 80], ['0.0.0.0', 80], true],
    [['::', 80], ['10.0.0.1', 80], true],
    [['::1', 80], ['0:0:0:0:0:0:0:1', 80], true],
    [['0.0.0.0', 80], ['::1', 80], false],
    [['127.0.0.1', 80], ['127.0.0.2', 80], false],
    [['127.0.0.1', 80], ['127.0.0.1', 81], false],
    [['127.0.0.1', 0], ['127.0.0.1', 0], false],
  ]
  for (const [a, b, clash] of table)
    t.strictSame(
      checkListeners([listener('/server', ...a), listener('/server/plainHttp', ...b)]),
      clash
        ? [
            {
              path: '/server/plainHttp/port',
              message: 'is taken by server, which has port 80 too',
            },
          ]
        : [],
      `${a} ${b}`,
    )
})

t.test('listeners of the same kind may share an address', async (t) => {
  const both = (kind: string, host = '::') => [
    listener('/a', '::', 80, 'http-01'),
    listener('/b', host, 80, kind),
  ]
  t.strictSame(checkListeners(both('http-01')), [])
  t.equal(checkListeners(both('tls-alpn-01')).length, 1)
  t.equal(checkListeners(both('http-01', '127.0.0.1')).length, 1, 'not where the hosts differ')
})

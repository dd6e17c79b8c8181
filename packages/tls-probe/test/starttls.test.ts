import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import fc from 'fast-check'
import t from 'tap'
import { PROTOCOLS, type Protocol } from '../src/ports.ts'
import { probe } from '../src/probe.ts'
import { startTls } from '../src/starttls.ts'
import { chainOf, isFarewell, issue, listen, serveDialog } from './servers.ts'

const leaf = await issue(['a.test'])
const secure = { key: leaf.key, cert: chainOf(leaf.der) }
const address = '127.0.0.1'

/** A packet of MySQL: its length, its number, and what it says. */
const packet = (text: string, number = 0) =>
  `${String.fromCharCode(text.length)}\0\0${String.fromCharCode(number)}${text}`

/** Version 10, the thread ID, salt, capabilities with SSL, UTF-8, more salt, and the way to sign in. */
const MYSQL_GREETING = Buffer.from(
  packet(
    '\x0a8.0.36\0\x1a\0\0\0saltsalt\0\xff\xff\xff\x02\0\xff\xdf\x15' +
      `${'\0'.repeat(10)}more\x0amore\x0amo\0caching_sha2_password\0`,
  ),
  'latin1',
)
const SSL_REQUEST = '\0\0\0\x08\x04\xd2\x16\x2f'
const MYSQL_REQUEST = `\x20\0\0\x01\0\x8a\0\0\0\0\0\x01\x2d${'\0'.repeat(23)}`

type Lines = Parameters<typeof serveDialog>[1]
const DIALOGS: readonly [protocol: Protocol, lines: Lines, heard: readonly string[]][] = [
  [
    'smtp',
    [
      ['220-mx.test has something to say\r\n220 ESMTP\r\n', /^EHLO .*\r\n$/],
      ['250-mx.test\r\n250-SIZE 1000\r\n250 STARTTLS\r\n', /^(a )?STARTTLS\r\n$/],
      ['220 2.0.0 Ready\r\n'],
    ],
    ['EHLO [127.0.0.1]\r\n', 'STARTTLS\r\n', 'QUIT\r\n'],
  ],
  [
    'lmtp',
    [['220 LMTP\n', /^LHLO .*\r\n$/], ['250 mx.test\n', /^(a )?STARTTLS\r\n$/], ['220\r\n']],
    ['LHLO [127.0.0.1]\r\n', 'STARTTLS\r\n', 'QUIT\r\n'],
  ],
  [
    'imap',
    [
      ['* OK [CAPABILITY IMAP4rev1 STARTTLS] ready\r\n', /^(a )?STARTTLS\r\n$/],
      ['* OK still here\r\na OK begin\r\n'],
    ],
    ['a STARTTLS\r\n', 'b LOGOUT\r\n'],
  ],
  ['pop3', [['+OK ready\r\n', /^STLS\r\n$/], ['+OK begin\r\n']], ['STLS\r\n', 'QUIT\r\n']],
  ['postgres', [['', /^.{8}$/s], ['S']], [SSL_REQUEST, 'end']],
  ['mysql', [[MYSQL_GREETING, /^.{36}/s], ['']], [MYSQL_REQUEST, 'end']],
]

t.test('each protocol leads to TLS, and ends as it should', async (t) => {
  for (const [protocol, lines, heard] of DIALOGS) {
    const server = await serveDialog(t, lines, secure)
    const target = { address, port: server.port, protocol, serverName: 'a.test' }
    t.strictSame(await probe(target), { certificates: [leaf.der] }, protocol)
    t.strictSame(server.heard, heard, protocol)
  }
})

/** Sends one piece after the other, each in a packet of its own. */
async function send(socket: Socket, pieces: Iterable<string>): Promise<void> {
  socket.setNoDelay(true)
  for (const piece of pieces) {
    if (socket.destroyed) return
    if (!socket.write(piece, 'latin1'))
      await Promise.race([once(socket, 'drain'), once(socket, 'close')]).catch(() => {})
  }
}

const refusals: readonly [
  what: string,
  protocol: Protocol,
  said: Iterable<string>,
  message: RegExp,
][] = [
  ['is busy', 'smtp', ['421 too busy\r\n'], /says "421 too busy" before TLS$/],
  ['is a web server', 'smtp', ['HTTP/1.1 400 Bad Request\r\n\r\n'], /"HTTP\/1\.1 400 Bad Request"/],
  ['has no STARTTLS', 'smtp', ['220 a\r\n', '250 a\r\n', '502 what?\r\n'], /"502 what\?"/],
  ['speaks of control', 'pop3', ['-ERR \x1b]0;\x07\x9b\n'], /says "-ERR \?\]0;\?\?" before TLS$/],
  ['says much in a line', 'pop3', [`${'-'.repeat(8_000)}\n`], /says "-{100}" before TLS$/],
  ['refuses TLS', 'imap', ['* OK\r\n', '* hm\r\n', 'a NO not today\r\n'], /"a NO not today"/],
  ['knows us already', 'imap', ['* PREAUTH hello\r\n'], /"\* PREAUTH hello"/],
  ['has no TLS', 'postgres', ['N'], /says "N" before TLS/],
  ['has an error', 'postgres', ['E'], /says "E" before TLS/],
  [
    'admits nobody',
    'mysql',
    [packet("\xff\x6a\x04Host '10.1.2.3' is blocked")],
    /Host '10\.1\.2\.3' is blocked/,
  ],
  ['has an old protocol', 'mysql', [packet('\x093.20\0')], /says/],
  ['says nothing in a packet', 'mysql', [packet('')], /says/],
  ['has no end of lines', 'smtp', ['x'.repeat(9_000)], /or says too much$/],
  ['has no end of more', 'smtp', Array(2_000).fill('220-more\r\n'), /or says too much$/],
  ['has 10 MB', 'smtp', Array(1_000).fill('220-'.padEnd(10_000, 'x')), /or says too much$/],
  ['comes byte by byte', 'smtp', Array(9_000).fill('x'), /or says too much$/],
  ['has a long packet', 'mysql', ['\xff\xff\xff\0', 'x'.repeat(9_000)], /or says too much$/],
]

t.test('a server that does not lead to TLS is told at once from one that does', async (t) => {
  for (const [what, protocol, said, message] of refusals) {
    let heard = ''
    const port = await listen(t, (socket) => {
      socket.on('data', (chunk) => {
        heard += chunk.toString('latin1')
        if (isFarewell(heard)) socket.end()
      })
      void send(socket, said)
    })
    const result = await probe({ address, port, protocol }, { timeoutMs: 60_000 })
    t.match(result, { failure: 'protocol', message }, `${protocol} ${what}`)
    // Whoever says too much may not hear the farewell.
    if (message.source.includes('too much')) continue
    const farewell = { imap: /b LOGOUT\r\n$/, postgres: /^\0\0\0/, mysql: /^$/ }
    t.match(heard, farewell[protocol as 'imap'] ?? /QUIT\r\n$/, `${protocol} ${what}`)
  }
})

t.test('one that ends the connection is not waited for', async (t) => {
  for (const [protocol] of DIALOGS) {
    const port = await listen(t, (socket) => void socket.end())
    const result = await probe({ address, port, protocol }, { timeoutMs: 60_000 })
    t.match(result, { failure: 'protocol', message: /ends the connection before TLS/ }, protocol)
  }
})

t.test('one that says yes and goes is not waited for', async (t) => {
  const goers: readonly ((socket: Socket) => unknown)[] = [
    (socket) => socket.end('S'),
    (socket) => socket.write('S', () => socket.destroy()),
    (socket) => socket.write('S', () => socket.resetAndDestroy()),
    (socket) => socket.write('S', () => setImmediate(() => socket.resetAndDestroy())),
  ]
  for (const go of goers)
    for (let turn = 0; turn < 20; turn += 1) {
      const port = await listen(t, (socket) => void socket.once('data', () => go(socket)))
      const result = await probe({ address, port, protocol: 'postgres' }, { timeoutMs: 60_000 })
      t.match(result, { failure: /refused|protocol/ }, `${go}`)
    }
})

t.test('no handshake begins on a connection that has ended', async (t) => {
  const port = await listen(t, (socket) => void socket.end())
  for (const event of ['end', 'close']) {
    const socket = connect(port, address).resume()
    await once(socket, event)
    t.equal(await startTls(socket, 'tls'), 'ends the connection before TLS', event)
  }
})

t.test('what was seen counts, although the server does not end the connection', async (t) => {
  for (const [protocol, lines] of DIALOGS.slice(0, 4)) {
    const { port } = await serveDialog(t, lines, secure, true)
    const result = await probe({ address, port, protocol }, { timeoutMs: 300 })
    t.strictSame(result, { certificates: [leaf.der] }, protocol)
  }
  const port = await listen(t, (socket) => void socket.resume().write('554 no\r\n'))
  const result = await probe({ address, port, protocol: 'smtp' }, { timeoutMs: 300 })
  t.match(result, { failure: 'protocol', message: /says "554 no"/ })
})

t.test('whoever keeps it waiting is left at the time limit', async (t) => {
  const TLS_RECORD = '\x16\x03\x03\x40\0'
  const table: readonly [what: string, protocol: Protocol, said: string][] = [
    ['says nothing', 'tls', ''],
    ['begins a handshake', 'tls', TLS_RECORD],
    ['says nothing', 'smtp', ''],
    ['begins a line', 'smtp', '220 wait'],
    ['has more to say', 'smtp', '220-wait\r\n'],
    ['has TLS that is silent', 'postgres', 'S'],
    ['begins a packet', 'mysql', '\x0a\0\0\0\x0a'],
  ]
  for (const [what, protocol, said] of table) {
    const port = await listen(t, (socket) => void socket.resume().write(said, 'latin1'))
    const result = await probe({ address, port, protocol }, { timeoutMs: 200 })
    const message = `127.0.0.1:${port} takes longer than 0.2 s`
    t.strictSame(result, { failure: 'timeout', message }, `${protocol} ${what}`)
  }
})

t.test('no bytes of a server make it throw', async (t) => {
  let said: Uint8Array = Buffer.alloc(0)
  const port = await listen(t, (socket) => void socket.resume().end(said))
  const protocols = fc.constantFrom(...PROTOCOLS)
  const bytes = fc.oneof(
    fc.uint8Array({ maxLength: 300 }),
    fc.array(fc.constantFrom('220 ', '250-', '* OK', '+OK', 'S', 'a OK', '\n', '\r', '\0')),
  )
  await fc.assert(
    fc.asyncProperty(protocols, bytes, async (protocol, content) => {
      said = content instanceof Uint8Array ? content : Buffer.from(content.join(''))
      const result = await probe({ address, port, protocol }, { timeoutMs: 60_000 })
      return 'failure' in result && /^[ -~]+$/.test(result.message)
    }),
    { numRuns: 200 },
  )
})

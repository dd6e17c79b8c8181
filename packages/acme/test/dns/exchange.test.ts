import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { ask, parseServer } from '../../src/dns/exchange.ts'
import { type DnsQuestion, FLAG } from '../../src/dns/message.ts'

const signal = new AbortController().signal
const question: DnsQuestion = { name: 'a.test', type: 'TXT' }
const host = '127.0.0.1'

/** The request with the bit of an answer, and further flags; it has no records. */
function answerTo(request: Buffer, flags = 0): Buffer {
  const answer = Buffer.from(request)
  answer.writeUInt16BE(FLAG.response | flags, 2)
  return answer
}

function withId(message: Buffer, id: number): Buffer {
  const changed = Buffer.from(message)
  changed.writeUInt16BE(id, 0)
  return changed
}

/** The type of the question is before its class, which ends the message. */
function ofType(message: Buffer, type: number): Buffer {
  const changed = Buffer.from(message)
  changed.writeUInt16BE(type, message.length - 4)
  return changed
}

function uint16(value: number): Buffer {
  const bytes = Buffer.alloc(2)
  bytes.writeUInt16BE(value)
  return bytes
}

const frame = (message: Buffer) => Buffer.concat([uint16(message.length), message])

/** A name server on one port that answers each datagram, and each request on a connection. */
async function serve(
  t: Test,
  onDatagram: ((request: Buffer) => Buffer[]) | undefined,
  onRequest: ((request: Buffer, socket: Socket) => void) | undefined,
) {
  const sockets: Socket[] = []
  const tcp = createServer((socket) => {
    sockets.push(socket.on('error', () => {}))
    socket.on('data', (bytes) => onRequest?.(bytes.subarray(2), socket))
  }).listen(0, host)
  await once(tcp, 'listening')
  const { port } = tcp.address() as { port: number }
  const udp = createSocket('udp4').bind(port, host)
  await once(udp, 'listening')
  udp.on('message', (request, from) => {
    for (const answer of onDatagram?.(request) ?? []) udp.send(answer, from.port, from.address)
  })
  if (!onRequest) tcp.close()
  if (!onDatagram) udp.close()
  t.teardown(() => {
    if (onRequest) tcp.close()
    if (onDatagram) udp.close()
    for (const socket of sockets) socket.destroy()
  })
  return { host, port }
}

const end = (request: Buffer, socket: Socket) =>
  socket.end(frame(answerTo(request, FLAG.authoritative)))

t.test('asks by UDP, with recursion only where it is requested', async (t) => {
  const flags: number[] = []
  const server = await serve(
    t,
    (request) => {
      flags.push(request.readUInt16BE(2))
      return [answerTo(request)]
    },
    (_request, socket) => socket.destroy(),
  )
  for (const recursive of [true, false])
    t.match(await ask(server, question, { recursive, signal }), {
      questions: [question],
      answers: { length: 0 },
    })
  t.strictSame(flags, [FLAG.recursionDesired, 0])
})

const BY_TCP: [title: string, onDatagram: ((request: Buffer) => Buffer[]) | undefined][] = [
  ['that is cut short', (request) => [answerTo(request, FLAG.truncated)]],
  ['that does not come, as the port is closed', undefined],
]

for (const [title, onDatagram] of BY_TCP)
  t.test(`a datagram ${title}: by TCP`, async (t) => {
    const server = await serve(t, onDatagram, end)
    const { flags } = await ask(server, question, { recursive: false, signal })
    t.ok(flags & FLAG.authoritative)
  })

t.test('ignores datagrams that are not the answer', async (t) => {
  const server = await serve(
    t,
    (request) => [
      Buffer.from('garbage'),
      request,
      withId(answerTo(request), request.readUInt16BE() ^ 1),
      answerTo(Buffer.concat([request.subarray(0, 13), Buffer.from('b'), request.subarray(14)])),
      ofType(answerTo(request), 1),
      answerTo(request, FLAG.authoritative),
    ],
    (_request, socket) => socket.destroy(),
  )
  t.ok((await ask(server, question, { recursive: false, signal })).flags & FLAG.authoritative)
})

const FAILURES: [
  title: string,
  onRequest: ((request: Buffer, socket: Socket) => void) | undefined,
  code: string,
][] = [
  ['nobody is there', undefined, 'ACME_DNS_UNREACHABLE'],
  [
    'the connection ends early',
    (_request, socket) => socket.end(uint16(20)),
    'ACME_DNS_UNREACHABLE',
  ],
  [
    'the answer is to another question',
    (request, socket) => socket.end(frame(withId(answerTo(request), request.readUInt16BE() ^ 1))),
    'ACME_DNS_LOOKUP',
  ],
  [
    'the answer is garbage',
    (_request, socket) => socket.end(frame(Buffer.from('garbage'))),
    'ACME_DNS_LOOKUP',
  ],
]

for (const [title, onRequest, code] of FAILURES)
  t.test(`fails: ${title}`, async (t) => {
    const server = await serve(t, undefined, onRequest)
    await t.rejects(ask(server, question, { recursive: false, signal }), { code })
  })

t.test('an answer in pieces, and an abort in between', async (t) => {
  const server = await serve(t, undefined, async (request, socket) => {
    for (const byte of frame(answerTo(request))) socket.write(Buffer.of(byte))
  })
  t.match(await ask(server, question, { recursive: false, signal }), { questions: [question] })
  for (const by of ['UDP', 'TCP']) {
    const controller = new AbortController()
    const abort = () => {
      controller.abort(new Error('enough'))
      return []
    }
    const silent = await serve(t, by === 'UDP' ? abort : undefined, abort)
    const answer = ask(silent, question, { recursive: false, signal: controller.signal })
    await t.rejects(answer, { message: 'enough' }, by)
  }
})

t.test('parses servers as host and port', async (t) => {
  for (const [text, expected] of [
    ['192.0.2.1', { host: '192.0.2.1', port: 53 }],
    ['ns.test:5353', { host: 'ns.test', port: 5353 }],
    ['2001:db8::1', { host: '2001:db8::1', port: 53 }],
    ['[2001:db8::1]:54', { host: '2001:db8::1', port: 54 }],
    ['fe80::1%eth0', undefined],
    ['a b', undefined],
  ] as const)
    t.strictSame(parseServer(text), expected, text)
})

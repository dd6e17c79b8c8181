import { once } from 'node:events'
import type { Socket } from 'node:net'
import { ProbeError } from './errors.ts'
import type { ProbePort, Protocol } from './ports.ts'

/** Bytes that a server may send before TLS begins, and again after the farewell. */
const MAX_BYTES = 8_192
const NEWLINE = 10

/** The text that is sent, the line that lets the dialog go on, and lines that may come before it. */
type DialogStep = readonly [command: string, answer: RegExp, more?: RegExp]

const mail = (hello: string): readonly DialogStep[] => [
  ['', /^220[ \r]/, /^220-/],
  [`${hello} SELF`, /^250[ \r]/, /^250-/],
  ['STARTTLS', /^220[ \r]/, /^220-/],
]

/** The dialogs of lines (RFC 3207, 2033, 9051, 2595). */
const STEPS: { readonly [protocol in Protocol]?: readonly DialogStep[] } = {
  smtp: mail('EHLO'),
  lmtp: mail('LHLO'),
  imap: [
    ['', /^\* OK/],
    ['a STARTTLS', /^a OK/, /^\* /],
  ],
  pop3: [
    ['', /^\+OK/],
    ['STLS', /^\+OK/],
  ],
}

const FAREWELLS: { readonly [protocol in Protocol]?: string } = {
  smtp: 'QUIT\r\n',
  lmtp: 'QUIT\r\n',
  imap: 'b LOGOUT\r\n',
  pop3: 'QUIT\r\n',
}

/** The usual ports where these protocols begin with TLS. */
const WITHIN_TLS: Readonly<Record<number, Protocol>> = { 465: 'smtp', 993: 'imap', 995: 'pop3' }

/** Leads a connection to where TLS begins. @throws ProbeError; what `events.once` throws */
export async function startTls(
  socket: Socket,
  protocol: Protocol,
  signal: AbortSignal,
): Promise<void> {
  if (protocol === 'tls') return
  const text = new PlainText(socket, signal)
  if (protocol === 'postgres') await startPostgres(socket, text)
  else if (protocol === 'mysql') await startMysql(socket, text)
  else for (const step of STEPS[protocol] ?? []) await takeStep(socket, text, step)
  // Somebody else may have put it there.
  if (socket.readableLength > 0)
    throw new ProbeError('protocol', 'says more than it may before TLS')
}

/**
 * Ends a connection as its protocol does, so that the server has nothing to complain of in its log.
 * It reads a little of what comes until the server has closed it.
 */
export async function leave(
  socket: Socket,
  { port, protocol }: ProbePort,
  signal: AbortSignal,
): Promise<void> {
  let length = 0
  socket.on('data', (chunk: Buffer) => {
    length += chunk.length
    if (length > MAX_BYTES) socket.destroy()
  })
  const spoken = protocol === 'tls' ? WITHIN_TLS[port] : protocol
  const farewell = spoken && FAREWELLS[spoken]
  if (farewell !== undefined) socket.write(farewell)
  socket.end()
  if (!socket.closed) await once(socket.resume(), 'close', { signal }).catch(() => {})
}

/** What a server says before TLS begins: bounded, and each byte is looked at once. */
class PlainText {
  readonly #socket: Socket
  readonly #signal: AbortSignal
  #left = MAX_BYTES

  constructor(socket: Socket, signal: AbortSignal) {
    const closing = new AbortController()
    socket.once('close', () => closing.abort())
    this.#socket = socket
    this.#signal = AbortSignal.any([signal, closing.signal])
  }

  async read(length: number): Promise<Buffer> {
    this.#left -= length
    if (this.#left < 0) throw new ProbeError('protocol', 'says too much before TLS')
    for (;;) {
      const bytes: Buffer | null = this.#socket.read(length)
      if (bytes?.length === length) return bytes
      await once(this.#socket, 'readable', { signal: this.#signal })
    }
  }

  async readLine(): Promise<string> {
    for (let line = ''; ; ) {
      const byte = await this.read(1)
      line += byte.toString('latin1')
      if (byte[0] === NEWLINE) return line
    }
  }
}

async function takeStep(socket: Socket, text: PlainText, step: DialogStep): Promise<void> {
  const [command, answer, more] = step
  const { localAddress = '', localFamily } = socket
  // A client without a name gives its address (RFC 5321 section 4.1.3).
  const self = localFamily === 'IPv6' ? `[IPv6:${localAddress}]` : `[${localAddress}]`
  if (command !== '') socket.write(`${command.replace('SELF', self)}\r\n`)
  let line = await text.readLine()
  while (more?.test(line)) line = await text.readLine()
  if (answer.test(line)) return
  throw refusal(command === '' ? 'greets' : `answers ${command.split(' ', 1)[0]}`, line)
}

/** Quotes what a server says, which may be anything. */
function refusal(verb: string, text: string): ProbeError {
  const quote = text
    .trim()
    .slice(0, 100)
    .replace(/[^ -~]/g, '?')
  return new ProbeError('protocol', `${verb} with "${quote}"`)
}

/** SSLRequest (PostgreSQL, "Message Formats"). */
const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47])

async function startPostgres(socket: Socket, text: PlainText): Promise<void> {
  socket.write(SSL_REQUEST)
  const answer = (await text.read(1)).toString('latin1')
  if (answer !== 'S') throw refusal('answers SSLRequest', answer)
}

const CLIENT_SSL = 0x800
const CLIENT_PROTOCOL_41 = 0x200
const CLIENT_SECURE_CONNECTION = 0x8000
const MAX_PACKET = 0x1000000
const UTF8MB4 = 45

/** The initial handshake packet, and SSLRequest (MySQL, "Connection Phase"). */
async function startMysql(socket: Socket, text: PlainText): Promise<void> {
  const header = await text.read(4)
  const packet = await text.read(header.readUIntLE(0, 3))
  // Then the thread ID, the first part of the salt, and a filler.
  const capabilities = packet.indexOf(0, 1) + 1 + 4 + 8 + 1
  if (packet[0] !== 10 || packet.length < capabilities + 2)
    throw refusal('greets', packet.subarray(3).toString('latin1'))
  if ((packet.readUInt16LE(capabilities) & CLIENT_SSL) === 0)
    throw new ProbeError('protocol', 'has no TLS')
  const request = Buffer.alloc(36)
  request.writeUIntLE(32, 0, 3)
  request[3] = 1
  request.writeUInt32LE(CLIENT_SSL | CLIENT_PROTOCOL_41 | CLIENT_SECURE_CONNECTION, 4)
  request.writeUInt32LE(MAX_PACKET, 8)
  request[12] = UTF8MB4
  socket.write(request)
}

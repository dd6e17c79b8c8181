import { once } from 'node:events'
import type { Socket } from 'node:net'
import type { ProbePort, Protocol } from './ports.ts'

/** Bytes that a server may send before TLS begins, and again after the farewell. */
const MAX_BYTES = 8_192
const MAX_QUOTE = 100

/** What is sent; the message that lets the dialog go on, if one has to come; and messages that may come before it. */
type DialogStep = readonly [command: string, answer?: RegExp, more?: RegExp]

/** The way to TLS, and the end of the connection. Messages are lines, unless `isWhole` says where one ends. */
interface Dialog {
  readonly steps: readonly DialogStep[]
  readonly farewell?: string
  isWhole?(message: readonly number[]): boolean
}

const lines = (farewell: string, ...steps: readonly DialogStep[]): Dialog => ({ farewell, steps })

const mail = (hello: string): Dialog =>
  lines(
    'QUIT\r\n',
    ['', /^220[ \r]/, /^220-/],
    [`${hello} SELF\r\n`, /^250[ \r]/, /^250-/],
    ['STARTTLS\r\n', /^220[ \r]/],
  )

const SSL_REQUESTS = {
  postgres: '\0\0\0\x08\x04\xd2\x16\x2f',
  // The capabilities PROTOCOL_41, SSL and SECURE_CONNECTION, the longest packet, and UTF-8.
  mysql: `\x20\0\0\x01\0\x8a\0\0\0\0\0\x01\x2d${'\0'.repeat(23)}`,
}

/** The length of a packet of MySQL without its header, which has it in three bytes. */
const lengthIn = ([low = 0, middle = 0, high = 0]: readonly number[]) =>
  low + middle * 0x100 + high * 0x10000

/** RFC 3207, 2033, 9051 and 2595; "Message Formats" of PostgreSQL, and "Connection Phase" of MySQL. */
const DIALOGS: Readonly<Record<Protocol, Dialog>> = {
  tls: { steps: [] },
  smtp: mail('EHLO'),
  lmtp: mail('LHLO'),
  imap: lines('b LOGOUT\r\n', ['', /^\* OK/], ['a STARTTLS\r\n', /^a OK/, /^\* /]),
  pop3: lines('QUIT\r\n', ['', /^\+OK/], ['STLS\r\n', /^\+OK/]),
  postgres: { steps: [[SSL_REQUESTS.postgres, /^S/]], isWhole: () => true },
  mysql: {
    steps: [['', /^...\0\n/s], [SSL_REQUESTS.mysql]],
    isWhole: (message) => message.length >= 4 + lengthIn(message),
  },
}

/** The usual ports where these protocols begin with TLS. */
const WITHIN_TLS: Readonly<Record<number, Protocol>> = { 465: 'smtp', 993: 'imap', 995: 'pop3' }

/** Leads a connection to where TLS begins; gives what the server does instead. @throws the error of the socket */
export async function startTls(socket: Socket, protocol: Protocol): Promise<string | undefined> {
  const { steps, isWhole = (message) => message.at(-1) === 0x0a } = DIALOGS[protocol]
  await using messages = messagesOf(socket, isWhole)
  // A client without a name gives its address (RFC 5321 section 4.1.3).
  const { localAddress, localFamily } = socket
  const self = `[${localFamily === 'IPv6' ? 'IPv6:' : ''}${localAddress}]`
  for (const [command, answer, more] of steps) {
    if (command !== '') socket.write(command.replace('SELF', self), 'latin1')
    if (!answer) break
    let { value: message = '' } = await messages.next()
    while (more?.test(message)) ({ value: message = '' } = await messages.next())
    if (message === '') return 'ends the connection before TLS, or says too much'
    // It may be anything.
    const quote = message
      .trim()
      .slice(0, MAX_QUOTE)
      .replace(/[^ -~]/g, '?')
    if (!answer.test(message)) return `says "${quote}" before TLS`
  }
  // A handshake over it would have no end.
  return socket.readable ? undefined : 'ends the connection before TLS'
}

/** Gives the messages of a server, and ends where it does or has said too much. Looks at each byte once. */
async function* messagesOf(
  socket: Socket,
  isWhole: (message: readonly number[]) => boolean,
): AsyncGenerator<string, undefined> {
  let length = 0
  let message: number[] = []
  for await (const chunk of socket.iterator({ destroyOnReturn: false }))
    for (const byte of chunk as Buffer) {
      length += 1
      if (length > MAX_BYTES) return
      message.push(byte)
      if (!isWhole(message)) continue
      yield Buffer.from(message).toString('latin1')
      message = []
    }
}

/**
 * Ends a connection as its protocol does, so that the server has nothing to complain of in its log.
 * It waits until the server has closed it, and reads a little of what comes.
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
  const { farewell } = DIALOGS[protocol === 'tls' ? (WITHIN_TLS[port] ?? 'tls') : protocol]
  // Who is told goodbye ends the connection, and may complain if that was done.
  if (farewell === undefined) socket.end()
  else socket.write(farewell)
  if (!socket.closed) await once(socket.resume(), 'close', { signal }).catch(() => {})
}

import { randomInt } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { isIPv6, Socket } from 'node:net'
import { parseHostPort } from '@gatehouse/net'
import { AcmeError } from '../errors.ts'
import {
  decodeMessage,
  encodeMessage,
  FLAG,
  type Message,
  type Question,
  uint16,
} from './message.ts'

export interface Server {
  /** Name or IP address. */
  readonly host: string
  readonly port: number
}

/** Reads `host` or `host:port`; IPv6 in brackets if there is a port. */
export function parseServer(text: string): Server | undefined {
  const { host, port = 53 } = parseHostPort(isIPv6(text) ? `[${text}]` : text) ?? {}
  return host && { host: host.name, port }
}

/**
 * Asks one name server: by UDP, and by TCP if the answer does not fit or does not come.
 *
 * @throws AcmeError `ACME_DNS_UNREACHABLE`, `ACME_DNS_MESSAGE`
 */
export type Ask = (
  server: Server,
  question: Question,
  options: { recursive: boolean; signal: AbortSignal },
) => Promise<Message>

const UDP_MS = 2_000
const TCP_MS = 5_000

export const ask: Ask = async (server, question, { recursive, signal }) => {
  const flags = recursive ? FLAG.recursionDesired : 0
  const id = randomInt(0x10000)
  const request = encodeMessage({ id, flags, question })
  const isAnswer = (bytes: Buffer) => answers(bytes, id, question)
  const datagram = await exchangeUdp(server, request, isAnswer, signal).catch(() => undefined)
  signal.throwIfAborted()
  if (datagram && !(datagram.flags & FLAG.truncated)) return datagram
  const answer = answers(await exchangeTcp(server, request, signal), id, question)
  if (answer) return answer
  throw new AcmeError('ACME_DNS_MESSAGE', `${server.host} answered another question`)
}

/** The message, if it is the answer to that question. */
function answers(bytes: Buffer, id: number, { name, type }: Question): Message | undefined {
  const message = decodeMessage(bytes)
  const [question] = message.questions
  const isOurs = message.id === id && (message.flags & FLAG.response) !== 0
  return isOurs && question?.name === name && question.type === type ? message : undefined
}

async function exchangeUdp(
  { host, port }: Server,
  request: Buffer,
  accept: (bytes: Buffer) => Message | undefined,
  signal: AbortSignal,
): Promise<Message> {
  const socket = createSocket(isIPv6(host) ? 'udp6' : 'udp4')
  const { promise, resolve, reject } = Promise.withResolvers<Message>()
  const limit = AbortSignal.any([signal, AbortSignal.timeout(UDP_MS)])
  limit.addEventListener('abort', () => reject(limit.reason), { once: true })
  socket.on('error', reject)
  socket.on('message', (bytes) => {
    try {
      const message = accept(bytes)
      if (message) resolve(message)
    } catch {
      // Not from the server, or not sound: TCP tells.
    }
  })
  socket.on('connect', () => socket.send(request))
  // Only what comes from there is received, and a closed port is an error.
  socket.connect(port, host)
  try {
    return await promise
  } finally {
    socket.close()
  }
}

/**
 * Sends one message over TCP and gives the answer (RFC 7766).
 *
 * @throws AcmeError `ACME_DNS_UNREACHABLE`
 */
export async function exchangeTcp(
  { host, port }: Server,
  request: Buffer,
  signal: AbortSignal,
): Promise<Buffer> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(TCP_MS)])
  const socket = new Socket({ signal: limit }).connect(port, host)
  try {
    socket.write(Buffer.concat([uint16(request.length), request]))
    return await readFramed(socket)
  } catch (cause) {
    signal.throwIfAborted()
    throw new AcmeError('ACME_DNS_UNREACHABLE', `${host}, port ${port}, does not answer`, { cause })
  } finally {
    socket.destroy()
  }
}

/** At most 64 KiB, by the length that goes before. */
async function readFramed(socket: Socket): Promise<Buffer> {
  let bytes = Buffer.alloc(0)
  for await (const chunk of socket as AsyncIterable<Buffer>) {
    bytes = Buffer.concat([bytes, chunk])
    const length = bytes.length < 2 ? Number.POSITIVE_INFINITY : bytes.readUInt16BE()
    if (bytes.length >= 2 + length) return bytes.subarray(2, 2 + length)
  }
  throw new Error('the connection was closed')
}

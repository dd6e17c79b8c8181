// node:dns is not enough: it always requests recursion, hides the owners of records and the authority section,
// and does not ask by TCP if no datagram arrives.
import { randomInt } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { on, once } from 'node:events'
import { isIP, isIPv6, Socket } from 'node:net'
import { parseHostPort } from '@gatehouse/net'
import { AcmeError } from '../errors.ts'
import { type DnsMessage, type DnsQuestion, decodeMessage, encodeQuery, FLAG } from './message.ts'

export interface DnsServer {
  /** Name or IP address. */
  readonly host: string
  readonly port: number
}

/** Parses `host` or `host:port`, port 53 by default; an IPv6 address with a port needs brackets. */
export function parseServer(text: string): DnsServer | undefined {
  const { host, port = 53 } = parseHostPort(isIPv6(text) ? `[${text}]` : text) ?? {}
  return host && { host: host.name, port }
}

/** Parses a recursive resolver: an IP address, with or without a port. */
export function parseResolver(text: string): DnsServer | undefined {
  const server = parseServer(text)
  return server && isIP(server.host) ? server : undefined
}

const UDP_MS = 2_000
const TCP_MS = 5_000

export type Ask = typeof ask

/** Asks one name server by UDP, then by TCP if the answer is truncated or does not arrive. */
export async function ask(
  server: DnsServer,
  question: DnsQuestion,
  { recursive, signal }: { recursive: boolean; signal: AbortSignal },
): Promise<DnsMessage> {
  const id = randomInt(0x10000)
  const request = encodeQuery(id, recursive ? FLAG.recursionDesired : 0, question)
  const accept = (bytes: Buffer) => answerIn(bytes, id, question)
  const datagram = await exchangeUdp(server, request, accept, signal).catch(() => undefined)
  signal.throwIfAborted()
  if (datagram && !(datagram.flags & FLAG.truncated)) return datagram
  const answer = accept(await exchangeTcp(server, request, signal))
  if (answer) return answer
  throw new AcmeError('ACME_DNS_LOOKUP', `${server.host} answered another question`)
}

function answerIn(bytes: Buffer, id: number, { name, type }: DnsQuestion): DnsMessage | undefined {
  const message = decodeMessage(bytes)
  const [question] = message.questions
  const isOurs = message.id === id && (message.flags & FLAG.response) !== 0
  return isOurs && question?.name === name && question.type === type ? message : undefined
}

async function exchangeUdp(
  { host, port }: DnsServer,
  request: Buffer,
  accept: (bytes: Buffer) => DnsMessage | undefined,
  caller: AbortSignal,
): Promise<DnsMessage | undefined> {
  const signal = AbortSignal.any([caller, AbortSignal.timeout(UDP_MS)])
  const socket = createSocket(isIPv6(host) ? 'udp6' : 'udp4')
  try {
    // A connected socket receives from this server only, and reports a closed port as an error.
    socket.connect(port, host)
    await once(socket, 'connect', { signal })
    socket.send(request)
    for await (const [bytes] of on(socket, 'message', { signal }))
      try {
        const message = accept(bytes)
        if (message) return message
      } catch {
        // Malformed, or not from the server: wait for the answer, or ask by TCP.
      }
  } finally {
    socket.close()
  }
  return undefined
}

/** Sends one message over TCP and gives the answer (RFC 7766). */
export async function exchangeTcp(
  { host, port }: DnsServer,
  request: Buffer,
  signal: AbortSignal,
): Promise<Buffer> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(TCP_MS)])
  const socket = new Socket({ signal: limit }).connect(port, host)
  const length = Buffer.alloc(2)
  length.writeUInt16BE(request.length)
  try {
    socket.write(Buffer.concat([length, request]))
    return await readFramed(socket)
  } catch (cause) {
    signal.throwIfAborted()
    throw new AcmeError('ACME_DNS_UNREACHABLE', `${host}, port ${port}, does not answer`, { cause })
  } finally {
    socket.destroy()
  }
}

/** Reads one message after its length in two bytes, so 64 KiB at most. */
async function readFramed(socket: Socket): Promise<Buffer> {
  let bytes = Buffer.alloc(0)
  for await (const chunk of socket as AsyncIterable<Buffer>) {
    bytes = Buffer.concat([bytes, chunk])
    const length = bytes.length < 2 ? Number.POSITIVE_INFINITY : bytes.readUInt16BE()
    if (bytes.length >= 2 + length) return bytes.subarray(2, 2 + length)
  }
  throw new Error('the connection was closed')
}

import { constants, X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { connect as connectTcp, isIP, isIPv6, type Socket } from 'node:net'
import {
  type ConnectionOptions,
  connect as connectTls,
  type DetailedPeerCertificate,
} from 'node:tls'
import type { ProbePort } from './ports.ts'
import { leave, startTls } from './starttls.ts'

/** As old as printers are: TLS 1.0, RSA 1024, SHA-1. Nothing is trusted because of it. */
const LENIENT: ConnectionOptions = {
  ca: [],
  rejectUnauthorized: false,
  minVersion: 'TLSv1',
  ciphers: 'DEFAULT@SECLEVEL=0',
  secureOptions: constants.SSL_OP_LEGACY_SERVER_CONNECT,
}

const SIGALGS = {
  rsa: 'RSA-PSS+SHA256:RSA-PSS+SHA384:RSA-PSS+SHA512:RSA+SHA256:RSA+SHA384:RSA+SHA512:RSA+SHA1',
  ec: 'ECDSA+SHA256:ECDSA+SHA384:ECDSA+SHA512:ECDSA+SHA1:ed25519:ed448',
} as const

export interface ProbeTarget extends ProbePort {
  /** An IP address. Names are not looked up. */
  readonly address: string
  /** The name that the server is asked for (SNI). None is sent for an IP address. */
  readonly serverName?: string | undefined
  /** The kind of key, where a server has a certificate for each: `rsa`, or `ec` for all others. */
  readonly keyType?: 'rsa' | 'ec' | undefined
}

interface ProbeOptions {
  readonly signal?: AbortSignal | undefined
  /** The time for all of it, in milliseconds; default 5000. */
  readonly timeoutMs?: number
}

/**
 * The reason why no certificate was seen. `unreachable`: there is no connection. `timeout`: it took too long.
 * `refused`: the server ended the handshake, as one that does not have the name or the kind of key.
 * `protocol`: it does not speak the protocol, or has no TLS.
 */
type ProbeFailure = 'unreachable' | 'timeout' | 'refused' | 'protocol'

/** What a server served: certificates in DER, leaf first; or why there are none, in a word and in a sentence. */
export type Probe =
  | { readonly certificates: readonly Buffer[] }
  | { readonly failure: ProbeFailure; readonly message: string }

/**
 * Looks at the certificates that a server serves, whether or not anybody trusts them.
 *
 * It shows the leaf and what of the certificates sent leads on from it; nothing is added. Node leaves out what does
 * not belong to the chain, and what stands in the wrong order: an issuer that comes before what it has issued.
 * A certificate also counts if the handshake fails after it, as where the server demands one of the client.
 *
 * It connects to the address alone, reads at most 8 kB before TLS begins, and sends nothing but what begins and
 * ends the protocol.
 * @throws RangeError if `address` is no IP address; the reason of `signal`
 */
export async function probe(
  target: ProbeTarget,
  { signal, timeoutMs = 5_000 }: ProbeOptions = {},
): Promise<Probe> {
  const { address, port } = target
  if (!isIP(address)) throw new RangeError(`${address} is no IP address`)
  signal?.throwIfAborted()
  const deadline = AbortSignal.timeout(timeoutMs)
  const ending = AbortSignal.any(signal ? [signal, deadline] : [deadline])
  const socket = connectTcp({ host: address, port, signal: ending })
  // Whatever waits for the socket then hears of the error, too.
  socket.on('error', () => {})
  const failed = (failure: ProbeFailure, how: string): Probe => {
    const host = isIPv6(address) ? `[${address}]` : address
    return { failure, message: `${host}:${port} ${how}` }
  }
  try {
    await once(socket, 'connect')
    const fault = await startTls(socket, target.protocol)
    if (fault !== undefined) {
      await leave(socket, target, ending)
      return failed('protocol', fault)
    }
    const certificates = await shakeHands(socket, target, ending)
    if (certificates.length > 0) return { certificates }
    return failed('protocol', 'serves a certificate that cannot be read')
  } catch (error) {
    signal?.throwIfAborted()
    if (deadline.aborted) return failed('timeout', `takes longer than ${timeoutMs / 1_000} s`)
    return failed(...reasonOf(error as NodeJS.ErrnoException))
  } finally {
    socket.destroy()
  }
}

function reasonOf(error: NodeJS.ErrnoException): readonly [failure: ProbeFailure, how: string] {
  const { code = '', syscall, message } = error
  if (syscall === 'connect') return ['unreachable', `cannot be reached (${code})`]
  if (code.startsWith('ERR_SSL_') && !message.includes('SSL alert number'))
    return ['protocol', `does not speak TLS (${code})`]
  return ['refused', `ends the connection (${code})`]
}

async function shakeHands(
  socket: Socket,
  target: ProbeTarget,
  signal: AbortSignal,
): Promise<Buffer[]> {
  const { serverName = '', keyType } = target
  const tls = connectTls({
    ...LENIENT,
    socket,
    servername: isIP(serverName) ? '' : serverName,
    sigalgs: keyType && SIGALGS[keyType],
  })
  tls.on('error', () => {})
  const outcome: unknown = await once(tls, 'secureConnect', { signal }).catch((error) => error)
  const certificates: Buffer[] = []
  // There may be none, which the types do not say.
  let next: Partial<DetailedPeerCertificate> | null | undefined = tls.getPeerCertificate(true)
  if (!next?.raw) throw outcome
  while (next?.raw && isReadable(next.raw) && !certificates.some((raw) => next?.raw?.equals(raw))) {
    certificates.push(next.raw)
    next = next.issuerCertificate
  }
  await leave(tls, target, signal)
  return certificates
}

/** Whether a certificate has a key and dates that can be read. A server may send anything. */
function isReadable(der: Buffer): boolean {
  try {
    const { publicKey, validFromDate, validToDate } = new X509Certificate(der)
    const times = [validFromDate, validToDate].map((date) => date.getTime())
    return publicKey.type === 'public' && times.every(Number.isFinite)
  } catch {
    return false
  }
}

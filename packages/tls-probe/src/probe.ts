import { constants } from 'node:crypto'
import { once } from 'node:events'
import { connect as connectTcp, isIP, isIPv6, type Socket } from 'node:net'
import {
  type ConnectionOptions,
  connect as connectTls,
  type DetailedPeerCertificate,
  type TLSSocket,
} from 'node:tls'
import { ProbeError, type ProbeFailure } from './errors.ts'
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

export interface ProbeOptions {
  readonly signal?: AbortSignal | undefined
  /** The time for all of it, in milliseconds; default 5000. */
  readonly timeoutMs?: number
}

/** What a server served: certificates in DER, leaf first; or the reason why there are none, in a word and for people. */
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
  const ending = signal ? AbortSignal.any([signal, deadline]) : deadline
  const socket = connectTcp({ host: address, port })
  // Whatever waits for the socket then hears of the error, too.
  socket.on('error', () => {})
  try {
    await once(socket, 'connect', { signal: ending })
    return { certificates: await look(socket, target, ending) }
  } catch (error) {
    signal?.throwIfAborted()
    const late = deadline.aborted && `takes longer than ${timeoutMs / 1_000} s`
    const { failure, message } = failureOf(error as NodeJS.ErrnoException, late)
    return { failure, message: `${isIPv6(address) ? `[${address}]` : address}:${port} ${message}` }
  } finally {
    socket.destroy()
  }
}

async function look(socket: Socket, target: ProbeTarget, signal: AbortSignal): Promise<Buffer[]> {
  try {
    await startTls(socket, target.protocol, signal)
  } catch (error) {
    if (error instanceof ProbeError) await leave(socket, target, signal)
    throw error
  }
  const { serverName = '', keyType } = target
  const tls = connectTls({
    ...LENIENT,
    socket,
    ...(serverName !== '' && !isIP(serverName) && { servername: serverName }),
    ...(keyType && { sigalgs: SIGALGS[keyType] }),
  })
  tls.on('error', () => {})
  try {
    await once(tls, 'secureConnect', { signal })
  } catch (error) {
    const certificates = certificatesOf(tls)
    if (certificates.length === 0) throw error
    return certificates
  }
  const certificates = certificatesOf(tls)
  await leave(tls, target, signal)
  return certificates
}

/** Until the handshake is over, there may be none, which the types do not say. */
function certificatesOf(tls: TLSSocket): Buffer[] {
  const certificates: Buffer[] = []
  let next: Partial<DetailedPeerCertificate> | null | undefined = tls.getPeerCertificate(true)
  while (next?.raw && !certificates.some((raw) => next?.raw?.equals(raw))) {
    certificates.push(next.raw)
    next = next.issuerCertificate
  }
  return certificates
}

function failureOf(error: NodeJS.ErrnoException, late: string | false): ProbeError {
  if (error instanceof ProbeError) return error
  if (late) return new ProbeError('timeout', late)
  const { code = error.name, syscall, message } = error
  if (syscall === 'connect') return new ProbeError('unreachable', `cannot be reached (${code})`)
  if (message.includes('SSL alert number'))
    return new ProbeError('refused', `refuses the handshake (${code})`)
  if (code.startsWith('ERR_SSL_')) return new ProbeError('protocol', `does not speak TLS (${code})`)
  return new ProbeError('closed', 'ends the connection')
}

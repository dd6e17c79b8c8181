import { hash } from 'node:crypto'
import { once } from 'node:events'
import { connect, type TLSSocket } from 'node:tls'
import { ACME_TLS, serverNameOf } from '@gatehouse/acme'
import { AcmeProblem } from '@gatehouse/acme/server'
import { createFetch, type IpAddress, lookupAllowed, NetError } from '@gatehouse/net'
import { type Name, parseCertificate, readAcmeIdentifier } from '@gatehouse/pki'

/** The challenges by which a device proves that a name leads to it. */
export const CHALLENGES = ['http-01', 'tls-alpn-01'] as const
export type ChallengeType = (typeof CHALLENGES)[number]

const TIMEOUT = 5_000
const MAX_BYTES = 1_024
const STANDARD_PORTS = { 'http-01': 80, 'tls-alpn-01': 443 }

export interface ProverOptions {
  /** Whether an address may be connected to. */
  isOpen(address: IpAddress): boolean
  /** Whether a name is one of this service, which no device can have. */
  isOwn(name: string): boolean
  /** Default: those of RFC 8555 section 8.3 and RFC 8737. */
  readonly ports?: Readonly<Record<ChallengeType, number>> | undefined
}

/** Asks devices for the answers to challenges, in the networks of devices and nowhere else. */
export function createProver({ isOpen, isOwn, ports = STANDARD_PORTS }: ProverOptions) {
  const fetch = createFetch({ allows: isOpen, timeoutMs: TIMEOUT, maxBytes: MAX_BYTES })
  /** The tries under way: one at a time for an answer, however often it is asked for. */
  const tries = new Map<string, Promise<AcmeProblem | undefined>>()

  async function checkHttp({ text, ip }: Name, keyAuthorization: string): Promise<boolean> {
    const [token] = keyAuthorization.split('.')
    const host = ip?.version === 6 ? `[${text}]` : text
    const url = `http://${host}:${ports['http-01']}/.well-known/acme-challenge/${token}`
    const { body } = await fetch(url)
    // RFC 8555 section 8.3: white space at the end is ignored.
    return body.toString('latin1').trimEnd() === keyAuthorization
  }

  async function checkTls(name: Name, digest: Buffer): Promise<boolean> {
    const servername = serverNameOf(name.text)
    const signal = AbortSignal.timeout(TIMEOUT)
    // Node does not look up what is an address.
    if (name.ip && !isOpen(name.ip))
      throw new NetError('NET_ADDRESS_REFUSED', `${name.text} is not open`)
    const socket = connect({
      host: name.text,
      port: ports['tls-alpn-01'],
      lookup: lookupAllowed(isOpen),
      servername,
      ALPNProtocols: [ACME_TLS],
      // The certificate proves nothing but the digest in it.
      rejectUnauthorized: false,
    })
    try {
      await once(socket, 'secureConnect', { signal })
      return isAnswer(socket, name, digest)
    } catch (cause) {
      throw new NetError('NET_FETCH_FAILED', `${name.text} cannot be connected to`, { cause })
    } finally {
      socket.destroy()
    }
  }

  async function attempt(name: Name, type: ChallengeType, keyAuthorization: string) {
    if (isOwn(name.text))
      return new AcmeProblem('rejectedIdentifier', `${name.text} is a name of this service`)
    try {
      const isProven =
        type === 'http-01'
          ? await checkHttp(name, keyAuthorization)
          : await checkTls(name, hash('sha256', keyAuthorization, 'buffer'))
      if (isProven) return undefined
      return new AcmeProblem(
        'incorrectResponse',
        `${name.text} gave another answer than that of this account`,
      )
    } catch (cause) {
      // All that prevents a connection has one sentence, so that nobody learns what is in the network.
      if (!(cause instanceof NetError)) throw cause
      const why = 'did not answer, or is not in the networks of `acme.open`'
      return new AcmeProblem('connection', `${name.text} ${why}`, { cause })
    }
  }

  return {
    /** Explains why a name is not proven; undefined if it is. */
    check(name: Name, type: ChallengeType, keyAuthorization: string) {
      const id = `${type} ${keyAuthorization} ${name.text}`
      const underway = tries.get(id)
      if (underway) return underway
      const started = attempt(name, type, keyAuthorization).finally(() => tries.delete(id))
      tries.set(id, started)
      return started
    },
    close: () => fetch.close(),
  }
}

/** RFC 8737 section 3: a certificate of this name alone, with the digest. */
function isAnswer(socket: TLSSocket, { text }: Name, digest: Buffer): boolean {
  const { raw } = socket.getPeerCertificate()
  if (socket.alpnProtocol !== ACME_TLS || !raw) return false
  const names = parseCertificate(raw).names.map((name) => name.text)
  return names.join() === text && readAcmeIdentifier(raw)?.equals(digest) === true
}

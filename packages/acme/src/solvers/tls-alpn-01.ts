import { hash } from 'node:crypto'
import { createSecureContext, createServer, type Server } from 'node:tls'
import { type Clock, parseIp } from '@gatehouse/net'
import { createAcmeAlpnCertificate, generateP256, parseName, toPem } from '@gatehouse/pki'
import type { ChallengeStore, ChallengeTask, Solver } from './solver.ts'

/** ALPN protocol of the CA's handshake (RFC 8737 section 6.2). */
export const ACME_TLS = 'acme-tls/1'

/** Creates the solver for tls-alpn-01 (RFC 8737, RFC 8738); {@link answerTlsAlpn01} serves its answers. */
export function createTlsAlpn01(store: ChallengeStore): Solver {
  return {
    type: 'tls-alpn-01',
    present: (task) => store.put(keyOf(serverNameOf(task.identifier.value)), answerTo(task)),
    async cleanUp(task) {
      // Another order for the name may have replaced the answer by its own.
      const key = keyOf(serverNameOf(task.identifier.value))
      if ((await store.get(key)) === answerTo(task)) await store.delete(key)
    },
  }
}

/** The credentials for a handshake with `acme-tls/1` and the server name. */
async function answerTlsAlpn01(store: ChallengeStore, name: string, clock: Pick<Clock, 'now'>) {
  const stored = await store.get(keyOf(name.toLowerCase()))
  const [value, keyAuthorization] = stored?.split(' ') ?? []
  if (value === undefined || keyAuthorization === undefined) return undefined
  const key = generateP256()
  const digest = hash('sha256', keyAuthorization, 'buffer')
  const challenge = { name: parseName(value), digest, key, now: clock.now() }
  const certificate = createAcmeAlpnCertificate(challenge)
  return createSecureContext({
    key: toPem('PRIVATE KEY', key.pkcs8),
    cert: toPem('CERTIFICATE', certificate),
    minVersion: 'TLSv1.2',
  })
}

const answerTo = ({ identifier, keyAuthorization }: ChallengeTask): string =>
  `${identifier.value} ${keyAuthorization}`
const keyOf = (serverName: string): string => `tls-alpn-01:${serverName}`

/** Creates a server for challenges only. The caller listens on port 443, or where a proxy forwards to. */
export function createTlsAlpn01Server(store: ChallengeStore, clock: Pick<Clock, 'now'>): Server {
  const server = createServer(
    {
      ALPNProtocols: [ACME_TLS],
      handshakeTimeout: 5_000,
      SNICallback(serverName, callback) {
        answerTlsAlpn01(store, serverName, clock).then(
          (context) => callback(context ? null : new Error('no challenge is open'), context),
          callback,
        )
      },
    },
    // The handshake is the whole answer.
    (socket) => socket.on('error', () => {}).destroySoon(),
  )
  server.maxConnections = 256
  return server.on('tlsClientError', (_error, socket) => socket.destroy())
}

/** The server name: the name, or for an address its reverse mapping (RFC 8738 section 6). */
export function serverNameOf(value: string): string {
  const ip = parseIp(value)
  if (!ip) return value
  const parts =
    ip.version === 4 ? [...ip.bytes].map(String) : [...Buffer.from(ip.bytes).toString('hex')]
  return `${parts.reverse().join('.')}.${ip.version === 4 ? 'in-addr' : 'ip6'}.arpa`
}

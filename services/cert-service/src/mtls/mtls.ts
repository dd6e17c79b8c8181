import { hash, randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { TLSSocket, Server as TlsServer } from 'node:tls'
import { type ClientCertificate, fromPem, PkiError, readClientCertificate } from '@gatehouse/pki'
import { PROXIES } from '@gatehouse/service-kit/proxies'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { LRUCache } from 'lru-cache'
import type { AccessConfig } from '../config/auth.ts'
import { type CertificateCaller, certificateCallersOf } from '../config/certificate-callers.ts'
import type { CertServiceConfig } from '../config/schema.ts'
import { findOnce, READERS } from './header.ts'

/** Certificates that are remembered, and for how long at most. */
const MAX_CACHED = 1_000
const CACHE_MS = 600_000
/** Bytes of the keys of session tickets, as Node takes them. */
const TICKET_KEYS = 48

interface Accepted extends Pick<NonNullable<AccessConfig['auth']['mtls']>, 'header'> {
  readonly callers: ReadonlyMap<string, CertificateCaller>
  /** The authorities of the operator, DER; undefined: those of the embedded CA. */
  readonly authorities: readonly Buffer[] | undefined
  /** The callers of certificates by SHA-256, each as it was at this count of changes of certificates. */
  readonly cache: LRUCache<string, Admitted>
}

type Admitted = ClientCertificate & { caller: CertificateCaller; changes: number }

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Finds the caller of the client certificate of a request; undefined without one. Absent if there are no such
     * callers. @throws PkiError `PKI_CLIENT_REFUSED`
     */
    readonly mtls: ((request: FastifyRequest) => Promise<CertificateCaller | undefined>) | undefined
  }
}

/** Finds callers by their client certificates, and has connections ask for these. */
export const mtls = fp<Pick<AccessConfig, 'auth'>>(
  async (app: FastifyInstance, { auth }) => {
    await app.decorateReloaded('mtls', { auth }, async ({ auth }) => {
      const accepted = await acceptedOf(auth)
      return accepted && ((request: FastifyRequest) => identify(request, app, accepted))
    })
    // Node reads both for each connection. What comes is judged here, for each request.
    Object.defineProperty(app.server, 'requestCert', { get: () => app.mtls !== undefined })
    Object.assign(app.server, { rejectUnauthorized: false })
    app.onReload<CertServiceConfig>(({ auth }) => {
      const { mtls: previous, server } = app
      return () => {
        // A session from before has no certificate, and its client would resume it again and again.
        if (auth.mtls && !previous && server instanceof TlsServer)
          server.setTicketKeys(randomBytes(TICKET_KEYS))
      }
    })
  },
  {
    name: 'cert-service/mtls',
    dependencies: [
      'cert-service/issuance',
      'cert-service/issuers',
      'cert-service/store',
      'service-kit/clock',
      'service-kit/reload',
      'service-kit/trust',
    ],
  },
)

async function acceptedOf({ mtls }: AccessConfig['auth']): Promise<Accepted | undefined> {
  if (!mtls) return undefined
  const { caFile, header } = mtls
  const pem = caFile === undefined ? undefined : await readFile(caFile, 'utf8')
  return {
    ...(header && { header }),
    callers: certificateCallersOf(mtls),
    authorities: pem === undefined ? undefined : fromPem(pem, 'CERTIFICATE'),
    cache: new LRUCache({ max: MAX_CACHED, ttl: CACHE_MS }),
  }
}

async function identify(request: FastifyRequest, deps: Deps, accepted: Accepted) {
  try {
    const der = presentedBy(request, accepted)
    return der && (await callerOf(der, deps, accepted))
  } catch (error) {
    if (!(error instanceof PkiError)) throw error
    request.log.info({ code: error.code, detail: error.message }, 'certificate refused')
    return refuse(error.message)
  }
}

/**
 * The certificate of the client, DER: that of the connection, or what a trusted proxy tells of its own
 * client. The certificate of the proxy itself identifies no client.
 */
function presentedBy(
  { raw: { socket, rawHeaders }, server }: FastifyRequest,
  { header }: Accepted,
): Buffer | undefined {
  if (header) {
    const { header: spelled, encoding } = PROXIES[header.format].clientCertificate
    const name = spelled.toLowerCase()
    const { remoteAddress = '' } = socket
    const value = findOnce(rawHeaders, name)
    const isProxy = server.trust.isProxy(remoteAddress)
    if (value !== undefined && !isProxy)
      refuse(`the header ${name} is from ${remoteAddress}, not from server.trustedProxies`)
    if (value === false) refuse(`the header ${name} is there twice, or spelled otherwise`)
    const illFormed = `the header ${name} is not as ${header.format} writes it`
    if (value !== undefined) return READERS[encoding](value) ?? refuse(illFormed)
    if (isProxy) return undefined
  }
  return socket instanceof TLSSocket ? socket.getPeerX509Certificate()?.raw : undefined
}

type Deps = Pick<FastifyInstance, 'ca' | 'clock' | 'holdings' | 'store'>

async function callerOf(der: Buffer, deps: Deps, accepted: Accepted): Promise<CertificateCaller> {
  const { clock, holdings } = deps
  const id = hash('sha256', der)
  const now = clock.now()
  // A revocation is a change, also that of another replica.
  const changes = holdings.changes()
  const cached = accepted.cache.get(id)
  if (cached?.changes === changes && cached.notBefore <= now && now <= cached.notAfter)
    return cached.caller
  const authorities = accepted.authorities ?? (await deps.ca.clientIntermediates())
  const certificate = readClientCertificate(der, authorities, now)
  const matches = certificate.names.flatMap(({ text }) => accepted.callers.get(text) ?? [])
  const [caller, ...rivals] = new Set(matches)
  if (!caller) refuse('it has the name of no caller in auth.mtls')
  if (rivals.length > 0) refuse('it has the names of several callers')
  if (!accepted.authorities) await assertInForce(id, accepted, caller, deps.store)
  accepted.cache.set(id, { ...certificate, caller, changes })
  return caller
}

/**
 * Refuses what was revoked, and what the inventory does not know: nobody could revoke that. Whoever had a key that had
 * to be revoked may have got other certificates by it, so those end too: all of the caller from before.
 */
async function assertInForce(
  sha256: string,
  accepted: Accepted,
  caller: CertificateCaller,
  store: Deps['store'],
): Promise<void> {
  const stored = await store.findIssued(sha256)
  if (!stored) refuse('it is not in the inventory')
  if (stored.revokedAt !== null) refuse('it was revoked')
  const { madeAt = stored.notBefore } = stored
  const names = [...accepted.callers].flatMap(([name, holder]) => (holder === caller ? [name] : []))
  for (const name of names)
    if (await store.hasRevokedOfClient(name, madeAt))
      refuse('another certificate of its caller was revoked after it was issued')
}

function refuse(why: string): never {
  throw new PkiError('PKI_CLIENT_REFUSED', why)
}

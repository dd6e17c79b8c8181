import { TLSSocket } from 'node:tls'
import { malformed } from '@gatehouse/acme/server'
import { parseHostPort } from '@gatehouse/net'
import type { FastifyReply, FastifyRequest } from 'fastify'

const DIRECTORY = '/acme/directory'

/**
 * Refuses a host that is not ours: a request that was signed for somebody else's server could be sent on to this one
 * (RFC 8555 section 6.4). Ours are those of this server and of its certificate, and whichever a trusted proxy leads here.
 *
 * @throws AcmeProblem `malformed`
 */
export function requireOwnHost({ raw: { socket }, host, server }: FastifyRequest): void {
  const { name, ip } = parseHostPort(host)?.host ?? {}
  if (name !== undefined) {
    if (server.acme.isOwn(name) || server.trust.isProxy(socket.remoteAddress ?? '')) return
    const own = socket instanceof TLSSocket ? socket.getX509Certificate() : undefined
    if (ip ? own?.checkIP(name) : own?.checkHost(name, { subject: 'never' })) return
  }
  const detail = 'this service does not know the host of the request: add it to `server.names`'
  throw malformed(detail, { status: 421 })
}

/** The URLs of the resources, at the origin by which the client of a request knows this service. */
export function urlsOf({ protocol, host }: Pick<FastifyRequest, 'protocol' | 'host'>) {
  const urlOf = (path: string) => `${protocol}://${host}${path}`
  return {
    at: urlOf,
    directory: urlOf(DIRECTORY),
    /** The members of the directory. */
    members: {
      newNonce: urlOf('/acme/new-nonce'),
      newAccount: urlOf('/acme/new-account'),
      newOrder: urlOf('/acme/new-order'),
      revokeCert: urlOf('/acme/revoke-cert'),
      keyChange: urlOf('/acme/key-change'),
      renewalInfo: urlOf('/acme/renewal-info'),
    },
    account: (id: string) => urlOf(`/acme/account/${id}`),
    orders: (id: string, after?: string) =>
      urlOf(`/acme/account/${id}/orders${after === undefined ? '' : `?after=${after}`}`),
    order: (id: string) => urlOf(`/acme/order/${id}`),
    finalize: (id: string) => urlOf(`/acme/order/${id}/finalize`),
    authorization: (order: string, n: number) => urlOf(`/acme/authorization/${order}/${n}`),
    challenge: (order: string, n: number, type: string) =>
      urlOf(`/acme/challenge/${order}/${n}/${type}`),
    certificate: (fingerprint: string) => urlOf(`/acme/certificate/${fingerprint}`),
    alternate: (fingerprint: string, n: number) => urlOf(`/acme/certificate/${fingerprint}/${n}`),
  }
}

export type Urls = ReturnType<typeof urlsOf>

export function addLink(reply: FastifyReply, url: string, rel: string): void {
  reply.header('link', [reply.getHeader('link'), `<${url}>;rel="${rel}"`].flat())
}

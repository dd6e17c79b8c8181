import { parseIp } from '@gatehouse/net'
import { trustProxy } from '@gatehouse/service-kit'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'

/** More hops than any genuine chain has. */
const MAX_FORWARDED_FOR = 2_048

/** The other end of a connection, such as a socket of Node. */
export interface Peer {
  readonly remoteAddress?: string | undefined
  /** For TLS sockets: whether the client certificate was verified. */
  readonly authorized?: boolean
}

type Trust = ReturnType<typeof createTrust>

/**
 * Decides which peers are trusted: listed proxies, and holders of a verified client certificate.
 *
 * @param trustedProxies - networks in CIDR notation; undefined means loopback only, an empty list
 * that only client certificates count
 */
export function createTrust(trustedProxies?: readonly string[]) {
  const isProxy = trustProxy(trustedProxies)

  function trusts({ authorized, remoteAddress = '' }: Peer): boolean {
    return authorized === true || isProxy(remoteAddress)
  }

  /**
   * The address of the client: that of an untrusted peer itself, else the first untrusted hop from
   * the right of `X-Forwarded-For`. Undefined if the chain is missing or unreadable.
   */
  function clientIp(peer: Peer, forwardedFor: string | undefined): string | undefined {
    if (!trusts(peer)) return parseIp(peer.remoteAddress ?? '')?.text
    if (forwardedFor === undefined || forwardedFor.length > MAX_FORWARDED_FOR) return undefined
    const hops = forwardedFor.split(',').map((hop) => parseIp(hop.trim())?.text)
    const client = hops.findLastIndex((hop = '') => !isProxy(hop))
    return hops[Math.max(client, 0)]
  }
  return { trusts, clientIp }
}

/** The address of the client as the trusted proxies name it. */
export function clientIpOf({ raw, server }: FastifyRequest): string | undefined {
  return server.trust.clientIp(raw.socket, raw.headers['x-forwarded-for'] as string | undefined)
}

declare module 'fastify' {
  interface FastifyInstance {
    readonly trust: Trust
  }
}

export const trust = fp<{ readonly server: { readonly trustedProxies?: readonly string[] } }>(
  async (app: FastifyInstance, config) => {
    await app.decorateReloaded('trust', config, ({ server }) => createTrust(server.trustedProxies))
  },
  { fastify: '5.x', name: 'forward-auth/trust', dependencies: ['service-kit/reload'] },
)

import { compileNetworks, LOOPBACK_NETWORKS, parseIp } from '@gatehouse/net'

/** More hops than any genuine chain has. */
const MAX_FORWARDED_FOR = 2_048

/** The other end of a connection; Node's sockets are such. */
export interface Peer {
  readonly remoteAddress?: string | undefined
  /** Of TLS sockets: whether the client's certificate was verified. */
  readonly authorized?: boolean
}

/** Whose word on a request counts: addresses of trusted proxies, and holders of a client certificate. */
export interface Trust {
  /** Whether what this peer says about a request counts. Asked once per connection. */
  trusts(peer: Peer): boolean
  /**
   * The address that a request began at: of an untrusted peer its own, else the first untrusted hop
   * from the right of `X-Forwarded-For`. Undefined when the chain is missing or unreadable.
   */
  clientIp(peer: Peer, forwardedFor: string | undefined): string | undefined
}

/**
 * @param trustedProxies - networks in CIDR notation; undefined means loopback only, an empty list
 * that only client certificates count
 */
export function createTrust(trustedProxies: readonly string[] = LOOPBACK_NETWORKS): Trust {
  const isProxy = compileNetworks(trustedProxies)
  const known = new WeakMap<Peer, boolean>()

  function trusts(peer: Peer): boolean {
    const before = known.get(peer)
    if (before !== undefined) return before
    const verdict = peer.authorized === true || isProxy(peer.remoteAddress)
    known.set(peer, verdict)
    return verdict
  }

  return {
    trusts,
    clientIp(peer, forwardedFor) {
      if (!trusts(peer)) return parseIp(peer.remoteAddress ?? '')?.text
      if (forwardedFor === undefined || forwardedFor.length > MAX_FORWARDED_FOR) return undefined
      const hops = forwardedFor.split(',').map((hop) => parseIp(hop.trim()))
      const client = hops.findLastIndex((hop) => !isProxy(hop))
      return hops[Math.max(client, 0)]?.text
    },
  }
}

import { isIP } from 'node:net'
import { compileNetworks, LOOPBACK_NETWORKS, parseCidr, parseIp } from '@gatehouse/net'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { applyToEach, type Fault } from '../config/rules.ts'

/** The prefixes of the largest private networks. A larger network includes strangers. */
const FEWEST_BITS = { 4: 8, 6: 7 } as const

/** The faults of a list of trusted networks. */
export function checkTrustedProxies(networks: readonly string[] = [], path: string): Fault[] {
  return applyToEach(networks, path, [
    (text) => {
      const message = faultOfNetwork(text)
      return message === undefined ? [] : [{ path: '', message }]
    },
  ])
}

function faultOfNetwork(text: string): string | undefined {
  const cidr = parseCidr(text)
  if (cidr && cidr.prefix >= FEWEST_BITS[cidr.network.version]) return undefined
  if (cidr) return 'trusts far more than proxies: list their addresses, such as 10.0.0.5'
  return isIP(text.split('/')[0] ?? '') === 0
    ? 'is not an IP address or network, such as 10.0.0.0/8'
    : 'is not a network: the bits behind the prefix must be zero'
}

/**
 * Fastify's `trustProxy` option for networks in CIDR notation; the default is loopback. Only these
 * peers can set `X-Forwarded-For`, `-Host` and `-Proto`. Register {@link forwardedAddresses} with it.
 */
export function trustProxy(
  networks: readonly string[] = LOOPBACK_NETWORKS,
): (address: string) => boolean {
  return compileNetworks(networks)
}

/**
 * Keeps `request.ip` an IP address: if a trusted proxy passes on anything else in `X-Forwarded-For`,
 * the entry to its right is used.
 */
export const forwardedAddresses = fp(
  async (app: FastifyInstance) => {
    app.addHook('onRequest', (request, _reply, done) => {
      const { headers } = request.raw
      if (headers['x-forwarded-for'] !== undefined) {
        const [, ...hops] = request.ips ?? []
        const last = hops.at(-1)
        if (last !== undefined && !parseIp(last))
          headers['x-forwarded-for'] = hops.slice(0, -1).reverse().join(', ')
      }
      done()
    })
  },
  { fastify: '5.x', name: 'service-kit/forwarded-addresses' },
)

import { isIP } from 'node:net'
import { parseCidr, parseHost } from '@gatehouse/net'
import { applyRules, applyToEach, type Fault, known } from './rules.ts'

/** A configured listener. */
export interface Listener {
  /** JSON pointer of its section, such as `/server`. */
  readonly path: string
  readonly at: { readonly host: string; readonly port: number }
  /** Listeners of the same kind and address are one listener. */
  readonly kind?: string
}

/** The faults of the addresses that a service listens on. */
export function checkListeners(listeners: readonly Listener[]): Fault[] {
  return listeners.flatMap((listener, index) =>
    applyRules(
      listener,
      [
        ({ at }) => (isHost(at.host) ? [] : [{ path: '/host', message: NO_HOST }]),
        ({ at }) => {
          const other = listeners
            .slice(0, index)
            .find((earlier) => known(() => clash(earlier, listener)))
          if (!other) return []
          const name = other.path.slice(1).replaceAll('/', '.')
          return [{ path: '/port', message: `is taken by ${name}, which has port ${at.port} too` }]
        },
      ],
      listener.path,
    ),
  )
}

const NO_HOST = 'is not an IP address or host name to listen on'

function isHost(text: string): boolean {
  return isIP(text) > 0 || (!text.startsWith('[') && parseHost(text) !== undefined)
}

/** Whether the two cannot listen at the same time. Port 0 is a different port for each. */
function clash(one: Listener, other: Listener): boolean {
  const [a, b] = [addressOf(one.at.host), addressOf(other.at.host)]
  if (one.at.port !== other.at.port || one.at.port === 0) return false
  if (a === b) return one.kind === undefined || one.kind !== other.kind
  return covers(a, b) || covers(b, a)
}

/** `::` includes IPv4. */
function covers(any: string, address: string): boolean {
  return any === '::' || (any === '0.0.0.0' && isIP(address) !== 6)
}

function addressOf(host: string): string {
  return host === 'localhost' ? '127.0.0.1' : (parseHost(host)?.name ?? host)
}

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

import { lookup } from 'node:dns/promises'
import { type Clock, orLate } from './clock.ts'
import { parseHost } from './host.ts'
import { parseIp } from './ip.ts'

const LOOKUP_MS = 2_000
/** More than the replicas of a proxy have: the addresses of a network. */
const MAX_ADDRESSES = 16
/** Unspecified, multicast and broadcast addresses. */
const OF_NO_MACHINE = /^(0|22[4-9]|2[34]\d|25[0-5])\.|^::$|^ff..:/

/** Asks for all addresses of a host name. */
export type LookupAll = (name: string) => Promise<readonly string[]>

/** Asks the system, which knows `/etc/hosts`, search domains and DNS. */
export const systemLookup: LookupAll = async (name) =>
  (await lookup(name, { all: true })).map(({ address }) => address)

/**
 * The canonical form of a host name. It may have underscores, as those of containers; a dot at its end
 * stays, since it keeps the resolver from adding a search domain.
 */
export function parseProxyName(text: string): string | undefined {
  const plain = text.replaceAll('_', '')
  const host = parseHost(plain)
  if (!host || host.ip || text.length > 253) return undefined
  if (plain !== text) return /^[!-~]+$/.test(text) ? text.toLowerCase() : undefined
  return text.endsWith('.') ? `${host.name}.` : host.name
}

/** The addresses of a name. `failing`: they are not known now. `broad`: they are more than single machines. */
export interface ProxyAddresses {
  readonly state: 'found' | 'missing' | 'failing' | 'broad'
  /** Canonical and sorted; none unless `found`. */
  readonly addresses: readonly string[]
  /** The end of a sentence that begins with the name. */
  readonly says: string
}

/** Makes a function that asks what a name stands for, with one lookup at a time. It never throws. */
export function proxyAsker(name: string, clock: Clock, lookup: LookupAll) {
  let pending: Promise<readonly string[]> | undefined
  return async (): Promise<ProxyAddresses> => {
    pending ??= lookup(name).finally(() => {
      pending = undefined
    })
    try {
      const answer = await orLate(pending, clock, LOOKUP_MS)
      return answer ? judge(answer) : FAILING
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      return code === 'ENOTFOUND' || code === 'ENODATA' ? judge([]) : FAILING
    }
  }
}

const FAILING = { state: 'failing', addresses: [], says: 'cannot be looked up now' } as const

function judge(answer: readonly string[]): ProxyAddresses {
  const texts = answer.flatMap((text) => parseIp(text)?.text ?? [])
  const addresses = [...new Set(texts)].toSorted()
  const broad = (says: string) => ({ state: 'broad', addresses: [], says }) as const
  if (addresses.length > MAX_ADDRESSES)
    return broad('resolves to a network: list that in its place')
  const unusable = addresses.find((text) => OF_NO_MACHINE.test(text))
  if (unusable) return broad(`resolves to ${unusable}, which is not the address of a machine`)
  if (addresses.length === 0) return { state: 'missing', addresses, says: 'has no address' }
  return { state: 'found', addresses, says: `resolves to ${addresses.join(', ')}` }
}

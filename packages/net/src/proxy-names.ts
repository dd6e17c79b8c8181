import { lookup } from 'node:dns/promises'
import { type Clock, sleep } from './clock.ts'
import { parseHost } from './host.ts'
import { isOneHost, parseIp } from './ip.ts'

/** More addresses than the replicas of a proxy have: they are those of a network. */
const MAX_ADDRESSES = 16
const LOOKUP_MS = 2_000
/** There is no such name, or it has no address. */
const MISSING: readonly (string | undefined)[] = ['ENOTFOUND', 'ENODATA']

/** Asks for all addresses of a host name. */
export type LookupAll = (name: string) => Promise<readonly string[]>

/** Asks the system, which knows `/etc/hosts`, search domains and DNS. */
export const systemLookup: LookupAll = async (name) =>
  (await lookup(name, { all: true })).map(({ address }) => address)

/**
 * Parses the host name of a proxy to its canonical form. A dot at the end stays, as it tells the
 * resolver to add no search domain; names of containers may also have underscores.
 */
export function parseProxyName(text: string): string | undefined {
  // The rest has to be a host name too, so that `10.0.0.0_8` is none.
  const host = parseHost(text.replaceAll('_', ''))
  if (!host || host.ip) return undefined
  const name = text.includes('_') ? text.toLowerCase().replace(/\.$/, '') : host.name
  if (name.length > 253 || (text.includes('_') && !/^[!-~]+$/.test(name))) return undefined
  return text.endsWith('.') ? `${name}.` : name
}

/** What a name stands for now. Only `found` has addresses: canonical, sorted, each one once. */
export interface ProxyAddresses {
  /** `failing`: whether there is such a name is not known. `broad`: the answer is not that of a proxy. */
  readonly state: 'found' | 'missing' | 'failing' | 'broad'
  readonly addresses: readonly string[]
  /** The end of a sentence that begins with the name. */
  readonly says: string
}

/** Makes a function that asks what a name stands for, with one lookup at a time. It never throws. */
export function proxyAsker(name: string, clock: Clock, lookup: LookupAll) {
  let pending: Promise<readonly string[]> | undefined
  return async (): Promise<ProxyAddresses> => {
    const stop = new AbortController()
    pending ??= lookup(name).finally(() => {
      pending = undefined
    })
    const timeout = sleep(clock, LOOKUP_MS, stop.signal).then(() => {
      throw new Error('timeout')
    })
    try {
      return judgeAddresses(await Promise.race([pending, timeout]))
    } catch (error) {
      if (MISSING.includes((error as NodeJS.ErrnoException).code))
        return { state: 'missing', addresses: [], says: 'is no known host name' }
      return { state: 'failing', addresses: [], says: 'cannot be looked up now' }
    } finally {
      timeout.catch(() => {})
      stop.abort()
    }
  }
}

/** The addresses of an answer, unless it names more than single hosts. */
export function judgeAddresses(answer: readonly string[]): ProxyAddresses {
  const ips = answer.flatMap((text) => parseIp(text) ?? [])
  const addresses = [...new Set(ips.map(({ text }) => text))].toSorted()
  const broad = (says: string) => ({ state: 'broad', addresses: [], says }) as const
  if (addresses.length > MAX_ADDRESSES)
    return broad(`resolves to more than ${MAX_ADDRESSES} addresses: list their network`)
  const other = ips.find((ip) => !isOneHost(ip))
  if (other) return broad(`resolves to ${other.text}, which is not the address of one machine`)
  if (addresses.length === 0) return { state: 'missing', addresses, says: 'has no address' }
  return { state: 'found', addresses, says: `resolves to ${addresses.join(', ')}` }
}

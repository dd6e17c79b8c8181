import { isIP } from 'node:net'
import { parseCidr, parseHost, parseProxyName, proxyAsker, systemLookup } from '@gatehouse/net'
import { systemClock } from '../clock.ts'

/** A fault of a value that the schema accepts. */
export interface Fault {
  /** JSON pointer of the key to correct. */
  readonly path: string
  readonly message: string
  /** Whether the only fault is that a file or secret is absent on this machine. */
  readonly absent?: boolean
  /** Whether the value is used all the same. */
  readonly isWarning?: boolean
  /** JSON pointer of another key that the message is about; its position is added. */
  readonly relatedPath?: string
}

/** A check of a value: returns its faults, with paths that begin at the value. */
export type ConfigRule<T> = (value: T) => readonly Fault[]

/** The error that is thrown when a rule reads a part that has a fault itself, or a secret that is absent. */
class UnknownPart extends Error {}

/** Makes undefined members throw {@link UnknownPart} when they are read, so that no rule judges them. */
export function hideUnknown<T extends object>(target: T): T {
  for (const [key, value] of Object.entries(target)) {
    if (value !== undefined) continue
    const get = () => {
      throw new UnknownPart(`${key} is not known`)
    }
    Object.defineProperty(target, key, { enumerable: true, configurable: true, get })
  }
  return target
}

/** The faults that the rules find. A rule that reads an unknown part finds none. */
export function applyRules<T>(value: T, rules: readonly ConfigRule<T>[], path = ''): Fault[] {
  return rules
    .flatMap((rule) => ifKnown(() => rule(value)) ?? [])
    .map((fault) => ({
      ...fault,
      path: `${path}${fault.path}`,
      ...(fault.relatedPath !== undefined && { relatedPath: `${path}${fault.relatedPath}` }),
    }))
}

/** The faults that the rules find in each known item of a list. */
export function applyToEach<T>(
  items: readonly T[],
  path: string,
  rules: readonly ((item: T, index: number) => readonly Fault[])[],
): Fault[] {
  return [...items.keys()].flatMap((index) =>
    applyRules(
      items,
      rules.map((rule) => () => rule(items[index] as T, index)),
      `${path}/${index}`,
    ),
  )
}

/** The fault of a path with this message, if a rule is broken. */
export function faultIf(isBroken: boolean, path: string, message: string): Fault[] {
  return isBroken ? [{ path, message }] : []
}

/** The faults of rows whose name an earlier one has. */
export function checkUnique(path: string, rows: readonly { readonly name: string }[]): Fault[] {
  const names = rows.map((_, index) => ifKnown(() => rows[index]?.name))
  return names.flatMap((name, index) =>
    name !== undefined && names.indexOf(name) < index
      ? [{ path: `${path}/${index}/name`, message: `is already in use: ${name}` }]
      : [],
  )
}

/** What one row of an API key must not have in common with another one. */
interface KeyNames {
  readonly name: string
  readonly formerNames?: string[]
}

/** The rows of API keys, to be compared: of one that is not known whole, its names, with a key that no other row has. */
export function comparableKeys<Row extends KeyNames>(rows: readonly Row[]) {
  return [...rows.keys()].map((index): Row | (KeyNames & { keySha256: string }) => {
    const row = ifKnown(() => rows[index])
    if (row && isWhole(row)) return row
    const formerNames = ifKnown(() => row?.formerNames)
    return {
      name: ifKnown(() => row?.name) ?? `\0${index}`,
      ...(formerNames && isWhole(formerNames) && { formerNames }),
      keySha256: String(index).padStart(64, '0'),
    }
  })
}

/** Whether every part of a value is known. */
export function isWhole(value: unknown): boolean {
  return ifKnown(() => JSON.stringify(value)) !== undefined
}

/** The result of `read`, or undefined if it reads an unknown part. */
export function ifKnown<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (error instanceof UnknownPart) return undefined
    throw error
  }
}

/** The error that `read` throws, as a fault of the path. */
export function faultOf(path: string, read: () => unknown): Fault[] {
  try {
    read()
    return []
  } catch (error) {
    if (error instanceof UnknownPart) throw error
    return [{ path, message: (error as Error).message }]
  }
}

/** A configured listener. */
export interface Listener {
  /** JSON pointer of its section, such as `/server`. */
  readonly path: string
  readonly address: { readonly host: string; readonly port: number }
  /** Listeners of the same kind and address are one listener. */
  readonly kind?: string
}

/** The faults of the addresses that a service listens on. */
export function checkListeners(listeners: readonly Listener[]): Fault[] {
  return listeners.flatMap((listener, index) =>
    applyRules(
      listener,
      [
        ({ address: { host } }) =>
          isIP(host) > 0 || (!host.startsWith('[') && parseHost(host))
            ? []
            : [{ path: '/host', message: 'is not an IP address or host name to listen on' }],
        ({ address: { port } }) => {
          const earlier = listeners.slice(0, index)
          const conflict = earlier.find((candidate) => ifKnown(() => clash(candidate, listener)))
          if (!conflict) return []
          const name = conflict.path.slice(1).replaceAll('/', '.')
          return [{ path: '/port', message: `is taken by ${name}, which has port ${port} too` }]
        },
      ],
      listener.path,
    ),
  )
}

/** Whether the two cannot listen at the same time. Port 0 is a different port for each. */
function clash(first: Listener, second: Listener): boolean {
  if (first.address.port !== second.address.port || first.address.port === 0) return false
  const firstHost = addressOf(first.address.host)
  const secondHost = addressOf(second.address.host)
  if (firstHost === secondHost) return first.kind === undefined || first.kind !== second.kind
  return covers(firstHost, secondHost) || covers(secondHost, firstHost)
}

/** Whether `any` is the address of all interfaces; `::` includes IPv4. */
function covers(any: string, address: string): boolean {
  return any === '::' || (any === '0.0.0.0' && isIP(address) !== 6)
}

function addressOf(host: string): string {
  return host === 'localhost' ? '127.0.0.1' : (parseHost(host)?.name ?? host)
}

/** The prefixes of the largest private networks. A larger network includes strangers. */
const FEWEST_BITS = { 4: 8, 6: 7 } as const

/** Host names, each of which is looked up again and again. */
const MAX_NAMES = 16

/** The faults of a list of trusted proxies: addresses, networks and host names. */
export function checkTrustedProxies(list: readonly string[] = [], path: string): Fault[] {
  const names = ifKnown(() => list.filter(parseProxyName)) ?? []
  return [
    ...faultIf(names.length > MAX_NAMES, path, `may have at most ${MAX_NAMES} host names`),
    ...applyToEach(list, path, [checkProxy]),
  ]
}

/** The faults of an IP address or network. */
export function checkNetwork(
  text: string,
  what = 'an IP address or network, such as 10.0.0.0/8',
): Fault[] {
  if (parseCidr(text)) return []
  const [address = '', prefix = '', ...extra] = text.split('/')
  const most = isIP(address) === 6 ? 128 : 32
  if (isIP(address) === 0 || extra.length > 0) return [{ path: '', message: `is not ${what}` }]
  const isPrefix = /^\d{1,3}$/.test(prefix) && Number(prefix) <= most
  const why = isPrefix
    ? 'the bits behind the prefix must be zero'
    : `the prefix is from 0 to ${most}`
  return [{ path: '', message: `is not a network: ${why}` }]
}

function checkProxy(text: string): Fault[] {
  if (parseProxyName(text)) return []
  const cidr = parseCidr(text)
  if (!cidr)
    return checkNetwork(text, 'an IP address, a network such as 10.0.0.0/8, or a host name')
  const isBroad = cidr.prefix < FEWEST_BITS[cidr.network.version]
  return faultIf(
    isBroad,
    '',
    'trusts far more than proxies: list their addresses, such as 10.0.0.5',
  )
}

/** The faults of the host names of a service's proxies. One that cannot be looked up here is a warning: it may be known elsewhere. */
export async function checkProxyNames(config: object | undefined, lookup = systemLookup) {
  const { server } = config as { server?: { trustedProxies?: readonly string[] } }
  const faults = (server?.trustedProxies ?? []).map(async (text, index): Promise<Fault[]> => {
    const path = `/server/trustedProxies/${index}`
    const name = parseProxyName(text)
    const resolution = name && (await proxyAsker(name, systemClock, lookup)())
    if (!resolution || resolution.state === 'found') return []
    return [{ path, message: resolution.says, isWarning: resolution.state !== 'broad' }]
  })
  return (await Promise.all(faults)).flat()
}

import { nameRulesOf } from '@gatehouse/issuance/options'
import {
  type Clock,
  compileNetworks,
  embeddedIp,
  type IpAddress,
  type LookupAll,
  orLate,
  parseHost,
  parseIp,
} from '@gatehouse/net'
import { compileRules, type Name } from '@gatehouse/pki'
import { type ProbePort, parsePort } from '@gatehouse/tls-probe'
import type { ProbeConfig } from '../config/probe.ts'

const MAX_ADDRESSES = 8
const LOOKUP_MS = 5_000
/** Never connected to: this machine, its link, groups of machines, and what is no address of a machine. */
const isReserved = compileNetworks([
  ...['0.0.0.0/8', '127.0.0.0/8', '169.254.0.0/16', '224.0.0.0/3'],
  ...['::/127', 'fe80::/10', 'ff00::/8'],
])

/** A port of a host under a name. */
export interface Endpoint extends ProbePort {
  readonly host: string
}

/** The option `probe`, as it is used. */
export interface Plan extends Pick<ProbeConfig, 'interval'> {
  placesOf(name: Name): readonly Endpoint[]
  /** Whether an address may be connected to. */
  allows(address: IpAddress): boolean
}

export function planOf({ networks, interval, targets }: ProbeConfig): Plan {
  const isInside = compileNetworks(networks)
  const compiled = targets.map(({ names, ports = [':443'], hosts }) => ({
    isFor: compileRules(nameRulesOf(names)),
    ports: ports.flatMap((text) => parsePort(text) ?? []),
    hosts: hosts?.flatMap((text) => parseHost(text)?.name ?? []),
  }))
  return {
    interval,
    placesOf(name) {
      const { ports = [{ port: 443, protocol: 'tls' }] as const, hosts } =
        compiled.find(({ isFor }) => isFor(name)) ?? {}
      const named = name.kind === 'wildcard' ? [] : [name.text]
      return (hosts ?? named).flatMap((host) => ports.map((port) => ({ host, ...port })))
    },
    allows(address) {
      const target = embeddedIp(address) ?? address
      return isInside(address) && !isReserved(address) && !isReserved(target)
    },
  }
}

/**
 * Looks up the addresses of a host, which are then connected to as they are: those that may be come first. None if it has
 * none, or they are not known now. The order is the same at each look, as only the first 8 are given.
 */
export async function addressesOf(
  host: string,
  { allows }: Plan,
  { lookup, clock }: { readonly lookup: LookupAll; readonly clock: Clock },
): Promise<readonly IpAddress[]> {
  const { ip } = parseHost(host) ?? {}
  const texts = ip
    ? [ip.text]
    : ((await orLate(lookup(host), clock, LOOKUP_MS).catch(() => [])) ?? [])
  const canonical = texts.flatMap((text) => parseIp(text)?.text ?? [])
  const addresses = [...new Set(canonical)].toSorted().flatMap((text) => parseIp(text) ?? [])
  const [inside, outside] = [true, false].map((is) => addresses.filter((ip) => allows(ip) === is))
  return [...(inside ?? []), ...(outside ?? [])].slice(0, MAX_ADDRESSES)
}

import { hash } from 'node:crypto'
import { parseIp } from '@gatehouse/net'
import { directoryOf, type IssuerConfig } from '../options/issuers.ts'
import { DAY, HOUR } from '../times.ts'
import type { Limit } from './bucket.ts'

/** The limits of one CA. An absent limit is unknown, or there is none. */
export type CaLimits = {
  readonly [Kind in keyof Configured]: Configured[Kind] | undefined
}
type Configured = NonNullable<IssuerConfig['limits']>

/** The limits that CAs published, as of November 2026. */
const PUBLISHED: Readonly<Record<string, CaLimits>> = {
  [directoryOf('letsencrypt')]: {
    orders: { count: 300, per: 3 * HOUR },
    domain: { count: 50, per: 7 * DAY },
    names: { count: 5, per: 7 * DAY },
    failures: { count: 5, per: HOUR },
    // Beyond these, the name is paused until a person opens a page of the CA.
    failuresInARow: { count: 1_152, per: 1_152 * DAY },
    accounts: { count: 10, per: 3 * HOUR },
    renewalsExempt: true,
  },
  [directoryOf('letsencrypt-staging')]: {
    orders: { count: 1_500, per: 3 * HOUR },
    failures: { count: 200, per: HOUR },
    renewalsExempt: true,
  },
}

export function caLimitsOf({ directory, limits }: IssuerConfig): CaLimits {
  return { ...PUBLISHED[directoryOf(directory)], ...limits }
}

export interface LimitedOrder {
  readonly issuer: string
  /** URL of the directory of the CA. */
  readonly directory: string
  readonly names: readonly string[]
  /** Whether the order names the certificate that it replaces (ARI), which CAs exempt. */
  readonly renewal: boolean
  /** Whether it replaces a certificate, also if the CA is not told. */
  readonly isRenewal?: boolean
  /** The caller whose share it uses; undefined if it uses none. */
  readonly askedBy?: string | undefined
}

export interface Quota {
  readonly kind: Exclude<keyof CaLimits, 'renewalsExempt'>
  readonly key: string
  readonly subject: string
  readonly limit: Limit
  /** The number that is kept for renewals. */
  readonly kept?: number
}

/** The share of the quota of a registered domain that one caller may use, and that only renewals may use in the end. */
const SHARE = 0.3

/** The quotas of a domain for a first certificate, with the shares of the caller. */
export function sharesOf(
  quotas: readonly Quota[],
  { askedBy }: Pick<LimitedOrder, 'askedBy'>,
  { renewalsExempt = false }: CaLimits,
): readonly Quota[] {
  const partOf = ({ limit }: Quota) => Math.floor(limit.count * SHARE)
  // An order that the CA does not count needs no room.
  const shared = quotas.map((quota) => {
    const kept = renewalsExempt ? 0 : partOf(quota)
    return kept
      ? { ...quota, kept, subject: `${quota.subject}, without ${kept} for renewals` }
      : quota
  })
  if (askedBy === undefined) return shared
  const shares = quotas.map((quota) => ({
    ...quota,
    key: `share ${quota.key} ${askedBy}`,
    subject: `${quota.subject} by one caller that is no operator`,
    // The first certificate is always possible.
    limit: { ...quota.limit, count: Math.max(1, partOf(quota)) },
  }))
  return [...shared, ...shares]
}

export function issuedKey({ directory, names }: Pick<LimitedOrder, 'directory' | 'names'>): string {
  return `issued ${directory} ${setOf(names)}`
}

export function setOf(names: readonly string[]): string {
  return hash('sha256', names.toSorted().join())
}

/** What the limits of one kind count by for these names, and its description. */
export function subjectsOf(
  kind: Quota['kind'],
  names: readonly string[],
  registeredDomain: RegisteredDomain,
): readonly { id: string; subject: string }[] {
  if (kind === 'orders') return [{ id: '', subject: 'the account' }]
  if (kind === 'accounts') return [{ id: '', subject: 'the address of this host' }]
  if (kind === 'names') return [{ id: setOf(names), subject: 'exactly these names' }]
  // A wildcard is authorized by its base name.
  const subjectOf =
    kind === 'domain' ? registeredDomain : (name: string) => name.replace(/^\*\./, '')
  return [...new Set(names.map(subjectOf))].map((id) => ({ id, subject: id }))
}

/** The subject of `domain`: the registered domain, an IPv4 address, or the /64 of an IPv6 address. */
export type RegisteredDomain = (name: string) => string

/** Imports the public suffix list, which takes a tenth of a start, only for services with ACME issuers. */
export async function loadRegisteredDomain(): Promise<RegisteredDomain> {
  const { getDomain } = await import('tldts')
  return (name) => {
    const host = name.replace(/^\*\./, '')
    const ip = parseIp(host)
    if (ip?.version === 6) return `${networkOf(ip.bytes)}/64`
    if (ip) return ip.text
    return getDomain(host, { allowPrivateDomains: true }) ?? host
  }
}

function networkOf(ip: Uint8Array): string | undefined {
  const groups = Buffer.from(ip.subarray(0, 8)).toString('hex').match(/.{4}/g) ?? []
  return parseIp(`${groups.join(':')}::`)?.text
}

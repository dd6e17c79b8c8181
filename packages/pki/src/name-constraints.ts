import type { Cidr } from '@gatehouse/net'
import { readFields, readX509 } from './certificate.ts'
import { context, type Der, element, encode, sequence } from './der.ts'
import { DNS_NAME, IP_ADDRESS, OID } from './extensions.ts'
import type { NameRule } from './name-rules.ts'

/**
 * The name constraint of RFC 5280 4.2.1.10 that comes nearest to the rules; none for an empty list
 * or one with `*`. A constraint knows only "x and everything below", so `x`, `*.x` and `=*.x` all
 * become that: it bounds what a stolen key can do, the rules themselves are held elsewhere.
 */
export function nameConstraint(permitted: readonly NameRule[]): Der | undefined {
  if (permitted.length === 0 || permitted.some(({ kind }) => kind === 'any')) return undefined
  const domains = permitted.flatMap((rule) => ('labels' in rule ? rule.labels.join('.') : []))
  const cidrs = permitted.flatMap((rule) => (rule.kind === 'cidr' ? rule.cidr : []))

  const allowed = [
    ...[...new Set(domains)].sort().map(dnsSubtree),
    ...cidrs.map((cidr) => ipSubtree(ipRange(cidr))),
  ]
  // A constraint binds only the kinds of names in it, so each absent kind is excluded whole.
  const excluded = [
    ...(domains.length > 0 ? [] : [dnsSubtree('')]),
    ...(cidrs.some(({ network }) => network.version === 4) ? [] : [ipSubtree(Buffer.alloc(8))]),
    ...(cidrs.some(({ network }) => network.version === 6) ? [] : [ipSubtree(Buffer.alloc(32))]),
  ]
  return excluded.length > 0
    ? sequence(context(0, ...allowed), context(1, ...excluded))
    : sequence(context(0, ...allowed))
}

/**
 * Whether a CA certificate carries the name constraint that `createIntermediate` makes of the
 * rules, and no other.
 *
 * @throws PkiError `PKI_CERTIFICATE_INVALID`
 */
export function carriesConstraints(
  certificate: Uint8Array,
  permitted: readonly NameRule[],
): boolean {
  const carried = readFields(readX509(certificate)).extension(OID.nameConstraints)
  const wanted = nameConstraint(permitted)
  return carried && wanted ? carried.raw.equals(encode(wanted)) : !carried && !wanted
}

const dnsSubtree = (domain: string) => sequence(element(DNS_NAME, domain))
const ipSubtree = (range: Uint8Array) => sequence(element(IP_ADDRESS, range))

/** Address and mask. */
function ipRange({ network, prefix }: Cidr): Buffer {
  const mask = network.bytes.map((_, i) => 0xff00 >> Math.min(8, Math.max(0, prefix - 8 * i)))
  return Buffer.concat([network.bytes, mask])
}

import { malformed } from '@gatehouse/acme/server'
import type { IssuanceRequest } from '@gatehouse/issuance/request'
import { toTime } from '@gatehouse/issuance/times'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
/** How far the clocks of clients may be from this one. */
const SKEW = 5 * MINUTE
/** The time for which a certificate is good for something still. */
const LEAST = 5 * MINUTE
/** RFC 3339 section 5.6. */
const TIME = /^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)$/

/**
 * Reads when the certificate of an order is to end (RFC 8555 section 7.4), in ms since the epoch, to the second. A
 * certificate begins when it is issued. What Go writes for no time is none.
 *
 * @throws AcmeProblem `malformed`
 */
export function readValidity(
  order: { readonly notBefore?: unknown; readonly notAfter?: unknown },
  now: number,
): number | undefined {
  const [notBefore, notAfter] = [readTime(order, 'notBefore'), readTime(order, 'notAfter')]
  if (notBefore !== undefined && Math.abs(notBefore - now) > SKEW)
    throw malformed(
      `\`notBefore\` has to be now, ${toTime(now)}: a certificate begins when it is issued. For its end, send \`notAfter\``,
    )
  if (notAfter === undefined) return undefined
  if (notAfter < now + HOUR - SKEW)
    throw malformed(`\`notAfter\` has to be an hour from now at least: ${toTime(now + HOUR)}`)
  return Math.floor(notAfter / 1_000) * 1_000
}

/** @throws AcmeProblem `malformed` if the issuer makes no certificate that ends then, or if that is over */
export function requireEnd({ notAfter, issuer }: IssuanceRequest, now: number): void {
  if (notAfter === undefined) return
  if (notAfter < now + LEAST) throw malformed('`notAfter` is over: place another order')
  const latest = issuer.latestEnd?.()
  if (latest === undefined)
    throw malformed(
      `the CA behind ${issuer.name} decides when a certificate ends: leave \`notAfter\` out`,
    )
  if (notAfter > latest) throw malformed(`\`notAfter\` has to be ${toTime(latest)} at the latest`)
}

function readTime(
  order: Parameters<typeof readValidity>[0],
  member: 'notBefore' | 'notAfter',
): number | undefined {
  const text = order[member]
  if (text === undefined || text === null || text === '') return undefined
  const at = typeof text === 'string' && TIME.test(text) ? Date.parse(text) : Number.NaN
  if (Number.isNaN(at)) throw malformed(`\`${member}\` is not a time as in RFC 3339`)
  return new Date(at).getUTCFullYear() <= 1 ? undefined : at
}

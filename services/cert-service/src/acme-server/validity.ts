import { AcmeProblem, malformed } from '@gatehouse/acme/server'
import type { IssuanceRequest } from '@gatehouse/issuance/request'
import { HOUR, toTime } from '@gatehouse/issuance/times'
import { PROFILES, type Profile } from '@gatehouse/pki'
import type { FastifyInstance } from 'fastify'

const MINUTE = 60_000
/** The difference between the clocks of clients and this one that is accepted, in ms. */
const SKEW = 5 * MINUTE
/** The time for which a certificate is good for something still. */
const LEAST = 5 * MINUTE
/** RFC 3339 section 5.6. */
const TIME = /^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)$/

/**
 * Reads when the certificate of an order is to end (RFC 8555 section 7.4), in ms since the epoch, to the second. A
 * certificate begins when it is issued, so a beginning alone is of no use. What Go writes for no time is none.
 *
 * @throws AcmeProblem `malformed`
 */
export function readValidity(
  order: { readonly notBefore?: unknown; readonly notAfter?: unknown },
  now: number,
): number | undefined {
  const notBefore = readTime('notBefore', order.notBefore)
  const notAfter = readTime('notAfter', order.notAfter)
  if (notBefore !== undefined && Math.abs(notBefore - now) > SKEW)
    throw malformed(
      `\`notBefore\` has to be now, ${toTime(now)}: a certificate begins when it is issued. For its end, send \`notAfter\``,
    )
  if (notBefore !== undefined && notAfter === undefined)
    throw malformed(
      '`notBefore` needs a `notAfter`: leave it out, as a certificate begins when it is issued',
    )
  if (notAfter === undefined) return undefined
  if (notAfter < now + HOUR - SKEW)
    throw malformed(`\`notAfter\` has to be an hour from now at least: ${toTime(now + HOUR)}`)
  return Math.floor(notAfter / 1_000) * 1_000
}

/**
 * Reads the profile that a client chooses: one of this service, or of the configuration, which says for how many ms its
 * certificates live at most.
 * @throws AcmeProblem `invalidProfile`
 */
export function readProfile(
  name: string,
  { profiles }: Pick<FastifyInstance['acmeOptions'], 'profiles'>,
): { readonly profile: Profile; readonly lifetime: number } {
  const namedProfile = profiles.get(name)
  const profile = namedProfile ? 'server' : PROFILES.find((profileName) => profileName === name)
  if (profile) return { profile, lifetime: namedProfile?.lifetime ?? Infinity }
  const choices = [...PROFILES, ...profiles.keys()].map((choice) => `\`${choice}\``).join(', ')
  throw new AcmeProblem('invalidProfile', `the profile has to be one of ${choices}`)
}

/** @throws AcmeProblem `malformed` if the issuer makes no certificate that ends then, or if that is over */
export function requireEnd(
  { notAfter, issuer, lifetime }: IssuanceRequest,
  now: number,
  profileName: string | null,
): void {
  const isOther = profileName !== null && !issuer.profile?.endsWith(` ${profileName}`)
  const decides = `the CA behind ${issuer.name} decides when a certificate ends`
  if (issuer.longest === undefined && isOther)
    throw malformed(`${decides}: use the profile \`server\``)
  if (notAfter === undefined) return
  if (notAfter < now + LEAST) throw malformed('`notAfter` is over: place another order')
  const latest = issuer.latestEnd?.(lifetime)
  if (latest === undefined) throw malformed(`${decides}: leave \`notAfter\` out`)
  if (notAfter > latest) throw malformed(`\`notAfter\` has to be ${toTime(latest)} at the latest`)
}

function readTime(member: string, text: unknown): number | undefined {
  if (text === undefined || text === null || text === '') return undefined
  const time = typeof text === 'string' && TIME.test(text) ? Date.parse(text) : Number.NaN
  if (Number.isNaN(time)) throw malformed(`\`${member}\` is not a time as in RFC 3339`)
  return new Date(time).getUTCFullYear() <= 1 ? undefined : time
}

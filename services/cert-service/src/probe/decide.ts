import { X509Certificate } from 'node:crypto'
import type {
  CertificateRecord,
  InService,
  ProbeRecord,
  ProbeState,
} from '@gatehouse/cert-store/port'
import { HOUR } from '@gatehouse/issuance/times'
import type { Name } from '@gatehouse/pki'
import { rootOf, serverNameFor } from '@gatehouse/tls-probe'

const MAX_FAILURES = 3
/** The pause after that many, in ms. */
const BACK_OFF = 6 * HOUR
const MAX_ISSUER = 200

/** What a server serves. */
export interface ServedChain {
  readonly sha256: string
  /** As they were sent, leaf first. A machine that speaks for itself sends none. */
  readonly certificates?: readonly Buffer[]
}

/** What was seen at a place, and what this service knows of it. */
export interface Sight {
  readonly name: Name
  readonly served: ServedChain
  /** The certificate of this service with that digest. */
  readonly issued: (CertificateRecord & InService) | undefined
  /** Whether it is late although it is the newest of its lineage, and newer ones have its names. */
  readonly isForgotten: boolean
  /** The certificates in service that have the name. */
  readonly heads: readonly CertificateRecord[]
  /** The roots of this service, DER. */
  readonly roots: readonly Uint8Array[]
  readonly now: number
}

export type Seen = Pick<
  ProbeRecord,
  'state' | 'since' | 'sha256' | 'issuer' | 'notBefore' | 'notAfter'
>

/** Nothing was seen. */
export function unseen(state: 'unreachable' | 'outside', now: number): Seen {
  return { state, since: now, sha256: null, issuer: null, notBefore: null, notAfter: null }
}

/** Decides what is served. Undefined where that is no concern of this service: nothing of it is in service for the name. */
export function decide(sight: Sight): Seen | undefined {
  const { served, issued, heads, now } = sight
  const der = served.certificates?.[0] ?? issued?.certificate
  const leaf = der && new X509Certificate(der)
  const facts = {
    sha256: served.sha256,
    issuer: leaf?.issuer?.split('\n').join(', ').slice(0, MAX_ISSUER) ?? null,
    notBefore: leaf?.validFromDate.getTime() ?? null,
    notAfter: leaf?.validToDate.getTime() ?? null,
  }
  const is = (state: ProbeState, since = now) => ({ state, since: Math.min(since, now), ...facts })
  if (leaf && !isFor(leaf, sight.name)) return is('wrongName')
  if (issued?.revokedAt) return is('revoked', issued.revokedAt)
  if (heads.length === 0) return undefined
  if (facts.notAfter !== null && facts.notAfter <= now) return is('ended', facts.notAfter)
  if (!issued) return is('other')
  if (sight.isForgotten) return is('older')
  const replacedSince = issued.isCurrent ? Infinity : handedOutAt(heads, issued)
  if (replacedSince <= now) return is('older', replacedSince)
  return is(isComplete(sight, issued) ? 'newest' : 'incomplete')
}

function isFor(leaf: X509Certificate, name: Name): boolean {
  const match = name.ip
    ? leaf.checkIP(name.text)
    : leaf.checkHost(serverNameFor(name.text), { subject: 'never' })
  return match !== undefined
}

/** The time at which the first of the newer ones was handed out: a server cannot have it before. */
function handedOutAt(heads: readonly CertificateRecord[], { notBefore }: CertificateRecord) {
  const newer = heads.filter((head) => head.notBefore > notBefore)
  const fetched = newer.filter(({ fetchedAt, madeAt = 0 }) => fetchedAt >= madeAt)
  return Math.min(...fetched.map(({ fetchedAt }) => fetchedAt))
}

/** Whether all that was handed out is sent, or as much of it as leads to a root. */
function isComplete({ served, roots }: Sight, { chain }: CertificateRecord): boolean {
  const { certificates } = served
  if (!certificates || chain.every((der) => certificates.some((sent) => sent.equals(der))))
    return true
  const parse = (list: readonly Uint8Array[]) => list.map((der) => new X509Certificate(der))
  return rootOf(parse(certificates), parse(roots)) !== undefined
}

/** The row of a place after another look: it knows since when, and that one failure says little of a server. */
export function follow(
  previous: Omit<ProbeRecord, 'id'> | undefined,
  seen: Seen,
): Seen & Pick<ProbeRecord, 'failures'> {
  if (seen.state !== 'unreachable') {
    const since = previous?.state === seen.state ? previous.since : seen.since
    return { ...seen, since, failures: 0 }
  }
  const failures = (previous?.failures ?? 0) + 1
  const isKept = previous && (previous.state === 'unreachable' || failures < MAX_FAILURES)
  const { state, since, sha256, issuer, notBefore, notAfter } = isKept ? previous : seen
  return { state, since, sha256, issuer, notBefore, notAfter, failures }
}

/** Whether a place is to be looked at again. Another certificate with the name may have led there just now. */
export function isDue({ seenAt, failures }: ProbeRecord, interval: number, now: number): boolean {
  const pause = failures < MAX_FAILURES ? interval / 2 : BACK_OFF
  return now < seenAt || now >= seenAt + pause
}

import type { RenewalInfo, Solver } from '@gatehouse/acme'
import type { Csr, KeyType, Name, RevocationReason } from '@gatehouse/pki'

/** Clocks that are set differ by no more than this, in ms. */
const CLOCK_SKEW = 60_000
export const DAY = 86_400_000
/** Certificates that live shorter are renewed after half of their lifetime. */
const SHORT = 10 * DAY

/** A certificate authority: the embedded CA, or one that speaks ACME. */
export interface Issuer {
  /** The name in the configuration, part of the lineage of its certificates. */
  readonly name: string
  /** For an ACME CA its directory and profile, part of the lineage as well. */
  readonly profile?: string
  /** Key type unless a request names one; default `p256`. */
  readonly keyType?: KeyType | undefined
  /** Default: all. */
  readonly keyTypes?: readonly KeyType[]
  /** Name of the issuer to use while this one has no certificate. */
  readonly fallback?: string | undefined
  /** Whether it may sign this name for anyone. */
  permits(name: Name): boolean
  /** What bounds it, for a name that it may not sign. */
  scopeFor?(name: Name): string
  /** Why it cannot sign this request although it may sign each of the names. */
  objection?(names: readonly Name[], csr: Csr | null): string | undefined
  /** Signs, at once or in the background of the requests for it. Rejects with a coded error. */
  issue(request: IssuerRequest, io: IssuerIo): Issued | Promise<Issued>
  /** The URL of the account at the CA once it is registered, for CAA records (RFC 8657). */
  accountUrl?(): Promise<string | undefined>
  /** The solver that would prove a name. Absent if the CA requires no proof. */
  solverFor?(name: Name): Solver | undefined
  /**
   * Revokes at the CA; `unknown` if that does not know it. Absent if revocations are rows of the store.
   * @throws AcmeError
   */
  revoke?(certificate: Uint8Array, reason: RevocationReason): Promise<'revoked' | 'unknown'>
  /** When the CA suggests to renew (ARI, RFC 9773); `undefined` without support. @throws AcmeError */
  renewalInfo?(certificate: Uint8Array, signal: AbortSignal): Promise<RenewalInfo | undefined>
  /** What an operator has to attend to. */
  degraded?(): readonly string[]
}

export interface IssuerRequest {
  readonly names: readonly Name[]
  readonly keyType: KeyType
  /** DER of the public key to certify (SubjectPublicKeyInfo). */
  readonly spki: Uint8Array
  /** DER of a CSR for that key: the caller's, or one created for this order. */
  csr(): Uint8Array
  /** DER of the certificate of the same lineage that this one replaces. */
  readonly replaces?: Uint8Array | undefined
}

export interface IssuerIo {
  /** Reports the current step as the progress of the order. */
  report(step: string): void
  /** The state that an earlier try saved: it is resumed with the same key. */
  readonly checkpoint: unknown
  /** Saves plain JSON and the key in the order before the next step; `undefined` deletes both. */
  save(state: unknown): Promise<void>
  /** Aborted when the service stops: the order is resumed at the next start. */
  readonly signal: AbortSignal
  /** When the order was first requested. */
  readonly since: number
  /** For how long transient errors are retried, in milliseconds. */
  readonly patience: number
}

interface Validity {
  readonly notBefore: number
  readonly notAfter: number
}

export interface Issued extends Validity {
  readonly certificate: Uint8Array
  /** The direct issuer first, without the root. */
  readonly chain: readonly Uint8Array[]
  readonly serialNumber: string
}

export type Issuers = ReturnType<typeof createIssuers>

/** @param claimOf - the issuer that is there for a name although no rule of it may match */
export function createIssuers(
  configured: readonly Issuer[],
  last: Issuer,
  claimOf: (name: Name) => string | undefined = () => undefined,
) {
  const byName = new Map([...configured, last].map((issuer) => [issuer.name, issuer]))
  const choose = (names: readonly Name[]): Issuer =>
    configured.find((issuer) => names.every((name) => issuer.permits(name))) ?? last
  return {
    /** The first that may sign all of the names; the last one if none may. */
    choose,
    /** The first of the names that the last one must not sign, as another issuer is there for it. */
    findClaimed(names: readonly Name[]): { name: Name; issuer: Issuer } | undefined {
      if (choose(names) !== last) return undefined
      for (const name of names) {
        const issuer = byName.get(claimOf(name) ?? '')
        if (issuer) return { name, issuer }
      }
      return undefined
    },
    find: (name: string) => byName.get(name),
    names: (): readonly string[] => [...byName.keys()],
    /** Apart from the embedded CA. */
    degraded: () => configured.flatMap((issuer) => issuer.degraded?.() ?? []),
  }
}

/**
 * Whether a certificate is valid already, or will be within a minute. If not, the clock that dated it
 * was ahead, or the clock of this machine is behind.
 */
export function hasBegun({ notBefore }: Pick<Validity, 'notBefore'>, now: number): boolean {
  return notBefore <= now + CLOCK_SKEW
}

/** Puts what is valid already first and keeps the order otherwise. */
export function preferBegun<T extends Validity>(records: readonly T[], now: number): readonly T[] {
  return records.toSorted((a, b) => Number(hasBegun(b, now)) - Number(hasBegun(a, now)))
}

/**
 * When to renew a certificate: after two thirds of its lifetime, or half if that is under ten days,
 * and up to a twentieth earlier so that certificates issued together are not renewed together.
 */
export function planRenewal({ notBefore, notAfter }: Validity, random: () => number): number {
  const lifetime = notAfter - notBefore
  const share = lifetime < SHORT ? 1 / 2 : 2 / 3
  return notBefore + Math.floor(lifetime * (share - random() / 20))
}

/**
 * The earliest renewal of a new certificate, whatever its CA advises: a wrong clock or CA must not
 * cause one order after the other.
 */
export function soonestRenewal({ notBefore, notAfter }: Validity, now: number): number {
  return now + Math.min(Math.floor((notAfter - notBefore) / 10), DAY)
}

/**
 * Whether a certificate begins in the future because a clock was ahead when it was made: ours, or that
 * of its CA a while ago. If the CA is merely ahead of this clock, another certificate is no better.
 */
export function isMisdated(record: Validity & { readonly madeAt?: number }, now: number): boolean {
  if (hasBegun(record, now)) return false
  const { madeAt = record.notBefore } = record
  return !hasBegun({ notBefore: madeAt }, now) || soonestRenewal(record, madeAt) <= now
}

/** Milliseconds to wait after so many failures in a row: 1, 10 and 100 minutes, then a day. */
export function backoff(failures: number): number {
  return failures > 3 ? DAY : 60_000 * 10 ** (failures - 1)
}

interface Renewed extends Validity {
  readonly renewAt: number | null
  readonly explanationUrl?: string | null
}

/** The times of a certificate as answers write them, without `renewAt` if no renewal is planned. */
export function describeTimes({ notBefore, notAfter, renewAt }: Renewed) {
  return {
    notBefore: toTime(notBefore),
    notAfter: toTime(notAfter),
    ...(renewAt !== null && { renewAt: toTime(renewAt) }),
  }
}

/** The same, with the page on which the CA explains the time of the renewal. */
export function describeRenewal(record: Renewed) {
  const { renewAt, explanationUrl } = record
  return {
    ...describeTimes(record),
    ...(renewAt !== null && explanationUrl && { renewalExplanationUrl: explanationUrl }),
  }
}

/** RFC 3339 in UTC, to the second as in X.509. */
export function toTime(at: number): string {
  return `${new Date(at).toISOString().slice(0, 19)}Z`
}

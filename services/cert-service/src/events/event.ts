import type { CertificateRecord, ProbeState } from '@gatehouse/cert-store/port'
import type { CertEvent } from '@gatehouse/issuance'
import { DAY, describeTimes, planRenewal, toTime } from '@gatehouse/issuance/times'
import type { EventHead, NewEvent } from '@gatehouse/service-kit/events'

const YEAR = 366 * DAY

/** An event as receivers get it. It never contains key material. */
export type EventBody = EventHead & {
  readonly names: readonly string[]
  readonly issuer: string
} & (
    | {
        readonly type: 'issued' | 'renewed' | 'expiring'
        readonly serialNumber: string
        readonly notBefore: string
        readonly notAfter: string
        /** Absent if it is not renewed. */
        readonly renewAt?: string
        /** The ACME client that renews it, and its address; absent if it is of none. */
        readonly client?: string
        readonly address?: string
        /** Whether another caller has certificates that end later for all of the names. */
        readonly isCovered?: true
      }
    | {
        readonly type: 'failing'
        readonly failures: number
        readonly error?: { readonly code: string; readonly detail: string }
        readonly nextTryAt?: string
      }
    | {
        readonly type: 'not-served' | 'served-again'
        readonly state: ProbeState
        /** The host that leads to the address, or the address of the machine that says it of itself. */
        readonly host: string
        readonly address: string
        readonly port: number
        readonly protocol: string
        readonly since: string
        /** Of the certificate that is served. */
        readonly served: {
          readonly fingerprint256: string | null
          readonly issuer: string | null
          readonly notAfter?: string
        }
      }
  )

export function describeEvent(event: CertEvent, id: string, time: number): EventBody {
  const head = { id, at: toTime(time) }
  if (event.type === 'failing') {
    const { names, issuer, failures, lastError, nextTryAt } = event.order
    return {
      ...head,
      type: event.type,
      names,
      issuer,
      failures,
      ...(lastError && { error: { code: lastError.code, detail: lastError.detail } }),
      ...(nextTryAt !== null && { nextTryAt: toTime(nextTryAt) }),
    }
  }
  if ('probe' in event) {
    const { name, state, host, address, port, protocol, since, sha256, notAfter } = event.probe
    const end = notAfter === null ? {} : { notAfter: toTime(notAfter) }
    return {
      ...head,
      type: event.type,
      names: [name],
      issuer: event.issuer,
      ...{ state, host, address, port, protocol, since: toTime(since) },
      served: { fingerprint256: sha256, issuer: event.probe.issuer, ...end },
    }
  }
  const { names, issuer, serialNumber, account, client, address } = event.certificate
  return {
    ...head,
    type: event.type,
    names,
    issuer,
    serialNumber,
    ...describeTimes(event.certificate),
    ...(account && { client: client ?? 'an ACME client', ...(address && { address }) }),
    ...(event.isCovered && { isCovered: true }),
  }
}

/**
 * Counts the thirds of the time between planned renewal and expiry that have passed: 0 is on time, 1
 * and 2 call for a warning, 3 is expired.
 */
export function lateness(certificate: CertificateRecord, now: number): 0 | 1 | 2 | 3 {
  const { notAfter } = certificate
  const margin = notAfter - planRenewal(certificate, () => 0)
  const thirds = Math.floor((3 * (now - (notAfter - margin))) / margin)
  return Math.min(3, Math.max(0, thirds)) as 0 | 1 | 2 | 3
}

/**
 * Limits repeated events: failures are reported when they begin and then daily, late renewals once per third, and again
 * if what has covered them does not any more. What is served changes at most daily in the same way.
 */
export function onceOf(event: CertEvent, time: number): NewEvent['once'] {
  if (event.type === 'failing') {
    const { requestKey, failures } = event.order
    return { key: `failing ${requestKey}`, until: time + DAY, always: failures === 1 }
  }
  if ('probe' in event) {
    const { name, host, address, port, keyType, reporter, state } = event.probe
    const place = [name, host, address, port, keyType, reporter, state].join(' ')
    return { key: `${event.type} ${place}`, until: time + DAY }
  }
  if (event.type !== 'expiring') return undefined
  const { id, notAfter } = event.certificate
  const key = `expiring ${id} ${lateness(event.certificate, time)}${event.isCovered ? ' covered' : ''}`
  return { key, until: notAfter + YEAR }
}

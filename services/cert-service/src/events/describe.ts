import { times, toTime } from '../issuance/answer.ts'
import type { CertEvent } from '../issuance/events.ts'

/** An event as it is posted; key material has no way into it. */
export function describeEvent(event: CertEvent, id: string, at: number): string {
  const head = { id, type: event.type, at: toTime(at) }
  if (event.type === 'failing') {
    const { names, issuer, failures, lastError, nextTryAt } = event.order
    return JSON.stringify({
      ...head,
      names,
      issuer,
      failures,
      ...(lastError && { error: lastError }),
      ...(nextTryAt !== null && { nextTryAt: toTime(nextTryAt) }),
    })
  }
  const { names, issuer, serialNumber } = event.certificate
  return JSON.stringify({ ...head, names, issuer, serialNumber, ...times(event.certificate) })
}

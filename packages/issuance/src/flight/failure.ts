import type { Lease } from '@gatehouse/cert-store/port'
import { hasCode } from '@gatehouse/net'
import { PkiError } from '@gatehouse/pki'
import { isUnavailable } from '@gatehouse/store'
import { IssuanceError, IssueError } from '../errors.ts'
import { describeWait, issueFailed } from '../failure.ts'
import type { Actor } from '../request.ts'
import type { FlightOrder } from './order.ts'
import type { IssuanceDeps } from './ports.ts'

/** Codes that end the work and are no failure of it. */
const UNSTORED = ['CERT_LEASE_LOST', 'CERT_ORDER_ENDED', 'CERT_CALLER_LIMITED']

/** Stores a failure, so that neither callers nor renewals repeat it at once; gives the error to throw. */
export async function storeFailure(
  error: unknown,
  order: FlightOrder,
  lease: Lease,
  actor: Actor,
  deps: IssuanceDeps,
): Promise<unknown> {
  const { store, metrics, events, clock, log } = deps
  if (UNSTORED.some((code) => hasCode(error, code)) || error instanceof IssueError) return error
  metrics?.failed(error)
  if (isUnavailable(error)) return error
  if (error instanceof PkiError && error.code === 'PKI_KEY_QUEUE_FULL')
    return new IssuanceError('CERT_BUSY', error.message, { cause: error, retryAfter: 10 })
  const now = clock.now()
  const failed = order.failedBy(error, now)
  const { names, lastError, nextTryAt } = failed
  log.warn(
    { err: error, names, ...describeWait(nextTryAt ?? now, failed) },
    'a certificate could not be issued',
  )
  events?.emit({ type: 'failing', order: failed })
  await order.settle()
  const detail = lastError?.code ?? ''
  try {
    await Promise.all([
      store.saveOrder(failed, lease),
      store.addAudit([{ at: now, action: 'fail', ...actor, names, detail }]),
    ])
  } catch (writeError) {
    if (hasCode(writeError, 'CERT_LEASE_LOST')) return writeError
    throw writeError
  }
  return issueFailed(failed, now, error)
}

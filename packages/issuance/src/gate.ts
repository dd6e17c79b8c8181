import type { Lease, OrderRecord, Store } from '@gatehouse/cert-store/port'
import type { Clock } from '@gatehouse/net'
import { hasCode } from '@gatehouse/net'
import { issueFailed, nextTryOf, waitOf } from './failure.ts'
import { type Actor, type IssuanceRequest, preparationOf } from './request.ts'

/** The service itself, as opposed to its callers. */
export const SYSTEM: Actor = { actor: 'system', way: 'service' }

/** What is to be admitted. Without a lease it is only asked whether it would be. */
export interface CertificateAdmission {
  readonly request: IssuanceRequest
  readonly actor: Actor
  /** The latest order of the request key. */
  readonly order: OrderRecord | undefined
  readonly isRenewal: boolean
  /** The caller that the certificate counts for; undefined for renewals. */
  readonly askedBy: string | undefined
  readonly lease?: Lease
}

interface Demand extends Pick<IssuanceRequest, 'names'> {
  readonly isPrepared: boolean
}

/** The limits of callers. */
export interface CallerGate {
  /**
   * Admits a request for a new certificate whose lease is taken: what is counted includes the lease, so
   * that requests at the same time see each other.
   * @throws IssuanceError `CERT_CALLER_LIMITED`
   */
  admit(demand: Demand, actor: Actor, isRenewal: boolean, lease: Lease): Promise<void>
  /** Refuses what `admit` would refuse now, and takes nothing. @throws IssuanceError `CERT_CALLER_LIMITED` */
  ask(demand: Demand, actor: Actor, isRenewal: boolean): Promise<void>
  /** Takes one of the tries that a name has before its wait is over. @throws IssuanceError `CERT_CALLER_LIMITED` */
  admitRetry(name: string): Promise<void>
  /** Notes that a request goes on that was admitted before a restart: it may not be counted. */
  resumed(askedBy: string): Promise<void>
}

interface AdmissionDeps {
  readonly callers: CallerGate
  readonly clock: Pick<Clock, 'now'>
  readonly store: Pick<Store, 'findOrderByRequestKey'>
}

/**
 * Whatever refuses a certificate before its issuer begins, in order. Work on it ends at the first; a dry run
 * collects all. Who asks for the same later may be refused nevertheless.
 */
export async function* refusalsOf(
  admission: CertificateAdmission,
  { callers, clock, store }: AdmissionDeps,
) {
  const { request, actor, isRenewal, lease } = admission
  const retry = await refusedRetry(admission, callers, clock.now())
  if (retry) yield retry
  if (actor !== SYSTEM) {
    const demand = { names: request.names, isPrepared: await isPrepared(admission, store) }
    const limit = await limitOf(
      lease
        ? callers.admit(demand, actor, isRenewal, lease)
        : callers.ask(demand, actor, isRenewal),
    )
    if (limit) yield limit
  }
  const refusal = request.issuer.refusal?.(request)
  if (refusal) yield refusal
}

/** Refuses what failed until its next try is due, unless its share refused another caller. */
async function refusedRetry(
  { request, actor, order, lease }: CertificateAdmission,
  callers: CallerGate,
  now: number,
): Promise<Error | undefined> {
  const nextTryAt = order && waitOf(order, now)
  if (!order || nextTryAt === undefined) return undefined
  const { lastError, askedBy = actor.actor, names } = order
  if (lastError?.code === 'CERT_RATE_LIMITED' && askedBy !== actor.actor) return undefined
  const isVoid = nextTryOf(order, request.issuer, now) === undefined
  // Replicas with two configurations must not hand a name to and fro.
  const isTried = isVoid && (!lease || !(await limitOf(callers.admitRetry(names[0] ?? ''))))
  return isTried ? undefined : issueFailed({ ...order, nextTryAt }, now)
}

/** Whether the same caller had the names proven ahead, which took one from its bucket. */
async function isPrepared(
  { request, askedBy }: CertificateAdmission,
  store: AdmissionDeps['store'],
): Promise<boolean> {
  if (!request.issuer.authorize || request.isPreparation) return false
  const prepared = await store.findOrderByRequestKey(preparationOf(request).requestKey)
  const isProven = prepared?.status === 'done' && prepared.checkpoint !== undefined
  return isProven && prepared.askedBy === askedBy
}

async function limitOf(admission: Promise<void>): Promise<Error | undefined> {
  return admission.then(
    () => undefined,
    (error: unknown) => {
      if (hasCode(error, 'CERT_CALLER_LIMITED')) return error
      throw error
    },
  )
}

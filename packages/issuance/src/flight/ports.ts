import type { Keyring } from '@gatehouse/cert-store'
import type { CertificateRecord, OrderRecord, ProbeRecord, Store } from '@gatehouse/cert-store/port'
import type { Clock } from '@gatehouse/net'
import type { Callers } from '../admission.ts'
import type { Holdings } from '../holdings.ts'
import type { Actor, Issuers } from '../request.ts'

/** The parts of the service that issuing needs. */
export interface IssuanceDeps {
  readonly store: Store
  readonly keyring: Pick<Keyring, 'seal' | 'openAny'>
  readonly issuers: Issuers
  readonly holdings: Holdings
  readonly callers: Callers
  readonly audit: DeliveryLog
  readonly events: Events | undefined
  readonly metrics: IssuanceMetrics | undefined
  readonly clock: Clock
  readonly log: { warn(fields: object, message: string): void }
  /** Milliseconds that a caller waits at most. */
  readonly wait: number
  random(): number
}

export type CertEvent =
  | {
      readonly type: 'issued' | 'renewed' | 'expiring'
      readonly certificate: CertificateRecord
      /** Whether another caller has certificates that end later for all of the names. */
      readonly isCovered?: boolean
    }
  | { readonly type: 'failing'; readonly order: OrderRecord }
  | {
      readonly type: 'not-served' | 'served-again'
      readonly probe: Omit<ProbeRecord, 'id'>
      /** That of the certificate that is to be served. */
      readonly issuer: string
    }

/** Delivers events. Never throws, and is not waited for. */
export interface Events {
  emit(event: CertEvent): void
}

/** The audit trail of deliveries. */
interface DeliveryLog {
  /** Records a delivery. Gives a promise to await before the answer, if a row is written. */
  recordDelivery(
    certificate: CertificateRecord,
    actor: Actor,
    detail?: string,
  ): Promise<void> | undefined
  /** Records that a certificate is in use although it was not delivered. */
  recordUse(id: number): void
}

export interface IssuanceMetrics {
  readonly issued: { inc(labels: { readonly action: 'issue' | 'renew' }): void }
  readonly delivered: { inc(): void }
  failed(error: unknown): void
}

import type { CertificateRecord, OrderRecord } from '../store/store.ts'

/** What others may want to hear of. */
export type CertEvent =
  | { readonly type: 'issued' | 'renewed' | 'expiring'; readonly certificate: CertificateRecord }
  | { readonly type: 'failing'; readonly order: OrderRecord }

/** Takes events and passes them on. Never throws, and is not waited for. */
export interface Events {
  emit(event: CertEvent): void
}

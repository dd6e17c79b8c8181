import type { CertificateRecord, OrderRecord } from '../store/store.ts'

/** How a certificate is getting on, the worst last. */
export type State = 'renews' | 'due' | 'unrenewed' | 'failing' | 'ended'

/** The moments of a certificate that its state depends on. */
export type Moments = Pick<CertificateRecord, 'notBefore' | 'notAfter' | 'renewAt'>

/** @param order - the latest of the certificate's lineage */
export function stateOf(
  { notAfter, renewAt }: Moments,
  order: Pick<OrderRecord, 'status'> | undefined,
  now: number,
): State {
  if (notAfter <= now) return 'ended'
  if (order?.status === 'failed') return 'failing'
  if (renewAt === null) return 'unrenewed'
  return renewAt <= now ? 'due' : 'renews'
}

/** When a state says that something happens; `due` is happening. */
export function momentOf(state: State, { notAfter, renewAt }: Moments): number {
  return state === 'renews' ? (renewAt ?? notAfter) : notAfter
}

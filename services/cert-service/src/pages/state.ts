import type {
  CertificateRecord,
  CertificateState,
  OrderRecord,
  Way,
} from '@gatehouse/cert-store/port'
import { CLIENT_ISSUER } from '@gatehouse/issuance/request'
import type { Moments } from './time.ts'

/** The states of certificates as a filter names them, the worst last. */
export const STATE_NAMES: Readonly<Record<CertificateState, string>> = {
  renews: 'Renews',
  due: 'Being renewed',
  unrenewed: 'Not renewed',
  failing: 'Failing',
  ended: 'Ended',
}

/** Tells in which state a certificate is, by the latest order of its lineage. */
export function stateOf(
  { notAfter, renewAt }: Moments,
  order: Pick<OrderRecord, 'status'> | undefined,
  now: number,
): CertificateState {
  if (order?.status === 'failed') return 'failing'
  if (notAfter <= now) return 'ended'
  if (renewAt === null) return 'unrenewed'
  return renewAt <= now ? 'due' : 'renews'
}

/** By whom a certificate was asked for, as pages have it. */
export function wayText({ way, client }: Pick<CertificateRecord, 'way' | 'client'>): string {
  const by = client ? ` by ${client}` : ''
  return way ? `${WAYS[way]}${by}` : 'not known'
}

const WAYS: Readonly<Record<Way, string>> = {
  acme: 'ACME',
  api: 'the API',
  page: 'the inventory',
  service: 'the configuration',
}

/** The name of an issuer, as pages have it. */
export function issuerText(issuer: string): string {
  if (issuer === CLIENT_ISSUER) return 'the embedded CA, for clients'
  return issuer === 'ca' ? 'the embedded CA' : issuer
}

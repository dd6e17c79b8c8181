import { X509Certificate } from 'node:crypto'
import { parseEndpointUrl } from '@gatehouse/net'
import type { Fault, Rule } from '@gatehouse/service-kit'
import type { ProviderConfig } from './index.ts'
import { CONSUMERS } from './microsoft-entra-id.ts'

/** Those of any kind that can be wrong in ways that the schema cannot tell. */
interface Checked {
  readonly name: string
  readonly issuerUrl?: string
  readonly url?: string
  readonly authority?: string
  readonly tenantId?: string
  readonly clientId?: string
  readonly clientSecret?: string
  readonly clientAssertion?: object
  readonly ca?: string
}

/** What has to hold of a provider's options beyond their schema. */
export const PROVIDER_RULES: readonly Rule<ProviderConfig>[] = [
  ({ issuerUrl }: Checked) => checkUrl('/issuerUrl', issuerUrl),
  ({ url }: Checked) => checkUrl('/url', url),
  ({ authority }: Checked) => checkUrl('/authority', authority),
  ({ clientSecret, clientAssertion }: Checked) =>
    clientSecret !== undefined && clientAssertion !== undefined
      ? [{ path: '/clientAssertion', message: 'is given together with clientSecret' }]
      : [],
  ({ clientId, clientSecret, clientAssertion }: Checked) =>
    clientId !== undefined && clientSecret === undefined && clientAssertion === undefined
      ? [{ path: '/clientId', message: 'needs a clientSecret or a clientAssertion' }]
      : [],
  ({ tenantId }: Checked) =>
    tenantId === CONSUMERS
      ? [{ path: '/tenantId', message: 'is the tenant of all personal accounts' }]
      : [],
  ({ ca }: Checked) =>
    ca === undefined || isCertificate(ca)
      ? []
      : [{ path: '/ca', message: 'must be certificates in PEM' }],
]

function checkUrl(path: string, url: string | undefined): Fault[] {
  const message = url === undefined ? undefined : urlFault(url)
  return message === undefined ? [] : [{ path, message }]
}

function urlFault(text: string): string | undefined {
  try {
    return parseEndpointUrl(text).search === '' ? undefined : 'must not hold a query'
  } catch (error) {
    return (error as Error).message
  }
}

function isCertificate(pem: string): boolean {
  try {
    return new X509Certificate(pem) !== undefined
  } catch {
    return false
  }
}

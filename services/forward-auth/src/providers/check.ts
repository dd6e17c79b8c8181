import { X509Certificate } from 'node:crypto'
import { parseEndpointUrl } from '@gatehouse/net'
import type { Fault } from '@gatehouse/service-kit'
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

/** The faults of a provider's options that their schema cannot tell; pointers begin at them. */
export function checkProvider(config: ProviderConfig): readonly Fault[] {
  const { clientId, clientSecret, clientAssertion, tenantId, ca, ...options }: Checked = config
  const faults: Fault[] = []
  for (const key of ['issuerUrl', 'url', 'authority'] as const) {
    const message = options[key] === undefined ? undefined : urlFault(options[key])
    if (message !== undefined) faults.push({ path: `/${key}`, message })
  }
  if (clientSecret !== undefined && clientAssertion !== undefined)
    faults.push({ path: '/clientAssertion', message: 'is given together with clientSecret' })
  if (clientId !== undefined && clientSecret === undefined && clientAssertion === undefined)
    faults.push({ path: '/clientId', message: 'needs a clientSecret or a clientAssertion' })
  if (tenantId === CONSUMERS)
    faults.push({ path: '/tenantId', message: 'is the tenant of all personal accounts' })
  if (ca !== undefined && !isCertificate(ca))
    faults.push({ path: '/ca', message: 'must be certificates in PEM' })
  return faults
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

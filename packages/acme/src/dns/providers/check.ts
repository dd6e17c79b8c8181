import { parseEndpointUrl } from '@gatehouse/net'
import { parseNameRule } from '@gatehouse/pki'
import { parseServer } from '../exchange.ts'
import type { DnsProviderConfig } from './index.ts'

interface Fault {
  /** JSON pointer inside of the provider's options. */
  readonly path: string
  readonly message: string
}

type Rule = (config: DnsProviderConfig) => readonly Fault[]

/**
 * What has to hold of a provider's options beyond their schema. Each rule reads only what it judges,
 * so the others can be applied to options of which a part cannot be read.
 */
export const DNS_PROVIDER_RULES: readonly Rule[] = [
  ({ names = [] }) =>
    names.flatMap((rule, index) => attempt(`/names/${index}`, () => parseNameRule(rule))),
  (config) => checkEndpoint(config, 'endpoint'),
  (config) => checkEndpoint(config, 'authority'),
  (config) =>
    config.type === 'rfc2136' && !parseServer(config.server)
      ? [{ path: '/server', message: 'must be a host name or IP address, and maybe a port' }]
      : [],
  (config) =>
    config.type === 'azure' && config.clientSecret !== undefined && config.tokenPath !== undefined
      ? [{ path: '/tokenPath', message: 'is given together with clientSecret' }]
      : [],
  (config) => {
    if (config.type !== 'azure') return []
    const { clientSecret, tokenPath, tenantId, clientId } = config
    const isManaged = clientSecret === undefined && tokenPath === undefined
    const isComplete = tenantId !== undefined && clientId !== undefined
    return isManaged || isComplete ? [] : [{ path: '', message: 'needs tenantId and clientId' }]
  },
]

/** The metadata services are link-local and without TLS by design. */
function checkEndpoint(config: DnsProviderConfig, key: string): Fault[] {
  const url = (config as Partial<Record<string, unknown>>)[key]
  return typeof url === 'string' ? attempt(`/${key}`, () => parseEndpointUrl(url)) : []
}

function attempt(path: string, read: () => unknown): Fault[] {
  try {
    read()
    return []
  } catch (error) {
    return [{ path, message: (error as Error).message }]
  }
}

import { parseEndpointUrl } from '@gatehouse/net'
import { parseNameRule } from '@gatehouse/pki'
import { parseServer } from '../exchange.ts'
import type { DnsProviderConfig } from './index.ts'

interface Fault {
  /** JSON pointer inside of the provider's options. */
  readonly path: string
  readonly message: string
}

/** The faults of a provider's options that their schema cannot tell. */
export function checkDnsProvider(config: DnsProviderConfig): readonly Fault[] {
  const names = (config.names ?? []).flatMap((rule, index) =>
    attempt(`/names/${index}`, () => parseNameRule(rule)),
  )
  return [...names, ...checkEndpoints(config), ...checkKind(config)]
}

/** The metadata services are link-local and without TLS by design. */
function checkEndpoints(config: DnsProviderConfig): Fault[] {
  const urls: Partial<Record<string, unknown>> = config
  return ['endpoint', 'authority'].flatMap((key) => {
    const url = urls[key]
    return typeof url === 'string' ? attempt(`/${key}`, () => parseEndpointUrl(url)) : []
  })
}

function checkKind(config: DnsProviderConfig): Fault[] {
  if (config.type === 'rfc2136' && !parseServer(config.server))
    return [{ path: '/server', message: 'must be a host name or IP address, and maybe a port' }]
  if (config.type !== 'azure') return []
  const { clientSecret, tokenPath, tenantId, clientId } = config
  if (clientSecret !== undefined && tokenPath !== undefined)
    return [{ path: '/tokenPath', message: 'is given together with clientSecret' }]
  const isManaged = clientSecret === undefined && tokenPath === undefined
  if (!isManaged && (tenantId === undefined || clientId === undefined))
    return [{ path: '', message: 'needs tenantId and clientId' }]
  return []
}

function attempt(path: string, read: () => unknown): Fault[] {
  try {
    read()
    return []
  } catch (error) {
    return [{ path, message: (error as Error).message }]
  }
}

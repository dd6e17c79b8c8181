import { isLoopback, parseHost, parseHostPort, parseOrigin } from '@gatehouse/net'
import type { Site } from '../portal.ts'
import { isUnder } from '../sites.ts'
import type { ForwardAuthConfig } from './schema.ts'

/** The site that a row of `domains` describes, or what is wrong with it, and with which key. */
export function readSite(
  { domain, authHost }: ForwardAuthConfig['domains'][number],
  basePath: string,
): Site | { readonly key: 'domain' | 'authHost'; readonly message: string } {
  const parsed = parseHost(domain)
  if (!parsed) return { key: 'domain', message: 'is not a host name' }
  const key = authHost === undefined ? 'domain' : 'authHost'
  const written = authHost ?? domain
  const authOrigin = parseOrigin(written.includes('://') ? written : `https://${written}`)
  const host = authOrigin && parseHostPort(authOrigin.slice(authOrigin.indexOf('//') + 2))?.host
  if (!authOrigin || !host) return { key, message: 'is not a host, with a port if need be' }
  if (!isUnder(parsed.name, host)) return { key, message: `is not on or below ${parsed.name}` }
  if (authOrigin.startsWith('http:') && !isLoopback(host))
    return { key, message: 'is plain http, which only loopback names may be: cookies need https' }
  return { domain: parsed.name, authOrigin, basePath }
}

/** The sites of a configuration without faults. */
export function sitesOf({
  domains,
  server,
}: Pick<ForwardAuthConfig, 'domains'> & {
  readonly server: Pick<ForwardAuthConfig['server'], 'basePath'>
}): readonly Site[] {
  return domains.map((row) => readSite(row, server.basePath)).filter((site) => 'authOrigin' in site)
}

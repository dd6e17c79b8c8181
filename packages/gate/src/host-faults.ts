import { type Host, isUnder, parseHost } from '@gatehouse/net'
import { applyToEach, type Fault, faultIf } from '@gatehouse/service-kit/rules'

/** Canonical names of the cookie domains. */
export type Domains = readonly string[]

/** The faults of hosts that no request can have. */
export function checkHosts(
  hosts: readonly string[] | undefined,
  path: string,
  domains: Domains,
): Fault[] {
  return applyToEach(hosts ?? [], path, [
    (text) => {
      const host = parseHost(text.startsWith('*.') ? text.slice(2) : text)
      if (!host || host.name !== text.replace(/^\*\./, ''))
        return [{ path: '', message: 'is not a host such as app.example.com or *.example.com' }]
      return checkDomain(host, '', domains)
    },
  ])
}

export function checkDomain(host: Pick<Host, 'name'>, path: string, domains: Domains): Fault[] {
  const isOutside = !domains.some((domain) => isUnder(domain, host))
  return faultIf(isOutside, path, `is on none of the domains: ${domains.join(', ')}`)
}

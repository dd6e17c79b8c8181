import { parseIp } from '@gatehouse/net'

/** What the CA counts by: the registered domain, an IPv4 address, or the /64 of an IPv6 address. */
export type RegisteredDomain = (name: string) => string

/** With the public suffix list, which takes a tenth of a start: for those alone who have a use for it. */
export async function loadRegisteredDomain(): Promise<RegisteredDomain> {
  const { getDomain } = await import('tldts')
  return (name) => {
    const host = name.replace(/^\*\./, '')
    const ip = parseIp(host)
    if (ip?.version === 6) return `${networkOf(ip.bytes)}/64`
    if (ip) return ip.text
    return getDomain(host, { allowPrivateDomains: true }) ?? host
  }
}

function networkOf(ip: Uint8Array): string | undefined {
  const groups = Buffer.from(ip.subarray(0, 8)).toString('hex').match(/.{4}/g) ?? []
  return parseIp(`${groups.join(':')}::`)?.text
}

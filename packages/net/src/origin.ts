import { NetError } from './errors.ts'
import { formatHostPort, isLoopback, parseHostPort } from './host.ts'
import { compileNetworks, embeddedIp } from './ip.ts'

/** Parses a web origin (RFC 6454) to its canonical `scheme://host[:port]`; `null` is not accepted. */
export function parseOrigin(text: string): string | undefined {
  const [, scheme = '', authority = ''] = /^(https?):\/\/([^/?#]+)$/i.exec(text) ?? []
  const parsed = parseHostPort(authority)
  if (!parsed) return undefined
  const protocol = scheme.toLowerCase()
  const { host, port } = parsed
  const isDefaultPort = port === undefined || port === (protocol === 'https' ? 443 : 80)
  return `${protocol}://${formatHostPort(isDefaultPort ? { host } : parsed)}`
}

/**
 * Parses the URL of a server to call: https, or http on loopback or with `allowHttp`; without user
 * name, password and fragment.
 * @throws NetError NET_URL_INVALID, NET_URL_INSECURE
 */
export function parseEndpointUrl(text: string, options: { allowHttp?: boolean } = {}): URL {
  const refuse = (why: string) => new NetError('NET_URL_INVALID', `the URL must ${why}`)
  // Stricter than the URL parser, which accepts white space, backslashes and `https:host`.
  const [, scheme = '', authority = ''] =
    /^(https?):\/\/([^/?#]+)(?:[/?][^\s\\]*)?$/i.exec(text) ?? []
  if (!scheme) throw refuse('be absolute, http or https')
  if (authority.includes('@')) throw refuse('not hold a user name or password')
  if (text.includes('#')) throw refuse('not hold a fragment')

  const { host } = parseHostPort(authority) ?? {}
  if (!host || !URL.canParse(text)) throw refuse('hold a valid host and port')
  if (scheme.toLowerCase() === 'http' && !options.allowHttp && !isLoopback(host))
    throw new NetError('NET_URL_INSECURE', `plain http is refused for ${host.name}: use https`)
  return new URL(text)
}

/**
 * Parses a URL that another server names, such as the `jwks_uri` of a discovery document. Beyond
 * {@link parseEndpointUrl}, a document that came over https may name https only, and no document may
 * name this machine or the metadata service of a cloud unless it came from there, also by an address that
 * embeds theirs (NAT64, 6to4). A name that merely resolves to such an address is refused by TLS.
 * @param from - the URL of the document that names it
 * @throws NetError NET_URL_INVALID, NET_URL_INSECURE, NET_URL_INTERNAL
 */
export function parseAdvertisedUrl(
  text: string,
  { from, allowHttp = false }: { from: URL | string; allowHttp?: boolean },
): URL {
  const url = parseEndpointUrl(text, { allowHttp })
  const document = new URL(from)
  const internal = internalKind(url)
  if (internal !== undefined && internal !== internalKind(document))
    throw new NetError('NET_URL_INTERNAL', `${document.host} names ${internal}: ${url.host}`)
  if (url.protocol === 'http:' && document.protocol === 'https:' && !allowHttp)
    throw new NetError('NET_URL_INSECURE', `${document.host} names plain http: ${url.host}`)
  return url
}

const METADATA_NAMES = [
  'metadata',
  'metadata.google.internal',
  'metadata.goog',
  'instance-data',
  'instance-data.ec2.internal',
]
/** Link-local addresses, and others that AWS, Google, Alibaba, Azure and Oracle Cloud use. */
const isMetadataAddress = compileNetworks([
  '169.254.0.0/16',
  'fe80::/10',
  'fd00:ec2::254',
  'fd20:ce::254',
  '100.100.100.200',
  '168.63.129.16',
  '192.0.0.192',
])
/** Connections to an unspecified address reach this machine. */
const isUnspecified = compileNetworks(['0.0.0.0/8', '::'])

function internalKind({ host: text }: URL): string | undefined {
  const parsed = parseHostPort(text)?.host
  if (!parsed) return 'a host that is not valid'
  const ip = parsed.ip && embeddedIp(parsed.ip)
  const host = ip ? { name: ip.text, ip } : parsed
  if (isLoopback(host) || isUnspecified(host.ip)) return 'this machine'
  if (METADATA_NAMES.includes(host.name) || isMetadataAddress(host.ip)) return 'a metadata service'
  return undefined
}

import { NetError } from './errors.ts'
import { type Host, isLoopback, parseHostPort } from './host.ts'
import { compileNetworks } from './ip.ts'

/** Reads a web origin (RFC 6454) and gives its canonical `scheme://host[:port]`; `null` is none. */
export function parseOrigin(text: string): string | undefined {
  const [, scheme = '', authority = ''] = /^(https?):\/\/([^/?#]+)$/i.exec(text) ?? []
  const parsed = parseHostPort(authority)
  if (!parsed) return undefined
  const protocol = scheme.toLowerCase()
  const { host, port } = parsed
  const isDefaultPort = port === undefined || port === (protocol === 'https' ? 443 : 80)
  return `${protocol}://${bracket(host)}${isDefaultPort ? '' : `:${port}`}`
}

/**
 * Reads the URL of a server that we call: https, or http on loopback or with `allowHttp`; no user
 * name, no password, no fragment.
 *
 * @throws NetError NET_URL_INVALID, NET_URL_INSECURE
 */
export function parseEndpointUrl(text: string, options: { allowHttp?: boolean } = {}): URL {
  // The URL parser forgives white space, backslashes and `https:host`: those never reach it.
  const [, scheme = '', authority = ''] =
    /^(https?):\/\/([^/?#]+)(?:[/?][^\s\\]*)?$/i.exec(text) ?? []
  if (!scheme) throw new NetError('NET_URL_INVALID', 'the URL must be absolute, http or https')
  if (authority.includes('@'))
    throw new NetError('NET_URL_INVALID', 'the URL must not hold a user name or password')
  if (text.includes('#')) throw new NetError('NET_URL_INVALID', 'the URL must not hold a fragment')

  const parsed = parseHostPort(authority)
  if (!parsed || !URL.canParse(text))
    throw new NetError('NET_URL_INVALID', 'the URL must hold a valid host and port')
  if (scheme.toLowerCase() === 'http' && !options.allowHttp && !isLoopback(parsed.host))
    throw new NetError(
      'NET_URL_INSECURE',
      `plain http is refused for ${parsed.host.name}: use https`,
    )
  return new URL(text)
}

/**
 * Reads a URL that another server tells us to call, such as the `jwks_uri` of a discovery document.
 * As {@link parseEndpointUrl}, and: a server that was asked over https names https only, and no
 * server names this machine or the metadata service of a cloud, unless it is there itself. A name that
 * only resolves to such an address gets no further than TLS.
 *
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
/** Link-local addresses, and those of AWS, Google, Alibaba, Azure and Oracle Cloud that are not. */
const isMetadataAddress = compileNetworks([
  ...['169.254.0.0/16', 'fe80::/10', 'fd00:ec2::254', 'fd20:ce::254'],
  ...['100.100.100.200', '168.63.129.16', '192.0.0.192'],
])
/** An unspecified address reaches this machine. */
const isUnspecified = compileNetworks(['0.0.0.0/8', '::'])

function internalKind({ host: text }: URL): string | undefined {
  const host = parseHostPort(text)?.host
  if (!host) return 'a host that is not valid'
  if (isLoopback(host) || isUnspecified(host.ip)) return 'this machine'
  if (METADATA_NAMES.includes(host.name) || isMetadataAddress(host.ip)) return 'a metadata service'
  return undefined
}

function bracket(host: Host): string {
  return host.ip?.version === 6 ? `[${host.name}]` : host.name
}

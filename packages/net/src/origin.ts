import { NetError } from './errors.ts'
import { type Host, isLoopback, parseHostPort } from './host.ts'

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

function bracket(host: Host): string {
  return host.ip?.version === 6 ? `[${host.name}]` : host.name
}

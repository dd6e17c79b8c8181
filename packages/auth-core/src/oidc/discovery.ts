import { type BoundedFetch, parseAdvertisedUrl } from '@gatehouse/net'
import { AuthError } from '../errors.ts'

const MAX_BYTES = 262_144

/**
 * Asks an issuer where its keys are (OpenID Connect Discovery 1.0 section 4). Its answer counts only
 * if it names exactly this issuer.
 *
 * @throws AuthError AUTH_ISSUER_INVALID; NetError when the issuer does not answer well or in time
 */
export async function discoverJwksUrl(
  issuerUrl: string,
  {
    fetch,
    headers,
    allowHttp,
  }: { fetch: BoundedFetch; headers: Record<string, string>; allowHttp: boolean },
): Promise<URL> {
  const url = `${issuerUrl.replace(/\/$/, '')}/.well-known/openid-configuration`
  const { body } = await fetch(url, { headers, maxBytes: MAX_BYTES })
  const { issuer, jwks_uri: jwksUri } = parseMetadata(body)
  if (issuer !== issuerUrl)
    throw new AuthError('AUTH_ISSUER_INVALID', {
      detail: `${url} names the issuer ${JSON.stringify(issuer)}`,
    })
  if (typeof jwksUri !== 'string')
    throw new AuthError('AUTH_ISSUER_INVALID', { detail: `${url} has no jwks_uri` })
  return parseAdvertisedUrl(jwksUri, { from: url, allowHttp })
}

function parseMetadata(body: Buffer): { issuer?: unknown; jwks_uri?: unknown } {
  return Object(JSON.parse(body.toString()))
}

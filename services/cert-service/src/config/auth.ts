import type { AuthOptions } from '@gatehouse/auth-core'
import type { CertServiceConfig } from './schema.ts'

/** The part of `auth` that is auth-core's. */
export function pluginOptionsOf({
  domainsClaim: _,
  jwt,
  ...rest
}: CertServiceConfig['auth']): AuthOptions {
  if (!jwt) return rest
  const { domainsClaim: __, ...options } = jwt
  return { ...rest, jwt: options }
}

/** The claim that lists a caller's names, from either layout. */
export function domainsClaimOf(auth: CertServiceConfig['auth']): string | undefined {
  return auth.jwt?.domainsClaim ?? auth.domainsClaim
}

/** Whether callers may come with tokens. */
export function takesTokens({ method, jwt, issuerUrl }: CertServiceConfig['auth']): boolean {
  return method !== 'psk' && (jwt !== undefined || issuerUrl !== undefined)
}

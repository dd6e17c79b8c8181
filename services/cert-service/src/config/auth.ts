import type { AuthOptions } from '@gatehouse/auth-core'
import type { Right } from '../policy.ts'
import type { CertServiceConfig } from './schema.ts'

/** The part of `auth` that is auth-core's. */
export function pluginOptionsOf({
  domainsClaim: _,
  allow: __,
  psk,
  jwt,
  ...rest
}: CertServiceConfig['auth']): AuthOptions {
  return { ...rest, ...(psk && { psk: pskOptionsOf(psk) }), ...(jwt && { jwt: jwtOptionsOf(jwt) }) }
}

type Psk = NonNullable<CertServiceConfig['auth']['psk']>
type Jwt = NonNullable<CertServiceConfig['auth']['jwt']>

function pskOptionsOf({ keys, ...single }: Psk): NonNullable<AuthOptions['psk']> {
  if (!keys) return single
  return { ...single, keys: keys.map(({ rights: _, ...key }) => key) }
}

function jwtOptionsOf({
  domainsClaim: _,
  allow: __,
  issuers,
  ...single
}: Jwt): NonNullable<AuthOptions['jwt']> {
  if (!issuers) return single
  return { ...single, issuers: issuers.map(({ allow: _, ...issuer }) => issuer) }
}

/** The keys that have other rights than the usual ones, by name. */
export function keyRightsOf({ psk }: CertServiceConfig['auth']): ReadonlyMap<string, Right[]> {
  return new Map((psk?.keys ?? []).flatMap(({ name, rights }) => (rights ? [[name, rights]] : [])))
}

/** The claim that lists a caller's names, from either layout. */
export function domainsClaimOf(auth: CertServiceConfig['auth']): string | undefined {
  return auth.jwt?.domainsClaim ?? auth.domainsClaim
}

/** Whether callers may come with tokens. */
export function takesTokens({ method, jwt, issuerUrl }: CertServiceConfig['auth']): boolean {
  return method !== 'psk' && (jwt !== undefined || issuerUrl !== undefined)
}

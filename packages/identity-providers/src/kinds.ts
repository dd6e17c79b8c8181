import { type Claims, fromClaims, type Profile } from '@gatehouse/profile'
import { type Static, Type } from 'typebox'
import { GithubSchema, github } from './github.ts'
import { readClaims } from './oidc.ts'
import {
  GitlabSchema,
  GoogleSchema,
  gitlab,
  google,
  MicrosoftEntraIdSchema,
  microsoftEntraID,
  OpenIdConnectSchema,
  openIDConnect,
  PocketIdSchema,
  pocketID,
} from './open-id-connect.ts'
import type { Provider, ProviderDeps, ProviderKind } from './provider.ts'
import { TailscaleWhoisSchema, tailscaleWhois } from './tailscale-whois.ts'

/** One provider in the configuration. `type` selects its kind. */
export const ProviderSchema = Type.Union([
  OpenIdConnectSchema,
  GoogleSchema,
  MicrosoftEntraIdSchema,
  GithubSchema,
  GitlabSchema,
  PocketIdSchema,
  TailscaleWhoisSchema,
])

export type ProviderConfig = Static<typeof ProviderSchema>

const KINDS: Readonly<Record<ProviderConfig['type'], ProviderKind<ProviderConfig>>> = {
  openIDConnect,
  google,
  microsoftEntraID,
  github,
  gitlab,
  pocketID,
  tailscaleWhois,
}

/** Creates a provider. It sends no request before the next turn of the event loop. */
export function createProvider(config: ProviderConfig, deps: ProviderDeps): Provider {
  const kind = KINDS[config.type]
  const { name, color } = config
  const title = config.title ?? kind.title ?? name
  const behaviour = kind.create({ ...config, title }, deps)
  const { stepsUp = false } = kind
  return { name, title, icon: config.icon ?? kind.icon, color, stepsUp, ...behaviour }
}

/**
 * The person whose claims a provider has sent, as a sign-in reads them.
 *
 * @throws ProfileError PROFILE_ID_INVALID, PROFILE_CLAIMS_INVALID
 */
export function profileOf(config: ProviderConfig, sent: Claims): Profile {
  const { claimsOf } = KINDS[config.type]
  const read = (claims: Claims) => claimsOf?.(claims, config) ?? claims
  return fromClaims(config.name, readClaims(sent, {}, config as object, read))
}

/** Whether providers of this kind can authenticate people anew, or in another way. */
export function stepsUp({ type }: ProviderConfig): boolean {
  return KINDS[type].stepsUp ?? false
}

/** Whether anybody can get an account at the provider. */
export function isPublic(config: ProviderConfig): boolean {
  return KINDS[config.type].isPublic?.(config) ?? false
}

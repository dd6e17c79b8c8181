import type { ConfigOf } from '@gatehouse/service-kit'
import { Type } from 'typebox'
import type { ProviderDeps } from './deps.ts'
import { createGithub, GithubSchema, isPublicGithub } from './github.ts'
import { createGitlab, GitlabSchema, isPublicGitlab } from './gitlab.ts'
import { createGoogle, GoogleSchema } from './google.ts'
import { createMicrosoftEntraId, MicrosoftEntraIdSchema } from './microsoft-entra-id.ts'
import { createOpenIdConnect, isPublicIssuer, OpenIdConnectSchema } from './open-id-connect.ts'
import { createPocketId, PocketIdSchema } from './pocket-id.ts'
import type { Provider } from './provider.ts'
import { createTailscaleWhois, TailscaleWhoisSchema } from './tailscale-whois.ts'

export { PROVIDER_RULES } from './check.ts'
export type { ProviderDeps } from './deps.ts'

/** One provider in the configuration; `type` says which keys it has. */
export const ProviderSchema = Type.Union([
  OpenIdConnectSchema,
  GoogleSchema,
  MicrosoftEntraIdSchema,
  GithubSchema,
  GitlabSchema,
  PocketIdSchema,
  TailscaleWhoisSchema,
])

export type ProviderConfig = ConfigOf<typeof ProviderSchema>

/** Makes a provider; it asks nothing before the first turn of the event loop is over. */
export function createProvider(config: ProviderConfig, deps: ProviderDeps): Provider {
  switch (config.type) {
    case 'openIDConnect':
      return createOpenIdConnect(config, deps)
    case 'google':
      return createGoogle(config, deps)
    case 'microsoftEntraID':
      return createMicrosoftEntraId(config, deps)
    case 'github':
      return createGithub(config, deps)
    case 'gitlab':
      return createGitlab(config, deps)
    case 'pocketID':
      return createPocketId(config, deps)
    case 'tailscaleWhois':
      return createTailscaleWhois(config, deps)
  }
}

/** Whether anyone at all can get an account there. */
export function isPublic(config: ProviderConfig): boolean {
  switch (config.type) {
    case 'openIDConnect':
      return isPublicIssuer(config)
    case 'google':
      return true
    case 'github':
      return isPublicGithub(config)
    case 'gitlab':
      return isPublicGitlab(config)
    default:
      return false
  }
}

import { type Claims, fromClaims, type Profile } from '@gatehouse/profile'
import { type Static, Type } from 'typebox'
import { GithubSchema, github } from './github.ts'
import { readClaims } from './oidc.ts'
import { kindOfPreset, type OptionsOf, schemaOf } from './open-id-connect.ts'
import { PRESETS } from './presets/index.ts'
import type { Provider, ProviderDeps, ProviderKind } from './provider.ts'
import { TailscaleWhoisSchema, tailscaleWhois } from './tailscale-whois.ts'

export type ProviderConfig =
  | OptionsOf<(typeof PRESETS)[number]>
  | Static<typeof GithubSchema>
  | Static<typeof TailscaleWhoisSchema>

/** A provider in the configuration. `type` selects its kind. */
export const ProviderSchema = Type.Unsafe<ProviderConfig>(
  Type.Union([...PRESETS.map(schemaOf), GithubSchema, TailscaleWhoisSchema]),
)

const KINDS = {
  ...Object.fromEntries(PRESETS.map((preset) => [preset.type, kindOfPreset(preset)])),
  github,
  tailscaleWhois,
} as Readonly<Record<ProviderConfig['type'], ProviderKind<ProviderConfig>>>

export function kindOf({ type }: ProviderConfig): ProviderKind<ProviderConfig> {
  return KINDS[type]
}

/** Creates a provider. It sends no request before the next turn of the event loop. */
export function createProvider(config: ProviderConfig, deps: ProviderDeps): Provider {
  const kind = kindOf(config)
  const { name, color } = config
  const title = config.title ?? kind.title ?? name
  const behaviour = kind.create({ ...config, title }, deps)
  const { stepsUp = false } = kind
  return { name, title, icon: config.icon ?? kind.icon, color, stepsUp, ...behaviour }
}

/** The person whose claims a provider has sent. @throws ProfileError PROFILE_ID_INVALID, PROFILE_CLAIMS_INVALID */
export function profileOf(config: ProviderConfig, claims: Claims): Profile {
  return fromClaims(config.name, readClaims(claims, {}, config as object, kindOf(config)))
}

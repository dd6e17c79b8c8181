import { isPublicIssuer } from '@gatehouse/auth-core'
import { optional } from '@gatehouse/service-kit/config'
import { type Static, type TProperties, Type } from 'typebox'
import { createOidc, type OidcOptions, reReads } from './oidc.ts'
import { claimPaths, clientOptions, Scopes, secretOrAssertion, trustEmail } from './options.ts'
import type { Preset } from './presets/index.ts'
import type { ProviderKind } from './provider.ts'

/** The options of a preset: its own, and those of every OpenID provider. */
export function schemaOf<Name extends string, Own extends TProperties>({
  type,
  description,
  options,
  scopes,
}: Preset<Name, Own>) {
  const members = {
    type: Type.Literal(type, { description }),
    ...clientOptions,
    ...secretOrAssertion,
    ...options,
    ...optional({ scopes: Scopes(scopes), ...claimPaths, trustEmail }),
  }
  return Type.Object(members, { exactlyOne: [Object.keys(secretOrAssertion)] })
}

export type OptionsOf<P> =
  P extends Preset<infer Name, infer Own> ? Static<ReturnType<typeof schemaOf<Name, Own>>> : never

export function kindOfPreset(preset: Preset): ProviderKind<OidcOptions> {
  return {
    ...preset,
    icon: preset.icon.name,
    stepsUp: true,
    isPublic: (options) => isPublicIssuer(preset.issuer(options)),
    reReads: (options) => reReads(options, preset),
    create: (options, deps) => createOidc(options, preset, deps),
  }
}

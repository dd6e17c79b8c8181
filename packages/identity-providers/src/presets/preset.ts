import type { Claims } from '@gatehouse/profile'
import type { Fault } from '@gatehouse/service-kit/rules'
import type { Static, TObject, TProperties } from 'typebox'

/** An SVG path on a grid of 24 by 24, drawn in white or black on the colour of its tile. */
export interface Icon {
  readonly name: string
  readonly color: string
  readonly path: string
}

/** A product that people sign in at by OpenID Connect: how it differs from the standard. */
export interface Preset<Type extends string = string, Own extends TProperties = TProperties> {
  readonly type: Type
  readonly description: string
  /** Default title of its providers. Without it their name is the title. */
  readonly title?: string
  readonly icon: Icon
  /** Its own options, beside those of every OpenID provider. */
  readonly options: Own
  /** The issuer, exactly as the provider writes it. */
  issuer(options: Static<TObject<Own>>): string
  /** Scopes to request. Default: `openid`, `profile`, `email`, and `groups` if the provider supports it. */
  readonly scopes?: readonly string[]
  /** The use of UserInfo. Default: claims that the ID token lacks, and all where no ID token comes. */
  readonly userInfo?: 'without ID token' | 'nothing'
  /** Whether it supports `prompt=select_account` without saying so. */
  readonly choosesAccount?: boolean
  /** Parameters of the authorization request, unless the configuration has others. */
  readonly parameters?: Readonly<Record<string, string>>
  /** Reads claims that it names in its own way. */
  claimsOf?(claims: Claims, options: Static<TObject<Own>>): Claims
  /** The faults of its own options that their schemas do not express. */
  check?(options: Static<TObject<Own>>): readonly Fault[]
}

/** The preset as it is, with the types of its options. */
export function preset<const Type extends string, Own extends TProperties>(
  preset: Preset<Type, Own>,
): Preset<Type, Own> {
  return preset
}

export function withoutSlash(url: string): string {
  return url.replace(/\/$/, '')
}

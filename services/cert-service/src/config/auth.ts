import { type AuthOptions, AuthOptionsSchema } from '@gatehouse/auth-core'
import type { ConfigOf } from '@gatehouse/service-kit'
import { Type } from 'typebox'
import { RIGHTS, type Right } from '../policy.ts'

const domainsClaim = Type.Optional(
  Type.String({
    minLength: 1,
    description:
      'Claim with the name rules of the caller, as a list or as one comma-separated string.',
  }),
)

const Rights = (description: string) =>
  Type.Optional(Type.Array(Type.Enum([...RIGHTS]), { minItems: 1, description }))

const allow = Type.Optional(
  Type.Literal('anyone', {
    description: 'For a public issuer: confirms that anyone with an account there may call.',
  }),
)

const PskOptions = AuthOptionsSchema.properties.psk.properties
const JwtOptions = AuthOptionsSchema.properties.jwt.properties

const NamedKeySchema = Type.Object({
  ...PskOptions.keys.items.properties,
  rights: Rights(
    'What the key may do. Default: issue, read and renew for a key with `domains`, otherwise everything.',
  ),
})

/** Authentication of callers. */
export const AuthSchema = Type.Object(
  {
    ...AuthOptionsSchema.properties,
    psk: Type.Optional(
      Type.Object(
        {
          ...PskOptions,
          keys: Type.Optional(
            Type.Array(NamedKeySchema, {
              minItems: 1,
              description: 'Several named keys.',
            }),
          ),
        },
        { description: 'API keys: `Authorization: APIKey <key>`.' },
      ),
    ),
    jwt: Type.Optional(
      Type.Object(
        {
          ...JwtOptions,
          issuers: Type.Optional(
            Type.Array(Type.Object({ ...JwtOptions.issuers.items.properties, allow }), {
              minItems: 1,
              description: 'Several issuers instead of one, selected by the `iss` of the token.',
            }),
          ),
          domainsClaim,
          allow,
        },
        { description: 'Access tokens: `Authorization: Bearer <token>`.' },
      ),
    ),
    domainsClaim: Type.Optional(
      Type.String({ minLength: 1, description: 'Short form of `jwt.domainsClaim`.' }),
    ),
    allow: Type.Optional(Type.Literal('anyone', { description: 'Short form of `jwt.allow`.' })),
  },
  { description: 'Authentication of callers.' },
)

/** Grants and denials of names. */
export const RuleSchema = Type.Object({
  effect: Type.Enum(['allow', 'deny'], {
    default: 'allow',
    description: 'Deny rules take precedence over everything that is granted.',
  }),
  names: Type.Array(Type.String({ minLength: 1 }), {
    minItems: 1,
    description:
      'Name rules: `x`, `*.x` (all names below x), `=*.x` (the wildcard certificate), `*`, or a network.',
  }),
  rights: Rights('Default: issue, read and renew for an allow rule, all for a deny rule.'),
  issuer: Type.Optional(
    Type.String({
      minLength: 1,
      description: 'Issuer of the token. Required with several issuers.',
    }),
  ),
  subject: Type.Optional(Type.String({ minLength: 1, description: 'Subject of the token.' })),
  claim: Type.Optional(
    Type.Object({
      name: Type.String({ minLength: 1, description: 'Name of a claim.' }),
      value: Type.String({ description: 'Its value, or one of the values of a list.' }),
    }),
  ),
  scope: Type.Optional(Type.String({ minLength: 1, description: 'Scope of the token.' })),
})

export type AuthConfig = ConfigOf<typeof AuthSchema>

/** The options of auth-core. */
export function pluginOptionsOf({
  domainsClaim: _,
  allow: __,
  psk,
  jwt,
  ...rest
}: AuthConfig): AuthOptions {
  return { ...rest, ...(psk && { psk: pskOptionsOf(psk) }), ...(jwt && { jwt: jwtOptionsOf(jwt) }) }
}

type Psk = NonNullable<AuthConfig['psk']>
type Jwt = NonNullable<AuthConfig['jwt']>

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

/** The rights of the keys that do not have the default ones, by name of the key. */
export function keyRightsOf({ psk }: AuthConfig): ReadonlyMap<string, Right[]> {
  return new Map((psk?.keys ?? []).flatMap(({ name, rights }) => (rights ? [[name, rights]] : [])))
}

/** The claim that lists the names of a caller, in its long or short form. */
export function domainsClaimOf(auth: AuthConfig): string | undefined {
  return auth.jwt?.domainsClaim ?? auth.domainsClaim
}

/** Whether tokens are accepted. */
export function takesTokens({ method, jwt, issuerUrl }: AuthConfig): boolean {
  return method !== 'psk' && (jwt !== undefined || issuerUrl !== undefined)
}

import { AuthOptionsSchema } from '@gatehouse/auth-core'
import { Type } from 'typebox'
import { RIGHTS } from '../policy.ts'

const domainsClaim = Type.Optional(
  Type.String({
    minLength: 1,
    description:
      'Claim with the name rules that a token’s holder may have (list, or one string with commas).',
  }),
)

const Rights = (description: string) =>
  Type.Optional(Type.Array(Type.Enum([...RIGHTS]), { minItems: 1, description }))

const allow = Type.Optional(
  Type.Literal('anyone', {
    description: 'Says of a public issuer that everybody with an account there may call.',
  }),
)

const PskOptions = AuthOptionsSchema.properties.psk.properties
const JwtOptions = AuthOptionsSchema.properties.jwt.properties

const NamedKeySchema = Type.Object({
  ...PskOptions.keys.items.properties,
  rights: Rights('What the key may do. Default: issue, read and renew with `domains`, else all.'),
})

/** Who may call. */
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
              description: 'Several keys, each with a name.',
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
              description: 'Several issuers instead of one; the token’s `iss` chooses.',
            }),
          ),
          domainsClaim,
          allow,
        },
        { description: 'Access tokens: `Authorization: Bearer <token>`.' },
      ),
    ),
    domainsClaim: Type.Optional(
      Type.String({ minLength: 1, description: 'Short for `jwt.domainsClaim`.' }),
    ),
    allow: Type.Optional(Type.Literal('anyone', { description: 'Short for `jwt.allow`.' })),
  },
  { description: 'Who may call.' },
)

/** What callers may have. */
export const RuleSchema = Type.Object({
  effect: Type.Enum(['allow', 'deny'], {
    default: 'allow',
    description: 'Deny rules win over whatever else is granted.',
  }),
  names: Type.Array(Type.String({ minLength: 1 }), {
    minItems: 1,
    description:
      'Name rules: `x`, `*.x` (all below x), `=*.x` (the wildcard certificate), `*`, or a network.',
  }),
  rights: Rights('Default: issue, read and renew where allowed, all where denied.'),
  issuer: Type.Optional(
    Type.String({ minLength: 1, description: 'Issuer of the token. Needed with several issuers.' }),
  ),
  subject: Type.Optional(Type.String({ minLength: 1, description: 'Subject of the token.' })),
  claim: Type.Optional(
    Type.Object({
      name: Type.String({ minLength: 1, description: 'Name of a claim.' }),
      value: Type.String({ description: 'Its value, or one of its values.' }),
    }),
  ),
  scope: Type.Optional(Type.String({ minLength: 1, description: 'Scope of the token.' })),
})

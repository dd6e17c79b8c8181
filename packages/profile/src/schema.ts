import { type Static, Type } from 'typebox'

const closed = { additionalProperties: false }
const text = (description: string) => Type.Optional(Type.String({ description }))

const profileFields = {
  provider: Type.String({ description: 'Name of the provider that vouches for the person' }),
  id: Type.String({ description: "The provider's identifier of the person (`sub`)" }),
  name: Type.Optional(
    Type.Object(
      { full: text('Full name'), first: text('Given name'), last: text('Family name') },
      { ...closed, description: 'What the provider shared of the name' },
    ),
  ),
  email: Type.Optional(
    Type.Object(
      {
        address: Type.String({ description: 'E-mail address' }),
        verified: Type.Boolean({ description: 'Whether the provider has verified the address' }),
      },
      { ...closed, description: 'E-mail address, if shared' },
    ),
  ),
  picture: text('URL of a picture'),
  groups: Type.Optional(
    Type.Array(Type.String(), { description: 'Groups that the person belongs to' }),
  ),
}

const ProfileFieldsSchema = Type.Object(profileFields, closed)

/** Claims as kept: of what the provider sent, only what is bounded; reading an unknown one throws. */
export type Claims = Readonly<Record<string, unknown>>

/** Who somebody is. What the provider did not share is not there. */
export interface Profile extends Readonly<Static<typeof ProfileFieldsSchema>> {
  readonly roles?: readonly string[]
  /**
   * What conditions and headers read. Its own enumerable members are what a session token has to
   * carry: {@link fromClaims} makes the same profile of them again.
   */
  readonly claims: Claims
}

/** The answer of `profile.json`. */
export const ProfileJsonSchema = Type.Object(
  { authenticated: Type.Literal(true, { description: 'Always true' }), ...profileFields },
  closed,
)
export type ProfileJson = Static<typeof ProfileJsonSchema>

const time = (description: string) => Type.String({ format: 'date-time', description })

/** The answer of verify for a token that is valid. */
export const VerifyResultSchema = Type.Object(
  {
    valid: Type.Literal(true, { description: 'Always true' }),
    portal: Type.String({ description: 'Portal that the token belongs to' }),
    provider: profileFields.provider,
    claims: Type.Object(
      {
        aud: Type.Array(Type.String(), { description: 'Audiences' }),
        email: text('E-mail address'),
        email_verified: Type.Optional(
          Type.Boolean({ description: 'Whether the address is verified' }),
        ),
        exp: time('End of validity'),
        family_name: text('Family name'),
        given_name: text('Given name'),
        groups: profileFields.groups,
        iat: time('When the token was issued'),
        iss: Type.String({ description: 'Issuer: the URL of the portal' }),
        locale: text('Language and region'),
        name: text('Full name'),
        nbf: time('Start of validity'),
        nickname: text('Casual name'),
        picture: text('URL of a picture'),
        preferred_username: text('User name'),
        roles: Type.Optional(Type.Array(Type.String(), { description: 'Roles of the person' })),
        sub: profileFields.id,
        zoneinfo: text('Time zone'),
      },
      {
        additionalProperties: Type.Unknown(),
        description:
          'What the token says: these, and every other claim that it holds of the person',
      },
    ),
  },
  closed,
)
export type VerifyResult = Static<typeof VerifyResultSchema>

/** Who may in: the literal `anyone`, a condition, or an object of restrictions that all must hold. */
export const AllowSchema = Type.Union(
  [
    Type.String({ description: '`anyone`, or a condition' }),
    Type.Object(
      {
        condition: Type.Optional(Type.String({ description: 'A condition' })),
        emailDomains: Type.Optional(
          Type.Array(Type.String(), {
            minItems: 1,
            description: 'Domains of verified e-mail addresses, without their subdomains',
          }),
        ),
        groups: Type.Optional(
          Type.Array(Type.String(), { minItems: 1, description: 'Groups, one of which is enough' }),
        ),
      },
      { ...closed, minProperties: 1, description: 'Restrictions that all must hold' },
    ),
  ],
  { description: 'Who may in' },
)
export type Allow = Static<typeof AllowSchema>

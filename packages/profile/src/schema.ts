import { type Static, Type } from 'typebox'

const closed = { additionalProperties: false }
const text = (description: string) => Type.Optional(Type.String({ description }))

const profileFields = {
  provider: Type.String({ description: 'Name of the provider that vouches for the person' }),
  id: Type.String({ description: "The provider's identifier of the person (`sub`)" }),
  name: Type.Optional(
    Type.Object(
      { full: text('Full name'), first: text('Given name'), last: text('Family name') },
      { ...closed, description: 'Name, as far as the provider shared it' },
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

/** The claims that are kept, all of limited size. Reading an unknown one throws. */
export type Claims = Readonly<Record<string, unknown>>

/** A person, as a provider describes them. Fields that the provider did not share are absent. */
export interface Profile extends Readonly<Static<typeof ProfileFieldsSchema>> {
  readonly roles?: readonly string[]
  /**
   * The claims that conditions and headers read. A session token holds its own enumerable members:
   * `fromClaims` makes the same profile from them again.
   */
  readonly claims: Claims
}

/** The authentication that a person must go through, and its age. */
export interface StepUp {
  /** Authentication context classes, of which one is enough; empty for any. */
  readonly acr: readonly string[]
  /** Longest time since the person authenticated at the provider, in ms. */
  readonly maxAge: number | undefined
}

/** The answer of `profile.json`. */
export const ProfileJsonSchema = Type.Object(
  { authenticated: Type.Literal(true, { description: 'Always true' }), ...profileFields },
  closed,
)
export type ProfileJson = Static<typeof ProfileJsonSchema>

const time = (description: string) => Type.String({ format: 'date-time', description })

/** The answer of verify for a valid token. */
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
        description: 'These claims, and every other claim about the person in the token',
      },
    ),
  },
  closed,
)
export type VerifyResult = Static<typeof VerifyResultSchema>

/** The people who have access: the literal `anyone`, a condition, or an object of restrictions that must all hold. */
export const AllowSchema = Type.Union(
  [
    Type.String({ description: '`anyone`, or a condition' }),
    Type.Partial(
      Type.Object({
        condition: Type.String({ description: 'A condition' }),
        emailDomains: Type.Array(Type.String(), {
          minItems: 1,
          description: 'Domains of verified e-mail addresses, without their subdomains',
        }),
        groups: Type.Array(Type.String(), {
          minItems: 1,
          description: 'Groups, of which one is enough',
        }),
      }),
      { ...closed, minProperties: 1, description: 'Restrictions that must all hold' },
    ),
  ],
  { description: 'Who has access' },
)
export type Allow = Static<typeof AllowSchema>

import type { FastifyRequest } from 'fastify'
import { type TStringOptions, Type } from 'typebox'
import type { Method, TokenCaller } from './caller.ts'

const closed = { additionalProperties: false }

const Text = (description: string, options: TStringOptions = {}) =>
  Type.String({ minLength: 1, ...options, description })

/** A path; a relative one is resolved against the folder of the configuration file. */
const FilePath = (description: string) => Type.Optional(Text(description, { filePath: true }))

/** A scope (RFC 6749 section 3.3). Scopes are quoted in a response header. */
export const SCOPE_PATTERN = '^[!#-\\[\\]-~]+$'

const ScopesSchema = (description: string) =>
  Type.Optional(Type.Array(Type.String({ pattern: SCOPE_PATTERN }), { description }))

const KeySchema = Type.Optional(
  Type.String({
    minLength: 16,
    maxLength: 1_024,
    pattern: '^[!-~]+$',
    secret: true,
    description: 'The key: at least 16 visible ASCII characters without spaces.',
  }),
)

const KeyFileSchema = FilePath('File that holds the key. A trailing newline is dropped.')

const NamedKeySchema = Type.Object(
  {
    name: Text('Name of the caller: it becomes `request.caller.subject`.'),
    key: KeySchema,
    keyFile: KeyFileSchema,
    keyFiles: Type.Optional(
      Type.Array(Text('File that holds a key.', { filePath: true }), {
        minItems: 1,
        maxItems: 2,
        description:
          'Instead of `keyFile`, the files of two keys while one takes the place of the other: the new one first.',
      }),
    ),
    keySha256: Type.Optional(
      Type.String({
        pattern: '^[0-9a-f]{64}$',
        description: 'SHA-256 of the key in hex, instead of the key itself.',
      }),
    ),
    formerNames: Type.Optional(
      Type.Array(Text('Name that no other key has or had.'), {
        maxItems: 10,
        description: 'Names that the caller had before.',
      }),
    ),
    scopes: ScopesSchema('Scopes that the key is limited to. Default: it has every scope.'),
    domains: Type.Optional(
      Type.Array(Type.String({ minLength: 1 }), {
        description: "Names that the key is limited to; their meaning is the application's.",
      }),
    ),
  },
  closed,
)

const PskSchema = Type.Object(
  {
    key: KeySchema,
    keyFile: KeyFileSchema,
    keys: Type.Optional(
      Type.Array(NamedKeySchema, { minItems: 1, description: 'Several keys, each with a name.' }),
    ),
  },
  { ...closed, description: 'API keys: `Authorization: APIKey <key>`.' },
)

const IssuerUrlSchema = Text(
  'The issuer, exactly as in the claim `iss`, including a trailing slash.',
)

const AudienceSchema = Type.Union(
  [Type.String({ minLength: 1 }), Type.Array(Type.String({ minLength: 1 }), { minItems: 1 })],
  {
    description:
      'Audience that the claim `aud` must contain: one name, or a list of which one suffices.',
  },
)

const RequireTypeSchema = (description: string) => Type.Optional(Type.Boolean({ description }))

const MaxLifetimeSchema = (description: string) =>
  Type.Optional(Type.Integer({ minimum: 1, description }))

const connection = {
  jwksUrl: Type.Optional(
    Text('URL of the key set. Default: the `jwks_uri` of the discovery document.'),
  ),
  caFile: FilePath('PEM certificates to trust for the issuer instead of the system’s.'),
  tokenFile: FilePath(
    'File with a bearer token for requests to the issuer (Kubernetes). It is read for each request.',
  ),
  allowHttp: Type.Optional(
    Type.Boolean({
      description: 'Allows plain http for requests to the issuer. Default: only on this machine.',
    }),
  ),
}

const issuer = {
  requiredScopes: ScopesSchema('Scopes that every token must grant.'),
  requireAccessTokenType: RequireTypeSchema(
    'Requires the header `typ: at+jwt` (RFC 9068). Default: `JWT` or no `typ` is accepted too.',
  ),
  maxTokenLifetime: MaxLifetimeSchema(
    'Longest time from `iat` to `exp` of a token, in milliseconds; without `iat`, from now to `exp`. Default: any.',
  ),
  ...connection,
}

const IssuerSchema = Type.Object(
  { issuerUrl: IssuerUrlSchema, audience: AudienceSchema, ...issuer },
  closed,
)

const JwtSchema = Type.Object(
  {
    issuerUrl: Type.Optional(IssuerUrlSchema),
    audience: Type.Optional(AudienceSchema),
    ...issuer,
    issuers: Type.Optional(
      Type.Array(IssuerSchema, {
        minItems: 1,
        description: 'Several issuers instead of one. The claim `iss` of a token chooses.',
      }),
    ),
  },
  { ...closed, description: 'Access tokens: `Authorization: Bearer <token>`.' },
)

const AssertionSchema = Type.Object(
  {
    issuerUrl: Text(
      'URL of the portal, exactly as in the claim `iss`: `https://auth.example.com/portals/main`.',
    ),
    audience: Type.Union(AudienceSchema.anyOf, {
      description:
        'Origin of the application as people open it, `https://app.example.com`, or a list of them.',
    }),
    header: Type.Optional(
      Type.String({
        pattern: '^[A-Za-z0-9-]+$',
        description: 'Header that holds the assertion. Default: `X-Gatehouse-Assertion`.',
      }),
    ),
    jwksUrl: connection.jwksUrl,
    caFile: connection.caFile,
    allowHttp: connection.allowHttp,
  },
  {
    ...closed,
    description:
      'Assertions by which forward-auth tells an application behind it who the person is.',
  },
)

const shortForms = {
  issuerUrl: Type.Optional(Text('Short for `jwt.issuerUrl`.')),
  audience: Type.Optional(
    Type.Union(AudienceSchema.anyOf, { description: 'Short for `jwt.audience`.' }),
  ),
  requiredScopes: ScopesSchema('Short for `jwt.requiredScopes`.'),
  requireAccessTokenType: RequireTypeSchema('Short for `jwt.requireAccessTokenType`.'),
  maxTokenLifetime: MaxLifetimeSchema('Short for `jwt.maxTokenLifetime`.'),
}

/** Schema of the options of the plugin, for programs that have them in a configuration file. */
export const AuthOptionsSchema = Type.Object(
  {
    method: Type.Optional(
      Type.Union([Type.Literal('jwt'), Type.Literal('psk')], {
        description: 'Accepts this method alone. Default: every method that is configured.',
      }),
    ),
    psk: Type.Optional(PskSchema),
    jwt: Type.Optional(JwtSchema),
    assertion: Type.Optional(AssertionSchema),
    ...shortForms,
  },
  closed,
)

/** What the options demand of each other, as keywords for schemas of the members of {@link AuthOptionsSchema}. */
export const AUTH_OPTIONS_RULES = {
  options: {
    needs: {
      ...Object.fromEntries(Object.keys(shortForms).map((key) => [key, ['issuerUrl']])),
      issuerUrl: ['audience'],
    },
    excludes: { jwt: Object.keys(shortForms) },
  },
  psk: { exactlyOne: [['key', 'keyFile', 'keys']] },
  key: { exactlyOne: [['key', 'keyFile', 'keyFiles', 'keySha256']] },
  jwt: {
    exactlyOne: [['issuerUrl', 'issuers']],
    needs: { issuerUrl: ['audience'] },
    excludes: { issuers: ['audience', ...Object.keys(issuer)] },
  },
}

/** The options of the plugin. Those of a single issuer may also stand at the top instead of under `jwt`. */
export interface AuthOptions {
  /** Accepts this method alone. Default: every method that is configured. */
  readonly method?: Method | undefined
  /** API keys: `Authorization: APIKey <key>`. */
  readonly psk?: KeyOptions | undefined
  /** Access tokens: `Authorization: Bearer <token>`. */
  readonly jwt?: TokenOptions | undefined
  /** Assertions by which forward-auth tells an application behind it who the person is. */
  readonly assertion?: AssertionOptions | undefined
  /** Short for `jwt.issuerUrl`. */
  readonly issuerUrl?: string | undefined
  /** Short for `jwt.audience`. */
  readonly audience?: string | readonly string[] | undefined
  /** Short for `jwt.requiredScopes`. */
  readonly requiredScopes?: readonly string[] | undefined
  /** Short for `jwt.requireAccessTokenType`. */
  readonly requireAccessTokenType?: boolean | undefined
  /** Short for `jwt.maxTokenLifetime`. */
  readonly maxTokenLifetime?: number | undefined
}

/** API keys: a single one, or several with names. */
export interface KeyOptions {
  /** The key: at least 16 visible ASCII characters without spaces. */
  readonly key?: string | undefined
  /** File that holds the key. A trailing newline is dropped. */
  readonly keyFile?: string | undefined
  /** Several keys, each with a name. */
  readonly keys?: readonly NamedKeyOptions[] | undefined
}

/** An API key with a name. Exactly one of `key`, `keyFile`, `keyFiles` and `keySha256` is given. */
export interface NamedKeyOptions {
  /** Name of the caller: it becomes `request.caller.subject`. */
  readonly name: string
  /** The key: at least 16 visible ASCII characters without spaces. */
  readonly key?: string | undefined
  /** File that holds the key. A trailing newline is dropped. */
  readonly keyFile?: string | undefined
  /** Instead of `keyFile`, the files of two keys while one takes the place of the other: the new one first. */
  readonly keyFiles?: readonly string[] | undefined
  /** SHA-256 of the key in hex, instead of the key itself. */
  readonly keySha256?: string | undefined
  /** Names that the caller had before. */
  readonly formerNames?: readonly string[] | undefined
  /** Scopes that the key is limited to. Default: it has every scope. */
  readonly scopes?: readonly string[] | undefined
  /** Names that the key is limited to; their meaning is the application's. */
  readonly domains?: readonly string[] | undefined
}

/** Requirements for the tokens of an issuer, and how to reach its keys. */
interface IssuerConnection {
  /** Scopes that every token must grant. */
  readonly requiredScopes?: readonly string[] | undefined
  /** Requires the header `typ: at+jwt` (RFC 9068). Default: `JWT` or no `typ` is accepted too. */
  readonly requireAccessTokenType?: boolean | undefined
  /**
   * Longest time from `iat` to `exp` of a token, in milliseconds; without `iat`, from now to `exp`.
   * Default: any.
   */
  readonly maxTokenLifetime?: number | undefined
  /** URL of the key set. Default: the `jwks_uri` of the discovery document. */
  readonly jwksUrl?: string | undefined
  /** PEM certificates to trust for the issuer instead of the system’s. */
  readonly caFile?: string | undefined
  /** File with a bearer token for requests to the issuer (Kubernetes). It is read for each request. */
  readonly tokenFile?: string | undefined
  /** Allows plain http for requests to the issuer. Default: only on this machine. */
  readonly allowHttp?: boolean | undefined
}

/** An issuer of access tokens, one of several. */
export interface IssuerOptions extends IssuerConnection {
  /** The issuer, exactly as in the claim `iss`, including a trailing slash. */
  readonly issuerUrl: string
  /** Audience that the claim `aud` must contain: one name, or a list of which one suffices. */
  readonly audience: string | readonly string[]
}

/** Access tokens: of a single issuer, or of several. */
export interface TokenOptions extends IssuerConnection {
  /** The issuer, exactly as in the claim `iss`, including a trailing slash. */
  readonly issuerUrl?: string | undefined
  /** Audience that the claim `aud` must contain: one name, or a list of which one suffices. */
  readonly audience?: string | readonly string[] | undefined
  /** Several issuers instead of one. The claim `iss` of a token chooses. */
  readonly issuers?: readonly IssuerOptions[] | undefined
}

/** Assertions of a portal of forward-auth, and how to reach its keys. */
export interface AssertionOptions {
  /** URL of the portal, exactly as in the claim `iss`: `https://auth.example.com/portals/main`. */
  readonly issuerUrl: string
  /** Origin of the application as people open it, `https://app.example.com`, or a list of them. */
  readonly audience: string | readonly string[]
  /** Header that holds the assertion. Default: `X-Gatehouse-Assertion`. */
  readonly header?: string | undefined
  /** URL of the key set. Default: the `jwks_uri` of the discovery document. */
  readonly jwksUrl?: string | undefined
  /** PEM certificates to trust for the issuer instead of the system’s. */
  readonly caFile?: string | undefined
  /** Allows plain http for requests to the issuer. Default: only on this machine. */
  readonly allowHttp?: boolean | undefined
}

type FoundCaller = TokenCaller | undefined | null | false

/**
 * A verifier of the application's own for `Authorization: Bearer <token>`, for tokens that the
 * application signs itself. The plugin reads the header, refuses, challenges and logs.
 */
export interface BearerOptions {
  /**
   * Verifies a token, and gives the caller that `request.caller` is set to, or something to await that
   * gives it, such as a query; undefined, null or false refuses the request with AUTH_TOKEN_INVALID, and
   * anything else with AUTH_OPTIONS_INVALID. An error that it throws refuses the request as well: an
   * `AuthError` with its own code and challenge, any other error as it is, without a challenge.
   *
   * @param token - what follows the scheme, of the syntax of RFC 6750 section 2.1; not verified
   */
  verify(token: string, request: FastifyRequest): FoundCaller | PromiseLike<FoundCaller>
  /** Realm of the Bearer challenge, or a function that gives that of a request. Default: `api`. */
  readonly realm?: string | ((request: FastifyRequest) => string) | undefined
}

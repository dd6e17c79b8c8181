import { AUTH_OPTIONS_RULES, AuthOptionsSchema } from '@gatehouse/auth-core'
import type { Allow } from '@gatehouse/profile'
import { Duration, FilePath, Flag, Name, OptionalList, Text } from '@gatehouse/service-kit/config'
import { type Static, type TObject, Type } from 'typebox'
import { PRESETS } from './header-presets.ts'
import { ENCODINGS, PROPERTY_NAMES, USER_KINDS } from './headers.ts'

const Texts = (description: string) => OptionalList(Type.String({ minLength: 1 }), description)

const HeaderName = Text('Name of the header.')

const HeadersSchema = Type.Union(
  [
    Type.Enum([...PRESETS]),
    Type.Array(
      Type.Union([
        Type.Enum([...PRESETS]),
        Type.Object({
          name: HeaderName,
          property: Type.Enum(PROPERTY_NAMES, {
            description: 'Property of the session that the header contains.',
          }),
        }),
        Type.Object({ name: HeaderName, claim: Text('Claim that the header contains.') }),
      ]),
    ),
  ],
  {
    default: 'default',
    description:
      'Headers for the app with each 200: a preset, or a list of presets and headers. A header ' +
      'of the list replaces the one of that name in a preset.',
  },
)

const PolicySchema = Type.Union(
  [
    Type.String({ minLength: 1 }),
    Type.Object(
      {
        condition: Type.Optional(Text('Condition. Default: everybody who is signed in.')),
        acr: OptionalList(
          Type.String({ minLength: 1, pattern: '^[!-~]+$' }),
          'Authentication context classes (`acr`), of which the person must have one. A ' +
            'person without one is sent to sign in with `acr_values`.',
        ),
        maxAge: Type.Optional(
          Duration({
            from: '0s',
            to: '90d',
            description:
              'Longest time since the person authenticated at the provider. After that, the person is sent to sign in with `max_age`.',
          }),
        ),
      },
      { minProperties: 1 },
    ),
  ],
  { description: 'A condition, or an object with requirements that must all be met.' },
)

const ASSERTION =
  '`assertion: { hosts: [app.example.com] }` with the apps that verify it, or nothing'
const AssertionSchema = Type.Object(
  {
    hosts: Type.Array(Type.String({ minLength: 1 }), {
      minItems: 1,
      write: ASSERTION,
      description:
        'Hosts of the apps that get the assertion: `app.example.com`, or `*.example.com` for all below.',
    }),
    header: Text('Name of the header.', { default: 'X-Gatehouse-Assertion' }),
    claims: Type.Array(Text('Name of a claim.'), {
      default: [],
      description: 'Further claims about the person to include.',
    }),
  },
  {
    write: ASSERTION,
    description:
      'Header for the apps that verify it: a JWT that is signed for one app and says who sends the request. Default: no app gets one.',
  },
)

const PROVIDER_TOKEN =
  '`providerToken: { hosts: [app.example.com] }` with the apps that call the provider, or nothing'
const ProviderTokenSchema = Type.Object(
  {
    hosts: Type.Array(Type.String({ minLength: 1 }), {
      minItems: 1,
      write: PROVIDER_TOKEN,
      description: 'Hosts of the apps that get the token, as in `assertion`.',
    }),
    header: Text('Name of the header.', { default: 'X-Forwarded-Access-Token' }),
    token: Type.Enum(['access', 'id'], {
      default: 'access',
      description: 'The access token, or the ID token, if it has at most 4,096 characters.',
    }),
  },
  {
    write: PROVIDER_TOKEN,
    description:
      'Header with a token of the person at the provider, for apps that call the provider for them: whoever has it ' +
      'can do so too. It is one that is valid for half a minute at least; empty if there is none. Default: no app gets one.',
  },
)

const GroupPattern = Type.String({ minLength: 1 })
const GroupsSchema = Type.Array(
  Type.Union([
    GroupPattern,
    Type.Object({
      hosts: Type.Array(Type.String(), { minItems: 1, description: 'Hosts, as in `rules`.' }),
      groups: Type.Array(GroupPattern, { description: 'What the apps there are told of instead.' }),
    }),
  ]),
  {
    description:
      'Groups that apps are told of: names, with `*` for any text. At the `hosts` of an entry, the first that fits ' +
      'counts instead. Policies and `allow` see all groups. Default: all, or those that policies and `allow` name if ' +
      'headers have no room for all.',
  },
)

/** The characters of tool names (MCP 2025-11-25, "Tool Names"), and `*`. */
const TOOL_PATTERN = '^[A-Za-z0-9_./*-]{1,128}$'

const ApproveSchema = Type.Object(
  {
    wait: Duration({
      default: '45s',
      from: '0s',
      to: '5m',
      description:
        'How long a call waits for the answer of the person. After that, the program is told to make the same call again.',
    }),
    approver: Type.Optional(
      Text(
        'Name of the policy of those who may approve, who are then never the person that the program acts for. ' +
          'Default: that person alone.',
      ),
    ),
    remember: Type.Optional(
      Duration({
        from: '1m',
        to: '24h',
        description:
          'Lets the person allow further calls of the same tool, with any arguments, for that time. Default: each call is asked about.',
      }),
    ),
    stepUp: Type.Optional(
      Text(
        'Name of a policy with `maxAge` or `acr` that whoever approves must meet, by a new sign-in if necessary. ' +
          'Without it, a program that drives the browser of the person can approve its own calls.',
      ),
    ),
  },
  {
    write: '`approve: {}`, or nothing',
    description:
      'Has a person approve each call of a tool that the rule is for, before it reaches the server. Only where a ' +
      'resource has an `upstream`.',
  },
)

const RuleSchema = Type.Object(
  {
    hosts: Texts(
      'Hosts: `app.example.com`, or `*.example.com` for all below. Default: every host.',
    ),
    paths: Texts(
      'Paths: `/x` is that path, `/x/*` also all below it, and `*` between slashes any one segment. Default: every path.',
    ),
    methods: OptionalList(
      Type.String({ pattern: '^[A-Z][A-Z-]{0,31}$' }),
      'HTTP methods; `GET` includes HEAD. Default: every method.',
    ),
    tools: OptionalList(
      Type.String({ pattern: TOOL_PATTERN }),
      'Tools of an MCP server: names, with `*` for any text. Where a rule names tools, a request that no such rule ' +
        'fits for certain is refused; `*` alone fits every request.',
    ),
    mcpMethods: OptionalList(
      Type.String({ pattern: '^[a-z*][a-z_/*]*$' }),
      'Other methods of an MCP server, such as `resources/read` or `prompts/*`, as in `tools`.',
    ),
    from: Texts(
      'Addresses and networks of clients, as reported by `server.trustedProxies`. Default: every address.',
    ),
    require: Type.Union(
      [Type.String({ minLength: 1 }), Type.Array(Type.String({ minLength: 1 }), { minItems: 1 })],
      {
        description: '`anyone`, `signedIn`, a policy, or a list of policies that must all be met.',
      },
    ),
    approve: Type.Optional(ApproveSchema),
    limit: Type.Optional(
      Text(
        'How often each person and program may call what the rule is for, such as `60/m`: per second (`s`), minute ' +
          '(`m`) or hour (`h`). Each replica counts by itself. Only where a resource has an `upstream`.',
        { pattern: '^[1-9][0-9]{0,3}/[smh]$' },
      ),
    ),
  },
  { description: 'A rule. All of its members must fit.' },
)

const { psk, jwt } = AuthOptionsSchema.properties
const { domains: _, formerNames: __, ...keyRow } = psk.properties.keys.items.properties
const { items: Scope } = keyRow.scopes
const issuerRow = jwt.properties.issuers.items.properties

const reachableHosts = Texts(
  'Hosts that it may reach: `app.example.com`, or `*.example.com` for all below.',
)
const reachablePolicies = OptionalList(
  Text('Name of a policy.'),
  'Policies of the routes that it may reach. It has to meet their conditions as well. Default: those of its `hosts`.',
)

/** The programs that may pass: the rows of auth-core, and what each may reach. */
const CallersSchema = Type.Object(
  {
    keys: Type.Array(
      Type.Object(
        {
          ...keyRow,
          name: Text('Name of the program. Apps get it as the user.'),
          scopes: Type.Optional(
            Type.Array(Scope, {
              description: 'Scopes that the key has, for `Scope()` in conditions. Default: none.',
            }),
          ),
          basic: Flag(
            'Also takes the key as the password of `Authorization: Basic`, with `name` as the user, ' +
              'for clients that can send nothing else.',
          ),
          hosts: reachableHosts,
          policies: reachablePolicies,
        },
        AUTH_OPTIONS_RULES.key,
      ),
      { default: [], description: 'API keys: `Authorization: APIKey <key>`.' },
    ),
    issuers: Type.Array(
      Type.Object({
        name: Name('Name of the issuer. Apps get `<name>:<subject>` as the user.'),
        ...issuerRow,
        maxTokenLifetime: Duration({
          default: '24h',
          from: '1m',
          description:
            'Longest time from `iat` to `exp` of a token; without `iat`, from now to `exp`.',
        }),
        allow: Type.Optional(
          Text(
            'Condition that a token must meet, such as `caller.claims.repository_owner == ' +
              '"acme"`, or `anyone`. Default: every token for the audience.',
          ),
        ),
        hosts: reachableHosts,
        policies: reachablePolicies,
      }),
      { default: [], description: 'Issuers of access tokens: `Authorization: Bearer <token>`.' },
    ),
  },
  { description: 'Programs that may pass with an API key or an access token.' },
)

const Words = Type.String({ minLength: 1, maxLength: 300 })
const ScopeSchema = Type.Object({
  name: Type.String({ ...Scope, description: 'Name of the scope.' }),
  text: Type.Union([Words, Type.Record(Type.String({ pattern: '^[a-z]{2}$' }), Words)], {
    description:
      'What it allows, in words for the person who is asked for it, such as `Read your notes`: one text, or a text for each language.',
  }),
  onDemand: Flag('Whether clients request it only once a rule demands it.'),
})

const UpstreamSchema = Type.Object(
  {
    url: Text('URL of the MCP server, such as `http://notes:8000/mcp`.'),
    caFile: Type.Optional(FilePath('CA certificates in PEM, for a server with a private CA.')),
    maxBody: Type.Integer({
      default: 1_048_576,
      minimum: 1_024,
      maximum: 16_777_216,
      description: 'Longest body of a request, in bytes.',
    }),
  },
  {
    description:
      'The MCP server, if its requests go through Gatehouse: it reads what they call, whatever their headers say, and ' +
      'passes on those that the rules allow. The proxy sends them to `/portals/<portal>/mcp-proxy`. Default: the ' +
      'proxy sends them to the server itself, after a check.',
  },
)

const ResourceSchema = Type.Object({
  lifetime: Type.Optional(
    Duration({
      from: '1h',
      to: '366d',
      description:
        'How long a program that a person has allowed works without them, such as `30d`: also after they have signed ' +
        'out in their browser, for as long as their account is what it has to be. Default: until their session ends.',
    }),
  ),
  url: Text(
    'URL of the resource, such as `https://mcp.example.com/mcp`, as clients use it. Tokens must name it in `aud` (RFC 8707).',
  ),
  authorizationServers: OptionalList(
    Text('Issuer URL of an authorization server.'),
    'Who issues its tokens. The row of `callers.issuers` with this `issuerUrl` says how to ' +
      'reach one (`jwksUrl`, `caFile`) and limits its tokens (`allow`, `requiredScopes`, ' +
      '`requireAccessTokenType`). Default: this portal issues them, to programs that people allow to act for them.',
  ),
  scopes: Type.Array(Type.Union([Scope, ScopeSchema]), {
    default: [],
    description:
      'Scopes that clients request. Policies require them with `Scope()`. Where this portal issues the tokens, each has a `text`.',
  }),
  upstream: Type.Optional(UpstreamSchema),
})

/** The options of a gate, for the schema of a portal. */
export const gateOptions = {
  policies: Type.Record(Name('Name of the policy.'), PolicySchema, {
    default: {},
    description:
      'Requirements of routes, by name. A proxy selects one with `?policy=<name>`, and a rule with `require`.',
  }),
  headers: HeadersSchema,
  userHeader: Type.Optional(
    Type.Enum([...USER_KINDS], {
      description:
        'Value of the user headers: the subject, the verified e-mail address, or the claim ' +
        '`preferred_username`. The last two are empty if the provider did not send them. ' +
        'Default: the subject, or `<provider>:<subject>` if the portal has several providers.',
    }),
  ),
  headerEncoding: Type.Enum([...ENCODINGS], {
    default: 'percent',
    description:
      'Encoding of characters in identity headers that are not ASCII: UTF-8 in ' +
      'percent-encoding, the bytes of UTF-8, or extended values of RFC 8187.',
  }),
  groups: Type.Optional(GroupsSchema),
  assertion: Type.Optional(AssertionSchema),
  providerToken: Type.Optional(ProviderTokenSchema),
  callers: Type.Optional(CallersSchema),
  resources: Type.Array(ResourceSchema, {
    default: [],
    description:
      'OAuth resources, such as MCP servers: parts of apps that programs reach with a token that was issued for them.',
  }),
  rules: Type.Array(RuleSchema, {
    default: [],
    description:
      'What requests must meet, by host, path, method and client address: the first rule that fits decides. If none does: `signedIn`.',
  }),
  preflight: Flag('Allows CORS preflight requests without credentials.'),
}

/** The options of a gate, with the names of what it belongs to. */
export type GateConfig = Static<TObject<typeof gateOptions>> & {
  readonly name: string
  /** The identity providers of the people who may pass. */
  readonly providers: readonly {
    readonly name: string
    readonly type?: string
    readonly allow?: Allow
  }[]
  readonly allow?: Allow
}
export type PolicyConfig = Static<typeof PolicySchema>
/** A rule. A member that is absent fits everything. */
export type RuleConfig = Static<typeof RuleSchema>
export type ResourceConfig = Static<typeof ResourceSchema>
export type UpstreamConfig = Static<typeof UpstreamSchema>
export type ScopeConfig = Static<typeof ScopeSchema>
export type CallersConfig = Static<typeof CallersSchema>
export type ReachConfig = Pick<CallersConfig['issuers'][number], 'hosts' | 'policies' | 'allow'>

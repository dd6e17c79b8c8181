import { ProviderSchema } from '@gatehouse/identity-providers'
import { AllowSchema } from '@gatehouse/profile'
import {
  Duration,
  FilePath,
  LogSchema,
  listener,
  MetricsSchema,
  Secret,
  Text,
  WorkersSchema,
} from '@gatehouse/service-kit'
import { SCHEMA_PATTERN } from '@gatehouse/store'
import { type Static, Type } from 'typebox'
import { PRESETS } from '../check/header-presets.ts'
import { ENCODINGS, PROPERTY_NAMES, USER_KINDS } from '../check/headers.ts'
import { COLOR_PATTERN } from '../pages/colors.ts'
import { AppsSchema } from './apps.ts'
import { Hosts } from './hosts.ts'
import { ContactSchema, FaviconSchema, LogoSchema, PageTextsSchema } from './look.ts'
import { CallersSchema, ResourceSchema } from './programs.ts'

const NAME_PATTERN = '^[a-z][a-z0-9-]{0,31}$'

const Flag = (description: string) => Type.Boolean({ default: false, description })

const ServerSchema = Type.Object({
  ...listener(4181),
  workers: WorkersSchema(),
  basePath: Type.String({
    pattern: '^(/[A-Za-z0-9._~-]+)*$',
    default: '',
    description: 'Path prefix of all routes, such as `/gate`.',
  }),
  tls: Type.Optional(
    Type.Object(
      {
        certFile: FilePath({
          description: 'Certificate chain in PEM, leaf first. Reloaded when it changes.',
        }),
        keyFile: FilePath({ description: 'Private key in PEM. Reloaded when it changes.' }),
        clientCaFile: Type.Optional(
          FilePath({
            description:
              'CA certificates in PEM. A client with a certificate of this CA is a trusted proxy, at any address.',
          }),
        ),
      },
      { description: 'Serves HTTPS. Default: plain HTTP, for a proxy on the same machine.' },
    ),
  ),
  grpc: Type.Optional(
    Type.Object(listener(4182), {
      description:
        "Answers Envoy's `ext_authz` over gRPC. With `server.tls` by TLS, and with `clientCaFile` only for clients with a certificate. Default: off.",
    }),
  ),
  trustedProxies: Type.Optional(
    Type.Array(Type.String({ minLength: 1 }), {
      description:
        'Addresses and networks of the proxies that may send checks and `X-Forwarded-` headers. Default: loopback only. An empty list: only proxies with a client certificate.',
    }),
  ),
})

const SessionSchema = Type.Object({
  keys: Type.Optional(
    Type.Array(
      Type.Object({
        secret: Secret({ minLength: 32, description: 'At least 32 random characters.' }),
      }),
      {
        minItems: 1,
        description:
          'The first key signs, all keys verify. To rotate, put the new key first and remove the old one after `session.lifetime`. With several instances, first append the new key on all of them, then move it to the front. Default: a key that is generated at the first start and stored in `storage.path`. Required with `storage.url`.',
      },
    ),
  ),
  lifetime: Duration({
    default: '8h',
    from: '1m',
    to: '90d',
    description: 'Lifetime of a session, from the sign-in.',
  }),
})

const NOT_WITH_PATH = 'is for PostgreSQL, and needs `url` in place of `path`'

const FolderSchema = Type.Object(
  {
    path: FilePath({
      default: 'data',
      description: 'Folder for generated keys, the list of ended sessions and the audit trail.',
    }),
  },
  {
    removed: {
      urlFile: 'is given together with path: keep one of the two',
      ...Object.fromEntries(
        ['caFile', 'schema', 'revocationStaleness', 'whenStale'].map((key) => [key, NOT_WITH_PATH]),
      ),
    },
  },
)

const PostgresSchema = Type.Object(
  {
    url: Secret({
      description:
        'PostgreSQL instead of a folder, for instances on several machines: `postgres://user:password@host:5432/database`. Separate several hosts with commas: the service uses the first one that accepts writes. The connection uses TLS with a verified certificate, unless the host is loopback or the URL has `?sslmode=disable`. Needs `session.keys`.',
    }),
    caFile: Type.Optional(
      FilePath({
        description: 'CA certificates of the database in PEM. Default: those of the system.',
      }),
    ),
    schema: Type.String({
      pattern: SCHEMA_PATTERN,
      default: 'gatehouse_auth',
      description: 'Schema of the tables, which is created if necessary.',
    }),
    revocationStaleness: Duration({
      default: '60s',
      from: '5s',
      to: '24h',
      description:
        'How long an instance that cannot reach the database continues with the sign-outs that it knows.',
    }),
    whenStale: Type.Enum(['refuse', 'allow'], {
      default: 'refuse',
      description:
        'What happens after that: `refuse` answers 503 to every check of a session until the database is back; `allow` continues, so a session that was signed out at another instance is still accepted.',
    }),
  },
  { removed: { path: 'is given together with url: keep one of the two' } },
)

// This order: `url` decides which of the two is meant.
const StorageSchema = Type.Union([PostgresSchema, FolderSchema], {
  default: {},
  description: 'Where the service keeps its state.',
})

const DomainSchema = Type.Object({
  domain: Text(
    'Cookie domain, such as `example.com`. The domain and all hosts below it share a session.',
  ),
  authHost: Type.Optional(
    Text(
      'Host of the sign-in pages, with a port if necessary, such as `auth.example.com`. `http://` is allowed only for loopback names. Apps on this host cannot be protected, unless it is the domain itself. Default: the domain.',
    ),
  ),
})

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
      'Headers for the app with each 200: a preset, or a list of presets and headers. A header of the list replaces the one of that name in a preset.',
  },
)

const PolicySchema = Type.Union(
  [
    Type.String({ minLength: 1 }),
    Type.Object(
      {
        condition: Type.Optional(Text('Condition. Default: everybody who is signed in.')),
        acr: Type.Optional(
          Type.Array(Type.String({ minLength: 1, pattern: '^[!-~]+$' }), {
            minItems: 1,
            description:
              'Authentication context classes (`acr`), of which the person must have one. A person without one is sent to sign in with `acr_values`.',
          }),
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
    header: Type.String({
      minLength: 1,
      default: 'X-Gatehouse-Assertion',
      description: 'Name of the header.',
    }),
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

const RuleSchema = Type.Object(
  {
    hosts: Hosts(
      'Hosts: `app.example.com`, or `*.example.com` for all below. Default: every host.',
    ),
    paths: Type.Optional(
      Type.Array(Type.String({ minLength: 1 }), {
        minItems: 1,
        description:
          'Paths: `/x` is that path, `/x/*` also all below it, and `*` between slashes any one segment. Default: every path.',
      }),
    ),
    methods: Type.Optional(
      Type.Array(Type.String({ pattern: '^[A-Z][A-Z-]{0,31}$' }), {
        minItems: 1,
        description: 'HTTP methods; `GET` includes HEAD. Default: every method.',
      }),
    ),
    from: Type.Optional(
      Type.Array(Type.String({ minLength: 1 }), {
        minItems: 1,
        description:
          'Addresses and networks of clients, as reported by `server.trustedProxies`. Default: every address.',
      }),
    ),
    require: Type.Union(
      [Type.String({ minLength: 1 }), Type.Array(Type.String({ minLength: 1 }), { minItems: 1 })],
      {
        description: '`anyone`, `signedIn`, a policy, or a list of policies that must all be met.',
      },
    ),
  },
  { description: 'A rule. All of its members must fit.' },
)

const PortalSchema = Type.Object(
  {
    name: Type.String({
      pattern: NAME_PATTERN,
      description: 'Name of the portal. Part of its URLs.',
    }),
    title: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 60,
        description: 'Title on its pages. Default: the first domain.',
      }),
    ),
    accent: Type.Optional(
      Type.String({
        pattern: COLOR_PATTERN,
        description: 'Colour of its pages, such as `#0b6bcb`.',
      }),
    ),
    logo: Type.Optional(LogoSchema),
    favicon: Type.Optional(FaviconSchema),
    texts: Type.Optional(PageTextsSchema),
    contact: Type.Optional(ContactSchema),
    providers: Type.Array(ProviderSchema, {
      minItems: 1,
      description: 'Identity providers of the portal.',
    }),
    allow: Type.Optional(AllowSchema),
    policies: Type.Record(Type.String({ pattern: NAME_PATTERN }), PolicySchema, {
      default: {},
      description:
        'Requirements of routes, by name. A proxy selects one with `?policy=<name>`, and a rule with `require`.',
    }),
    headers: HeadersSchema,
    userHeader: Type.Optional(
      Type.Enum([...USER_KINDS], {
        description:
          'Value of the user headers: the subject, the verified e-mail address, or the claim `preferred_username`. The last two are empty if the provider did not send them. Default: the subject, or `<provider>:<subject>` if the portal has several providers.',
      }),
    ),
    headerEncoding: Type.Enum([...ENCODINGS], {
      default: 'percent',
      description:
        'Encoding of characters in identity headers that are not ASCII: UTF-8 in percent-encoding, the bytes of UTF-8, or extended values of RFC 8187.',
    }),
    assertion: Type.Optional(AssertionSchema),
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
    apps: Type.Optional(AppsSchema),
    preflight: Flag('Allows CORS preflight requests without credentials.'),
    sessionLifetime: Type.Optional(
      Duration({
        from: '1m',
        to: '90d',
        description: 'Lifetime of sessions of this portal. Default: `session.lifetime`.',
      }),
    ),
    loginLifetime: Duration({
      default: '10m',
      from: '30s',
      to: '1h',
      description: 'Time to complete a sign-in.',
    }),
    sharedCallback: Flag(
      'Uses `/portals/<portal>/oauth2/callback` as the redirect URI, as traefik-forward-auth does. Only for a portal with one provider to sign in at.',
    ),
    alwaysShowProviders: Flag('Shows the list of providers even if there is only one.'),
  },
  {
    removed: {
      tokenHeader:
        'was removed: apps get a signed assertion instead of the session, see `assertion`. Apps can still verify it at `/api/portals/<portal>/verify`',
    },
  },
)

export const ForwardAuthSchema = Type.Object({
  server: ServerSchema,
  metrics: MetricsSchema(9465),
  log: Type.Object({
    ...LogSchema.properties,
    checks: Type.Enum(['refused', 'all'], {
      default: 'refused',
      description: 'Which checks are logged: only those that refuse a request, or `all`.',
    }),
  }),
  session: SessionSchema,
  storage: StorageSchema,
  audit: Type.Object({
    retention: Duration({
      default: '90d',
      from: '1d',
      description: 'How long the audit trail of sign-ins and refusals is kept.',
    }),
  }),
  domains: Type.Array(DomainSchema, {
    minItems: 1,
    description: 'Cookie domains and the hosts of their sign-in pages.',
  }),
  portals: Type.Array(PortalSchema, {
    minItems: 1,
    description: 'Portals, each with its own providers, rules and sessions.',
  }),
})

export type ForwardAuthConfig = Static<typeof ForwardAuthSchema>
export type PortalConfig = ForwardAuthConfig['portals'][number]

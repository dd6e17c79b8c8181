import { AllowSchema } from '@gatehouse/profile'
import { type ConfigOf, Duration, FilePath, Secret } from '@gatehouse/service-kit'
import { Type } from 'typebox'
import { COLOR_PATTERN } from '../pages/colors.ts'
import { ProviderSchema } from '../providers/index.ts'
import { PRESETS, PROPERTY_NAMES, USER_KINDS } from './headers.ts'

const NAME_PATTERN = '^[a-z][a-z0-9-]{0,31}$'

const Host = (description: string, fallback: string) =>
  Type.String({ minLength: 1, default: fallback, description })

const Port = (description: string, fallback: number) =>
  Type.Integer({ minimum: 0, maximum: 65_535, default: fallback, description })

const Flag = (description: string) => Type.Boolean({ default: false, description })

const ServerSchema = Type.Object({
  host: Host('Address to listen on.', '127.0.0.1'),
  port: Port('Port to listen on.', 4181),
  basePath: Type.String({
    pattern: '^(/[A-Za-z0-9._~-]+)*$',
    default: '',
    description: 'Path under which all portals are, such as `/gate`.',
  }),
  tls: Type.Optional(
    Type.Object(
      {
        certFile: FilePath({ description: 'Certificate chain in PEM, leaf first; watched.' }),
        keyFile: FilePath({ description: 'Private key in PEM; watched.' }),
        clientCaFile: Type.Optional(
          FilePath({
            description:
              'CA in PEM: who shows a certificate of it counts as a trusted proxy from any address.',
          }),
        ),
      },
      { description: 'Serves HTTPS. Left out: plain HTTP, for a proxy on the same machine.' },
    ),
  ),
  trustedProxies: Type.Optional(
    Type.Array(Type.String({ minLength: 1 }), {
      description:
        'Networks of the proxies whose checks and `X-Forwarded-` headers count. Left out: loopback only. Empty: client certificates only.',
    }),
  ),
})

const MetricsSchema = Type.Object({
  enabled: Type.Boolean({ default: true, description: 'Whether `/metrics` is served.' }),
  host: Host('Address of the metrics listener.', '127.0.0.1'),
  port: Port('Port of the metrics listener.', 9465),
})

const LogSchema = Type.Object({
  level: Type.Enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace'], {
    default: 'info',
    description: 'Least level that is logged.',
  }),
  format: Type.Enum(['auto', 'json', 'pretty'], {
    default: 'auto',
    description: '`auto`: pretty on a terminal, else JSON lines.',
  }),
  allowedChecks: Flag('Also logs checks that let a request pass; all others are logged anyway.'),
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
          'The first one signs, all verify. To rotate, put the new one first and take the old one away a lifetime later; with several instances, first add the new one last everywhere, then move it to the front. Left out: made at first start and kept in storage.path.',
      },
    ),
  ),
  lifetime: Duration({
    default: '8h',
    from: '1m',
    to: '90d',
    description: 'From login to the end of the session.',
  }),
})

const StorageSchema = Type.Object({
  path: FilePath({
    default: 'data',
    description: 'Folder of generated keys and of the sessions that were ended by logout.',
  }),
})

const DomainSchema = Type.Object({
  domain: Type.String({
    minLength: 1,
    description: 'Cookie domain, such as `example.com`: it and all hosts below share a session.',
  }),
  authHost: Type.Optional(
    Type.String({
      minLength: 1,
      description:
        'Host of the sign-in pages, with a port if need be, such as `auth.example.com`; `http://` only before loopback names. No app can be guarded on it unless it is the domain itself. Default: the domain.',
    }),
  ),
})

const HeaderName = Type.String({ minLength: 1, description: 'Name of the header.' })

const HeadersSchema = Type.Union(
  [
    Type.Enum([...PRESETS]),
    Type.Array(
      Type.Union([
        Type.Enum([...PRESETS]),
        Type.Object({
          name: HeaderName,
          property: Type.Enum(PROPERTY_NAMES, { description: 'What it tells.' }),
        }),
        Type.Object({
          name: HeaderName,
          claim: Type.String({ minLength: 1, description: 'Claim that it tells.' }),
        }),
      ]),
    ),
  ],
  {
    default: 'default',
    description: 'Headers to the app with each 200: a preset, or a list of presets and headers.',
  },
)

const PortalSchema = Type.Object({
  name: Type.String({ pattern: NAME_PATTERN, description: 'Name of the portal: part of URLs.' }),
  title: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 60,
      description: 'What pages call it. Default: its name.',
    }),
  ),
  accent: Type.Optional(
    Type.String({ pattern: COLOR_PATTERN, description: 'Colour of its pages, such as `#0b6bcb`.' }),
  ),
  providers: Type.Array(ProviderSchema, { minItems: 1, description: 'Who vouches for people.' }),
  allow: Type.Optional(AllowSchema),
  policies: Type.Record(Type.String({ pattern: NAME_PATTERN }), Type.String({ minLength: 1 }), {
    default: {},
    description: 'Conditions by name, for the routes of proxies: `?policy=<name>`.',
  }),
  conditionHeader: Flag('Reads conditions from `X-Forward-Auth-If`, which the proxy has to set.'),
  headers: HeadersSchema,
  userHeader: Type.Optional(
    Type.Enum([...USER_KINDS], {
      description:
        'Who somebody is to the apps. Default: the subject; with several providers `<provider>:<subject>`.',
    }),
  ),
  tokenHeader: Type.Optional(
    Type.String({
      minLength: 1,
      description:
        'Header that hands the session of the visitor to the app. Every app that gets it can act as the visitor at all other apps of the domain, until the visitor signs out or the session ends. Leave it out unless you trust all apps behind the portal with each other.',
    }),
  ),
  preflight: Flag('Lets CORS preflights without credentials pass.'),
  sessionLifetime: Type.Optional(
    Duration({ from: '1m', to: '90d', description: 'Instead of session.lifetime.' }),
  ),
  loginLifetime: Duration({
    default: '10m',
    from: '30s',
    to: '1h',
    description: 'Time in which a login has to be finished.',
  }),
  sharedCallback: Flag(
    'Uses `/portals/<portal>/oauth2/callback` as the redirect URI, as traefik-forward-auth does. Only for a portal with one provider that people sign in at.',
  ),
  alwaysShowProviders: Flag('Shows the chooser even if there is only one provider.'),
})

/** The configuration file of forward-auth. */
export const ForwardAuthSchema = Type.Object({
  server: ServerSchema,
  metrics: MetricsSchema,
  log: LogSchema,
  session: SessionSchema,
  storage: StorageSchema,
  domains: Type.Array(DomainSchema, {
    minItems: 1,
    description: 'Where sessions hold, and where people sign in.',
  }),
  portals: Type.Array(PortalSchema, {
    minItems: 1,
    description: 'Doors: each with its own providers, rules and sessions.',
  }),
})

export type ForwardAuthConfig = ConfigOf<typeof ForwardAuthSchema>
export type PortalConfig = ForwardAuthConfig['portals'][number]

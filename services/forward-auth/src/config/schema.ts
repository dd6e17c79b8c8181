import { gateOptions } from '@gatehouse/gate'
import { ProviderSchema } from '@gatehouse/identity-providers'
import { AllowSchema } from '@gatehouse/profile'
import {
  Duration,
  FilePath,
  Flag,
  LogSchema,
  listener,
  MetricsSchema,
  Name,
  optional,
  Secret,
  Text,
} from '@gatehouse/service-kit/config'
import { eventsOptions } from '@gatehouse/service-kit/events'
import { type Static, Type } from 'typebox'
import { COLOR_PATTERN } from '../pages/colors.ts'
import { StorageSchema } from '../store/storage-schema.ts'
import { AppsFromSchema, AppsSchema } from './apps.ts'
import { ClientsSchema } from './clients.ts'
import { ContactSchema, FaviconSchema, LogoSchema, PageTextsSchema } from './look.ts'

const ServerSchema = Type.Object({
  ...listener(4181),
  basePath: Type.String({
    pattern: '^(/[A-Za-z0-9._~-]+)*$',
    default: '',
    description: 'Path prefix of all routes, such as `/gate`.',
  }),
  ...optional({
    tls: Type.Object(
      {
        certFile: FilePath('Certificate chain in PEM, leaf first. Reloaded when it changes.'),
        keyFile: FilePath('Private key in PEM. Reloaded when it changes.'),
        clientCaFile: Type.Optional(
          FilePath(
            'CA certificates in PEM. A client with a certificate of this CA is a trusted proxy, at any address.',
          ),
        ),
      },
      { description: 'Serves HTTPS. Default: plain HTTP, for a proxy on the same machine.' },
    ),
    grpc: Type.Object(listener(4182), {
      description:
        "Answers Envoy's `ext_authz` over gRPC. With `server.tls` by TLS, and with " +
        '`clientCaFile` only for clients with a certificate. Default: off.',
    }),
    trustedProxies: Type.Array(Type.String({ minLength: 1 }), {
      description:
        'Addresses, networks and host names of the proxies that may send checks and ' +
        '`X-Forwarded-` headers. Default: loopback only. An empty list: only proxies with a ' +
        'client certificate.',
    }),
  }),
})

const SessionSchema = Type.Object({
  keys: Type.Optional(
    Type.Array(
      Type.Object({
        secret: Secret('At least 32 random characters.', { minLength: 32 }),
      }),
      {
        minItems: 1,
        description:
          'The first key signs, all keys verify. To rotate, put the new key first and remove ' +
          'the old one after `session.lifetime`. With several instances, first append the new ' +
          'key on all of them, then move it to the front. Default: a key that is generated at ' +
          'the first start and stored in `storage.path`. Required with `storage.url`.',
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

const DomainSchema = Type.Object({
  domain: Text('Domain of apps, such as `example.com`: the domain itself and all hosts below it.'),
  authHost: Type.Optional(
    Text(
      'Host of the sign-in pages, with a port if necessary, such as `auth.example.com`. Several ' +
        'domains may name the same host, and share the sign-in then. `http://` is allowed only ' +
        'for loopback names. Apps on this host cannot be protected, unless it is the domain itself: such ' +
        'an app has to be trusted like the sign-in pages. Default: the domain.',
    ),
  ),
  session: Type.Object(
    {
      scope: Type.Enum(['host', 'domain'], {
        default: 'host',
        description:
          'Which hosts share a cookie: `host` gives each app one of its own, which is worth nothing ' +
          'at another app; `domain` gives all of them the same one, for apps that call each other ' +
          'from the browser, and for proxies that do not pass on cookies of a check. Whoever sees ' +
          'that cookie can use all apps of the domain.',
      }),
    },
    { default: {}, description: 'Cookies of the apps.' },
  ),
})

const PortalSessionSchema = Type.Object(
  {
    ...optional({
      lifetime: Duration({
        from: '1m',
        to: '90d',
        description: 'Lifetime of a session, from the sign-in. Default: `session.lifetime`.',
      }),
      idle: Duration({
        from: '5m',
        to: '90d',
        description:
          'How long a session lives without a request. Default: as long as its lifetime.',
      }),
    }),
    refresh: Type.Union([Type.Literal('off'), Duration({ from: '1m', to: '24h' })], {
      default: '10m',
      description:
        'How old may be what the provider says of a person. The provider is asked again when the ' +
        'person sends a request after that time, if it gives a token for it: groups and claims change ' +
        'then, and somebody whose account was closed is signed out. `off`: what it said at the ' +
        'sign-in counts until the end.',
    }),
    grace: Duration({
      default: '1h',
      from: '0s',
      to: '24h',
      description:
        'How long after `refresh` people stay signed in while the provider cannot be asked, because ' +
        'it is away or refuses the client.',
    }),
  },
  { default: {}, description: 'Sessions of this portal.' },
)

const PortalSchema = Type.Object({
  name: Name('Name of the portal. Part of its URLs.'),
  ...optional({
    title: Text('Title on its pages. Default: the first domain.', { maxLength: 60 }),
    accent: Type.String({
      pattern: COLOR_PATTERN,
      description: 'Colour of its pages, such as `#0b6bcb`.',
    }),
    logo: LogoSchema,
    favicon: FaviconSchema,
    texts: PageTextsSchema,
    contact: ContactSchema,
  }),
  providers: Type.Array(ProviderSchema, {
    minItems: 1,
    description: 'Identity providers of the portal.',
  }),
  allow: Type.Optional(AllowSchema),
  ...gateOptions,
  authorizationServer: Type.Object(
    {
      clients: ClientsSchema,
      registration: Flag(
        'Lets clients register themselves (RFC 7591). Nobody has proven who such a client is, so every consent page ' +
          'says so. Default: clients have a client ID metadata document.',
      ),
      privateNetworks: Type.Array(Type.String({ minLength: 1 }), {
        default: [],
        description:
          'Networks from which documents of clients may come, besides public addresses, such as `10.0.0.0/8`.',
      }),
    },
    {
      default: {},
      description:
        'How this portal issues tokens for its `resources` that name no `authorizationServers`.',
    },
  ),
  apps: Type.Optional(AppsSchema),
  appsFrom: Type.Optional(AppsFromSchema),
  session: PortalSessionSchema,
  sessions: Type.Optional(
    Type.Object({
      admins: Text(
        'Name of the policy of those who may see and end the sessions of everybody, at `/portals/<portal>/sessions`.',
      ),
    }),
  ),
  loginLifetime: Duration({
    default: '10m',
    from: '30s',
    to: '1h',
    description: 'Time to complete a sign-in.',
  }),
  sharedCallback: Flag(
    'Uses `/portals/<portal>/oauth2/callback` as the redirect URI, as traefik-forward-auth ' +
      'does. Only for a portal with one provider to sign in at.',
  ),
  alwaysShowProviders: Flag('Shows the list of providers even if there is only one.'),
})

/** A key that is in the database cannot protect what is sealed there. */
const SHARED_KEYS = {
  when: {
    required: ['storage'],
    properties: { storage: { anyOf: [{ required: ['url'] }, { required: ['urlFile'] }] } },
  },
  schema: { required: ['session'], properties: { session: { required: ['keys'] } } },
  path: '/session/keys',
  message:
    'is missing: with storage.url, all instances need the same keys. Make one with `openssl rand -hex 32`, and give it to each of them',
}

const { receivers } = eventsOptions(
  ['approval-requested'],
  'Each is told when an agent waits for a person, at least once for each call. Delivery is retried for a day.',
  ' `person` is the person whom the agent acts for, if the provider has verified an address.',
)

export const ForwardAuthSchema = Type.Object(
  {
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
    events: Type.Object({ receivers }),
    domains: Type.Array(DomainSchema, {
      minItems: 1,
      description: 'Cookie domains and the hosts of their sign-in pages.',
    }),
    portals: Type.Array(PortalSchema, {
      minItems: 1,
      description: 'Portals, each with its own providers, rules and sessions.',
    }),
  },
  { demands: [SHARED_KEYS] },
)

export type ForwardAuthConfig = Static<typeof ForwardAuthSchema>
export type PortalConfig = ForwardAuthConfig['portals'][number]

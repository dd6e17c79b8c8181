import { StorageSchema } from '@gatehouse/cert-store'
import { CallerLimitsSchema, CaSchema, IssuerSchema } from '@gatehouse/issuance/options'
import { KEY_TYPES } from '@gatehouse/pki'
import {
  Duration,
  FilePath,
  LogSchema,
  listener,
  MetricsSchema,
  OptionalList,
  optional,
  Text,
} from '@gatehouse/service-kit/config'
import { eventsOptions } from '@gatehouse/service-kit/events'
import { type Static, Type } from 'typebox'
import { AuthSchema, RuleSchema } from './auth.ts'
import { ProbeSchema } from './probe.ts'
import { Lifetime } from './rights.ts'

const Names = (description: string) =>
  Type.Array(Type.String({ minLength: 1 }), { default: [], description })

const ServerSchema = Type.Object({
  ...listener(7401),
  names: Names('Additional names for the certificate of this server.'),
  tls: Type.Union(
    [
      Type.Literal('own'),
      Type.Literal('off'),
      Type.Literal('insecure'),
      Type.Object({
        certFile: FilePath('Certificate chain in PEM, leaf first.'),
        keyFile: FilePath('Private key in PEM.'),
      }),
    ],
    {
      default: 'own',
      description:
        '`own`: a certificate of the embedded CA, renewed automatically. Files: reloaded when they ' +
        'change. `off`: plain HTTP, on loopback only. `insecure`: plain HTTP on any address, which ' +
        'exposes private keys to anyone who can read the traffic.',
    },
  ),
  ...optional({
    trustedProxies: Type.Array(Type.String({ minLength: 1 }), {
      description:
        'Addresses, networks and host names of the proxies whose `X-Forwarded-For`, `-Host` and ' +
        '`-Proto` headers are trusted. Default: loopback only.',
    }),
    plainHttp: Type.Object(listener(), {
      description: 'A second listener with plain HTTP, only for `/ca/*` and http-01 challenges.',
    }),
  }),
})

const CertificateSchema = Type.Object({
  names: Type.Array(Type.String({ minLength: 1 }), {
    minItems: 1,
    maxItems: 100,
    description: 'Names of the certificate.',
  }),
  keyType: Type.Optional(
    Type.Enum([...KEY_TYPES], { description: 'Key type. Default: that of the issuer, or `p256`.' }),
  ),
})

const events = eventsOptions(
  ['issued', 'renewed', 'failing', 'expiring', 'not-served', 'served-again'],
  'Each receives events about certificates, each event at least once. Delivery is retried for 7 days.',
)

export const CertServiceSchema = Type.Object({
  server: ServerSchema,
  metrics: MetricsSchema(9464),
  log: LogSchema,
  storage: StorageSchema,
  auth: AuthSchema,
  rules: Type.Array(RuleSchema, {
    default: [],
    description:
      'Names that callers may use, in addition to the `domains` of keys and the `domainsClaim`.',
  }),
  ca: CaSchema,
  issuers: Type.Array(IssuerSchema, {
    default: [],
    maxItems: 32,
    description: 'Issuers in addition to the embedded CA. The first one whose names match issues.',
  }),
  limits: CallerLimitsSchema,
  certificates: Type.Array(CertificateSchema, {
    default: [],
    description: 'Certificates that are issued at start and renewed even if nobody requests them.',
  }),
  issuance: Type.Object({
    wait: Duration({
      default: '20s',
      to: '5m',
      description:
        'How long a request waits for a new certificate before it is answered with an order.',
    }),
  }),
  acme: Type.Object(
    {
      open: OptionalList(
        Type.String({ minLength: 1 }),
        'Networks of devices that need no external account. They get names that a rule with ' +
          '`acme: open` gives, after http-01 or tls-alpn-01, which are asked for in these networks only.',
      ),
      ...optional({
        terms: Text(
          'URL of terms of service, which clients have to agree to. Default: there are none.',
        ),
        profiles: Type.Record(
          Type.String({ pattern: '^[a-z0-9][a-z0-9-]{0,39}$' }),
          Type.Object({
            lifetime: Lifetime('The longest that a certificate of the embedded CA lives.'),
          }),
          {
            description:
              'Profiles beside `server` and `client`, by name, that ACME clients may choose for TLS server certificates: ' +
              'of the embedded CA, or of an issuer that has a `profile` of the same name.',
          },
        ),
      }),
    },
    { description: 'This service as the CA of ACME clients, at `/acme/directory`.' },
  ),
  probe: Type.Optional(ProbeSchema),
  events: Type.Object({ ...events, webhook: Type.Optional(events.webhook) }),
  audit: Type.Partial(
    Type.Object({
      retention: Duration({
        from: '1d',
        description:
          'How long audit rows are kept. Default: 90 days, and as long as certificates of their time.',
      }),
    }),
  ),
})

export type CertServiceConfig = Static<typeof CertServiceSchema>

export function isPlain(tls: CertServiceConfig['server']['tls']): tls is 'off' | 'insecure' {
  return tls === 'off' || tls === 'insecure'
}

import { KEY_TYPES } from '@gatehouse/pki'
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
import { AuthSchema, RuleSchema } from './auth.ts'
import { EventsSchema } from './events.ts'
import { IssuerSchema } from './issuers.ts'

const Names = (description: string) =>
  Type.Array(Type.String({ minLength: 1 }), { default: [], description })

const ServerSchema = Type.Object({
  ...listener(7401),
  workers: WorkersSchema('More than one needs `storage.url`.'),
  names: Names('Additional names for the certificate of this server.'),
  tls: Type.Union(
    [
      Type.Literal('own'),
      Type.Literal('off'),
      Type.Literal('insecure'),
      Type.Object({
        certFile: FilePath({ description: 'Certificate chain in PEM, leaf first.' }),
        keyFile: FilePath({ description: 'Private key in PEM.' }),
      }),
    ],
    {
      default: 'own',
      description:
        '`own`: a certificate of the embedded CA, renewed automatically. Files: reloaded when they change. `off`: plain HTTP, on loopback only. `insecure`: plain HTTP on any address, which exposes private keys to anyone who can read the traffic.',
    },
  ),
  trustedProxies: Type.Optional(
    Type.Array(Type.String({ minLength: 1 }), {
      description:
        'Networks of the proxies whose `X-Forwarded-For`, `-Host` and `-Proto` headers are trusted. Default: loopback only.',
    }),
  ),
  plainHttp: Type.Optional(
    Type.Object(listener(), {
      description: 'A second listener with plain HTTP, only for `/ca/*` and http-01 challenges.',
    }),
  ),
})

const StorageSchema = Type.Object(
  {
    path: FilePath({
      default: 'data',
      description: 'Folder of the store, for one process at a time. Not used with `url`.',
    }),
    url: Type.Optional(
      Secret({
        description:
          'PostgreSQL for any number of equal replicas, instead of a folder: `postgres://user:password@host:5432/database`. Separate several hosts with commas: the service uses the one that accepts writes. The connection uses verified TLS, unless the host is loopback or the URL has `?sslmode=disable`.',
      }),
    ),
    caFile: Type.Optional(
      FilePath({
        description:
          'CA certificates of the database in PEM, if it has a private CA. Without `url`: for the database that `move` copies to.',
      }),
    ),
    schema: Type.String({
      pattern: SCHEMA_PATTERN,
      default: 'gatehouse_certs',
      description: 'Schema in the database, which is created at the first start.',
    }),
    masterKeyFile: FilePath({
      default: 'master.key',
      description:
        'Key that seals all others, outside of the data folder. Created at the first start, unless `url` is set: then it has to be the same on each replica. Not part of backups.',
    }),
    masterKey: Type.Optional(
      Type.String({
        pattern: '^[A-Za-z0-9+/]{43}=$',
        description:
          'The key itself instead of the file, from the environment: 32 bytes in base64.',
      }),
    ),
    retention: Duration({
      default: '30d',
      from: '1h',
      description: 'How long expired certificates and finished orders are kept.',
    }),
  },
  {
    removed: { cachePath: 'was removed: while the database is down, memory answers. Leave it out' },
  },
)

const CaSchema = Type.Object({
  name: Type.String({
    minLength: 1,
    maxLength: 40,
    default: 'Gatehouse',
    description: 'Prefix of the common names of generated root and intermediate.',
  }),
  root: Type.Optional(
    Type.Object(
      {
        certFile: FilePath({ description: 'Root certificate in PEM.' }),
        keyFile: Type.Optional(
          FilePath({ description: 'Its key in PEM, which is read only to sign an intermediate.' }),
        ),
      },
      { description: 'Your own root.' },
    ),
  ),
  intermediate: Type.Optional(
    Type.Object(
      {
        certFile: FilePath({ description: 'Intermediate in PEM, followed by its issuers.' }),
        keyFile: FilePath({ description: 'Its key in PEM.' }),
      },
      { description: 'Your own intermediate.' },
    ),
  ),
  permitted: Names(
    'Name rules that the CA is limited to, also by a name constraint. Default: any name.',
  ),
  crlUrl: Type.Optional(
    Text('http URL of `/ca/crl.der` for clients; used as the CRL distribution point.'),
  ),
  leafLifetime: Duration({
    default: '7d',
    from: '2h',
    to: '180d',
    description: 'Lifetime of certificates.',
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

const Count = (fallback: number, maximum: number, description: string) =>
  Type.Integer({ minimum: 1, maximum, default: fallback, description })

const callerLimits = {
  names: Count(5_000, 1_000_000, 'Names in all unexpired certificates that the caller requested.'),
  issuancesPerMinute: Count(
    60,
    100_000,
    'New certificates per minute. Delivering stored ones is not limited.',
  ),
  burst: Count(120, 100_000, 'New certificates at once.'),
}

const CallerLimitsSchema = Type.Object({
  perName: Type.Object({
    certificates: Count(
      500,
      2_000,
      'Certificates in use with the same first name, such as one for each machine of a fleet. Beyond that, another one is refused.',
    ),
  }),
  perCaller: Type.Object(callerLimits, {
    description: 'For each key with `domains` and each token subject.',
  }),
  perOperator: Type.Optional(
    Type.Object(callerLimits, {
      description: 'For each key without `domains`. Default: no limit.',
    }),
  ),
})

/** The configuration file of cert-service. */
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
  events: EventsSchema,
  audit: Type.Object({
    retention: Duration({
      default: '90d',
      from: '1d',
      description: 'How long audit rows are kept.',
    }),
  }),
})

export type CertServiceConfig = Static<typeof CertServiceSchema>

export type CallerLimits = Static<typeof CallerLimitsSchema>

export function isPlain(tls: CertServiceConfig['server']['tls']): tls is 'off' | 'insecure' {
  return tls === 'off' || tls === 'insecure'
}

import { KEY_TYPES } from '@gatehouse/pki'
import { type ConfigOf, Duration, FilePath } from '@gatehouse/service-kit'
import { Type } from 'typebox'
import { CallerLimitsSchema } from './caller-limits.ts'
import { AuthSchema, RuleSchema } from './callers.ts'
import { EventsSchema } from './events.ts'
import { IssuerSchema } from './issuers.ts'

const Host = (description: string, fallback: string) =>
  Type.String({ minLength: 1, default: fallback, description })

const Port = (description: string, fallback?: number) =>
  Type.Integer({
    minimum: 0,
    maximum: 65_535,
    ...(fallback !== undefined && { default: fallback }),
    description,
  })

const Names = (description: string) =>
  Type.Array(Type.String({ minLength: 1 }), { default: [], description })

const Choice = <const T extends string[]>(
  values: [...T],
  options: { description: string; default?: T[number] },
) => Type.Enum(values, options)

const ServerSchema = Type.Object({
  host: Host('Address to listen on.', '127.0.0.1'),
  port: Port('Port to listen on.', 7401),
  names: Names('Further names of this server, for its own certificate.'),
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
        '`own`: a certificate of the embedded CA, renewed by itself. Files: watched and taken up when they change. `off`: plain HTTP, on loopback only. `insecure`: plain HTTP on any address, so that whoever can listen in has the private keys.',
    },
  ),
  trustedProxies: Type.Optional(
    Type.Array(Type.String({ minLength: 1 }), {
      description:
        'Networks of the proxies whose `X-Forwarded-For`, `-Host` and `-Proto` count. Left out: loopback only.',
    }),
  ),
  plainHttp: Type.Optional(
    Type.Object(
      {
        host: Host('Address to listen on.', '127.0.0.1'),
        port: Port('Port to listen on.'),
      },
      {
        description:
          'A second listener, plain HTTP: `/ca/*` and the answers to http-01 challenges, nothing else.',
      },
    ),
  ),
})

const MetricsSchema = Type.Object({
  enabled: Type.Boolean({ default: true, description: 'Whether `/metrics` is served.' }),
  host: Host('Address of the metrics listener.', '127.0.0.1'),
  port: Port('Port of the metrics listener.', 9464),
})

const LogSchema = Type.Object({
  level: Choice(['fatal', 'error', 'warn', 'info', 'debug', 'trace'], {
    default: 'info',
    description: 'Least level that is logged.',
  }),
  format: Choice(['auto', 'json', 'pretty'], {
    default: 'auto',
    description: '`auto`: pretty on a terminal, else JSON lines.',
  }),
})

const StorageSchema = Type.Object({
  path: FilePath({ default: 'data', description: 'Folder of the store; one process at a time.' }),
  masterKeyFile: FilePath({
    default: 'master.key',
    description:
      'Key that seals all others. Made at first start, not part of a backup, outside of the data folder.',
  }),
  retention: Duration({
    default: '30d',
    from: '1h',
    description: 'How long certificates are kept after their end, and orders after theirs.',
  }),
})

const CaSchema = Type.Object({
  name: Type.String({
    minLength: 1,
    maxLength: 40,
    default: 'Gatehouse',
    description: 'Begins the common names of the root and intermediate made here.',
  }),
  root: Type.Optional(
    Type.Object(
      {
        certFile: FilePath({ description: 'Root certificate in PEM.' }),
        keyFile: Type.Optional(
          FilePath({ description: 'Its key in PEM, read only to sign an intermediate.' }),
        ),
      },
      { description: 'A root of your own.' },
    ),
  ),
  intermediate: Type.Optional(
    Type.Object(
      {
        certFile: FilePath({ description: 'Intermediate in PEM, then what signed it.' }),
        keyFile: FilePath({ description: 'Its key in PEM.' }),
      },
      { description: 'An intermediate of your own.' },
    ),
  ),
  permitted: Names(
    'Name rules that the CA is limited to, also by a name constraint; empty: any name.',
  ),
  crlUrl: Type.Optional(
    Type.String({
      minLength: 1,
      description:
        'http URL under which clients reach `/ca/crl.der`; becomes the CRL distribution point.',
    }),
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
    Choice([...KEY_TYPES], { description: 'Kind of its key; that of its issuer, else `p256`.' }),
  ),
})

/** The configuration file of cert-service. */
export const CertServiceSchema = Type.Object({
  server: ServerSchema,
  metrics: MetricsSchema,
  log: LogSchema,
  storage: StorageSchema,
  auth: AuthSchema,
  rules: Type.Array(RuleSchema, {
    default: [],
    description: 'What callers may have, beside their key’s `domains` and the `domainsClaim`.',
  }),
  ca: CaSchema,
  issuers: Type.Array(IssuerSchema, {
    default: [],
    maxItems: 32,
    description: 'CAs beside the embedded one; the first that holds every name issues.',
  }),
  limits: CallerLimitsSchema,
  certificates: Type.Array(CertificateSchema, {
    default: [],
    description: 'Certificates that are issued at start and kept renewed, asked for or not.',
  }),
  issuance: Type.Object({
    wait: Duration({
      default: '20s',
      to: '5m',
      description: 'How long a caller is made to wait before it gets an order instead.',
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

export type CertServiceConfig = ConfigOf<typeof CertServiceSchema>

/** Whether the service speaks plain HTTP. */
export function isPlain(tls: CertServiceConfig['server']['tls']): tls is 'off' | 'insecure' {
  return tls === 'off' || tls === 'insecure'
}

import { KEY_TYPES, REVOCATION_REASONS, type RevocationReason } from '@gatehouse/pki'
import { Type } from 'typebox'
import { MAX_NAMES } from '../issuance/request.ts'

/** Up to 253 characters and a trailing dot. */
const NAME = { minLength: 1, maxLength: 254 }

const DomainSchema = Type.String({
  ...NAME,
  description: 'DNS name, wildcard (`*.example.com`) or IP address.',
  examples: ['app.example.com'],
})

const TimeSchema = (description: string) => Type.String({ format: 'date-time', description })

/** Body of `POST /api/certificate`. */
export const CertificateRequestSchema = Type.Object({
  domain: DomainSchema,
  names: Type.Optional(
    Type.Array(Type.String(NAME), {
      maxItems: MAX_NAMES - 1,
      description: 'Further names of the certificate.',
    }),
  ),
  csr: Type.Optional(
    Type.String({
      minLength: 1,
      description: 'PKCS#10 request in PEM: the key stays with the caller.',
    }),
  ),
  keyType: Type.Optional(
    Type.Enum([...KEY_TYPES], { description: 'Type of the key; default `p256`.' }),
  ),
})

/** Body of `POST /api/certificate/renew`. */
export const DomainRequestSchema = Type.Object({ domain: DomainSchema })

/** Body of `POST /api/certificate/revoke`. */
export const RevokeRequestSchema = Type.Object({
  domain: DomainSchema,
  reason: Type.Optional(
    Type.Enum(Object.keys(REVOCATION_REASONS) as RevocationReason[], {
      description: 'As in RFC 5280 section 5.3.1; default `unspecified`.',
    }),
  ),
})

export const DomainParamsSchema = Type.Object({ domain: DomainSchema })

const certificate = {
  domain: Type.String({ description: 'The requested name.' }),
  names: Type.Array(Type.String(), { description: 'All names of the certificate.' }),
  issuer: Type.String({ description: 'The issuer that signed it; `ca` is the embedded CA.' }),
  serialNumber: Type.String({ description: 'Hexadecimal.' }),
  fingerprint256: Type.String({ description: 'SHA-256 of the certificate, hexadecimal.' }),
  notBefore: TimeSchema('Start of validity.'),
  notAfter: TimeSchema('End of validity.'),
  renewAt: Type.Optional(TimeSchema('When it is renewed; absent if it no longer is.')),
  renewalExplanationUrl: Type.Optional(
    Type.String({
      description: 'Page on which the CA explains the time of the renewal, if any.',
      examples: ['https://ca.example/incidents/7'],
    }),
  ),
}

/** A certificate without PEM and key. */
const HeldSchema = Type.Object(certificate)

/** A certificate as it is delivered. */
export const CertificateSchema = Type.Object({
  ...certificate,
  certificate: Type.String({ description: 'PEM chain, leaf first.' }),
  privateKey: Type.Optional(
    Type.String({ description: 'PKCS#8 in PEM; absent if the caller holds the key.' }),
  ),
  issuerCert: Type.Optional(Type.String({ description: 'Certificate of the issuer in PEM.' })),
  ignored: Type.Optional(
    Type.Array(Type.String(), {
      description:
        'What the `csr` of this request asks for and the certificate lacks, such as `clientAuth`, `CA:TRUE`, `mustStaple` or `O`; absent if nothing is lacking.',
      examples: [['clientAuth']],
    }),
  ),
  cached: Type.Boolean({ description: 'Whether it was held before this request.' }),
})

/** The same answers as one PEM file. */
export const PemBundleSchema = Type.String({
  description: 'The chain, leaf first, then the private key if this service holds it.',
})

export const FailureSchema = Type.Object({
  code: Type.String({ description: 'Stable code of the error.' }),
  detail: Type.String({ description: 'What went wrong, in plain words.' }),
  action: Type.Optional(Type.String({ description: 'What to do about it.' })),
})

/** An order: a certificate that takes longer than the caller waits. */
export const OrderSchema = Type.Object(
  {
    id: Type.String(),
    status: Type.Enum(['pending', 'failed', 'done']),
    step: Type.String({ description: 'What it is doing, or was doing when it failed.' }),
    since: TimeSchema('When it began.'),
    names: Type.Array(Type.String()),
    lastError: Type.Optional(FailureSchema),
    nextTryAt: Type.Optional(TimeSchema('When a failed order may be tried again.')),
  },
  { description: 'Once it is `done`, POST /api/certificate answers with the certificate.' },
)

export const OrderParamsSchema = Type.Object({ id: Type.String({ maxLength: 64 }) })

/** Answer of `POST /api/certificate/revoke`. */
export const RevokedSchema = Type.Object({
  domain: Type.String(),
  reason: Type.String(),
  serialNumbers: Type.Array(Type.String(), {
    description: 'Serial numbers of what is revoked now, hexadecimal.',
  }),
  unknownAtCa: Type.Optional(
    Type.Array(Type.String(), {
      description:
        'Those that the CA does not know (any more), which are revoked here only. Absent if there are none.',
    }),
  ),
})

/** Query of `GET /api/certificates`. */
export const PageQuerySchema = Type.Object({
  after: Type.Optional(
    Type.String({ pattern: '^[0-9]{1,15}$', description: '`next` of the previous page.' }),
  ),
  limit: Type.Optional(
    Type.String({ pattern: '^([1-9]|[1-9][0-9]|100)$', description: '1 to 100; default 100.' }),
  ),
})

/** Answer of `GET /api/certificates`. */
export const PageSchema = Type.Object({
  certificates: Type.Array(
    Type.Object({
      ...certificate,
      keyType: Type.Enum([...KEY_TYPES]),
      lastFailure: Type.Optional(FailureSchema),
    }),
  ),
  next: Type.Optional(Type.String({ description: 'Send it as `after` to get the next page.' })),
})

/** Query of `GET /api/proxy/traefik`. */
export const NoQuerySchema = Type.Object({})

/** Answer of `GET /api/proxy/traefik`. */
export const TraefikDocumentSchema = Type.Object({
  tls: Type.Object({
    certificates: Type.Array(
      Type.Object({
        certFile: Type.String({ description: 'PEM chain, leaf first.' }),
        keyFile: Type.String({ description: 'PKCS#8 in PEM.' }),
      }),
    ),
  }),
})

const ofHandshake = (description: string) =>
  Type.Optional(Type.String({ maxLength: 4096, description }))

/** Query of `GET /api/proxy/caddy`: what Caddy knows of a handshake. */
export const CaddyQuerySchema = Type.Object({
  server_name: ofHandshake('The name in the SNI of the client.'),
  signature_schemes: ofHandshake('Not used.'),
  cipher_suites: ofHandshake('Not used.'),
  local_ip: ofHandshake('Not used.'),
})

/** Query of `POST /api/certificate`. */
export const IssueQuerySchema = Type.Object({
  dryRun: Type.Optional(
    Type.Enum(['true', 'false'], {
      description: '`true`: only describe what would happen; nothing is ordered or delivered.',
    }),
  ),
})

const ProofSchema = Type.Object({
  name: Type.String(),
  challenge: Type.Enum(['dns-01', 'http-01', 'tls-alpn-01']),
  status: Type.Enum(['ready', 'failed', 'unchecked'], {
    description:
      '`ready`: DNS says where the record goes, and the provider accepts the credentials if that can be checked without a change. `unchecked`: only the CA can check it.',
  }),
  detail: Type.String({ description: 'What was found, in plain words.' }),
  code: Type.Optional(Type.String({ description: 'Stable code of the error.' })),
})

const BudgetSchema = Type.Object({
  limit: Type.Enum(['orders', 'domain', 'names', 'failures', 'failuresInARow', 'accounts']),
  subject: Type.String({ description: 'What it is counted for.' }),
  left: Type.Integer(),
  count: Type.Integer({ description: 'How many the limit allows.' }),
  per: Type.String({ description: 'The time in which all of them come back.' }),
  freeAt: Type.Optional(TimeSchema('When the next one comes back, if none is left.')),
})

/** Answer of `POST /api/certificate?dryRun=true`. */
export const DryRunSchema = Type.Object(
  {
    domain: Type.String(),
    names: Type.Array(Type.String()),
    issuer: Type.String({ description: 'The issuer that would sign it.' }),
    accountUrl: Type.Optional(
      Type.String({
        description:
          'The account at the CA, for `accounturi` in CAA records; absent until it is registered.',
      }),
    ),
    held: Type.Optional(HeldSchema),
    order: Type.Optional(OrderSchema),
    proofs: Type.Array(ProofSchema, {
      description: 'How each name would be proven; empty if the issuer needs no proof.',
    }),
    budgets: Type.Array(BudgetSchema, {
      description: 'What is left of the limits of the CA, as far as they are known.',
    }),
    obstacles: Type.Array(Type.String(), {
      description: 'Known obstacles, in plain words.',
    }),
  },
  {
    description:
      'What a request would lead to. A request that would be refused at once is refused here as well.',
  },
)

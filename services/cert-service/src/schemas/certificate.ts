import { KEY_TYPES, REVOCATION_REASONS, type RevocationReason } from '@gatehouse/pki'
import { Type } from 'typebox'
import { MAX_NAMES } from '../issuance/request.ts'

/** A name of 253 characters and its trailing dot. */
const NAME = { minLength: 1, maxLength: 254 }

const DomainSchema = Type.String({
  ...NAME,
  description: 'DNS name, wildcard (`*.example.com`) or IP address.',
  examples: ['app.example.com'],
})

export const TimeSchema = (description: string) => Type.String({ format: 'date-time', description })

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
    Type.Enum([...KEY_TYPES], { description: 'Kind of the key; `p256` unless said.' }),
  ),
})

/** Body of `POST /api/certificate/renew`. */
export const DomainRequestSchema = Type.Object({ domain: DomainSchema })

/** Body of `POST /api/certificate/revoke`. */
export const RevokeRequestSchema = Type.Object({
  domain: DomainSchema,
  reason: Type.Optional(
    Type.Enum(Object.keys(REVOCATION_REASONS) as RevocationReason[], {
      description: 'As RFC 5280 section 5.3.1 names them; `unspecified` unless said.',
    }),
  ),
})

export const DomainParamsSchema = Type.Object({ domain: DomainSchema })

const known = {
  domain: Type.String({ description: 'The name that was asked for.' }),
  names: Type.Array(Type.String(), { description: 'Every name of the certificate.' }),
  issuer: Type.String({ description: 'Who signed it: `ca` is the embedded CA.' }),
  serialNumber: Type.String({ description: 'Hexadecimal.' }),
  fingerprint256: Type.String({ description: 'SHA-256 of the certificate, hexadecimal.' }),
  notBefore: TimeSchema('Start of validity.'),
  notAfter: TimeSchema('End of validity.'),
  renewAt: Type.Optional(TimeSchema('When it is renewed; absent: it no longer is.')),
  renewalExplanationUrl: Type.Optional(
    Type.String({
      description: 'Page of the CA that says why it would have it renewed then; absent: none.',
      examples: ['https://ca.example/incidents/7'],
    }),
  ),
}

/** A certificate that is held, without its key. */
export const HeldSchema = Type.Object(known)

/** A certificate as it is handed out. */
export const CertificateSchema = Type.Object({
  ...known,
  certificate: Type.String({ description: 'PEM chain, leaf first.' }),
  privateKey: Type.Optional(
    Type.String({ description: 'PKCS#8 in PEM; absent where the caller holds the key.' }),
  ),
  issuerCert: Type.Optional(Type.String({ description: 'Certificate of the issuer in PEM.' })),
  ignored: Type.Optional(
    Type.Array(Type.String(), {
      description:
        'What the `csr` of this request asks for and the certificate does not have, such as `clientAuth`, `CA:TRUE`, `mustStaple` or `O`; absent if there is nothing.',
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

/** An order: a certificate that takes longer than the caller was made to wait. */
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
  serialNumbers: Type.Array(Type.String(), { description: 'What is revoked now, hexadecimal.' }),
  unknownAtCa: Type.Optional(
    Type.Array(Type.String(), {
      description:
        'Those of them that their CA does not know (any more): revoked here only. Absent where there are none.',
    }),
  ),
})

/** Query of `GET /api/certificates`. */
export const PageQuerySchema = Type.Object({
  after: Type.Optional(
    Type.String({ pattern: '^[0-9]{1,15}$', description: '`next` of the page before.' }),
  ),
  limit: Type.Optional(
    Type.String({ pattern: '^([1-9]|[1-9][0-9]|100)$', description: '1 to 100; default 100.' }),
  ),
})

/** Answer of `GET /api/certificates`. */
export const PageSchema = Type.Object({
  certificates: Type.Array(
    Type.Object({
      ...known,
      keyType: Type.Enum([...KEY_TYPES]),
      lastFailure: Type.Optional(FailureSchema),
    }),
  ),
  next: Type.Optional(Type.String({ description: 'Give it as `after` to get the next page.' })),
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

/** Query of `GET /api/proxy/caddy`: what Caddy tells of a handshake. */
export const CaddyQuerySchema = Type.Object({
  server_name: ofHandshake('The name that the client asked for.'),
  signature_schemes: ofHandshake('Not used.'),
  cipher_suites: ofHandshake('Not used.'),
  local_ip: ofHandshake('Not used.'),
})

import type { OrderRecord } from '@gatehouse/cert-store/port'
import { MAX_NAMES } from '@gatehouse/issuance/request'
import { toTime } from '@gatehouse/issuance/times'
import { KEY_TYPES, PROFILES } from '@gatehouse/pki'
import { optional } from '@gatehouse/service-kit/config'
import { ProblemSchema } from '@gatehouse/service-kit/http'
import type { FastifySchema } from 'fastify'
import { type Static, type TSchema, Type } from 'typebox'
import { actionFor } from './errors.ts'

export const TextSchema = (description: string) => Type.String({ description })
export const TimeSchema = (description: string) => Type.String({ format: 'date-time', description })

/** Media type of a certificate and its key in one file. */
export const PEM = 'application/x-pem-file'

export const SECURITY_SCHEMES = {
  apiKey: { type: 'http', scheme: 'APIKey', description: '`Authorization: APIKey <key>`.' },
  accessToken: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: 'An access token of a configured issuer.',
  },
  clientCertificate: {
    type: 'mutualTLS',
    description: 'A certificate of a caller in `auth.mtls`; no `Authorization`.',
  },
} as const

const PROBLEMS = {
  401: 'No valid API key, token or client certificate.',
  403: 'The caller may not do this to one of the names.',
  404: 'Not found, or the caller may not know about it.',
  409: 'The issuer is not configured any more.',
  422: 'Refused permanently: `code` and `detail` say why.',
  429: 'Not due yet, or a limit of the CA or of the caller is used up; `Retry-After` says when.',
  503: 'Not possible now; `code` and `detail` say why, `Retry-After` when to try again.',
} as const
type ProblemStatus = keyof typeof PROBLEMS

const IssueProblemSchema = Type.Object(
  {
    ...ProblemSchema.properties,
    ...optional({
      limit: TextSchema('The exhausted limit of the caller, by its key in the configuration.'),
      orderUrl: Type.String({
        format: 'uri-reference',
        description: 'The order that failed, relative to this server, as in `Location`.',
      }),
    }),
  },
  { description: 'A problem (RFC 9457) of an order.' },
)

/** The error answers of a route; those that every route has come from the OpenAPI plugin. */
export function problemAnswers(...statuses: readonly ProblemStatus[]) {
  // Errors from 422 on may be about an order that failed.
  const schemaOf = (status: number) => (status >= 422 ? IssueProblemSchema : ProblemSchema)
  return Object.fromEntries(
    statuses.map((status) => [
      status,
      {
        description: PROBLEMS[status],
        content: { 'application/problem+json': { schema: schemaOf(status) } },
      },
    ]),
  )
}

/** The schema of an operation that asks for a key or token, and has these error answers besides. */
export function guarded<const Schema extends FastifySchema>(
  operationId: string,
  problems: readonly ProblemStatus[],
  schema: Schema,
) {
  const response = { ...(schema.response as object), ...problemAnswers(401, ...problems, 503) }
  return {
    operationId,
    tags: ['certificates'],
    // Either scheme will do.
    security: [{ apiKey: [] }, { accessToken: [] }, { clientCertificate: [] }],
    ...schema,
    response: response as Schema['response'],
  }
}

/** The ID of an order or an account. PostgreSQL refuses texts with NUL in them. */
export const IdSchema = Type.String({ maxLength: 64, pattern: '^[\\w-]+$' })

/** The length of a name: that of the longest SPIFFE ID. */
export const NAME = { minLength: 1, maxLength: 2_048 }

/** A body or path that names a certificate. */
export const DomainSchema = Type.Object({
  domain: Type.String({
    ...NAME,
    description:
      'DNS name, wildcard (`*.example.com`) or IP address; of a client DNS name, e-mail address or SPIFFE ID.',
    examples: ['app.example.com'],
  }),
})

export const ProfileSchema = Type.Partial(
  Type.Object({
    profile: Type.Enum([...PROFILES], {
      description: 'Certificates of TLS servers, or of TLS clients. Default: `server`.',
    }),
  }),
)

export const TargetSchema = Type.Object({
  ...DomainSchema.properties,
  ...ProfileSchema.properties,
})

export const CertificateRequestSchema = Type.Object({
  ...TargetSchema.properties,
  ...optional({
    names: Type.Array(Type.String(NAME), {
      maxItems: MAX_NAMES - 1,
      description: 'Further names of the certificate.',
    }),
    csr: Type.String({
      minLength: 1,
      description: 'PKCS#10 request in PEM: the key stays with the caller.',
    }),
    keyType: Type.Enum([...KEY_TYPES], { description: 'Type of the key; default `p256`.' }),
    lifetime: Type.String({
      pattern: '^[1-9][0-9]{0,5}[smhd]$',
      description:
        'The longest that it may live, such as `6d`, for a certificate of the embedded CA. One that is held and ' +
        'lives longer is replaced. Default: as the configuration says.',
    }),
  }),
})

export const HeldSchema = Type.Object({
  domain: TextSchema('The requested name.'),
  names: Type.Array(Type.String(), { description: 'All names of the certificate.' }),
  issuer: TextSchema('The issuer that signed it; `ca` is the embedded CA.'),
  serialNumber: TextSchema('Hexadecimal.'),
  fingerprint256: TextSchema('SHA-256 of the certificate, hexadecimal.'),
  notBefore: TimeSchema('Start of validity.'),
  notAfter: TimeSchema('End of validity.'),
  ...optional({
    renewAt: TimeSchema('When it is renewed; absent if it is no longer renewed.'),
    renewalExplanationUrl: Type.String({
      description: 'Page on which the CA explains the time of the renewal, if any.',
      examples: ['https://ca.example/incidents/7'],
    }),
  }),
})

const CertificateSchema = Type.Object({
  ...HeldSchema.properties,
  certificate: TextSchema('PEM chain, leaf first.'),
  ...optional({
    privateKey: TextSchema(
      'PKCS#8 in PEM; absent if the caller keeps the key, or may not have it.',
    ),
    issuerCert: TextSchema('Certificate of the issuer in PEM.'),
    ignored: Type.Array(Type.String(), {
      description:
        'What the `csr` of this request asks for but the certificate does not contain, such as ' +
        '`clientAuth`, `CA:TRUE`, `mustStaple` or `O`; absent if nothing is missing.',
      examples: [['clientAuth']],
    }),
  }),
  cached: Type.Boolean({ description: 'Whether it was stored before this request.' }),
})

export const PemBundleSchema = TextSchema(
  'The chain, leaf first, then the private key if this service has it and the caller may have it.',
)

/** The answer of a route that delivers a certificate, or in JSON something else as well. */
export function certificateAnswer(...schemas: readonly TSchema[]): object {
  const schema =
    schemas.length > 0 ? Type.Union([CertificateSchema, ...schemas]) : CertificateSchema
  return {
    description: 'A certificate that is valid now.',
    content: { 'application/json': { schema }, [PEM]: { schema: PemBundleSchema } },
  }
}

export const emptyAnswer = (description: string) => ({ type: 'null', description })

export const FailureSchema = Type.Object({
  code: TextSchema('Stable code of the error.'),
  detail: TextSchema('What went wrong, in plain words.'),
  failedAt: TimeSchema('When it failed.'),
  action: Type.Optional(TextSchema('What to do about it.')),
})

/** An order: a certificate that takes longer than the caller waits. */
export const OrderSchema = Type.Object(
  {
    id: Type.String(),
    status: Type.Enum(['pending', 'failed', 'done']),
    step: TextSchema('What it is doing, or was doing when it failed.'),
    since: TimeSchema('When it began.'),
    names: Type.Array(Type.String()),
    issuer: TextSchema('The issuer that has to sign.'),
    lastError: Type.Optional(FailureSchema),
    nextTryAt: Type.Optional(TimeSchema('When a failed order may be tried again.')),
  },
  { description: 'Once it is `done`, POST /api/certificate answers with the certificate.' },
)

export function describeOrder(order: OrderRecord): Static<typeof OrderSchema> {
  const { id, status, step, since, names, issuer, lastError, nextTryAt } = order
  return {
    id,
    status,
    step,
    since: toTime(since),
    names: [...names],
    issuer,
    ...(lastError && { lastError: describeFailure(lastError) }),
    ...(nextTryAt !== null && { nextTryAt: toTime(nextTryAt) }),
  }
}

export function describeFailure({ code, detail, at: time }: NonNullable<OrderRecord['lastError']>) {
  const action = actionFor(code)
  return { code, detail, failedAt: toTime(time), ...(action !== undefined && { action }) }
}

export const FailingOrderSchema = Type.Object({
  ...OrderSchema.properties,
  notAfter: Type.Optional(
    TimeSchema('End of the certificate that is to be replaced; absent if there is none.'),
  ),
})

const ProofSchema = Type.Object({
  name: Type.String(),
  challenge: Type.Enum(['dns-01', 'http-01', 'tls-alpn-01']),
  status: Type.Enum(['ready', 'failed', 'unchecked'], {
    description:
      '`ready`: DNS says where the record goes, and the provider accepts the credentials if ' +
      'that can be checked without a change. `unchecked`: only the CA can check it.',
  }),
  detail: TextSchema('What was found, in plain words.'),
  code: Type.Optional(TextSchema('Stable code of the error.')),
})

const BudgetSchema = Type.Object({
  limit: Type.Enum(['orders', 'domain', 'names', 'failures', 'failuresInARow', 'accounts']),
  subject: TextSchema('What it is counted for.'),
  left: Type.Integer(),
  count: Type.Integer({ description: 'How many the limit allows.' }),
  per: TextSchema('The time after which all of them are available again.'),
  freeAt: Type.Optional(TimeSchema('When the next one is available again, if none is left.')),
})

export const DryRunSchema = Type.Object(
  {
    domain: Type.String(),
    names: Type.Array(Type.String()),
    issuer: TextSchema('The issuer that would sign it.'),
    ...optional({
      accountUrl: TextSchema(
        'The account at the CA, for `accounturi` in CAA records; absent until it is registered.',
      ),
      held: HeldSchema,
      order: OrderSchema,
    }),
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
      'What a request would do. A request that would be refused at once is refused here as well.',
  },
)
export type DryRun = Static<typeof DryRunSchema>

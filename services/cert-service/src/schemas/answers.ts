import { ProblemSchema } from '@gatehouse/service-kit'
import { Type } from 'typebox'
import { CertificateSchema, DryRunSchema, OrderSchema, PemBundleSchema } from './certificate.ts'

/** Media type of a certificate and its key in one file. */
export const PEM = 'application/x-pem-file'

const PROBLEMS = {
  400: 'The request is malformed; `errors` points to the members at fault.',
  401: 'No valid API key or token.',
  403: 'The caller may not do this to one of the names.',
  404: 'Not found, or the caller may not know of it.',
  409: 'The issuer is not configured any more.',
  413: 'The body is larger than 64 kB.',
  415: 'The body is not JSON.',
  422: 'Refused permanently: `code` and `detail` say why.',
  429: 'Not due yet, or a limit of the CA or of the caller is used up; `Retry-After` says when.',
  503: 'Not possible now; `code` and `detail` say why, `Retry-After` when to try again.',
} as const

/** A problem of issuing has further members. */
const IssueProblemSchema = Type.Object(
  {
    ...ProblemSchema.properties,
    limit: Type.Optional(
      Type.String({
        description: 'The limit of the caller that is used up, by its key in the configuration.',
      }),
    ),
    orderUrl: Type.Optional(
      Type.String({
        format: 'uri-reference',
        description: 'The order that failed, relative to this server, as in `Location`.',
      }),
    ),
  },
  { description: 'A problem (RFC 9457) of an order.' },
)

/** The statuses of orders that failed. */
const ABOUT_ORDERS: readonly number[] = [422, 429, 503]

/** How callers authenticate. */
export const SECURITY_SCHEMES = {
  apiKey: { type: 'http', scheme: 'APIKey', description: '`Authorization: APIKey <key>`.' },
  accessToken: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: 'An access token of a configured issuer.',
  },
} as const

/** The `security` of a guarded route: either scheme will do. */
export const GUARDED = [{ apiKey: [] }, { accessToken: [] }]

/** The error answers of a route. */
export function problemAnswers(...statuses: readonly (keyof typeof PROBLEMS)[]) {
  return Object.fromEntries(
    statuses.map((status) => [
      status,
      {
        description: PROBLEMS[status],
        content: {
          'application/problem+json': {
            schema: ABOUT_ORDERS.includes(status) ? IssueProblemSchema : ProblemSchema,
          },
        },
      },
    ]),
  )
}

/** The answers of `POST /api/certificate`. */
export function issueAnswers() {
  const { 200: certificate, ...order } = certificateAnswers(202)
  const schema = Type.Union([CertificateSchema, DryRunSchema])
  const content = { ...certificate.content, 'application/json': { schema } }
  return { 200: { ...certificate, content }, ...order }
}

/** The answers of a route that delivers a certificate. */
export function certificateAnswers(other: 202 | 304) {
  const certificate = {
    description: 'A certificate that is valid now.',
    content: {
      'application/json': { schema: CertificateSchema },
      [PEM]: { schema: PemBundleSchema },
    },
  }
  if (other === 202) return { 200: certificate, 202: OrderSchema }
  return { 200: certificate, 304: { type: 'null', description: 'The caller has it already.' } }
}

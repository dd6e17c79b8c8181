import { ProblemSchema } from '@gatehouse/service-kit'
import { Type } from 'typebox'
import { CertificateSchema, OrderSchema, PemBundleSchema } from '../schemas/certificate.ts'
import { DryRunSchema } from '../schemas/dry-run.ts'

const PROBLEMS = {
  400: 'The request is malformed; `errors` points to the members at fault.',
  401: 'No valid API key or token.',
  403: 'The caller may not do this to one of the names.',
  404: 'There is no such thing, or the caller may not know of it.',
  409: 'Its issuer is not configured any more.',
  413: 'The body is larger than 64 kB.',
  415: 'The body is not JSON.',
  422: 'Refused for good: `code` and `detail` say why.',
  429: 'Not due yet, or a limit of the CA or of the caller is used up; `Retry-After` says when.',
  503: 'Not possible now; `code` and `detail` say why, `Retry-After` when to try again.',
} as const

/** A problem of issuing: where more is told of what failed. */
const IssueProblemSchema = Type.Object(
  {
    ...ProblemSchema.properties,
    limit: Type.Optional(
      Type.String({ description: 'Limit of the caller that is used up, as in the configuration.' }),
    ),
    orderUrl: Type.Optional(
      Type.String({
        format: 'uri-reference',
        description: 'Order that failed, relative to this server, as in `Location`.',
      }),
    ),
  },
  { description: 'A problem (RFC 9457) of an order.' },
)

/** The statuses that tell of an order that failed. */
const ABOUT_ORDERS: readonly number[] = [422, 429, 503]

/** How callers say who they are. */
export const SECURITY_SCHEMES = {
  apiKey: { type: 'http', scheme: 'APIKey', description: '`Authorization: APIKey <key>`.' },
  accessToken: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: 'An access token of a configured issuer.',
  },
} as const

/** Of a guarded route, for its documentation: either will do. */
export const GUARDED = [{ apiKey: [] }, { accessToken: [] }]

/** The error answers of a route, for its documentation. */
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

/** What `POST /api/certificate` answers, for its documentation. */
export function issueAnswers() {
  const { 200: certificate, ...order } = certificateAnswers(202)
  const schema = Type.Union([CertificateSchema, DryRunSchema])
  const content = { ...certificate.content, 'application/json': { schema } }
  return { 200: { ...certificate, content }, ...order }
}

/** The answers of a route that hands out a certificate, for its documentation. */
export function certificateAnswers(other: 202 | 304) {
  const certificate = {
    description: 'A certificate that is valid now.',
    content: {
      'application/json': { schema: CertificateSchema },
      'application/x-pem-file': { schema: PemBundleSchema },
    },
  }
  if (other === 202) return { 200: certificate, 202: OrderSchema }
  return { 200: certificate, 304: { type: 'null', description: 'The caller has it already.' } }
}

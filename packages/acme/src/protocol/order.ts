import { Type } from 'typebox'
import type { AcmeError } from '../errors.ts'
import { type Identifier, IdentifierSchema } from '../identifier.ts'
import { type Answer, locationOf, readJson, readUrl, refuse } from './answer.ts'
import type { Call } from './call.ts'
import { toError } from './problem.ts'

/** An order as it stands at the CA (RFC 8555 section 7.1.3). */
export interface Order {
  readonly url: string
  readonly status: 'pending' | 'ready' | 'processing' | 'valid' | 'invalid'
  readonly identifiers: readonly Identifier[]
  readonly authorizations: readonly URL[]
  readonly finalize: URL
  /** Set when the status is `valid`. */
  readonly certificate?: URL
  readonly error?: AcmeError
  readonly retryAfterMs?: number | undefined
}

export interface OrderRequest {
  readonly identifiers: readonly Identifier[]
  /** One of those in the directory's meta. */
  readonly profile?: string
  /** ARI identifier of the certificate that this one takes the place of (RFC 9773 section 5). */
  readonly replaces?: string
}

/** Places an order, or finds the one that is open for the same names (RFC 8555 section 7.4). */
export function newOrder({ identifiers, profile, replaces }: OrderRequest): Call<Order> {
  return {
    to: 'newOrder',
    isDecision: true,
    payload: () => ({
      identifiers,
      ...(profile !== undefined && { profile }),
      ...(replaces !== undefined && { replaces }),
    }),
    process: (answer) => toOrder(answer, locationOf(answer).href),
  }
}

export function readOrder(url: string): Call<Order> {
  return { to: new URL(url), process: (answer) => toOrder(answer, url) }
}

/** Hands in the certificate request, DER; the order must be `ready`. */
export function finalizeOrder({ url, finalize }: Order, csr: Uint8Array): Call<Order> {
  return {
    to: finalize,
    isDecision: true,
    payload: () => ({ csr: Buffer.from(csr).toString('base64url') }),
    process: (answer) => toOrder(answer, url),
  }
}

const MAX_NAMES = 100

const OrderSchema = Type.Object({
  status: Type.Union([
    Type.Literal('pending'),
    Type.Literal('ready'),
    Type.Literal('processing'),
    Type.Literal('valid'),
    Type.Literal('invalid'),
  ]),
  identifiers: Type.Array(IdentifierSchema, { maxItems: MAX_NAMES }),
  authorizations: Type.Array(Type.String(), { maxItems: MAX_NAMES }),
  finalize: Type.String(),
  certificate: Type.Optional(Type.String()),
  error: Type.Optional(Type.Unknown()),
})

function toOrder(answer: Answer, url: string): Order {
  const { status, identifiers, authorizations, finalize, certificate, error } = readJson(
    answer,
    OrderSchema,
    'an order',
  )
  if (status === 'valid' && !certificate) throw refuse(answer, 'answered without the certificate')
  return {
    url,
    status,
    identifiers,
    authorizations: authorizations.map((url) => readUrl(url, answer)),
    finalize: readUrl(finalize, answer),
    ...(certificate && { certificate: readUrl(certificate, answer) }),
    ...(error !== undefined && { error: toError(error) }),
    retryAfterMs: answer.retryAfterMs,
  }
}

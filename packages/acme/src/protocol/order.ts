import { Type } from 'typebox'
import { Check } from 'typebox/schema'
import { type Identifier, IdentifierSchema } from '../identifier.ts'
import { toError } from './problem.ts'
import {
  type AcmeRequest,
  type AcmeResponse,
  locationOf,
  readJson,
  readUrl,
  refuse,
} from './request.ts'

const MAX_NAMES = 100

const OrderSchema = Type.Object({
  status: Type.Enum(['pending', 'ready', 'processing', 'valid', 'invalid']),
  identifiers: Type.Array(IdentifierSchema, { maxItems: MAX_NAMES }),
  authorizations: Type.Array(Type.String(), { maxItems: MAX_NAMES }),
  finalize: Type.String(),
  certificate: Type.Optional(Type.String()),
  error: Type.Optional(Type.Unknown()),
})

/** An order object (RFC 8555 section 7.1.3), with URLs and errors that are parsed. */
export type AcmeOrder = ReturnType<typeof toOrder>

interface OrderRequest {
  readonly identifiers: readonly Identifier[]
  readonly profile?: string
  readonly replaces?: string
}

/** Places an order; the CA may give an open one for the same names (RFC 8555 section 7.4). */
export function newOrder({ identifiers, profile, replaces }: OrderRequest): AcmeRequest<AcmeOrder> {
  return {
    to: 'newOrder',
    isDecision: true,
    payload: () => ({
      identifiers,
      ...(profile !== undefined && { profile }),
      ...(replaces !== undefined && { replaces }),
    }),
    process: (response) => toOrder(response, locationOf(response).href),
  }
}

export function readOrder(url: string): AcmeRequest<AcmeOrder> {
  return { to: new URL(url), process: (response) => toOrder(response, url) }
}

/** Submits the CSR, DER; the order must be `ready` (RFC 8555 section 7.4). */
export function finalizeOrder(
  { url, finalize }: AcmeOrder,
  csr: Uint8Array,
): AcmeRequest<AcmeOrder> {
  return {
    to: finalize,
    isDecision: true,
    payload: () => ({ csr: Buffer.from(csr).toString('base64url') }),
    process: (response) => toOrder(response, url),
  }
}

function toOrder(response: AcmeResponse, url: string) {
  const order = readJson(response, OrderSchema, 'an order')
  const { certificate } = order
  if (order.status === 'valid' && !certificate)
    throw refuse(response, 'answered without the certificate')
  return {
    ...order,
    url,
    authorizations: order.authorizations.map((url) => readUrl(url, response)),
    finalize: readUrl(order.finalize, response),
    certificate: certificate ? readUrl(certificate, response) : undefined,
    error: errorIn(order),
    retryAfterMs: response.retryAfterMs,
  }
}

const errorIn = ({ error }: { readonly error?: unknown }) =>
  error === undefined ? undefined : toError(error)

/** An authorization object (RFC 8555 section 7.1.4); the identifier is without `*.`. */
export type AcmeAuthorization = ReturnType<typeof toAuthorization>

export function readAuthorization(url: URL): AcmeRequest<AcmeAuthorization> {
  return { to: url, process: toAuthorization }
}

/** Asks the CA to validate (RFC 8555 section 7.5.1). */
export function answerChallenge(url: URL): AcmeRequest<void> {
  return { to: url, payload: () => ({}), process: () => {} }
}

const AuthorizationSchema = Type.Object({
  status: Type.String({ pattern: '^[a-z]{1,20}$' }),
  identifier: IdentifierSchema,
  wildcard: Type.Optional(Type.Boolean()),
  challenges: Type.Array(Type.Unknown(), { maxItems: 20 }),
})

// A token becomes part of a path, a record and an argument, so it must be base64url.
const ChallengeSchema = Type.Object({
  type: Type.String({ pattern: '^[a-z0-9-]{1,50}$' }),
  url: Type.String(),
  status: Type.String(),
  token: Type.String({ pattern: '^[A-Za-z0-9_-]{1,256}$' }),
  error: Type.Optional(Type.Unknown()),
})

function toAuthorization(response: AcmeResponse) {
  const authorization = readJson(response, AuthorizationSchema, 'an authorization')
  const { status, identifier, wildcard = false } = authorization
  // Skips challenges without a token, which no solver supports.
  const supported = authorization.challenges.filter((entry) => Check(ChallengeSchema, entry))
  const challenges = supported.map((challenge) => ({
    ...challenge,
    url: readUrl(challenge.url, response),
    error: errorIn(challenge),
  }))
  return { status, identifier, wildcard, challenges, retryAfterMs: response.retryAfterMs }
}

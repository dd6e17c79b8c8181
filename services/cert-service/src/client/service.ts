import { toTime } from '@gatehouse/issuance/times'
import { type BoundedFetch, type FetchAnswer, type FetchInit, NetError } from '@gatehouse/net'
import { type Static, type TSchema, Type } from 'typebox'
import { Check } from 'typebox/schema'
import { timeOf } from './certificate.ts'
import { type Credentials, parseJson } from './credentials.ts'
import { ClientError, printable } from './errors.ts'

/** The service may wait for a CA before it answers: 20 s unless it is configured otherwise, at most 5 minutes. */
const ISSUING_MS = 330_000
const TIMEOUT_MS = 30_000
const MAX_PAGES = 10_000
/** Everything but redirects, which are refused. */
const STATUSES = [...range(200, 300), 304, ...range(400, 600)]
const TRANSIENT = [408, 425, 429, 500, 502, 503, 504]

const Failure = Type.Object({
  code: Type.String(),
  detail: Type.String(),
  action: Type.Optional(Type.String()),
})
const Described = {
  domain: Type.String(),
  names: Type.Array(Type.String()),
  issuer: Type.String(),
  serialNumber: Type.String(),
  fingerprint256: Type.String(),
  notBefore: Type.String(),
  notAfter: Type.String(),
  renewAt: Type.Optional(Type.String()),
}
const Issued = Type.Object({
  certificate: Type.String({ minLength: 1 }),
  privateKey: Type.Optional(Type.String({ minLength: 1 })),
  renewAt: Type.Optional(Type.String()),
})
const Shown = Type.Object({
  ...Described,
  certificate: Type.String(),
  privateKey: Type.Optional(Type.String()),
})
const Listed = Type.Object({
  ...Described,
  keyType: Type.String(),
  lastFailure: Type.Optional(Failure),
})
const Page = Type.Object({ certificates: Type.Array(Listed), next: Type.Optional(Type.String()) })
const Order = Type.Object({
  id: Type.String({ pattern: '^[A-Za-z0-9-]{1,64}$' }),
  status: Type.Enum(['pending', 'failed', 'done']),
  step: Type.String(),
  since: Type.String(),
  names: Type.Array(Type.String()),
  lastError: Type.Optional(Failure),
  nextTryAt: Type.Optional(Type.String()),
})
const FailingOrder = Type.Object({
  ...Order.properties,
  issuer: Type.String(),
  notAfter: Type.Optional(Type.String()),
})
const FailingPage = Type.Object({
  orders: Type.Array(FailingOrder),
  next: Type.Optional(Type.String()),
})
const Revoked = Type.Object({
  serialNumbers: Type.Array(Type.String()),
  unknownAtCa: Type.Optional(Type.Array(Type.String())),
  unconfirmed: Type.Optional(Type.Array(Type.String())),
})
const Deleted = Type.Object({ unconfirmed: Type.Optional(Type.Array(Type.String())) })
const Problem = Type.Object({
  code: Type.String({ pattern: '^[A-Z][A-Z0-9_]{1,63}$' }),
  title: Type.Optional(Type.String()),
  detail: Type.Optional(Type.String()),
  action: Type.Optional(Type.String()),
})

export type IssuedAnswer = Static<typeof Issued>
type ShownCertificate = Omit<Static<typeof Shown>, 'privateKey'>
type ListedCertificate = Static<typeof Listed>
export type OrderAnswer = Static<typeof Order>
type FailingAnswer = Static<typeof FailingOrder>

/** A certificate, or the order for it and after how many milliseconds to ask for that. */
export type Outcome =
  | { readonly issued: IssuedAnswer; readonly order?: undefined }
  | {
      readonly issued?: undefined
      readonly order: OrderAnswer
      readonly retryAfterMs?: number | undefined
    }

/** What to issue, as `POST /api/certificate` takes it. */
export interface IssueBody {
  readonly domain: string
  readonly names?: readonly string[]
  readonly keyType?: string | undefined
  readonly csr?: string
}

export type CertService = ReturnType<typeof connect>

interface ConnectOptions {
  /** Where the service is; a path is put before those of the API. */
  readonly url: URL
  readonly credentials: Credentials
  readonly fetch: BoundedFetch
  readonly now: () => number
  readonly signal?: AbortSignal | undefined
}

interface Call extends Pick<FetchInit, 'method' | 'headers' | 'timeoutMs'> {
  readonly body?: object
  /** Statuses that are no error. */
  readonly expect: readonly number[]
}

/** The API of a cert-service. Every method throws ClientError. */
export function connect(options: ConnectOptions) {
  const call = caller(options)
  const post = async (path: string, body: object): Promise<Outcome> => {
    const request = { method: 'POST', body, expect: [200, 202], timeoutMs: ISSUING_MS } as const
    const answer = await call(path, request)
    if (answer.status === 200) return { issued: read(answer, Issued) }
    return { order: read(answer, Order), retryAfterMs: retryAfterOf(answer, options.now()) }
  }
  return {
    obtain: (body: IssueBody) => post('api/certificate', body),
    renew: (domain: string) => post('api/certificate/renew', { domain }),
    /** The newest certificate of a name; undefined if there is none, `unchanged` if the tag fits. */
    async find(domain: string, tag: string): Promise<IssuedAnswer | 'unchanged' | undefined> {
      const headers = { 'if-none-match': tag }
      const answer = await call(pathOf(domain), { headers, expect: [200, 304, 404] })
      if (answer.status === 304) return 'unchanged'
      return answer.status === 404 ? undefined : read(answer, Issued)
    },
    /** Without the private key, which the service sends to callers that may have it. */
    async show(domain: string): Promise<ShownCertificate> {
      const answer = await call(pathOf(domain), { expect: [200] })
      const { privateKey: _, ...shown } = read(answer, Shown)
      return shown
    },
    async *list(): AsyncGenerator<ListedCertificate> {
      for await (const { certificates } of pages(call, 'api/certificates', Page))
        yield* certificates
    },
    /** The orders that fail, the most urgent first. */
    async *failing(about: { readonly name?: string } = {}): AsyncGenerator<FailingAnswer> {
      const query = { state: 'failing', ...about }
      for await (const { orders } of pages(call, 'api/orders', FailingPage, query)) yield* orders
    },
    async order(id: string): Promise<OrderAnswer> {
      return read(await call(`api/orders/${encodeURIComponent(id)}`, { expect: [200] }), Order)
    },
    async revoke(domain: string, reason: string | undefined): Promise<Static<typeof Revoked>> {
      const body = { domain, ...(reason !== undefined && { reason }) }
      return read(
        await call('api/certificate/revoke', { method: 'POST', body, expect: [200] }),
        Revoked,
      )
    },
    async remove(domain: string): Promise<Static<typeof Deleted>> {
      const answer = await call(pathOf(domain), { method: 'DELETE', expect: [200, 204] })
      return answer.status === 204 ? {} : read(answer, Deleted)
    },
  }
}

/** All pages of a listing. */
async function* pages<S extends TSchema>(
  call: ReturnType<typeof caller>,
  path: string,
  schema: S,
  about: Readonly<Record<string, string>> = {},
): AsyncGenerator<Static<S>> {
  for (let page = 0, query = about; page < MAX_PAGES; page += 1) {
    const found = read(
      await call(`${path}?${new URLSearchParams(query)}`, { expect: [200] }),
      schema,
    )
    yield found
    const { next } = found as { readonly next?: string }
    if (next === undefined || next === query.after) return
    query = { ...about, after: next }
  }
}

function pathOf(domain: string): string {
  return `api/certificate/${encodeURIComponent(domain)}`
}

function caller({ url, credentials, fetch, now, signal }: ConnectOptions) {
  const base = url.href.endsWith('/') ? url.href : `${url.href}/`
  const ask = async (
    path: string,
    { method = 'GET', headers, body, timeoutMs = TIMEOUT_MS }: Call,
  ): Promise<FetchAnswer> => {
    const init = {
      method,
      headers: {
        accept: 'application/json',
        ...headers,
        ...(body && { 'content-type': 'application/json' }),
        authorization: await credentials.authorization(),
      },
      ...(body && { body: JSON.stringify(body) }),
      ...(signal && { signal }),
      timeoutMs,
      status: STATUSES,
    }
    try {
      return await fetch(new URL(path, base), init)
    } catch (error) {
      signal?.throwIfAborted()
      throw unreachable(error, now())
    }
  }
  return async (path: string, request: Call): Promise<FetchAnswer> => {
    let answer = await ask(path, request)
    // A token that was valid until now: the next one may be there already.
    if (answer.status === 401 && credentials.renew?.()) answer = await ask(path, request)
    if (request.expect.includes(answer.status)) return answer
    throw await refusal(answer, now())
  }
}

function read<S extends TSchema>(answer: FetchAnswer, schema: S): Static<S> {
  const value = parseJson(answer.body.toString())
  if (Check(schema, value)) return value as Static<S>
  throw new ClientError(
    'CERT_CLIENT_ANSWER_INVALID',
    `the answer with status ${answer.status} is not what cert-service sends`,
  )
}

/** The problem of the service (RFC 9457), or whatever a proxy in front of it says. */
async function refusal(answer: FetchAnswer, now: number): Promise<ClientError> {
  const { status } = answer
  const hints = {
    isTransient: TRANSIENT.includes(status),
    retryAfterMs: retryAfterOf(answer, now),
  }
  const problem = parseJson(answer.body.toString())
  if (!Check(Problem, problem))
    return new ClientError(
      'CERT_CLIENT_REFUSED',
      `the service answered with status ${status}`,
      hints,
    )
  const { code, title = '', detail = title, action } = problem as Static<typeof Problem>
  const message = printable(detail === '' ? `status ${status}` : detail)
  const advice = action ?? (await actionFor(code))
  return new ClientError(code, message, {
    ...hints,
    ...(advice !== undefined && { action: printable(advice) }),
  })
}

/** What to do about an error of the service; its tables are loaded only if there is one. */
async function actionFor(code: string): Promise<string | undefined> {
  if (!code.startsWith('AUTH_')) return (await import('../errors.ts')).actionFor(code)
  const { AUTH_ERRORS } = await import('@gatehouse/auth-core')
  return Object(AUTH_ERRORS)[code]?.action
}

/** Why an order failed, as an error. */
export function orderFailure({ id, lastError, nextTryAt }: OrderAnswer, now: number): ClientError {
  const { code = 'CERT_ISSUE_FAILED', detail = `the order ${id} failed`, action } = lastError ?? {}
  const at = timeOf(nextTryAt ?? '')
  return new ClientError(printable(code), printable(detail), {
    isTransient: at !== undefined,
    ...(at !== undefined && { retryAfterMs: Math.max(0, at - now) }),
    ...(action !== undefined && { action: printable(action) }),
  })
}

/** `Retry-After` in milliseconds: seconds, or a date (RFC 9110 section 10.2.3). */
function retryAfterOf({ headers }: Pick<FetchAnswer, 'headers'>, now: number): number | undefined {
  const text = headers['retry-after'] ?? ''
  if (/^\d{1,9}$/.test(text)) return Number(text) * 1_000
  const at = /GMT$/.test(text) ? timeOf(text) : undefined
  return at === undefined ? undefined : Math.max(0, at - now)
}

const UNTRUSTED =
  /^(CERT_|DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT|UNABLE_TO_|ERR_TLS_CERT|INVALID_CA|HOSTNAME_MISMATCH)/

/** The root is not to blame for these. */
const OUT_OF_TIME = { CERT_NOT_YET_VALID: 'is not valid yet', CERT_HAS_EXPIRED: 'has expired' }

function unreachable(error: unknown, now: number): unknown {
  if (!(error instanceof NetError)) return error
  const { message, cause } = error
  if (error.code === 'NET_FETCH_STATUS')
    return new ClientError('CERT_CLIENT_REFUSED', `${message}; redirects are not followed`, {
      cause: error,
    })
  const reason = codeOf(cause)
  const how = Object(OUT_OF_TIME)[reason]
  const action =
    how &&
    `By the clock of this machine, ${toTime(now)}, the certificate of the service ${how}. Set the clock; if it is right, look at the service.`
  if (UNTRUSTED.test(reason))
    return new ClientError('CERT_CLIENT_UNTRUSTED', message, { cause: error, action })
  return new ClientError('CERT_CLIENT_UNREACHABLE', message, { cause: error, isTransient: true })
}

/** An attempt at several addresses fails with all of their errors. */
function codeOf(cause: unknown): string {
  const { code, errors } = Object(cause) as { code?: unknown; errors?: unknown[] }
  if (typeof code === 'string') return code
  return errors?.length ? codeOf(errors[0]) : ''
}

function range(from: number, to: number): number[] {
  return Array.from({ length: to - from }, (_, i) => from + i)
}

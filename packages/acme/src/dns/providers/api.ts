// Requests to the HTTP APIs of DNS providers, and the access tokens that they need.
import {
  type BoundedFetch,
  type FetchAnswer,
  type FetchInit,
  NetError,
  parseEndpointUrl,
} from '@gatehouse/net'
import { type Static, type TSchema, Type } from 'typebox'
import { Check } from 'typebox/schema'
import type { Clock } from '../../clock.ts'
import { AcmeError } from '../../errors.ts'

const ALL_STATUSES = Array.from({ length: 400 }, (_, index) => 200 + index)
const TIMEOUT_MS = 15_000
const MAX_REASON = 200

export interface ApiRequest extends Pick<FetchInit, 'method' | 'headers' | 'body' | 'signal'> {
  /** Name of the API in error messages. */
  readonly api: string
  readonly url: URL | string
  /** Statuses that are not an error; default: 200. */
  readonly accept?: readonly number[]
  /** Reads the reason from the body of an error. */
  readonly reason?: (body: Buffer) => string | undefined
}

/**
 * Sends a request. The error has the reason that the API gave, unless it repeats our credentials.
 *
 * @throws AcmeError `ACME_DNS_CREDENTIALS` for 401 and 403, otherwise `ACME_DNS_PROVIDER`
 */
export async function call(fetch: BoundedFetch, request: ApiRequest): Promise<FetchAnswer> {
  const { api, url, accept = [200], reason, ...init } = request
  const answer = await send(fetch, api, url, init)
  if (accept.includes(answer.status)) return answer
  const code = [401, 403].includes(answer.status) ? 'ACME_DNS_CREDENTIALS' : 'ACME_DNS_PROVIDER'
  const said = safeReason(reason?.(answer.body), init.headers)
  throw new AcmeError(code, `${api} answered ${answer.status}${said && `: ${said}`}`)
}

async function send(fetch: BoundedFetch, api: string, url: URL | string, init: FetchInit) {
  try {
    return await fetch(url, { ...init, status: ALL_STATUSES, timeoutMs: TIMEOUT_MS })
  } catch (cause) {
    init.signal?.throwIfAborted()
    const why = cause instanceof NetError ? cause.message : 'the request failed'
    throw new AcmeError('ACME_DNS_PROVIDER', `${api} cannot be asked: ${why}`, { cause })
  }
}

function safeReason(reason = '', headers: Record<string, string> = {}): string {
  const text = reason.replace(/[^ -~]+/g, ' ')
  const secrets = (headers.authorization ?? '').split(/[\s,]+/).filter(({ length }) => length > 7)
  return secrets.some((secret) => text.includes(secret)) ? '' : text.slice(0, MAX_REASON)
}

/** Like {@link call}, for a JSON answer that matches the schema. */
export async function callJson<S extends TSchema>(
  fetch: BoundedFetch,
  schema: S,
  { headers, ...request }: ApiRequest,
): Promise<Static<S>> {
  const { body } = await call(fetch, {
    ...request,
    headers: { accept: 'application/json', ...headers },
  })
  return readAs(request.api, schema, parseJson(body))
}

/** @throws AcmeError `ACME_DNS_PROVIDER` */
export function readAs<S extends TSchema>(api: string, schema: S, value: unknown): Static<S> {
  if (Check(schema, value)) return value as Static<S>
  throw new AcmeError('ACME_DNS_PROVIDER', `${api} did not answer as documented`)
}

/** The reason in an error that matches the schema. */
export function readReason<S extends TSchema>(
  answer: unknown,
  schema: S,
  reasonOf: (error: Static<S>) => string,
): string | undefined {
  return Check(schema, answer) ? reasonOf(answer as Static<S>) : undefined
}

export function parseJson(body: Buffer | string): unknown {
  try {
    return JSON.parse(body.toString())
  } catch {
    return undefined
  }
}

/** The URL of an API with a path appended. */
export function endpointUrl(endpoint: string, path: string): URL {
  const base = parseEndpointUrl(endpoint).href.replace(/\/$/, '')
  return new URL(base + path)
}

/** The answer of an OAuth 2 token endpoint or a metadata service; the lifetime is in seconds. */
export const TokenSchema = Type.Object({
  access_token: Type.String({ minLength: 1 }),
  expires_in: Type.Union([Type.Number(), Type.String({ pattern: '^\\d{1,9}$' })]),
})
export type Token = Static<typeof TokenSchema>

const MARGIN_MS = 60_000

/** Reuses an access token until a minute before it expires. */
export function cacheToken(
  request: (signal: AbortSignal) => Promise<Token>,
  clock: Clock,
): (signal: AbortSignal) => Promise<string> {
  let cached = { token: '', until: 0 }
  return async (signal) => {
    if (clock.now() >= cached.until) {
      const { access_token: token, expires_in: seconds } = await request(signal)
      cached = { token, until: clock.now() + Number(seconds) * 1_000 - MARGIN_MS }
    }
    return cached.token
  }
}

const OauthErrorSchema = Type.Object({ error: Type.String({ pattern: '^[a-z_]{1,50}$' }) })

/** The `error` code alone, because a description may quote the request. */
export const oauthError = (body: Buffer): string | undefined =>
  readReason(parseJson(body), OauthErrorSchema, ({ error }) => error)

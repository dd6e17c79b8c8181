// Requests to the HTTP APIs of DNS providers, and the access tokens that they need.
import {
  type BoundedFetch,
  type FetchAnswer,
  type FetchInit,
  NetError,
  parseEndpointUrl,
  parseJson,
} from '@gatehouse/net'
import { type Static, type TSchema, Type } from 'typebox'
import { Check } from 'typebox/schema'
import { AcmeError } from '../../errors.ts'
import type { DnsProviderDeps } from './provider.ts'

const ALL_STATUSES = Array.from({ length: 400 }, (_, index) => 200 + index)
const TIMEOUT_MS = 15_000
const MAX_REASON = 200

type Headers = Record<string, string>
export type Outgoing = Required<Pick<FetchInit, 'method' | 'headers' | 'signal'>> & {
  body?: string
}

interface ApiOptions {
  /** The name of the API in error messages. */
  readonly name: string
  /** The URL of the API. A text must be https. */
  readonly endpoint: string | URL
  readonly fetch: BoundedFetch
  /** Gives the headers that prove who sends the request. */
  readonly authorize?: (url: URL, request: Outgoing) => Promise<Headers> | Headers
  /** Default: JSON. */
  readonly parse?: (body: Buffer) => Promise<unknown>
  /** Reads the reason from an error that the API answers. */
  readonly reason?: (answer: unknown) => string
}

interface ApiRequest {
  readonly signal: AbortSignal
  readonly content?: { readonly type: string; readonly body: string }
  /** Default: POST with content, otherwise GET. */
  readonly method?: NonNullable<FetchInit['method']>
  readonly headers?: Headers
  /** Statuses that are not an error; default: 200. */
  readonly accept?: readonly number[]
}

export const json = (value: unknown) => ({ type: 'application/json', body: JSON.stringify(value) })

export const form = (fields: Record<string, string>) => ({
  type: 'application/x-www-form-urlencoded',
  body: new URLSearchParams(fields).toString(),
})

export type Api = ReturnType<typeof createApi>

/** Makes a client of an API. */
export function createApi({ name, endpoint, fetch, authorize, parse, reason }: ApiOptions) {
  const parsed = async ({ body }: FetchAnswer): Promise<unknown> => (parse ?? parseJson)(body)

  /** Sends a request. The error has the reason that the API gave, unless it repeats our credentials. */
  async function send(path: string, request: ApiRequest): Promise<FetchAnswer> {
    const { content, signal, accept = [200] } = request
    const url = endpointUrl(endpoint, path)
    const headers = {
      ...(!parse && { accept: 'application/json' }),
      ...(content && { 'content-type': content.type }),
      ...request.headers,
    }
    const method = request.method ?? (content ? 'POST' : 'GET')
    const unsigned = { method, headers, signal, ...(content && { body: content.body }) }
    Object.assign(headers, await authorize?.(url, unsigned))
    const answer = await fetched(url, unsigned)
    if (accept.includes(answer.status)) return answer
    const code = [401, 403].includes(answer.status) ? 'ACME_DNS_CREDENTIALS' : 'ACME_DNS_PROVIDER'
    const detail = safeReason(reason?.(await parsed(answer)), headers)
    throw new AcmeError(code, `${name} answered ${answer.status}${detail && `: ${detail}`}`)
  }

  async function fetched(url: URL, request: Outgoing): Promise<FetchAnswer> {
    try {
      return await fetch(url, { ...request, status: ALL_STATUSES, timeoutMs: TIMEOUT_MS })
    } catch (cause) {
      request.signal.throwIfAborted()
      const why = cause instanceof NetError ? cause.message : 'the request failed'
      throw new AcmeError('ACME_DNS_PROVIDER', `${name} cannot be asked: ${why}`, { cause })
    }
  }

  /** Sends a request, for an answer that matches the schema. */
  async function read<S extends TSchema>(schema: S, path: string, request: ApiRequest) {
    return readAs(name, schema, await parsed(await send(path, request)))
  }

  /** Like `read`; `undefined` if the answer has another of the accepted statuses than 200. */
  async function find<S extends TSchema>(schema: S, path: string, request: ApiRequest) {
    const answer = await send(path, request)
    return answer.status === 200 ? readAs(name, schema, await parsed(answer)) : undefined
  }

  return { send, read, find }
}

/** The URL of an API with a path appended. */
function endpointUrl(endpoint: string | URL, path: string): URL {
  const base = typeof endpoint === 'string' ? parseEndpointUrl(endpoint) : endpoint
  return new URL(base.href.replace(/\/$/, '') + path)
}

function safeReason(reason = '', { authorization = '' }: Headers = {}): string {
  const text = reason.replace(/[^ -~]+/g, ' ')
  const secrets = authorization.split(/[\s,]+/).filter(({ length }) => length > 7)
  return secrets.some((secret) => text.includes(secret)) ? '' : text.slice(0, MAX_REASON)
}

export function readAs<S extends TSchema>(name: string, schema: S, value: unknown): Static<S> {
  if (Check(schema, value)) return value as Static<S>
  throw new AcmeError('ACME_DNS_PROVIDER', `${name} did not answer as documented`)
}

/** Makes a reader of the reason in errors that match the schema. */
export function reasonIn<S extends TSchema>(schema: S, reasonOf: (error: Static<S>) => string) {
  return (answer: unknown) => (Check(schema, answer) ? reasonOf(answer as Static<S>) : '')
}

/** The `error` code alone, because a description may quote the request. */
const oauthError = reasonIn(
  Type.Object({ error: Type.String({ pattern: '^[a-z_]{1,50}$' }) }),
  ({ error }) => error,
)

/** The answer of an OAuth 2 token endpoint or a metadata service; the lifetime is in seconds. */
const TokenSchema = Type.Object({
  access_token: Type.String({ minLength: 1 }),
  expires_in: Type.Union([Type.Number(), Type.String({ pattern: '^\\d{1,9}$' })]),
})

export interface TokenRequest
  extends Pick<ApiOptions, 'name' | 'endpoint'>,
    Pick<ApiRequest, 'content' | 'headers'> {
  readonly path: string
}

const MARGIN_MS = 60_000

/** Authorizes by an access token, which is reused until a minute before it expires. */
export function bearer(
  tokenRequest: () => Promise<TokenRequest>,
  { clock, fetch }: DnsProviderDeps,
): NonNullable<ApiOptions['authorize']> {
  let cached = { authorization: '', until: 0 }
  return async (_url, { signal }) => {
    if (clock.now() >= cached.until) {
      const { name, endpoint, path, ...request } = await tokenRequest()
      const api = createApi({ name, endpoint, fetch, reason: oauthError })
      const answer = await api.read(TokenSchema, path, { ...request, signal })
      const { access_token: token, expires_in: seconds } = answer
      const until = clock.now() + Number(seconds) * 1_000 - MARGIN_MS
      cached = { authorization: `Bearer ${token}`, until }
    }
    return { authorization: cached.authorization }
  }
}

import {
  type BoundedFetch,
  type FetchAnswer,
  type FetchInit,
  NetError,
  parseEndpointUrl,
} from '@gatehouse/net'
import type { Static, TSchema } from 'typebox'
import { Check } from 'typebox/schema'
import { AcmeError } from '../../errors.ts'

const ALL_STATUSES = Array.from({ length: 400 }, (_, index) => 200 + index)
const MAX_REASON = 200

export interface Call extends Pick<FetchInit, 'method' | 'headers' | 'body' | 'signal'> {
  /** What messages call the other side. */
  readonly api: string
  readonly url: URL | string
  /** Statuses that are an answer; default: 200. */
  readonly accept?: readonly number[]
  /** What the body of a refusal gives as the reason. */
  readonly reason?: (body: Buffer) => string | undefined
}

/**
 * Asks an API. What it says about a refusal is told, unless it repeats what we authenticate with.
 *
 * @throws AcmeError `ACME_DNS_CREDENTIALS` for 401 and 403, else `ACME_DNS_PROVIDER`
 */
export async function call(fetch: BoundedFetch, request: Call): Promise<FetchAnswer> {
  const { api, url, accept = [200], reason, ...init } = request
  const answer = await send(fetch, api, url, init)
  if (accept.includes(answer.status)) return answer
  const code = [401, 403].includes(answer.status) ? 'ACME_DNS_CREDENTIALS' : 'ACME_DNS_PROVIDER'
  const said = tell(reason?.(answer.body), init.headers)
  throw new AcmeError(code, `${api} answered ${answer.status}${said && `: ${said}`}`)
}

async function send(fetch: BoundedFetch, api: string, url: URL | string, init: FetchInit) {
  try {
    return await fetch(url, { ...init, status: ALL_STATUSES, timeoutMs: 15_000 })
  } catch (cause) {
    init.signal?.throwIfAborted()
    const why = cause instanceof NetError ? cause.message : 'the request failed'
    throw new AcmeError('ACME_DNS_PROVIDER', `${api} cannot be asked: ${why}`, { cause })
  }
}

function tell(reason = '', headers: Record<string, string> = {}): string {
  const text = reason.replace(/[^ -~]+/g, ' ')
  const secrets = (headers.authorization ?? '').split(/[\s,]+/).filter(({ length }) => length > 7)
  return secrets.some((secret) => text.includes(secret)) ? '' : text.slice(0, MAX_REASON)
}

/** As {@link call}, for JSON of the form that is documented. */
export async function callJson<S extends TSchema>(
  fetch: BoundedFetch,
  schema: S,
  { headers, ...request }: Call,
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

/** The reason that a refusal of the documented form gives. */
export function readReason<S extends TSchema>(
  answer: unknown,
  schema: S,
  tell: (refusal: Static<S>) => string,
): string | undefined {
  return Check(schema, answer) ? tell(answer as Static<S>) : undefined
}

export function parseJson(body: Buffer | string): unknown {
  try {
    return JSON.parse(body.toString())
  } catch {
    return undefined
  }
}

/** The address of an API with a path below it. */
export function endpointUrl(endpoint: string, path: string): URL {
  const base = parseEndpointUrl(endpoint).href.replace(/\/$/, '')
  return new URL(base + path)
}

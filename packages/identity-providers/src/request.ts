import {
  type BoundedFetch,
  type FetchAnswer,
  type FetchInit,
  parseEndpointUrl,
  parseJson,
} from '@gatehouse/net'
import type { Static, TSchema } from 'typebox'
import { Check } from 'typebox/schema'

/** All others mean that the provider is out of order. */
const STATUSES = Array.from({ length: 300 }, (_, index) => 200 + index).filter(
  (status) => status !== 429,
)

/** Sends a request to a provider: over https (http on loopback), without following redirects. */
export async function request(
  fetch: BoundedFetch,
  url: URL | string,
  { status = [200], ...init }: Omit<FetchInit, 'json'> = {},
): Promise<FetchAnswer> {
  const endpoint = parseEndpointUrl(String(url))
  const answer = await fetch(endpoint, { ...init, status: STATUSES })
  if (status.includes(answer.status)) return answer
  throw new StatusError(describe(endpoint), answer.status)
}

/** A status that was not expected, and is no outage. */
export class StatusError extends Error {
  readonly status: number

  constructor(source: string, status: number) {
    super(`${source} responded with status ${status}`)
    this.status = status
  }
}

export async function requestJson<S extends TSchema>(
  fetch: BoundedFetch,
  url: URL,
  schema: S,
  headers: Record<string, string> = {},
): Promise<Static<S>> {
  const answer = await request(fetch, url, { headers: { accept: 'application/json', ...headers } })
  return readJson(answer, schema, describe(url))
}

export function readJson<S extends TSchema>(
  { body }: FetchAnswer,
  schema: S,
  source: string,
): Static<S> {
  const value = parseJson(body)
  if (Check(schema, value)) return value as Static<S>
  throw new Error(`${source} sent an unexpected response`)
}

/** Leaves out the query, which may hold a secret. */
function describe({ origin, pathname }: URL): string {
  return origin + pathname
}

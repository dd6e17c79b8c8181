import {
  type BoundedFetch,
  type FetchAnswer,
  type FetchInit,
  parseEndpointUrl,
} from '@gatehouse/net'
import type { Static, TSchema } from 'typebox'
import { Check } from 'typebox/schema'

/** With any other status the provider is in trouble; of these the caller says which it accepts. */
const ANSWERS = Array.from({ length: 300 }, (_, index) => 200 + index).filter(
  (status) => status !== 429,
)

/**
 * Asks a provider: by https (http on loopback), without following a redirect.
 *
 * @throws NetError; Error for a status that is not accepted
 */
export async function ask(
  fetch: BoundedFetch,
  url: URL | string,
  { status = [200], ...init }: Omit<FetchInit, 'contentTypes'> = {},
): Promise<FetchAnswer> {
  const endpoint = parseEndpointUrl(String(url))
  const answer = await fetch(endpoint, { ...init, status: ANSWERS })
  if (status.includes(answer.status)) return answer
  throw new Error(`${describe(endpoint)} was answered ${answer.status}`)
}

/**
 * Asks for JSON of the form that the provider documents.
 *
 * @throws what {@link ask} throws; Error for anything else than such JSON
 */
export async function askJson<S extends TSchema>(
  fetch: BoundedFetch,
  url: URL,
  schema: S,
  headers: Record<string, string> = {},
): Promise<Static<S>> {
  const { body } = await ask(fetch, url, { headers: { accept: 'application/json', ...headers } })
  const value = parseJson(body)
  if (Check(schema, value)) return value as Static<S>
  throw new Error(`${describe(url)} was not answered as documented`)
}

export function parseJson(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString())
  } catch {
    return undefined
  }
}

/** Without the query, which may hold a secret. */
function describe({ origin, pathname }: URL): string {
  return origin + pathname
}

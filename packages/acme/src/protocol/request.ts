import { attempt, type FetchAnswer, parseEndpointUrl } from '@gatehouse/net'
import type { Static, TSchema } from 'typebox'
import { Check } from 'typebox/schema'
import { AcmeError } from '../errors.ts'

/** The resources of a directory that take signed requests. */
export type Resource = 'newAccount' | 'newOrder' | 'revokeCert' | 'keyChange'

/** A request and the parser of its response; the transport signs and sends it. */
export interface AcmeRequest<T> {
  /** A resource by its name in the directory, or a URL that the CA gave. */
  readonly to: Resource | URL
  /** The payload for that URL; without one, the request is a POST-as-GET. */
  readonly payload?: (url: string) => object
  readonly accept?: string
  /** Whether the request asks for a decision, so that an error with a reason is final. */
  readonly isDecision?: boolean
  /** @throws AcmeError `ACME_ANSWER_INVALID` */
  readonly process: (response: AcmeResponse) => T
}

/** A complete response of the CA. */
export interface AcmeResponse extends FetchAnswer {
  readonly url: URL
  /** Milliseconds from Retry-After. */
  readonly retryAfterMs?: number | undefined
}

/** Parses the body by a schema. Unknown members are ignored, and `null` counts as absent. */
export function readJson<S extends TSchema>(
  response: AcmeResponse,
  schema: S,
  what: string,
): Static<S> {
  const value = parseJson(response.body)
  if (Check(schema, value)) return value as Static<S>
  throw refuse(response, `not answered with ${what}`)
}

export function parseJson(body: Buffer): unknown {
  return attempt(() => JSON.parse(body.toString(), (_, value) => value ?? undefined))
}

/** The Location header. @throws AcmeError `ACME_ANSWER_INVALID` */
export function locationOf(response: AcmeResponse): URL {
  const { location } = response.headers
  if (location === undefined) throw refuse(response, 'answered without Location')
  return readUrl(location, response)
}

const MAX_URL = 2_000

/** Parses a URL from the CA. It must be https, or http on loopback if the CA itself is reached by http. */
export function readUrl(text: string, response: AcmeResponse): URL {
  const url = attempt(() => parseEndpointUrl(URL.parse(text, response.url.href)?.href ?? text))
  const isSecure = url?.protocol === 'https:' || response.url.protocol === 'http:'
  if (url && isSecure && url.href.length <= MAX_URL) return url
  throw refuse(response, 'answered with a URL that is not valid, not https or too long')
}

const MAX_LINKS = 10
const LINK = /<([^<>]+)>\s*((?:;\s*[a-z]+\s*=\s*(?:"[^"]*"|[^\s",;]+)\s*)+)/gi

/** The URLs in Link headers with that relation (RFC 8288). */
export function linksOf(response: AcmeResponse, relation: string): URL[] {
  const relationOf = (parameters: string) =>
    /;\s*rel\s*=\s*"?([^",;]+)/i.exec(parameters)?.[1] ?? ''
  return [...[response.headers.link ?? []].flat().join(', ').matchAll(LINK)]
    .slice(0, MAX_LINKS)
    .filter(([, , parameters = '']) =>
      relationOf(parameters).trim().split(/\s+/).includes(relation),
    )
    .map(([, url = '']) => readUrl(url, response))
}

export function refuse({ url }: AcmeResponse, why: string, cause?: unknown): AcmeError {
  return new AcmeError('ACME_ANSWER_INVALID', `${url.origin}${url.pathname} was ${why}`, { cause })
}

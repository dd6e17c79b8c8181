import type { IncomingHttpHeaders } from 'node:http'
import { parseEndpointUrl } from '@gatehouse/net'
import type { Static, TSchema } from 'typebox'
import { Check } from 'typebox/schema'
import { AcmeError } from '../errors.ts'

/** A complete answer of the CA. */
export interface Answer {
  readonly url: URL
  readonly status: number
  readonly headers: Readonly<IncomingHttpHeaders>
  readonly body: Buffer
  /** Milliseconds that the CA asks to wait before the next request. */
  readonly retryAfterMs?: number | undefined
}

/**
 * The body by its schema. Unknown members are passed over, and `null` is as good as absent.
 *
 * @throws AcmeError `ACME_ANSWER_INVALID`
 */
export function readJson<S extends TSchema>(answer: Answer, schema: S, what: string): Static<S> {
  const value = parseJson(answer.body)
  if (Check(schema, value)) return value as Static<S>
  throw refuse(answer, `not answered with ${what}`)
}

export function parseJson(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString(), (_, value) => value ?? undefined)
  } catch {
    return undefined
  }
}

/** The URL of the resource that the answer is about. @throws AcmeError `ACME_ANSWER_INVALID` */
export function locationOf(answer: Answer): URL {
  const { location } = answer.headers
  if (location === undefined) throw refuse(answer, 'answered without Location')
  return readUrl(location, answer)
}

const MAX_URL = 2_000

/** A URL that the CA gave: https, unless the CA itself is reached without, which must be on loopback. */
export function readUrl(text: string, answer: Answer): URL {
  try {
    const url = parseEndpointUrl(URL.parse(text, answer.url.href)?.href ?? text)
    const isSecure = url.protocol === 'https:' || answer.url.protocol === 'http:'
    if (isSecure && url.href.length <= MAX_URL) return url
  } catch {
    // Told below.
  }
  throw refuse(answer, 'answered with a URL that is not valid, not https or too long')
}

const MAX_LINKS = 10
const LINK = /<([^<>]+)>\s*((?:;\s*[a-z]+\s*=\s*(?:"[^"]*"|[^\s",;]+)\s*)+)/gi

/** The URLs that the answer links to with that relation (RFC 8288). */
export function linksOf(answer: Answer, relation: string): URL[] {
  const relationOf = (parameters: string) =>
    /;\s*rel\s*=\s*"?([^",;]+)/i.exec(parameters)?.[1] ?? ''
  return [...[answer.headers.link ?? []].flat().join(', ').matchAll(LINK)]
    .slice(0, MAX_LINKS)
    .filter(([, , parameters = '']) =>
      relationOf(parameters).trim().split(/\s+/).includes(relation),
    )
    .map(([, url = '']) => readUrl(url, answer))
}

const MAX_RETRY_AFTER_MS = 30 * 86_400_000

/**
 * Retry-After (RFC 9110 section 10.2.3) in milliseconds. A date counts from the Date of the same
 * answer, so that a wrong clock on either side does no harm.
 */
export function retryAfterOf(headers: IncomingHttpHeaders, now: number): number | undefined {
  const text = headers['retry-after'] ?? ''
  const ms = /^\d+$/.test(text)
    ? Number(text) * 1000
    : Date.parse(/GMT$/.test(text) ? text : '') - (Date.parse(headers.date ?? '') || now)
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(ms, 0), MAX_RETRY_AFTER_MS)
}

export function refuse({ url }: Answer, why: string, cause?: unknown): AcmeError {
  return new AcmeError('ACME_ANSWER_INVALID', `${url.origin}${url.pathname} was ${why}`, { cause })
}

import type { IncomingHttpHeaders } from 'node:http'

const MAX_RETRY_AFTER_MS = 30 * 86_400_000

/** The result of a function; undefined if it throws. */
export function attempt<T>(step: () => T): T | undefined {
  try {
    return step()
  } catch {
    return undefined
  }
}

/** Parses JSON; undefined for a text that is none. */
export function parseJson(text: string | Buffer): unknown {
  return attempt(() => JSON.parse(text.toString()))
}

/**
 * Parses Retry-After (RFC 9110 section 10.2.3) to milliseconds. A date is compared with the Date of the
 * same response, so that a wrong clock on either side does no harm.
 */
export function retryAfterOf(
  headers: Pick<IncomingHttpHeaders, 'retry-after' | 'date'>,
  now: number,
): number | undefined {
  const text = headers['retry-after'] ?? ''
  const ms = /^\d+$/.test(text)
    ? Number(text) * 1000
    : Date.parse(/GMT$/.test(text) ? text : '') - (Date.parse(headers.date ?? '') || now)
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(ms, 0), MAX_RETRY_AFTER_MS)
}

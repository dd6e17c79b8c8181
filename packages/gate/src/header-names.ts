import type { IncomingHttpHeaders } from 'node:http'
import { MCP_HEADERS, SESSION_HEADERS } from './mcp.ts'

/** Names of headers that only a proxy may set, or that change a request, in lower case. */
export const HEADER_NAMES = {
  /** Headers that change what a check decides. */
  read: [
    'x-forwarded-method',
    'x-forwarded-proto',
    'x-forwarded-host',
    'x-forwarded-uri',
    'x-forwarded-for',
    'x-forwarded-prefix',
    'x-original-method',
    'x-original-url',
    'x-forward-auth-if',
  ],
  /** Headers of clients that name what is called by MCP: another spelling of one is refused. */
  calls: [...MCP_HEADERS, ...SESSION_HEADERS],
  /** Headers that apps believe, and that a check does not read. */
  believed: ['forwarded', 'x-forwarded-port', 'x-real-ip'],
  /** Headers with which a client asks an app to take the request for one of another method. */
  methodOverrides: ['x-http-method-override', 'x-http-method', 'x-method-override'],
  /** Headers that some apps read in place of the path of the request. */
  pathOverrides: ['x-original-url', 'x-rewrite-url', 'destination'],
} as const satisfies Record<string, readonly string[]>

/** The header that tells a server which tools the caller may use, in lower case. */
export const TOOLS_HEADER = 'x-gatehouse-tools'
/** Characters of it: proxies limit the headers of an answer, some to 4 kB. */
export const MAX_TOOLS_LENGTH = 2_048

/**
 * A header name as apps behind CGI, FastCGI and WSGI see it: they keep letters and digits, and fold
 * every other character into one. So `X_Forwarded.User` is read as `X-Forwarded-User`.
 *
 * @returns in lower case, with `-` for all that is neither a letter nor a digit
 */
export function foldName(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z0-9]/g, '-')
}

/**
 * Finds out what the headers of a request may replace before an app reads it, in any spelling.
 *
 * @param proxyHeader - a header that the proxy sets for the check, in lower case
 */
export function readOverrides(headers: IncomingHttpHeaders, proxyHeader?: string) {
  const clientHeaders = Object.keys(headers).filter((name) => name !== proxyHeader)
  const names = new Set(clientHeaders.map(foldName))
  const isThere = (name: string) => names.has(name)
  return {
    method: HEADER_NAMES.methodOverrides.some(isThere),
    path: HEADER_NAMES.pathOverrides.some(isThere),
  }
}

import type { IncomingHttpHeaders } from 'node:http'
import { FwaError } from './errors.ts'

/** Headers with which a client asks an app to take the request for one of another method. */
export const METHOD_OVERRIDES = ['x-http-method-override', 'x-http-method', 'x-method-override']
/** Headers that some apps read in place of the path of the request. */
export const PATH_OVERRIDES = ['x-original-url', 'x-rewrite-url', 'destination']

/** Headers that change what a check decides, in lower case. */
export const READ_HEADERS = [
  'x-forwarded-method',
  'x-forwarded-proto',
  'x-forwarded-host',
  'x-forwarded-uri',
  'x-forwarded-for',
  'x-forwarded-prefix',
  'x-original-method',
  'x-original-url',
  'x-forward-auth-if',
] as const

/** Headers that only a proxy may set, and that apps believe; a check does not read them. */
export const BELIEVED_HEADERS = ['forwarded', 'x-forwarded-port', 'x-real-ip']

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
 * Makes a guard against other spellings of headers, which proxies let through.
 *
 * @param names - in lower case
 * @returns a function of names and values in turn that throws FWA_HEADER_ALIAS
 */
export function createAliasGuard(
  names: readonly string[],
): (rawHeaders: readonly string[]) => void {
  const known = new Map(names.map((name) => [foldName(name), name]))
  const lengths = new Set(names.map(({ length }) => length))

  return (rawHeaders) => {
    for (let i = 0; i < rawHeaders.length; i += 2) {
      const name = rawHeaders[i] ?? ''
      // An alias is as long as the name, so that most headers are passed over without a comparison.
      if (!lengths.has(name.length)) continue
      const meant = known.get(foldName(name))
      if (meant !== undefined && meant !== name.toLowerCase())
        throw new FwaError('FWA_HEADER_ALIAS', `${JSON.stringify(name)} resembles a trusted header`)
    }
  }
}

/**
 * What the headers of a request may replace before an app reads it, in whatever spelling.
 *
 * @param own - a header that the proxy sets for the check, in lower case
 */
export function readOverrides(headers: IncomingHttpHeaders, own?: string) {
  const others = Object.keys(headers).filter((name) => name !== own)
  const names = new Set(others.map(foldName))
  const isThere = (name: string) => names.has(name)
  return { method: METHOD_OVERRIDES.some(isThere), path: PATH_OVERRIDES.some(isThere) }
}

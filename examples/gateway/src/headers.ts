import type { IncomingHttpHeaders } from 'node:http'

/** Hop-by-hop headers (RFC 9110 section 7.6.1), and `Expect`, which Node has answered already. */
const HOP_BY_HOP =
  /^(connection|expect|http2-settings|keep-alive|proxy-(authenticate|authorization|connection)|te|trailer|transfer-encoding|upgrade)$/
/** Headers that only a proxy may set. */
const OF_PROXIES = /^(forwarded|x-forward(ed)?-.*|x-original-.*|x-real-ip)$/
/** CGI apps read `X_Forwarded_User` and `X.Forwarded.User` as `X-Forwarded-User`. */
const PLAIN = /^[a-z0-9-]+$/
const GATEHOUSE_COOKIE = /^\s*__(Host|Secure)-gatehouse/

/** The headers of a message without hop-by-hop headers, including those that Connection lists. */
export function endToEnd(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const listed = new Set(
    [headers.connection]
      .flat()
      .join()
      .toLowerCase()
      .split(/\s*,\s*/),
  )
  return filter(headers, (name) => !HOP_BY_HOP.test(name) && !listed.has(name))
}

/**
 * The headers of a client that are passed on: none that apps would take for headers of the proxy.
 *
 * @param identity - identity headers, in lower case
 */
export function clientHeaders(
  headers: IncomingHttpHeaders,
  identity: readonly string[],
): IncomingHttpHeaders {
  return filter(
    endToEnd(headers),
    (name) => PLAIN.test(name) && !OF_PROXIES.test(name) && !identity.includes(name),
  )
}

/** Removes the cookies of Gatehouse: where hosts share one, an app could act as its visitor at other apps. */
export function withoutSession({ cookie, ...headers }: IncomingHttpHeaders): IncomingHttpHeaders {
  const others = cookie?.split(';').filter((pair) => !GATEHOUSE_COOKIE.test(pair)) ?? []
  return others.length === 0 ? headers : { ...headers, cookie: others.join(';').trim() }
}

function filter(
  headers: IncomingHttpHeaders,
  keeps: (name: string) => boolean,
): IncomingHttpHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => keeps(name)))
}

import type { IncomingHttpHeaders } from 'node:http'

/** What belongs to one connection (RFC 9110 section 7.6.1), and `Expect`, which is met on arrival. */
const HOP_BY_HOP =
  /^(connection|expect|keep-alive|proxy-(authenticate|authorization|connection)|te|trailer|transfer-encoding|upgrade)$/
/** What only a proxy may say. */
const OF_PROXIES = /^(forwarded|x-forward(ed)?-.*|x-original-.*|x-real-ip)$/
/** Apps behind CGI read `X_Forwarded_User` and `X.Forwarded.User` as `X-Forwarded-User`. */
const PLAIN = /^[a-z0-9-]+$/
const GATEHOUSE_COOKIE = /^\s*__(Secure-gatehouse|Host-gatehouse-login)\./

/** The headers of a message without those of its connection, some of which that lists itself. */
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
 * What of a client's headers goes on: none that apps would take for the word of the proxy.
 *
 * @param identity - headers that tell who somebody is, in lower case
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

/** Without the cookies of Gatehouse, by which an app could be its visitor elsewhere. */
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

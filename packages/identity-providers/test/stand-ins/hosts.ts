import { type BoundedFetch, createFetch, type FetchInit, type FetchOptions } from '@gatehouse/net'

/** The address on loopback of a URL at one of these origins. */
export function atStandIn(origins: Readonly<Record<string, string>>, url: URL | string): URL {
  const { origin, pathname, search } = new URL(url)
  const standIn = origins[origin]
  if (standIn === undefined) throw new Error(`nothing stands in for ${origin}`)
  return new URL(standIn + pathname + search)
}

/** A createFetch that finds the stand-ins where it is told to go to the origins of others. */
export function createFetchTo(origins: Readonly<Record<string, string>>) {
  return (options: FetchOptions): BoundedFetch => {
    const fetch = createFetch(options)
    const redirected = (url: URL | string, init?: FetchInit) => fetch(atStandIn(origins, url), init)
    return Object.assign(redirected, { close: fetch.close })
  }
}

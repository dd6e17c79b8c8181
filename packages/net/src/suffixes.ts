import { parse } from 'tldts'

// Apart from the index: the list takes a tenth of a start, and most programs need none.
const OPTIONS = { allowPrivateDomains: true, extractHostname: false }

/** Returns the domain of hosts that can share cookies: `example.co.uk` of `app.example.co.uk`; undefined for a suffix or IP. */
export function registrableDomain(name: string): string | undefined {
  return parse(name, OPTIONS).domain ?? undefined
}

/**
 * Whether browsers refuse cookies for all hosts below a canonical name: names of the public suffix list,
 * such as `co.uk`, `github.io` and `home.arpa`, and single labels that it does not know, such as `lan`.
 */
export function isPublicSuffix(name: string): boolean {
  return parse(name, OPTIONS).publicSuffix === name
}

/** Whether it is a public suffix below which strangers can get names. */
export function isRegistrySuffix(name: string): boolean {
  const { publicSuffix, isIcann, isPrivate } = parse(name, OPTIONS)
  // RFC 8375: each home has its own.
  return publicSuffix === name && name !== 'home.arpa' && (isIcann || isPrivate) === true
}

const EQUALS = 61
const SEMICOLON = 59
const SPACE = 32

/**
 * The value of a cookie, cut out of a Cookie header; undefined also if the name stands there twice,
 * since then one of the two comes from somebody else on the domain.
 */
export function cutCookie(header: string, name: string): string | undefined {
  const start = valueStart(header, name, 0)
  if (start < 0 || valueStart(header, name, start) >= 0) return undefined
  const end = header.indexOf(';', start)
  return end < 0 ? header.slice(start) : header.slice(start, end)
}

/** Whether a Cookie header holds a name more than once. */
export function isTwice(header: string, name: string): boolean {
  const start = valueStart(header, name, 0)
  return start >= 0 && valueStart(header, name, start) >= 0
}

/** Where the value of the next cookie of that name begins, or -1. */
function valueStart(header: string, name: string, from: number): number {
  for (let at = header.indexOf(name, from); at >= 0; at = header.indexOf(name, at + 1)) {
    const end = at + name.length
    if (header.charCodeAt(end) === EQUALS && beginsPair(header, at)) return end + 1
  }
  return -1
}

/** Whether there is nothing between this place and the `;` before it. */
function beginsPair(header: string, at: number): boolean {
  let before = at - 1
  while (before >= 0 && header.charCodeAt(before) === SPACE) before -= 1
  return before < 0 || header.charCodeAt(before) === SEMICOLON
}

/** A Set-Cookie value; no script reads the cookie, and no other site sends it but by a link. */
export function setCookie(
  name: string,
  value: string,
  { maxAge, domain }: { readonly maxAge: number; readonly domain?: string | undefined },
): string {
  const scope = domain === undefined ? 'Path=/' : `Path=/; Domain=${domain}`
  const seconds = Math.floor(maxAge / 1_000)
  return `${name}=${value}; ${scope}; Max-Age=${seconds}; HttpOnly; Secure; SameSite=Lax`
}

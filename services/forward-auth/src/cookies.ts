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

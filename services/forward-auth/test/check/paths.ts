import fc from 'fast-check'

/** Texts that decoders differ about, and plain ones. */
const part = fc.oneof(
  fc.constantFrom('a', 'admin', 'Admin', '.', '..', '', ';', '%2f', '%2F', '%5c', '%2e', '%252e'),
  fc.constantFrom('%c0%ae', '%00', '%3b', '%61', '%EF%BC%8F', 'public', '%zz', '%25', '...'),
)
/** Paths that proxies and apps may read in several ways. */
export const target = fc
  .array(
    fc.array(part, { maxLength: 3 }).map((parts) => parts.join('')),
    { minLength: 1, maxLength: 5 },
  )
  .map((segments) => `/${segments.join('/')}`)

/** What lenient apps make of a path: decoded up to twice, parameters cut, and dot segments removed. */
function readingsOf(path: string): string[] {
  const decode = (text: string) =>
    text
      .replace(/%c0%ae/gi, '.')
      .replace(/%([0-9a-f]{2})/gi, (_, hex) => String.fromCharCode(parseInt(hex, 16)))
  const once = decode(path)
  return [path, once, decode(once)].flatMap((text) => {
    const slashes = text.replaceAll('\\', '/').normalize('NFKC')
    const cut = slashes.replace(/;[^/]*/g, '')
    return [slashes, cut].map((each) => new URL(`http://x${each.replace(/[?#].*$/, '')}`).pathname)
  })
}

/** Whether some app takes a path for one at or below `/admin`. */
export function isAdminToSome(path: string): boolean {
  return readingsOf(path)
    .map((text) => text.toLowerCase().replace(/\/+/g, '/'))
    .some((text) => /^\/admin(\/|$)/.test(text))
}

import { FwaError } from '../errors.ts'

const MAX_LENGTH = 128

/**
 * A guard against other spellings of headers: servers behind CGI, FastCGI and WSGI read
 * `X_Forwarded_User` and `X.Forwarded.User` as `X-Forwarded-User`, while proxies let them through.
 *
 * @param names - in lower case
 * @returns a function of names and values in turn that throws FWA_HEADER_ALIAS
 */
export function createAliasGuard(
  names: readonly string[],
): (rawHeaders: readonly string[]) => void {
  const known = new Set(names)
  // An alias is as long as the name, so that most headers cost one lookup.
  const lengths = new Uint8Array(MAX_LENGTH)
  for (const name of known) lengths[name.length] = 1

  return (rawHeaders) => {
    for (let i = 0; i < rawHeaders.length; i += 2) {
      const name = rawHeaders[i] ?? ''
      if (lengths[name.length] !== 1 || !(name.includes('_') || name.includes('.'))) continue
      if (known.has(name.toLowerCase().replaceAll(/[_.]/g, '-')))
        throw new FwaError('FWA_HEADER_ALIAS', `${JSON.stringify(name)} resembles a trusted header`)
    }
  }
}

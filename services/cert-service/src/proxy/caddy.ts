import { type Name, PkiError, parseName } from '@gatehouse/pki'

/** The names by which a certificate may serve a server: its own and the wildcard above (RFC 9525 section 6.3). */
export function namesFor(serverName: string): readonly string[] {
  const name = nameOrNone(serverName)
  if (!name || name.kind === 'wildcard') return []
  const [, ...parent] = name.labels
  return parent.length > 0 ? [name.text, `*.${parent.join('.')}`] : [name.text]
}

/** Clients may ask for any bytes. */
function nameOrNone(text: string): Name | undefined {
  try {
    return parseName(text)
  } catch (error) {
    if (error instanceof PkiError) return undefined
    throw error
  }
}

/** `APIKey` credentials from Basic ones (RFC 7617), whose password is the key; others as they are. */
export function withoutBasic(authorization: string): string {
  const [scheme = '', encoded = ''] = authorization.split(/ +/, 2)
  if (scheme.toLowerCase() !== 'basic') return authorization
  const [, key] = split(Buffer.from(encoded, 'base64').toString('latin1'), ':')
  return key ? `APIKey ${key}` : authorization
}

function split(text: string, at: string): [before: string, after: string] {
  const index = text.indexOf(at)
  return index === -1 ? [text, ''] : [text.slice(0, index), text.slice(index + at.length)]
}

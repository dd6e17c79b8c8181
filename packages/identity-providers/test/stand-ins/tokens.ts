import { createHmac, generateKeyPairSync, type JsonWebKey, type KeyObject, sign } from 'node:crypto'

/** A key that signs ID tokens. */
export interface SigningKey {
  readonly kid: string
  readonly alg: string
  readonly privateKey: KeyObject
  readonly publicJwk: JsonWebKey
  readonly privateJwk: JsonWebKey
}

export function signingKey(kid: string, alg: 'ES256' | 'RS256' = 'ES256'): SigningKey {
  const { privateKey, publicKey } =
    alg === 'ES256'
      ? generateKeyPairSync('ec', { namedCurve: 'P-256' })
      : generateKeyPairSync('rsa', { modulusLength: 2048 })
  const about = { kid, alg, use: 'sig' }
  return {
    kid,
    alg,
    privateKey,
    publicJwk: { ...publicKey.export({ format: 'jwk' }), ...about },
    privateJwk: { ...privateKey.export({ format: 'jwk' }), ...about },
  }
}

/** A token of these claims; `header` may claim to be another algorithm or key than it is. */
export function signToken(key: SigningKey, claims: object, header: Record<string, unknown> = {}) {
  const { alg, ...rest } = { alg: key.alg, kid: key.kid, typ: 'JWT', ...header }
  const input = [{ alg, ...rest }, claims].map(encode).join('.')
  return `${input}.${signature(String(alg), input, key)}`
}

export function readToken(token: string): Record<string, unknown> {
  return JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())
}

function encode(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url')
}

/** HS256 uses the public key as its secret, as who confuses algorithms would. */
function signature(alg: string, input: string, { privateKey, publicJwk }: SigningKey): string {
  if (alg === 'none') return ''
  if (alg === 'HS256')
    return createHmac('sha256', JSON.stringify(publicJwk)).update(input).digest('base64url')
  const key = { key: privateKey, dsaEncoding: 'ieee-p1363' as const }
  return sign('sha256', Buffer.from(input), key).toString('base64url')
}

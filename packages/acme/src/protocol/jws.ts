import { createHmac, createPublicKey, hash, type KeyObject, sign } from 'node:crypto'

/** A JSON Web Signature in flattened form (RFC 7515 section 7.2.2). */
export interface Jws {
  readonly protected: string
  readonly payload: string
  readonly signature: string
}

/** Who signs a request: an account by its URL, or a key that speaks for itself. */
export interface Signer {
  /** Private. */
  readonly key: KeyObject
  readonly accountUrl?: string
}

/** The key that a CA gives to bind an ACME account to one that it has already. */
export interface ExternalAccount {
  readonly kid: string
  /** base64url, as CAs give it. */
  readonly hmacKey: string
}

// An account key is P-256; the others sign the revocation of a certificate that has such a key.
const ALGORITHMS = new Map<string | undefined, readonly [alg: string, digest: string | null]>([
  ['P-256', ['ES256', 'sha256']],
  ['P-384', ['ES384', 'sha384']],
  ['RSA', ['RS256', 'sha256']],
  ['Ed25519', ['EdDSA', null]],
])

/** The public half, with its required members alone and in the order of RFC 7638 section 3.2. */
export function publicJwk(key: KeyObject) {
  const { crv, e, kty, n, x, y } = createPublicKey(key).export({ format: 'jwk' })
  return { crv, e, kty, n, x, y }
}

/** What ties an answer to a challenge to the account (RFC 8555 section 8.1). */
export const keyAuthorization = (token: string, key: KeyObject): string =>
  `${token}.${hash('sha256', JSON.stringify(publicJwk(key)), 'base64url')}`

/** Signs a request body; without a payload it is a POST-as-GET (RFC 8555 sections 6.2, 6.3). */
export function signRequest(
  { key, accountUrl }: Signer,
  header: { readonly url: string; readonly nonce?: string },
  payload?: object,
): Jws {
  const jwk = publicJwk(key)
  const [alg, digest] = ALGORITHMS.get(jwk.crv ?? jwk.kty) ?? []
  if (alg === undefined || digest === undefined)
    throw new TypeError(`a key of type ${jwk.crv ?? jwk.kty} cannot sign for ACME`)
  const identity = accountUrl === undefined ? { jwk } : { kid: accountUrl }
  return seal({ alg, ...identity, ...header }, payload, (input) =>
    sign(digest, input, { key, dsaEncoding: 'ieee-p1363' }),
  )
}

/** Proves that the account key belongs to the external account (RFC 8555 section 7.3.4). */
export function bindExternalAccount(
  { kid, hmacKey }: ExternalAccount,
  key: KeyObject,
  url: string,
): Jws {
  const secret = Buffer.from(hmacKey, 'base64url')
  return seal({ alg: 'HS256', kid, url }, publicJwk(key), (input) =>
    createHmac('sha256', secret).update(input).digest(),
  )
}

function seal(header: object, payload: object | undefined, signer: (input: Buffer) => Buffer): Jws {
  const protectedHeader = toBase64url(header)
  const body = payload ? toBase64url(payload) : ''
  const signature = signer(Buffer.from(`${protectedHeader}.${body}`)).toString('base64url')
  return { protected: protectedHeader, payload: body, signature }
}

const toBase64url = (value: object): string =>
  Buffer.from(JSON.stringify(value)).toString('base64url')

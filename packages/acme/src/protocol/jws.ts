import { createHmac, createPublicKey, hash, type KeyObject, sign } from 'node:crypto'

/** A JSON Web Signature in flattened form (RFC 7515 section 7.2.2). */
export type Jws = Readonly<Record<'protected' | 'payload' | 'signature', string>>

/** The key that signs a request, with its account URL unless the key identifies itself. */
export interface RequestSigner {
  /** Private. */
  readonly key: KeyObject
  readonly accountUrl?: string
}

/** External account binding: a key that the CA issued to an existing customer account. */
export interface ExternalAccount {
  readonly kid: string
  /** base64url. */
  readonly hmacKey: string
}

// Account keys are P-256. A certificate key of another type can sign its own revocation.
const ALGORITHMS: ReadonlyMap<string | undefined, string> = new Map([
  ['P-256', 'ES256'],
  ['P-384', 'ES384'],
  ['RSA', 'RS256'],
  ['Ed25519', 'EdDSA'],
])

/** The algorithms of requests, each with its digest (RFC 7518 section 3.1, RFC 8037 section 3.1). */
export const REQUEST_DIGESTS: ReadonlyMap<string, string | null> = new Map([
  ['ES256', 'sha256'],
  ['ES384', 'sha384'],
  ['RS256', 'sha256'],
  ['EdDSA', null],
])

/** The algorithms of external account bindings, each with its digest (RFC 7518 section 3.2). */
export const BINDING_DIGESTS: ReadonlyMap<string, string> = new Map([
  ['HS256', 'sha256'],
  ['HS384', 'sha384'],
  ['HS512', 'sha512'],
])

/** The public JWK with only its required members, in the order of RFC 7638 section 3.2. */
export function publicJwk(key: KeyObject) {
  const publicKey = key.type === 'public' ? key : createPublicKey(key)
  const { crv, e, kty, n, x, y } = publicKey.export({ format: 'jwk' })
  return { crv, e, kty, n, x, y }
}

/** The only algorithm of a key; undefined for a type of key that is not accepted. */
export const algorithmOf = ({ crv, kty }: ReturnType<typeof publicJwk>): string | undefined =>
  ALGORITHMS.get(crv ?? kty)

/** The thumbprint of a key by its public JWK (RFC 7638). */
export const thumbprintOf = (jwk: string): string => hash('sha256', jwk, 'base64url')

/** The key authorization of a challenge (RFC 8555 section 8.1). */
export const keyAuthorization = (token: string, key: KeyObject): string =>
  `${token}.${thumbprintOf(JSON.stringify(publicJwk(key)))}`

/** Signs a request; without a payload, it is a POST-as-GET (RFC 8555 sections 6.2, 6.3). */
export function signRequest(
  { key, accountUrl }: RequestSigner,
  header: { readonly url: string; readonly nonce?: string },
  payload?: object,
): Jws {
  const jwk = publicJwk(key)
  const alg = algorithmOf(jwk)
  const digest = REQUEST_DIGESTS.get(alg ?? '')
  if (alg === undefined || digest === undefined)
    throw new TypeError(`a key of type ${jwk.crv ?? jwk.kty} cannot sign for ACME`)
  const identity = accountUrl === undefined ? { jwk } : { kid: accountUrl }
  return seal({ alg, ...identity, ...header }, payload, (input) =>
    sign(digest, input, { key, dsaEncoding: 'ieee-p1363' }),
  )
}

/** Binds the account key to an external account (RFC 8555 section 7.3.4). */
export function bindExternalAccount(account: ExternalAccount, key: KeyObject, url: string): Jws {
  const { kid, hmacKey } = account
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

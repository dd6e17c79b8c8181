import { createHmac, timingSafeEqual, verify } from 'node:crypto'
import { BINDING_DIGESTS, REQUEST_DIGESTS } from '../protocol/jws.ts'
import { type PublicKey, readPublicKey } from './keys.ts'
import { isMembers, isText, type Members, readBase64url, readObject } from './parts.ts'
import { AcmeProblem, malformed } from './problems.ts'

/** The algorithms of requests. */
export const ACCOUNT_ALGORITHMS: readonly string[] = [...REQUEST_DIGESTS.keys()]
const BINDING_ALGORITHMS = [...BINDING_DIGESTS.keys()]

/** Bytes: a CSR of 100 long names, encoded twice. */
const MAX_BODY = 65_536
const TEXT = /^[!-~]{1,2000}$/
const NONCE = /^[\w-]{1,200}$/

/** A request that is parsed; its signature is not yet verified. */
export interface SignedRequest {
  readonly alg: string
  /** Must be the URL of the request (RFC 8555 section 6.4). */
  readonly url: string
  readonly nonce: string
  /** The account URL. A request has either this or `key`. */
  readonly kid?: string
  /** The key that the request carries as `jwk`. */
  readonly key?: PublicKey
  /** Empty in a POST-as-GET. */
  readonly payload: Uint8Array
  isSignedBy(key: PublicKey): boolean
}

/**
 * Parses the body of a request (RFC 8555 section 6.2): a flattened JWS with nothing unprotected. It is
 * strict where parsers differ: canonical base64url, valid UTF-8, no duplicate members.
 *
 * @throws AcmeProblem `malformed`, `badNonce`, `badSignatureAlgorithm`, `badPublicKey`
 */
export function readRequest(body: Uint8Array): SignedRequest {
  if (body.length > MAX_BODY) throw malformed('the request is too large', { status: 413 })
  const { header, ...jws } = openJws(readObject(body, 'the request'), ACCOUNT_ALGORITHMS)
  const { nonce, kid, jwk } = header
  if (nonce === undefined) throw new AcmeProblem('badNonce', 'the request has no nonce')
  if (!isText(nonce, NONCE)) throw malformed('the nonce is not base64url')
  if ((kid === undefined) === (jwk === undefined))
    throw malformed('the protected header must have either `jwk` or `kid`')
  if (jwk !== undefined) return { ...jws, nonce, key: readSigner(jws.alg, jwk) }
  if (!isText(kid, TEXT)) throw malformed('the `kid` is not a URL')
  return { ...jws, nonce, kid }
}

/** A JWS with its parts decoded. */
interface OpenJws extends Pick<SignedRequest, 'alg' | 'url' | 'payload' | 'isSignedBy'> {
  readonly header: Members
  isMadeWith(hmacKey: Uint8Array): boolean
}

function openJws(jws: Members, algorithms: readonly string[]): OpenJws {
  const { protected: encoded, payload, signature, ...others } = jws
  if (Object.keys(others).length > 0)
    throw malformed('the JWS must have nothing but `protected`, `payload` and `signature`')
  const header = readObject(readBase64url(encoded, '`protected`'), 'the protected header')
  const { alg, url } = header
  if (typeof alg !== 'string' || !algorithms.includes(alg)) throw wrongAlgorithm(algorithms)
  // An extension that has to be understood (RFC 7515 section 4.1.11, RFC 7797).
  if ('crit' in header || 'b64' in header) throw malformed('the JWS has an extension')
  if (!isText(url, TEXT)) throw malformed('the protected header has no `url`')
  const signed = {
    alg,
    input: `${encoded}.${payload}`,
    signature: readBase64url(signature, '`signature`'),
  }
  return {
    header,
    alg,
    url,
    payload: readBase64url(payload, '`payload`'),
    isSignedBy: (key) => isSignedBy(key, signed),
    isMadeWith: (hmacKey) => isMadeWith(hmacKey, signed),
  }
}

const wrongAlgorithm = (algorithms: readonly string[]): AcmeProblem =>
  new AcmeProblem(
    'badSignatureAlgorithm',
    `the algorithm must be that of the key, and one of ${algorithms.join(', ')}`,
    { algorithms },
  )

/** The key that a JWS carries. */
function readSigner(alg: string, jwk: unknown): PublicKey {
  const key = readPublicKey(isMembers(jwk) ? jwk : undefined)
  if (key.alg !== alg) throw wrongAlgorithm(ACCOUNT_ALGORITHMS)
  return key
}

interface Signed {
  readonly alg: string
  readonly input: string
  readonly signature: Buffer
}

function isSignedBy({ key, alg }: PublicKey, { input, signature, ...given }: Signed): boolean {
  const digest = REQUEST_DIGESTS.get(alg)
  if (alg !== given.alg || digest === undefined) return false
  try {
    return verify(digest, Buffer.from(input), { key, dsaEncoding: 'ieee-p1363' }, signature)
  } catch {
    // OpenSSL cannot read the signature.
    return false
  }
}

function isMadeWith(hmacKey: Uint8Array, { alg, input, signature }: Signed): boolean {
  const mac = createHmac(BINDING_DIGESTS.get(alg) ?? '', hmacKey)
    .update(input)
    .digest()
  return mac.length === signature.length && timingSafeEqual(mac, signature)
}

/** A change of the key of an account, signed by the new key. */
export interface KeyChange {
  readonly newKey: PublicKey
  /** Must be the key of the account. */
  readonly oldKey: PublicKey
  readonly account: string
}

/**
 * Reads the payload of keyChange, which is a JWS of the new key for the same URL and account, without a
 * nonce (RFC 8555 section 7.3.5).
 *
 * @throws AcmeProblem `malformed`, `badSignatureAlgorithm`, `badPublicKey`, `unauthorized`
 */
export function readKeyChange(
  payload: Uint8Array,
  outer: { readonly url: string; readonly kid: string },
): KeyChange {
  const inner = openJws(readObject(payload, 'the payload'), ACCOUNT_ALGORITHMS)
  const { kid, jwk } = inner.header
  if (kid !== undefined) throw malformed('the inner JWS must have `jwk` and no `kid`')
  const newKey = readSigner(inner.alg, jwk)
  checkInner(inner, outer.url)
  if (!inner.isSignedBy(newKey))
    throw new AcmeProblem('unauthorized', 'the new key did not sign the inner JWS')
  const { account, oldKey } = readObject(inner.payload, 'the inner payload')
  if (account !== outer.kid) throw malformed('the inner payload names another account')
  return {
    newKey,
    oldKey: readPublicKey(isMembers(oldKey) ? oldKey : undefined),
    account: outer.kid,
  }
}

function checkInner({ header, url }: OpenJws, expected: string): void {
  if (url !== expected) throw malformed('the inner JWS has another `url`')
  if ('nonce' in header) throw malformed('the inner JWS must have no nonce')
}

/** The binding of an account key to a caller; its MAC is not yet verified. */
export interface Binding {
  readonly kid: string
  isMadeWith(hmacKey: Uint8Array): boolean
}

/**
 * Reads the external account binding of newAccount: a MAC over the account key for the same URL, without
 * a nonce (RFC 8555 section 7.3.4).
 *
 * @throws AcmeProblem `malformed`, `badSignatureAlgorithm`, `badPublicKey`
 */
export function readBinding(
  binding: unknown,
  outer: { readonly url: string; readonly accountKey: PublicKey },
): Binding {
  if (!isMembers(binding)) throw malformed('the external account binding is not an object')
  const inner = openJws(binding, BINDING_ALGORITHMS)
  const { kid, jwk } = inner.header
  if (jwk !== undefined || !isText(kid, TEXT))
    throw malformed('the external account binding must have `kid` and no `jwk`')
  checkInner(inner, outer.url)
  const bound = readPublicKey(readObject(inner.payload, 'the bound key'))
  if (bound.thumbprint !== outer.accountKey.thumbprint)
    throw malformed('the external account binding is of another key')
  return { kid, isMadeWith: inner.isMadeWith }
}

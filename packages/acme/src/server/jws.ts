import { createHmac, timingSafeEqual, verify } from 'node:crypto'
import { attempt, isObject } from '@gatehouse/net'
import { BINDING_DIGESTS, REQUEST_DIGESTS } from '../protocol/jws.ts'
import { type PublicKey, readJwk } from './keys.ts'
import { isText, type Members, readBase64url, readObject } from './parts.ts'
import { AcmeProblem, malformed } from './problems.ts'

/** The algorithms of requests. */
export const ACCOUNT_ALGORITHMS: readonly string[] = [...REQUEST_DIGESTS.keys()]
const BINDING_ALGORITHMS = [...BINDING_DIGESTS.keys()]

/** Bytes: a CSR of 100 long names, encoded twice. */
const MAX_BODY = 65_536
const URL_OR_ID = /^[!-~]{1,2000}$/
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
  const jws = openJws(readObject(body, 'the request'), ACCOUNT_ALGORITHMS)
  const { alg, url, payload, header } = jws
  const { nonce, kid, jwk } = header
  if (nonce === undefined) throw new AcmeProblem('badNonce', 'the request has no nonce')
  if (!isText(nonce, NONCE)) throw malformed('the nonce is not base64url')
  if ((kid === undefined) === (jwk === undefined))
    throw malformed('the protected header must have either `jwk` or `kid`')
  const isSignedBy = (key: PublicKey) => isSigned(jws, key)
  const request = { alg, url, nonce, payload, isSignedBy }
  if (jwk !== undefined) return { ...request, key: readSigner(jws) }
  if (!isText(kid, URL_OR_ID)) throw malformed('the `kid` is not a URL')
  return { ...request, kid }
}

/** A JWS with its parts decoded. */
type OpenJws = ReturnType<typeof openJws>

function openJws(jws: Members, algorithms: readonly string[]) {
  const { protected: encoded, payload, signature, ...extraMembers } = jws
  if (Object.keys(extraMembers).length > 0)
    throw malformed('the JWS must have nothing but `protected`, `payload` and `signature`')
  const header = readObject(readBase64url(encoded, '`protected`'), 'the protected header')
  const { alg, url } = header
  if (typeof alg !== 'string' || !algorithms.includes(alg)) throw wrongAlgorithm(algorithms)
  // An extension that has to be understood (RFC 7515 section 4.1.11, RFC 7797).
  if ('crit' in header || 'b64' in header) throw malformed('the JWS has an extension')
  if (!isText(url, URL_OR_ID)) throw malformed('the protected header has no `url`')
  return {
    header,
    alg,
    url,
    payload: readBase64url(payload, '`payload`'),
    signature: readBase64url(signature, '`signature`'),
    /** The bytes that the signature covers. */
    input: Buffer.from(`${encoded}.${payload}`),
  }
}

function wrongAlgorithm(algorithms: readonly string[]): AcmeProblem {
  const detail = `the algorithm must be that of the key, and one of ${algorithms.join(', ')}`
  return new AcmeProblem('badSignatureAlgorithm', detail, { algorithms })
}

function readSigner({ alg, header }: OpenJws): PublicKey {
  const key = readJwk(header.jwk)
  if (key.alg !== alg) throw wrongAlgorithm(ACCOUNT_ALGORITHMS)
  return key
}

function isSigned({ alg, input, signature }: OpenJws, { key, alg: keyAlg }: PublicKey): boolean {
  const digest = REQUEST_DIGESTS.get(alg)
  if (alg !== keyAlg || digest === undefined) return false
  const size = ECDSA_BYTES.get(alg)
  if (size !== undefined && signature.length !== size) return false
  const derSignature = size === undefined ? signature : toDer(signature)
  // OpenSSL may not be able to read the signature.
  return attempt(() => verify(digest, input, key, derSignature)) ?? false
}

/** Bytes of the two numbers of a signature (RFC 7518 section 3.4). */
const ECDSA_BYTES: ReadonlyMap<string, number> = new Map([
  ['ES256', 64],
  ['ES384', 96],
])

/** Encodes a signature of two numbers as DER: Node takes half as long again to verify the other form. */
function toDer(signature: Buffer): Buffer {
  const half = signature.length / 2
  const numbers = [signature.subarray(0, half), signature.subarray(half)].map((number) => {
    const start = number.findIndex((byte) => byte !== 0)
    const digits = number.subarray(start === -1 ? half - 1 : start)
    // An integer that begins with a set bit would be negative.
    const sign = Buffer.alloc((digits[0] ?? 0) >> 7)
    return Buffer.concat([Buffer.of(0x02, sign.length + digits.length), sign, digits])
  })
  const content = Buffer.concat(numbers)
  return Buffer.concat([Buffer.of(0x30, content.length), content])
}

function isMac({ alg, input, signature }: OpenJws, key: Uint8Array): boolean {
  const mac = createHmac(BINDING_DIGESTS.get(alg) ?? '', key)
    .update(input)
    .digest()
  return mac.length === signature.length && timingSafeEqual(mac, signature)
}

function checkInner({ header, url }: OpenJws, expected: string): void {
  if (url !== expected) throw malformed('the inner JWS has another `url`')
  if ('nonce' in header) throw malformed('the inner JWS must have no nonce')
}

/**
 * Reads the payload of keyChange: a JWS of the new key for the same URL and account, without a nonce
 * (RFC 8555 section 7.3.5). It is verified; `oldKey` must be the key of the account.
 *
 * @throws AcmeProblem `malformed`, `badSignatureAlgorithm`, `badPublicKey`, `unauthorized`
 */
export function readKeyChange(
  payload: Uint8Array,
  outer: { readonly url: string; readonly kid: string },
): { readonly newKey: PublicKey; readonly oldKey: PublicKey; readonly account: string } {
  const inner = openJws(readObject(payload, 'the payload'), ACCOUNT_ALGORITHMS)
  if (inner.header.kid !== undefined) throw malformed('the inner JWS must have `jwk` and no `kid`')
  const newKey = readSigner(inner)
  checkInner(inner, outer.url)
  if (!isSigned(inner, newKey))
    throw new AcmeProblem('unauthorized', 'the new key did not sign the inner JWS')
  const { account, oldKey } = readObject(inner.payload, 'the inner payload')
  if (account !== outer.kid) throw malformed('the inner payload names another account')
  return { newKey, oldKey: readJwk(oldKey), account: outer.kid }
}

/**
 * Reads the external account binding of newAccount: a MAC over the account key for the same URL, without
 * a nonce (RFC 8555 section 7.3.4). The MAC is not yet verified.
 *
 * @throws AcmeProblem `malformed`, `badSignatureAlgorithm`, `badPublicKey`
 */
export function readBinding(
  binding: unknown,
  outer: { readonly url: string; readonly accountKey: PublicKey },
): { readonly kid: string; isMadeWith(hmacKey: Uint8Array): boolean } {
  if (!isObject(binding)) throw malformed('the external account binding is not an object')
  const inner = openJws(binding, BINDING_ALGORITHMS)
  const { kid, jwk } = inner.header
  if (jwk !== undefined || !isText(kid, URL_OR_ID))
    throw malformed('the external account binding must have `kid` and no `jwk`')
  checkInner(inner, outer.url)
  const { thumbprint } = readJwk(readObject(inner.payload, 'the bound key'))
  if (thumbprint !== outer.accountKey.thumbprint)
    throw malformed('the external account binding is of another key')
  return { kid, isMadeWith: (hmacKey) => isMac(inner, hmacKey) }
}

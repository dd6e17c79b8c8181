import { createPublicKey, type JsonWebKey, type KeyObject } from 'node:crypto'
import { createVerifier, type Algorithm as FastJwtAlgorithm } from 'fast-jwt'

/** A key together with the algorithms that fit it. */
export interface VerificationKey {
  readonly kid: string | undefined
  readonly algorithms: readonly string[]
  /** Throws if the token is not signed with this key and one of its algorithms. */
  verify(token: string): unknown
}

const RSA_ALGORITHMS = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512']

/** The algorithms of each kind of key, or of its curve. */
const ALGORITHMS_OF = new Map([
  ['rsa', RSA_ALGORITHMS],
  ['prime256v1', ['ES256']],
  ['secp384r1', ['ES384']],
  ['secp521r1', ['ES512']],
  ['ed25519', ['EdDSA']],
  ['ed448', ['EdDSA']],
])

/** The accepted algorithms: those of keys that an issuer publishes. */
export const ALGORITHMS: readonly string[] = [...ALGORITHMS_OF.values()].flat()

/** Reads one key of a set (RFC 7517). @throws TypeError that says why it is no public signature key that is safe to use */
export function readJwk(jwk: unknown): VerificationKey {
  if (typeof jwk !== 'object' || jwk === null) throw new TypeError('not an object')
  const { kty, n, e, crv, x, y, ...parameters } = jwk as JsonWebKey
  const { kid, use, alg, key_ops: operations } = parameters as Record<string, unknown>
  if (kid !== undefined && typeof kid !== 'string') throw new TypeError('kid is not a string')
  if (kid?.isWellFormed() === false) throw new TypeError('kid is not well-formed')
  if (use !== undefined && use !== 'sig') throw new TypeError('not for signatures')
  if (operations !== undefined && !(Array.isArray(operations) && operations.includes('verify')))
    throw new TypeError('not for verification')
  if ('d' in parameters || 'k' in parameters) throw new TypeError('private or symmetric')

  const key = createPublicKey({ key: { kty, n, e, crv, x, y } as JsonWebKey, format: 'jwk' })
  if (key.asymmetricKeyType === 'rsa') checkRsa(key)
  const fitting = algorithmsOf(key).filter((algorithm) => alg === undefined || algorithm === alg)
  if (fitting.length === 0) throw new TypeError('of an algorithm that is not accepted')
  // Without the times, which `checkClaims` checks with the clock of the verifier.
  const verify = createVerifier({
    key: key.export({ type: 'spki', format: 'pem' }),
    algorithms: fitting as FastJwtAlgorithm[],
    ignoreExpiration: true,
    ignoreNotBefore: true,
  })
  return { kid, algorithms: fitting, verify }
}

/** Refuses RSA keys that are weak or slow: a long exponent takes a hundred times as long. Most libraries accept up to 32 bits. */
function checkRsa(key: KeyObject): void {
  const { modulusLength = 0, publicExponent = 0n } = key.asymmetricKeyDetails ?? {}
  if (modulusLength < 2_048 || modulusLength > 8_192)
    throw new TypeError(`an RSA modulus of ${modulusLength} bits is not accepted`)
  if (publicExponent < 3n || publicExponent >= 2n ** 32n || publicExponent % 2n === 0n)
    throw new TypeError('the RSA exponent is not an odd number from 3 to 32 bits')
  if (isRocaKey(key))
    throw new TypeError('the RSA key was made by a library whose keys are weak (CVE-2017-15361)')
}

function algorithmsOf({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject): string[] {
  return ALGORITHMS_OF.get(asymmetricKeyDetails?.namedCurve ?? asymmetricKeyType ?? '') ?? []
}

/** Whether the private key can be computed from the public one, see {@link isRocaModulus}. */
export function isRocaKey(key: KeyObject): boolean {
  const modulus = Buffer.from(key.export({ format: 'jwk' }).n ?? '', 'base64url')
  return isRocaModulus(BigInt(`0x${modulus.toString('hex')}`))
}

/**
 * Whether an RSA modulus was made by the library of CVE-2017-15361 ("ROCA"). Its primes are powers of
 * 65537 modulo many small primes, and so is their product: for keys of 2,048 bits and more, modulo all
 * primes up to 701. The probability that another modulus has this property is less than one in 2^100.
 *
 * From M. Nemec et al., "The Return of Coppersmith's Attack", section 4.1.
 */
export function isRocaModulus(modulus: bigint): boolean {
  powers ??= SMALL_PRIMES.map((prime) => [BigInt(prime), powersOf65537(prime)])
  return powers.every(([prime, residues]) => residues.has(Number(modulus % prime)))
}

const SMALL_PRIMES = primesUpTo(701).filter((prime) => prime > 2)
let powers: [prime: bigint, residues: ReadonlySet<number>][] | undefined

function powersOf65537(prime: number): Set<number> {
  const residues = new Set<number>()
  for (let power = 1; !residues.has(power); power = (power * 65_537) % prime) residues.add(power)
  return residues
}

function primesUpTo(max: number): number[] {
  const primes: number[] = []
  for (let n = 2; n <= max; n++) if (primes.every((prime) => n % prime !== 0)) primes.push(n)
  return primes
}

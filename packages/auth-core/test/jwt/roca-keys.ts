// Makes RSA keys as the library of CVE-2017-15361 did.
import {
  checkPrimeSync,
  createPrivateKey,
  createPublicKey,
  type KeyPairKeyObjectResult,
  randomBytes,
} from 'node:crypto'

const E = 65_537n
const PRIME_BITS = 1_024n

/** M of the attack for keys of 2,048 bits: the product of the first 126 primes. */
export const primorial: bigint = (() => {
  const primes: bigint[] = []
  for (let n = 2n; primes.length < 126; n++) if (primes.every((one) => n % one)) primes.push(n)
  return primes.reduce((product, one) => product * one)
})()

/** A prime as the library made them: k * M + (65537^a mod M). Two of them make 2,048 bits. */
export function weakPrime(): bigint {
  const largest = (1n << PRIME_BITS) / primorial - 1n
  for (;;) {
    const k = largest - (random(64) % (largest / 8n))
    const prime = k * primorial + power(E, random(64), primorial)
    if (prime % E !== 1n && checkPrimeSync(prime)) return prime
  }
}

/** A pair of 2,048 bits that signs as any other. */
export function weakPair(): KeyPairKeyObjectResult {
  const [p, q] = [weakPrime(), weakPrime()]
  const d = inverse(E, (p - 1n) * (q - 1n))
  const parts = { n: p * q, e: E, d, p, q, dp: d % (p - 1n), dq: d % (q - 1n), qi: inverse(q, p) }
  const encoded = Object.entries(parts).map(([name, value]) => [name, encodeNumber(value)])
  const key = { kty: 'RSA', ...Object.fromEntries(encoded) }
  const privateKey = createPrivateKey({ key, format: 'jwk' })
  return { privateKey, publicKey: createPublicKey(privateKey) }
}

export function encodeNumber(value: bigint): string {
  const hex = value.toString(16)
  return Buffer.from(hex.length % 2 ? `0${hex}` : hex, 'hex').toString('base64url')
}

const random = (bits: number) => BigInt(`0x${randomBytes(bits / 8).toString('hex')}`)

function power(base: bigint, exponent: bigint, modulus: bigint): bigint {
  let result = 1n
  for (let [square, rest] = [base, exponent]; rest > 0n; rest >>= 1n) {
    if (rest & 1n) result = (result * square) % modulus
    square = (square * square) % modulus
  }
  return result
}

function inverse(value: bigint, modulus: bigint): bigint {
  let [rest, next, factor, nextFactor] = [modulus, value % modulus, 0n, 1n]
  while (next > 0n) {
    const times = rest / next
    ;[rest, next] = [next, rest - times * next]
    ;[factor, nextFactor] = [nextFactor, factor - times * nextFactor]
  }
  return ((factor % modulus) + modulus) % modulus
}

import type { KeyObject } from 'node:crypto'

/**
 * Tells whether an RSA key was made by the library of CVE-2017-15361 ("ROCA"): whoever has the public
 * key can find the private one.
 */
export function isRocaKey(key: KeyObject): boolean {
  const modulus = Buffer.from(key.export({ format: 'jwk' }).n ?? '', 'base64url')
  return isRocaModulus(BigInt(`0x${modulus.toString('hex')}`))
}

/**
 * Tells whether an RSA modulus was made by the library of CVE-2017-15361 ("ROCA"), whose primes can be
 * found from it. Those primes are powers of 65537 modulo many small primes, and so is their product:
 * for keys of 2,048 bits and more modulo all primes up to 701. A good modulus meets that for each of
 * them with a chance of less than one in 2^100.
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

import { generateKeyPairSync } from 'node:crypto'
import t from 'tap'
import { isRocaModulus, readJwk } from '../../src/oidc/keys.ts'
import { encodeNumber, primorial, weakPrime } from '../jwt/roca-keys.ts'

const decodeNumber = (text: string) => BigInt(`0x${Buffer.from(text, 'base64url').toString('hex')}`)
const rsa = (modulusLength: number, publicExponent = 65_537) =>
  generateKeyPairSync('rsa', { modulusLength, publicExponent }).publicKey.export({ format: 'jwk' })

const good = rsa(2_048)

t.test('an RSA key is accepted', async (t) => {
  for (const [why, jwk] of [
    ['of 2,048 bits', good],
    ['of 8,192 bits', { ...good, n: encodeNumber(2n ** 8_191n + 1n) }],
    ['with the exponent 3', rsa(2_048, 3)],
    ['with the largest exponent', { ...good, e: encodeNumber(2n ** 32n - 1n) }],
  ] as const)
    t.equal(readJwk(jwk).algorithms.length, 6, why)
})

t.test('an RSA key is refused', async (t) => {
  const exponent = (e: bigint) => ({ ...good, e: encodeNumber(e) })
  const modulus = (n: bigint) => ({ ...good, n: encodeNumber(n) })
  for (const [why, jwk, message] of [
    ['of 1,024 bits', rsa(1_024), /1024 bits/],
    ['of 2,047 bits', modulus(2n ** 2_046n + 1n), /2047 bits/],
    ['of 8,193 bits', modulus(2n ** 8_192n + 1n), /8193 bits/],
    ['with the exponent 1', exponent(1n), /exponent/],
    ['with an even exponent', exponent(65_536n), /exponent/],
    ['with an exponent of 33 bits', exponent(2n ** 32n + 1n), /exponent/],
    ['with an exponent as long as the modulus', exponent(2n ** 2_040n + 1n), /exponent/],
  ] as const)
    t.throws(() => readJwk(jwk), { name: 'TypeError', message }, why)
})

t.test('a modulus of the ROCA attack is refused', async (t) => {
  const weak = weakPrime() * weakPrime()
  t.ok(isRocaModulus(weak))
  t.throws(() => readJwk({ ...good, n: encodeNumber(weak) }), { message: /CVE-2017-15361/ })

  t.test('is not one with a single such prime', async (t) => {
    const modulus = decodeNumber(good.n as string)
    t.notOk(isRocaModulus(modulus))
    t.notOk(isRocaModulus(weak + 2n))
    t.notOk(isRocaModulus(weakPrime() * modulus))
    t.notOk(isRocaModulus(primorial), 'nor one that small primes divide')
  })
})

import assert from 'node:assert/strict'
import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  sign,
  verify,
} from 'node:crypto'
import t from 'tap'
import {
  generateKeyPair,
  generateP256,
  KEY_TYPES,
  type KeyPair,
  keyPairFromPem,
  toPem,
} from '../src/index.ts'

/** What OpenSSL itself makes of the encoded halves. */
function check(pair: KeyPair): void {
  const fromPkcs8 = createPrivateKey({ key: pair.pkcs8, type: 'pkcs8', format: 'der' })
  const fromSpki = createPublicKey({ key: pair.spki, type: 'spki', format: 'der' })
  assert.ok(pair.privateKey.equals(fromPkcs8))
  assert.ok(createPublicKey(fromPkcs8).equals(fromSpki))
  assert.deepEqual(fromPkcs8.export({ type: 'pkcs8', format: 'der' }), pair.pkcs8)
  assert.deepEqual(fromSpki.export({ type: 'spki', format: 'der' }), pair.spki)
  const digest = pair.type === 'ed25519' ? null : 'sha256'
  assert.ok(verify(digest, Buffer.from('x'), fromSpki, sign(digest, Buffer.from('x'), fromPkcs8)))
}

t.test('P-256 pairs are what OpenSSL would have written', async (t) => {
  // One secret in 256 begins with a zero byte.
  t.doesNotThrow(() => {
    for (let i = 0; i < 1500; i++) check(generateP256())
  })
  t.not(generateP256().spki.toString('hex'), generateP256().spki.toString('hex'))
})

t.test('each type is made and read back', async (t) => {
  for (const type of KEY_TYPES.filter((type) => type !== 'rsa4096')) {
    const pair = await generateKeyPair(type)
    t.equal(pair.type, type)
    t.doesNotThrow(() => check(pair))
    const read = keyPairFromPem(toPem('PRIVATE KEY', pair.pkcs8))
    t.strictSame(
      [read.type, read.spki, read.pkcs8],
      [type, pair.spki, pair.pkcs8],
      `${type} from PEM`,
    )
  }
})

t.test('RSA keys are made two at a time; 16 wait, one more is refused', async (t) => {
  const asked = Array.from({ length: 19 }, () => generateKeyPair('rsa2048'))
  const settled = await Promise.allSettled(asked)
  t.strictSame(
    settled.map(({ status }) => status),
    [...Array(18).fill('fulfilled'), 'rejected'],
  )
  t.match(settled[18], { reason: { code: 'PKI_KEY_QUEUE_FULL' } })
  t.equal((await generateKeyPair('rsa2048')).type, 'rsa2048', 'the queue goes on afterwards')
})

t.test('a key that cannot be made gives its turn back', async (t) => {
  const impossible = 'rsa8' as KeyPair['type']
  for (const attempt of [1, 2, 3]) await t.rejects(generateKeyPair(impossible), `${attempt}`)
  t.equal((await generateKeyPair('rsa2048')).type, 'rsa2048')
})

t.test('refuses unsupported keys', async (t) => {
  const pem = (key: KeyObject) => key.export({ type: 'pkcs8', format: 'pem' }).toString()
  const ec = (namedCurve: string) => pem(generateKeyPairSync('ec', { namedCurve }).privateKey)
  const encrypted = generateP256().privateKey.export({
    type: 'pkcs8',
    format: 'pem',
    cipher: 'aes-256-cbc',
    passphrase: 'x',
  })
  const table: [what: string, pem: string, code: string][] = [
    [
      'RSA of 1024 bits',
      pem(generateKeyPairSync('rsa', { modulusLength: 1024 }).privateKey),
      'PKI_KEY_WEAK',
    ],
    [
      'RSA with exponent 3',
      pem(generateKeyPairSync('rsa', { modulusLength: 2048, publicExponent: 3 }).privateKey),
      'PKI_KEY_WEAK',
    ],
    [
      'RSA-PSS',
      pem(generateKeyPairSync('rsa-pss', { modulusLength: 2048 }).privateKey),
      'PKI_KEY_WEAK',
    ],
    ['P-521', ec('P-521'), 'PKI_KEY_WEAK'],
    ['secp256k1', ec('secp256k1'), 'PKI_KEY_WEAK'],
    ['X25519', pem(generateKeyPairSync('x25519').privateKey), 'PKI_KEY_WEAK'],
    ['Ed448', pem(generateKeyPairSync('ed448').privateKey), 'PKI_KEY_WEAK'],
    ['encrypted', encrypted.toString(), 'PKI_KEY_INVALID'],
    [
      'a public key',
      createPublicKey(generateP256().privateKey).export({ type: 'spki', format: 'pem' }).toString(),
      'PKI_KEY_INVALID',
    ],
    ['no key', 'secret-canary', 'PKI_KEY_INVALID'],
  ]
  for (const [what, pem, code] of table) {
    const error = t.throws(() => keyPairFromPem(pem), { code }, `refused: ${what}`)
    t.notMatch(String(error), /canary|BEGIN/, 'the message has nothing of the key')
  }
})

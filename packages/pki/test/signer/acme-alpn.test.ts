import { X509Certificate } from 'node:crypto'
import t from 'tap'
import { encode, extension, OID, octets } from '../../src/der.ts'
import {
  createAcmeAlpnCertificate,
  createSerial,
  generateKeyPair,
  generateP256,
  type KeyType,
  parseName,
  readAcmeIdentifier,
} from '../../src/index.ts'
import { createSigner, distinguishedName, signCertificate } from '../../src/signer.ts'
import { DAY, NOW } from '../helpers.ts'

const digest = Buffer.alloc(32, 0xd1)
const make = async (type: KeyType, name = 'a.example') =>
  createAcmeAlpnCertificate({
    name: parseName(name),
    digest,
    key: await generateKeyPair(type),
    now: NOW,
  })

t.test('has one name and the critical digest, and is valid for two hours', async (t) => {
  for (const type of ['p256', 'p384', 'rsa2048'] as const) {
    const x509 = new X509Certificate(await make(type))
    t.equal(x509.subjectAltName, 'DNS:a.example', type)
    t.ok(x509.checkIssued(x509) && x509.verify(x509.publicKey), 'signed by its own key')
    t.notOk(x509.ca)
    t.equal(x509.validFromDate.getTime(), NOW - 3_600_000)
    t.equal(x509.validToDate.getTime(), NOW + 3_600_000)
    // OID 1.3.6.1.5.5.7.1.31, critical, an OCTET STRING of 32 bytes.
    const extension = `06082b0601050507011f0101ff04220420${digest.toString('hex')}`
    t.ok(x509.raw.toString('hex').includes(extension))
    t.strictSame(readAcmeIdentifier(x509.raw), digest)
  }
  t.equal(
    new X509Certificate(await make('p256', '::1')).subjectAltName,
    'IP Address:0:0:0:0:0:0:0:1',
  )
})

t.test('the digest of an extension that is not critical is not read', async (t) => {
  const key = generateP256()
  const subject = encode(distinguishedName('ACME challenge'))
  const der = signCertificate(createSigner(subject, '', key.privateKey), {
    serial: createSerial(NOW),
    subject,
    spki: key.spki,
    notBefore: NOW,
    notAfter: NOW + DAY,
    extensions: [extension(OID.acmeIdentifier, octets(digest))],
  })
  t.equal(readAcmeIdentifier(der), undefined)
})

t.test('an Ed25519 key is refused', (t) => t.rejects(make('ed25519'), { code: 'PKI_KEY_WEAK' }))

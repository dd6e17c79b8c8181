import { generateKeyPairSync, type KeyObject, sign as signBytes } from 'node:crypto'
import t from 'tap'
import {
  authorityKeyId,
  bits,
  caConstraint,
  criticalExtension,
  type Der,
  element,
  encode,
  extension,
  OID,
  oid,
  sequence,
  subjectAltName,
  utf8,
} from '../src/der.ts'
import {
  type Authority,
  createIntermediate,
  createRoot,
  createSerial,
  generateP256,
  keyPairFromPem,
  parseCertificate,
  parseClientName,
  readClientCertificate,
} from '../src/index.ts'
import { distinguishedName, signCertificate, signerOf } from '../src/signer.ts'
import { constraintsOf, DAY, makeUpper, NOW } from './helpers.ts'

const CLIENT_AUTH = '1.3.6.1.5.5.7.3.2'
const SERVER_AUTH = '1.3.6.1.5.5.7.3.1'
const ECDSA_SHA1 = '1.2.840.10045.4.1'
const ECDSA_SHA256 = '1.2.840.10045.4.3.2'
const NAMES = ['a.test', 'ada@a.test', 'spiffe://a.test/app']

/** A leaf with these extensions beside its names. */
function sign(
  by: Authority,
  {
    purposes = [CLIENT_AUTH],
    usage = 0x80,
    isCa = false,
    names = NAMES,
    more = [] as ReturnType<typeof extension>[],
    subject = distinguishedName('leaf'),
    spki = generateP256().spki,
    notBefore = NOW - DAY,
    notAfter = NOW + DAY,
    signer = signerOf(by),
  } = {},
): Buffer {
  const eku = extension(OID.extendedKeyUsage, sequence(...purposes.map(oid)))
  return signCertificate(signer, {
    serial: createSerial(NOW),
    subject: encode(subject),
    spki,
    notBefore,
    notAfter,
    extensions: [
      ...(purposes.length > 0 ? [eku] : []),
      ...(usage > 0 ? [criticalExtension(OID.keyUsage, bits(Buffer.of(usage), 2))] : []),
      ...(isCa ? [caConstraint()] : []),
      subjectAltName(names.map(parseClientName), false),
      authorityKeyId(Buffer.from(by.info.skid ?? '', 'hex')),
      ...more,
    ],
  })
}

/** Signs by an algorithm or a key that this package refuses. */
function signWeakly(issuer: Authority, algorithm: string, key: KeyObject) {
  const { info } = issuer
  const id = encode(sequence(oid(algorithm)))
  const keyId = Buffer.from(info.skid ?? '', 'hex')
  const seal = (content: Der) => {
    const bytes = encode(content)
    const digest = algorithm === ECDSA_SHA1 ? 'sha1' : 'sha256'
    return encode(sequence(bytes, id, bits(signBytes(digest, bytes, key))))
  }
  return { issuer: info.subjectDer, keyId, algorithm: id, seal }
}

/** What signs for clients although its certificate is no authority of this package. */
function issuerOf(certificate: Buffer, key: KeyObject): Authority {
  const info = parseCertificate(certificate)
  return { certificate, chain: [certificate], info, ends: info.notAfter, key }
}

t.test('certificates of TLS clients', async (t) => {
  const root = await createRoot({ commonName: 'Root', now: NOW })
  const at = { root, now: NOW }
  const clients = await createIntermediate({ ...at, commonName: 'C', purpose: 'clientAuth' })
  const servers = await createIntermediate({ ...at, commonName: 'S' })
  // Of the same name as `clients`.
  const forged = await createRoot({ commonName: 'C', now: NOW })
  const limited = makeUpper(root, 9 * DAY, constraintsOf(['+a.test']))
  const unlimited = makeUpper(root, 9 * DAY)
  const fleet = makeUpper(root, 9 * DAY, constraintsOf(['+O=Fleet']))
  const exotic = makeUpper(root, 9 * DAY, undefined, {
    ...generateP256(),
    more: [criticalExtension(oid('1.2.3.4'), utf8('x'))],
  })
  const pair = generateP256()
  const leaf = issuerOf(sign(clients, { spki: pair.spki, usage: 0 }), pair.privateKey)
  const small = generateKeyPairSync('ec', { namedCurve: 'secp224r1' })
  const spki = small.publicKey.export({ type: 'spki', format: 'der' })
  const weak = issuerOf(sign(clients, { spki, isCa: true, usage: 0x06 }), small.privateKey)
  const all = [clients, servers, limited, unlimited, fleet, exotic, leaf, weak]
  const authorities = all.map(({ certificate }) => certificate)
  const unknown = criticalExtension(oid('1.2.3.4'), utf8('x'))
  const harmless = extension(oid('1.2.3.4'), utf8('x'))

  const cases: readonly (readonly [why: string, der: Buffer, refusal?: RegExp | undefined])[] = [
    ['ours', sign(clients)],
    ['an authority without purposes', sign(unlimited)],
    ['without a key usage', sign(clients, { usage: 0 })],
    ['an unknown extension', sign(clients, { more: [harmless] })],
    ['within constraints', sign(limited, { names: ['x.a.test'] })],
    ['the first moment', sign(clients, { notBefore: NOW })],
    ['the last moment', sign(clients, { notAfter: NOW })],
    ['expired', sign(clients, { notAfter: NOW - 1000 }), /expired/],
    ['not begun', sign(clients, { notBefore: NOW + 1000 }), /not valid yet/],
    ['of the root, which signs no leaves', sign(root), /no certificate authority/],
    ['of another authority of that name', sign(forged), /no certificate authority/],
    ['of a leaf', sign(leaf), /no certificate authority/],
    [
      'of an authority with a small curve',
      sign(weak, { signer: signWeakly(weak, ECDSA_SHA256, small.privateKey) }),
      /key of what signed it is weak/,
    ],
    [
      'signed with SHA-1',
      sign(clients, { signer: signWeakly(clients, ECDSA_SHA1, clients.key as KeyObject) }),
      /signature is weak/,
    ],
    ['self-signed', forged.certificate, /no certificate authority/],
    [
      'an authority itself',
      sign(clients, { isCa: true, usage: 0x84 }),
      /that of a certificate authority/,
    ],
    ['for servers', sign(clients, { purposes: [SERVER_AUTH] }), /clientAuth alone/],
    ['for both', sign(clients, { purposes: [CLIENT_AUTH, SERVER_AUTH] }), /clientAuth alone/],
    ['for any purpose', sign(clients, { purposes: ['2.5.29.37.0'] }), /clientAuth alone/],
    ['for no purpose', sign(clients, { purposes: [] }), /clientAuth alone/],
    ['of what signs for servers', sign(servers), /does not allow clientAuth/],
    ['for encryption', sign(clients, { usage: 0x20 }), /not for signatures/],
    ['an unknown critical extension', sign(clients, { more: [unknown] }), /critical extension/],
    ['outside of constraints', sign(limited, { names: ['b.test'] }), /may not sign/],
    ['partly outside', sign(limited, { names: ['a.test', 'b.test'] }), /may not sign/],
    ['constraints on subjects', sign(fleet), /may not sign/],
    ['constraints on subjects, of which it has none', sign(fleet, { subject: sequence() })],
    ['what signed it has an unknown one', sign(exotic), /what signed it has a critical extension/],
    ['RSA of 1024 bits', sign(clients, { spki: spkiOf('rsa', { modulusLength: 1_024 }) }), /weak/],
    ['RSA of 2048 bits', sign(clients, { spki: spkiOf('rsa', { modulusLength: 2_048 }) })],
    ['P-521', sign(clients, { spki: spkiOf('ec', { namedCurve: 'P-521' }) })],
    ['a small curve', sign(clients, { spki: spkiOf('ec', { namedCurve: 'secp224r1' }) }), /weak/],
    ['Ed25519', sign(clients, { spki: spkiOf('ed25519', {}) })],
    ['not a certificate', encode(element(0x04, 'x')), /not one X.509/],
    ['with bytes behind it', Buffer.concat([sign(clients), Buffer.of(0)]), /not one X.509/],
  ]
  for (const [why, der, refusal] of cases) {
    const read = () => readClientCertificate(der, authorities, NOW)
    if (refusal) t.throws(read, { message: refusal }, why)
    else t.doesNotThrow(read, why)
  }
  const { names, notBefore, notAfter } = readClientCertificate(sign(clients), authorities, NOW)
  t.strictSame(
    names.map(({ text }) => text),
    NAMES,
  )
  t.strictSame([notBefore, notAfter], [clients.info.notBefore, NOW + DAY])
  const short = sign(unlimited, { notAfter: NOW + 99 * DAY })
  t.equal(readClientCertificate(short, authorities, NOW).notAfter, unlimited.info.notAfter)
  t.throws(() => readClientCertificate(sign(clients), [], NOW), /no certificate authority/)
})

t.test('an authority whose certificate was made anew for its key', async (t) => {
  const root = await createRoot({ commonName: 'Root', now: NOW - 9 * DAY, lifetimeMs: 8 * DAY })
  const { key } = root
  const anew = { commonName: 'Root', now: NOW }
  const renewed = await createRoot({ ...anew, key: keyPairFromPem(pemOf(key as KeyObject)) })
  const leaf = sign(renewed)
  for (const both of [
    [root, renewed],
    [renewed, root],
  ])
    t.match(
      readClientCertificate(
        leaf,
        both.map(({ certificate }) => certificate),
        NOW,
      ),
      { names: NAMES.map((text) => ({ text })), notAfter: NOW + DAY },
    )
  t.throws(() => readClientCertificate(leaf, [root.certificate], NOW), /has expired/)
})

function spkiOf(type: string, options: object): Buffer {
  const { publicKey } = Reflect.apply(generateKeyPairSync, undefined, [type, options])
  return publicKey.export({ type: 'spki', format: 'der' })
}

function pemOf(key: KeyObject): string {
  return String(key.export({ type: 'pkcs8', format: 'pem' }))
}

import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import t from 'tap'
import {
  authorityKeyId,
  bits,
  caConstraint,
  criticalExtension,
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
  loadAuthority,
  parseClientName,
  readClientCertificate,
} from '../src/index.ts'
import { distinguishedName, signCertificate, signerOf } from '../src/signer.ts'
import { constraintsOf, DAY, makeUpper, NOW } from './helpers.ts'

const CLIENT_AUTH = '1.3.6.1.5.5.7.3.2'
const SERVER_AUTH = '1.3.6.1.5.5.7.3.1'
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
  } = {},
): Buffer {
  const eku = extension(OID.extendedKeyUsage, sequence(...purposes.map(oid)))
  return signCertificate(signerOf(by), {
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
  const leafAsIssuer = loadAuthority({ ...clients, now: NOW, purpose: 'clientAuth' })
  const all = [clients, servers, limited, unlimited, fleet, exotic]
  const authorities = all.map(({ certificate }) => certificate)
  const unknown = criticalExtension(oid('1.2.3.4'), utf8('x'))
  const harmless = extension(oid('1.2.3.4'), utf8('x'))

  const cases: readonly (readonly [why: string, der: Buffer, refusal?: RegExp | undefined])[] = [
    ['ours', sign(clients)],
    ['an authority without purposes', sign(unlimited)],
    ['without a key usage', sign(clients, { usage: 0 })],
    ['an unknown extension', sign(clients, { more: [harmless] })],
    ['within constraints', sign(limited, { names: ['x.a.test'] })],
    ['the last moment', sign(clients, { notAfter: NOW })],
    ['expired', sign(clients, { notAfter: NOW - 1000 }), /expired/],
    ['not begun', sign(clients, { notBefore: NOW + 1000 }), /not valid yet/],
    ['of the root, which signs no leaves', sign(root), /no certificate authority/],
    ['of another authority of that name', sign(forged), /no certificate authority/],
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
  const { names, notAfter } = readClientCertificate(sign(clients), authorities, NOW)
  t.strictSame(
    names.map(({ text }) => text),
    NAMES,
  )
  t.equal(notAfter, NOW + DAY)
  const short = sign(unlimited, { notAfter: NOW + 99 * DAY })
  t.equal(readClientCertificate(short, authorities, NOW).notAfter, unlimited.info.notAfter)
  t.throws(() => readClientCertificate(sign(leafAsIssuer), [], NOW), /no certificate authority/)
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

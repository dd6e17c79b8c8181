import { createPrivateKey, type webcrypto } from 'node:crypto'
import t from 'tap'
import {
  buildChainPem,
  createIntermediate,
  createRoot,
  generateKeyPair,
  generateP256,
  type KeyPair,
  loadAuthority,
  toPem,
} from '../../src/index.ts'
import { DAY, issue, makeAuthorities, NOW, x509 } from '../helpers.ts'

const { root, intermediate } = await makeAuthorities()
const keyPem = intermediate.key?.export({ type: 'pkcs8', format: 'pem' }).toString() ?? ''

t.test('accepted', async (t) => {
  const chainPem = buildChainPem(intermediate.certificate, [root.certificate])
  const table: [what: string, options: Omit<Parameters<typeof loadAuthority>[0], 'now'>][] = [
    ['PEM with its root', { certificate: chainPem, key: keyPem }],
    ['PEM alone', { certificate: toPem('CERTIFICATE', intermediate.certificate), key: keyPem }],
    ['DER', { certificate: intermediate.certificate, key: createPrivateKey(keyPem) }],
    ['DER chain', { certificate: [intermediate.certificate, root.certificate], key: keyPem }],
    [
      'SEC 1 key',
      {
        certificate: chainPem,
        key: createPrivateKey(keyPem).export({ type: 'sec1', format: 'pem' }).toString(),
      },
    ],
  ]
  for (const [what, options] of table) {
    const authority = loadAuthority({ ...options, now: NOW })
    t.strictSame(
      authority.chain,
      [intermediate.certificate],
      `${what}: the root is left out of the chain`,
    )
    t.match(issue(authority, ['a.example']).x509.issuer, 'CN=Test Intermediate')
  }
  const alone = loadAuthority({ certificate: root.certificate, now: NOW })
  t.strictSame([alone.chain, alone.key], [[root.certificate], undefined], 'a root without its key')
  for (const type of ['p256', 'p384', 'rsa2048'] as const) {
    const key = await generateKeyPair(type)
    const { certificate } = await createRoot({ commonName: type, now: NOW, key })
    t.ok(loadAuthority({ certificate, key, now: NOW }).key, `${type} with a key pair`)
  }
  const anyPurpose = new x509.ExtendedKeyUsageExtension(['2.5.29.37.0'])
  const ofOthers: [what: string, certificate: Buffer][] = [
    ['for any purpose', await foreign({ more: [anyPurpose] })],
    // Nobody relies on the self-signature of a root.
    [
      'a root that signed itself with SHA-1',
      await foreign({ algorithm: { ...ECDSA, hash: 'SHA-1' } }),
    ],
  ]
  for (const [what, certificate] of ofOthers) t.ok(loadAuthority({ certificate, now: NOW }), what)
})

const { subtle } = x509.cryptoProvider.get()
const ECDSA = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
const USAGES = x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign

type Algorithm = webcrypto.EcKeyGenParams | webcrypto.RsaHashedKeyGenParams | { name: 'Ed25519' }

interface Foreign {
  algorithm?: Algorithm
  basic?: x509.Extension
  usages?: number
  more?: x509.Extension[]
  withoutSkid?: boolean
  issuer?: { certificate: Uint8Array; key: KeyPair; hash?: string }
}

/** An authority that another library made. */
async function foreign({
  algorithm = ECDSA,
  basic = new x509.BasicConstraintsExtension(true, undefined, true),
  usages = USAGES,
  more = [],
  withoutSkid,
  issuer,
}: Foreign) {
  const keys = await subtle.generateKey(algorithm, true, ['sign', 'verify'])
  const signingKey = issuer
    ? await subtle.importKey(
        'pkcs8',
        issuer.key.pkcs8,
        { ...ECDSA, hash: issuer.hash ?? 'SHA-256' },
        true,
        ['sign'],
      )
    : keys.privateKey
  const certificate = await x509.X509CertificateGenerator.create({
    subject: 'CN=Foreign',
    issuer: issuer
      ? new x509.X509Certificate(new Uint8Array(issuer.certificate)).subject
      : 'CN=Foreign',
    notBefore: new Date(NOW - DAY),
    notAfter: new Date(NOW + 100 * DAY),
    publicKey: keys.publicKey,
    signingKey,
    signingAlgorithm: issuer ? { name: 'ECDSA', hash: issuer.hash ?? 'SHA-256' } : { ...algorithm },
    extensions: [
      basic,
      ...(usages ? [new x509.KeyUsagesExtension(usages, true)] : []),
      ...(withoutSkid ? [] : [await x509.SubjectKeyIdentifierExtension.create(keys.publicKey)]),
      ...more,
    ],
  })
  return Buffer.from(certificate.rawData)
}

t.test('refused', async (t) => {
  const { KeyUsageFlags, ExtendedKeyUsage } = x509
  const purpose = (usage: string) => new x509.ExtendedKeyUsageExtension([usage])
  const rsa = (modulusLength: number) => ({
    name: 'RSASSA-PKCS1-v1_5',
    hash: 'SHA-256',
    modulusLength,
    publicExponent: Uint8Array.of(1, 0, 1),
  })
  const parentKey = generateP256()
  const parent = await createRoot({ commonName: 'Parent', now: NOW, key: parentKey })
  const below = (hash: string, { certificate } = parent) =>
    foreign({ issuer: { certificate, key: parentKey, hash } })
  const orphan = await below('SHA-256')
  const namesake = await createRoot({ commonName: 'Parent', now: NOW })
  const renamed = await createRoot({ commonName: 'Renamed', now: NOW, key: parentKey })
  const homonym = await createRoot({ commonName: 'Foreign', now: NOW, key: parentKey })
  const child = await createIntermediate({ root: parent, commonName: 'Child', now: NOW })
  const grandchild = await foreign({
    issuer: {
      certificate: child.certificate,
      key: {
        ...parentKey,
        pkcs8: child.key?.export({ type: 'pkcs8', format: 'der' }) ?? parentKey.pkcs8,
      },
    },
  })

  t.ok(
    loadAuthority({ certificate: await foreign({}), now: NOW }),
    'the foreign authority by itself is fine',
  )
  t.ok(
    loadAuthority({ certificate: [await below('SHA-256'), parent.certificate], now: NOW }),
    'and so it is below another',
  )

  const table: [what: string, certificate: string | Uint8Array | Uint8Array[], code: string][] = [
    ['a leaf', issue(intermediate, ['a.example']).der, 'PKI_CA_INVALID'],
    [
      'CA:FALSE',
      await foreign({ basic: new x509.BasicConstraintsExtension(false) }),
      'PKI_CA_INVALID',
    ],
    ['no key usage', await foreign({ usages: 0 }), 'PKI_CA_INVALID'],
    ['no keyCertSign', await foreign({ usages: KeyUsageFlags.cRLSign }), 'PKI_CA_INVALID'],
    ['no cRLSign', await foreign({ usages: KeyUsageFlags.keyCertSign }), 'PKI_CA_INVALID'],
    [
      'for clients only',
      await foreign({ more: [purpose(ExtendedKeyUsage.clientAuth)] }),
      'PKI_CA_INVALID',
    ],
    ['no subject key identifier', await foreign({ withoutSkid: true }), 'PKI_CA_INVALID'],
    ['signed with SHA-1', await below('SHA-1'), 'PKI_CA_INVALID'],
    ['signed with SHA-1 by another of its name', await below('SHA-1', homonym), 'PKI_CA_INVALID'],
    ['RSA of 1024 bits', await foreign({ algorithm: rsa(1024) }), 'PKI_KEY_WEAK'],
    [
      'P-521',
      await foreign({
        algorithm: { name: 'ECDSA', namedCurve: 'P-521', hash: 'SHA-256' },
      }),
      'PKI_KEY_WEAK',
    ],
    ['Ed25519', await foreign({ algorithm: { name: 'Ed25519' } }), 'PKI_KEY_WEAK'],
    ['an empty chain', [], 'PKI_CA_CHAIN'],
    ['a chain in the wrong order', [root.certificate, intermediate.certificate], 'PKI_CA_CHAIN'],
    ['a chain of strangers', [intermediate.certificate, parent.certificate], 'PKI_CA_CHAIN'],
    ['another key of that name', [orphan, namesake.certificate], 'PKI_CA_CHAIN'],
    ['another name of that key', [orphan, renamed.certificate], 'PKI_CA_CHAIN'],
    [
      'a second authority below one for leaves',
      [grandchild, child.certificate, parent.certificate],
      'PKI_CA_PATH_LENGTH',
    ],
    ['no certificate', 'hello', 'PKI_PEM_INVALID'],
    ['other bytes', Buffer.from('hello'), 'PKI_CERTIFICATE_INVALID'],
  ]
  for (const [what, certificate, code] of table)
    t.throws(() => loadAuthority({ certificate, now: NOW }), { name: 'PkiError', code }, what)
})

t.test('times and keys', async (t) => {
  const { certificate } = intermediate
  const { notBefore, notAfter } = intermediate.info
  for (const now of [notBefore, notAfter])
    t.ok(loadAuthority({ certificate, now }), 'both ends are inclusive')
  for (const now of [notBefore - 1000, notAfter + 1000])
    t.throws(() => loadAuthority({ certificate, now }), { code: 'PKI_CA_EXPIRED' })
  const chain = [certificate, root.certificate]
  t.throws(() => loadAuthority({ certificate: chain, now: root.info.notAfter + 1000 }), {
    code: 'PKI_CA_EXPIRED',
  })
  t.throws(() => loadAuthority({ certificate, key: generateP256(), now: NOW }), {
    code: 'PKI_CA_KEY_INVALID',
  })
  for (const key of ['', 'secret-canary'])
    t.throws(() => loadAuthority({ certificate, key, now: NOW }), {
      code: 'PKI_KEY_INVALID',
      message: /^(?!.*canary)/,
    })
})

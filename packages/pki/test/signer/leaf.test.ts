import { X509Certificate } from 'node:crypto'
import t from 'tap'
import {
  createLeafSigner,
  createRoot,
  createSerial,
  generateKeyPair,
  KEY_TYPES,
  loadAuthority,
  parseCertificate,
  parseName,
} from '../../src/index.ts'
import { DAY, issue, makeAuthorities, NOW, x509 } from '../helpers.ts'

const CRL_URL = 'http://ca.example/ca/crl.der'
const { root, intermediate } = await makeAuthorities({ crlUrl: CRL_URL })
const ca = new X509Certificate(intermediate.certificate)

t.test('a leaf as OpenSSL sees it', async (t) => {
  const { x509: leaf, key } = issue(intermediate, [
    'App.Example.com',
    '*.example.com',
    '10.0.0.1',
    '2001:db8::1',
  ])
  t.ok(leaf.verify(ca.publicKey), 'signature')
  t.ok(leaf.checkIssued(ca), 'issuer and key identifiers')
  t.ok(leaf.checkPrivateKey(key.privateKey))
  t.equal(leaf.ca, false)
  t.equal(leaf.subject, 'CN=app.example.com')
  t.equal(
    leaf.subjectAltName,
    'DNS:app.example.com, DNS:*.example.com, IP Address:10.0.0.1, IP Address:2001:DB8:0:0:0:0:0:1',
  )
  t.strictSame(leaf.keyUsage, ['1.3.6.1.5.5.7.3.1'], 'extended key usage is serverAuth alone')
  t.equal(leaf.validFromDate.getTime(), NOW - 60_000)
  t.equal(leaf.validToDate.getTime(), NOW + 7 * DAY)
  t.equal(leaf.checkHost('x.example.com'), '*.example.com')
  t.equal(leaf.checkIP('10.0.0.1'), '10.0.0.1')
})

t.test('extensions as another library reads them', async (t) => {
  const read = (der: Uint8Array) => new x509.X509Certificate(new Uint8Array(der))
  const usage = (der: Uint8Array) => read(der).getExtension(x509.KeyUsagesExtension)
  const { KeyUsageFlags } = x509

  for (const type of KEY_TYPES.filter((type) => !/^rsa[34]/.test(type))) {
    const {
      der,
      x509: leaf,
      key,
    } = issue(intermediate, ['a.example'], { key: await generateKeyPair(type) })
    const rsa = type.startsWith('rsa') ? KeyUsageFlags.keyEncipherment : 0
    t.match(
      usage(der),
      { critical: true, usages: KeyUsageFlags.digitalSignature | rsa },
      `key usage of ${type}`,
    )
    t.ok(leaf.checkPrivateKey(key.privateKey) && leaf.verify(ca.publicKey), `${type} verifies`)
  }

  const { der } = issue(intermediate, ['a.example'], { crlUrl: CRL_URL })
  const leaf = read(der)
  t.strictSame(
    Array.from(leaf.extensions, ({ type, critical }) => [type, critical]),
    [
      ['2.5.29.15', true],
      ['2.5.29.37', false],
      ['2.5.29.35', false],
      ['2.5.29.31', false],
      ['2.5.29.14', false],
      ['2.5.29.17', false],
    ],
  )
  const { keyId } = leaf.getExtension(x509.AuthorityKeyIdentifierExtension) ?? {}
  t.equal(
    keyId,
    intermediate.info.skid,
    'authority key identifier is the subject key identifier above',
  )
  t.equal(leaf.getExtension(x509.SubjectKeyIdentifierExtension)?.keyId, parseCertificate(der).skid)
  const [point] = leaf.getExtension(x509.CRLDistributionPointsExtension)?.distributionPoints ?? []
  t.equal(point?.distributionPoint?.fullName?.[0]?.uniformResourceIdentifier, CRL_URL)
  const without = read(issue(intermediate, ['a.example']).der)
  t.equal(
    without.getExtension(x509.CRLDistributionPointsExtension),
    null,
    'no distribution point unless asked',
  )
})

t.test('the subject', async (t) => {
  const longest = `${'a'.repeat(56)}.example`
  const long = `a${longest}`
  type Row = [what: string, names: string[], subject: string | undefined, withoutSubject?: boolean]
  const table: Row[] = [
    ['the first DNS name', ['10.0.0.1', 'b.example', 'a.example'], 'CN=b.example'],
    ['a wildcard', ['*.example'], 'CN=*.example'],
    ['the first that fits into 64 characters', [long, 'a.example'], 'CN=a.example'],
    ['a name of 64 characters', [longest], `CN=${longest}`],
    ['empty for addresses', ['10.0.0.1'], undefined],
    ['empty for long names', [long], undefined],
    ['empty if none is to be', ['a.example'], undefined, true],
  ]
  for (const [what, names, subject, withoutSubject = false] of table) {
    const { x509: leaf, der } = issue(intermediate, names, { withoutSubject })
    t.equal(leaf.subject, subject, what)
    const san = new x509.X509Certificate(new Uint8Array(der)).getExtension(
      x509.SubjectAlternativeNameExtension,
    )
    t.equal(
      san?.critical,
      subject === undefined,
      'the names are critical exactly if there is no subject',
    )
    t.strictSame(
      parseCertificate(der).names.map(({ text }) => text),
      names,
    )
  }
  t.throws(() => issue(intermediate, []), { code: 'PKI_NAME_INVALID' }, 'no names')
})

t.test('issuers', async (t) => {
  for (const type of ['p256', 'p384', 'rsa2048'] as const) {
    const key = await generateKeyPair(type)
    const authority = await createRoot({ commonName: type, now: NOW, key })
    const signer = new X509Certificate(authority.certificate)
    const { x509: leaf } = issue(authority, ['a.example'])
    t.ok(leaf.verify(signer.publicKey) && leaf.checkIssued(signer), `a leaf of ${type}`)
    t.match(leaf.signatureAlgorithm, type === 'p384' ? /SHA384/ : /sha256/i)
  }
  const withoutKey = loadAuthority({ certificate: root.certificate, now: NOW })
  t.throws(() => createLeafSigner(withoutKey), { code: 'PKI_CA_KEY_INVALID' })
})

t.test('times on both sides of 2050, and one after the other', async (t) => {
  const signer = createLeafSigner(intermediate)
  const { key } = issue(intermediate, ['a.example'])
  const times = [
    NOW,
    Date.UTC(2049, 11, 31, 23, 59, 59),
    Date.UTC(2050, 0, 1),
    Date.UTC(2055, 3, 5, 6, 7, 8),
  ]
  for (const notAfter of times) {
    const der = signer.sign({
      spki: key.spki,
      keyType: key.type,
      names: [parseName('a.example')],
      serial: createSerial(NOW),
      notBefore: NOW,
      notAfter,
    })
    t.match(parseCertificate(der), { notBefore: NOW, notAfter }, new Date(notAfter).toISOString())
  }
})

t.test('serial numbers', async (t) => {
  const serials = Array.from({ length: 2000 }, () => createSerial(NOW))
  t.equal(
    new Set(serials.map((serial) => serial.toString('hex'))).size,
    serials.length,
    'are unique',
  )
  t.ok(
    serials.every(
      (serial) => serial.length === 16 && serial.readUInt8() >= 0x40 && serial.readUInt8() < 0x80,
    ),
  )
  const [earlier, later] = [createSerial(NOW), createSerial(NOW + 1000)]
  t.equal(Buffer.compare(earlier, later), -1, 'come in the order of time')
  t.notSame(earlier.subarray(5), later.subarray(5), 'and are random beyond it')
  const { x509: leaf, der } = issue(intermediate, ['a.example'])
  t.equal(parseCertificate(der).serialNumber, leaf.serialNumber.toLowerCase())
  t.equal(leaf.serialNumber.length, 32)
})

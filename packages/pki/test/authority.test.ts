import { X509Certificate } from 'node:crypto'
import t from 'tap'
import { children, encode, integer, readAll, sequence, time } from '../src/der.ts'
import {
  clampValidity,
  createCross,
  createIntermediate,
  createRoot,
  generateKeyPair,
  generateP256,
  isAsConfigured,
  loadAuthority,
  parseCertificate,
  parseNameRule,
  placeBelow,
  readConstraints,
} from '../src/index.ts'
import { createSigner, distinguishedName } from '../src/signer.ts'
import { constraintsOf, DAY, issue, makeAuthorities, makeUpper, NOW, x509 } from './helpers.ts'

const CRL_URL = 'http://ca.example/root.der'
const { root, intermediate } = await makeAuthorities({ crlUrl: CRL_URL })
const read = (der: Uint8Array) => new x509.X509Certificate(new Uint8Array(der))
const extensions = (der: Uint8Array) =>
  Array.from(read(der).extensions, ({ type, critical }) => [type, critical])

t.test('a root', async (t) => {
  const certificate = new X509Certificate(root.certificate)
  t.ok(certificate.verify(certificate.publicKey) && certificate.checkIssued(certificate))
  t.match(root.info, {
    subject: 'CN=Test Root',
    issuer: 'CN=Test Root',
    isCa: true,
    pathLength: undefined,
    names: { length: 0 },
  })
  t.strictSame([root.info.notBefore, root.info.notAfter], [NOW - 300_000, NOW + 3650 * DAY])
  t.equal(certificate.publicKey.asymmetricKeyDetails?.namedCurve, 'secp384r1')
  t.strictSame(root.chain, [root.certificate])
  t.strictSame(extensions(root.certificate), [
    ['2.5.29.19', true],
    ['2.5.29.15', true],
    ['2.5.29.14', false],
  ])
  const { KeyUsageFlags } = x509
  t.equal(
    read(root.certificate).getExtension(x509.KeyUsagesExtension)?.usages,
    KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign,
  )
})

t.test('an intermediate', async (t) => {
  const certificate = new X509Certificate(intermediate.certificate)
  t.ok(certificate.verify(new X509Certificate(root.certificate).publicKey))
  t.ok(certificate.checkIssued(new X509Certificate(root.certificate)))
  t.match(intermediate.info, { subject: 'CN=Test Intermediate', isCa: true, pathLength: 0 })
  t.strictSame(
    [intermediate.info.notBefore, intermediate.info.notAfter],
    [NOW - 300_000, NOW + 365 * DAY],
  )
  t.strictSame(intermediate.chain, [intermediate.certificate], 'its chain leaves the root out')
  t.strictSame(extensions(intermediate.certificate), [
    ['2.5.29.19', true],
    ['2.5.29.15', true],
    ['2.5.29.37', false],
    ['2.5.29.14', false],
    ['2.5.29.35', false],
    ['2.5.29.31', false],
  ])
  const urls: [crlUrl: string | undefined, isConfigured: boolean][] = [
    [CRL_URL, true],
    ['http://ca.example/other.der', false],
    [undefined, false],
  ]
  for (const [crlUrl, isConfigured] of urls)
    t.equal(
      isAsConfigured(intermediate.certificate, crlUrl === undefined ? {} : { crlUrl }),
      isConfigured,
      `the CRL ${crlUrl}`,
    )
  const late = await createIntermediate({
    root,
    commonName: 'Late',
    now: root.info.notAfter - 30 * DAY,
  })
  t.equal(late.info.notAfter, root.info.notAfter, 'ends with its root at the latest')
})

t.test('refuses invalid authorities', async (t) => {
  const withoutKey = loadAuthority({ certificate: root.certificate, now: NOW })
  const options = { root, commonName: 'x', now: NOW }
  await t.rejects(createIntermediate({ ...options, root: withoutKey }), {
    code: 'PKI_CA_KEY_INVALID',
  })
  await t.rejects(createIntermediate({ ...options, root: intermediate }), {
    code: 'PKI_CA_PATH_LENGTH',
  })
  await t.rejects(createIntermediate({ ...options, now: root.info.notAfter - 60_000 }), {
    code: 'PKI_CA_EXPIRED',
  })
  await t.rejects(createIntermediate({ ...options, commonName: 'x'.repeat(65) }), {
    code: 'PKI_SUBJECT_INVALID',
  })
  await t.rejects(createRoot({ commonName: '', now: NOW }), { code: 'PKI_SUBJECT_INVALID' })
  await t.rejects(
    createRoot({ commonName: 'x', now: NOW, key: await generateKeyPair('ed25519') }),
    { code: 'PKI_KEY_WEAK' },
  )
})

t.test('validity is clamped to the authority', async (t) => {
  const { notBefore, notAfter } = intermediate.info
  const table: [what: string, asked: [number, number], given: [number, number] | undefined][] = [
    ['within', [NOW, NOW + DAY], [NOW, NOW + DAY]],
    ['whole seconds', [NOW + 1, NOW + DAY + 999], [NOW, NOW + DAY]],
    ['begins too early', [notBefore - DAY, NOW], [notBefore, NOW]],
    ['ends too late', [NOW, notAfter + DAY], [NOW, notAfter]],
    ['an hour is left', [notAfter - 3_600_000, notAfter + DAY], [notAfter - 3_600_000, notAfter]],
    ['less than an hour is left', [notAfter - 3_599_000, notAfter + DAY], undefined],
    ['less than an hour is asked', [NOW, NOW + 60_000], [NOW, NOW + 60_000]],
    ['a moment', [NOW, NOW], undefined],
    ['before the start', [notBefore - DAY, notBefore], undefined],
    ['after the end', [notAfter + DAY, notAfter + 2 * DAY], undefined],
  ]
  for (const [what, [from, to], given] of table) {
    const clamp = () => clampValidity(intermediate, { notBefore: from, notAfter: to })
    if (given) t.strictSame(clamp(), { notBefore: given[0], notAfter: given[1] }, what)
    else t.throws(clamp, { code: 'PKI_CA_EXPIRED' }, what)
  }
})

/** `+` what is permitted, `-` what is excluded: a domain, or address and mask in hex. */
function subtrees(certificate: Uint8Array): string[] | undefined {
  const extension = read(certificate).getExtension('2.5.29.30')
  if (!extension?.critical) return undefined
  return children(readAll(Buffer.from(extension.value))[0]).flatMap((group) =>
    children(group).map((subtree) => {
      const [base] = children(subtree)
      return `${group.tag === 0xa0 ? '+' : '-'}${base?.content.toString(base.tag === 0x82 ? 'latin1' : 'hex')}`
    }),
  )
}

t.test('name constraints', async (t) => {
  const noAddress = [`-${'00'.repeat(8)}`, `-${'00'.repeat(32)}`]
  const [nobody, nobody4] = ['+invalid', `+${'ff'.repeat(8)}`]
  const nobody6 = `+0100${'00'.repeat(13)}01${'ff'.repeat(16)}`
  const table: [what: string, permitted: string[], subtrees: string[] | undefined][] = [
    ['nothing', [], undefined],
    ['everything', ['a.b', '*'], undefined],
    ['domains only', ['c.d', 'a.b'], ['+a.b', '+c.d', ...noAddress]],
    ['each spelling is the domain, once', ['a.b', '*.a.b', '=*.a.b'], ['+a.b', ...noAddress]],
    ['IPv4 only', ['10.0.0.0/8'], [nobody, '+0a000000ff000000', nobody6]],
    ['IPv6 only', ['::1'], [nobody, nobody4, `+${'00'.repeat(15)}01${'ff'.repeat(16)}`]],
    ['a domain and IPv4', ['a.b', '10.0.0.0/8'], ['+a.b', '+0a000000ff000000', nobody6]],
    [
      'all',
      ['a.b', '10.0.0.0/9', '::/1'],
      ['+a.b', '+0a000000ff800000', `+${'00'.repeat(16)}80${'00'.repeat(15)}`],
    ],
  ]
  for (const [what, permitted, expected] of table) {
    const rules = permitted.map(parseNameRule)
    const { certificate } = await createIntermediate({
      root,
      commonName: 'x',
      now: NOW,
      permitted: rules,
    })
    t.strictSame(subtrees(certificate), expected, what)
    t.ok(isAsConfigured(certificate, { permitted: rules }), `${what}: recognised`)
    t.notOk(
      isAsConfigured(certificate, { permitted: [parseNameRule('other.example')] }),
      `${what}: told from others`,
    )
  }
})

t.test('what is below an authority ends with the first of all that are above it', async (t) => {
  const key = await generateKeyPair('p384')
  const long = { commonName: 'Long', now: NOW, key }
  const short = await createRoot({ ...long, lifetimeMs: 90 * DAY })
  const middle = makeUpper(await createRoot(long), 200 * DAY)
  const file = [middle.certificate, short.certificate]
  const upper = loadAuthority({ certificate: file, key: middle.key!, now: NOW })
  const below = await createIntermediate({ root: upper, commonName: 'Below', now: NOW })
  const chain = [below.certificate, middle.certificate]
  t.strictSame(below.chain, chain, 'all that are above it, without the root')
  t.match([upper.info.notAfter, upper.ends], [NOW + 200 * DAY - 300_000, NOW + 90 * DAY])
  t.match([below.info.notAfter, below.ends], [NOW + 90 * DAY, NOW + 90 * DAY])
  t.ok(below.anchor?.equals(short.certificate) && upper.anchor?.equals(short.certificate))
  t.equal(issue(upper, ['a.b'], { now: NOW + 88 * DAY }).x509.validToDate.getTime(), upper.ends)

  const stored = loadAuthority({ certificate: below.certificate, now: NOW })
  t.strictSame([stored.chain, stored.anchor], [[below.certificate], undefined])
  t.strictSame(placeBelow(upper, stored), {
    ...stored,
    chain,
    ends: below.ends,
    anchor: below.anchor,
  })
  t.strictSame(root.anchor, root.certificate)
  const alone = loadAuthority({ certificate: middle.certificate, now: NOW })
  t.equal(placeBelow(short, alone).ends, short.ends, 'also what ends later by itself')
})

t.test('a cross certificate leads from what is below one root to another', async (t) => {
  const rsa = await createRoot({
    commonName: 'RSA',
    now: NOW,
    key: await generateKeyPair('rsa2048'),
  })
  const next = await createRoot({ commonName: 'Next', now: NOW, lifetimeMs: 9000 * DAY })
  for (const [signer, upper] of [
    [root, next],
    [rsa, next],
    [root, rsa],
  ] as const) {
    const der = createCross({ signer, root: upper, now: NOW + DAY, crlUrl: CRL_URL })
    const cross = new X509Certificate(der)
    t.ok(cross.verify(new X509Certificate(signer.certificate).publicKey))
    t.ok(cross.checkIssued(new X509Certificate(signer.certificate)))
    const { info } = upper
    t.match(parseCertificate(der), {
      ...{ subjectDer: info.subjectDer, spki: info.spki, skid: info.skid, akid: signer.info.skid },
      ...{ isCa: true, pathLength: undefined, notAfter: signer.ends, issuer: signer.info.subject },
    })
    t.equal(cross.validFromDate.getTime(), NOW + DAY - 300_000)
    t.strictSame(extensions(der), [
      ['2.5.29.19', true],
      ['2.5.29.15', true],
      ['2.5.29.14', false],
      ['2.5.29.35', false],
      ['2.5.29.31', false],
    ])
    const below = await createIntermediate({ root: upper, commonName: 'Below', now: NOW })
    t.strictSame(placeBelow(upper, below, [der]), {
      ...below,
      chain: [below.certificate, der],
      anchor: upper.certificate,
    })
  }
  const limited = makeUpper(next, 900 * DAY, constraintsOf(['+a.test']))
  const cross = createCross({ signer: root, root: limited, now: NOW })
  t.equal(readConstraints([cross]).text, 'only a.test, *.a.test, =**.a.test')
  t.ok(extensions(cross).some(([id, isCritical]) => id === '2.5.29.30' && isCritical))
  const short = loadAuthority({ certificate: root.certificate, now: NOW })
  t.throws(() => createCross({ signer: short, root: next, now: NOW }), {
    code: 'PKI_CA_KEY_INVALID',
  })
  for (const pathLength of [0, 1]) {
    const signer = { ...root, info: { ...root.info, pathLength } }
    t.throws(() => createCross({ signer, root: next, now: NOW }), { code: 'PKI_CA_PATH_LENGTH' })
  }
  const signer = { ...root, info: { ...root.info, pathLength: 2 } }
  t.equal(parseCertificate(createCross({ signer, root: next, now: NOW })).pathLength, undefined)
})

t.test('a certificate of version 1, which has neither version nor extensions', async (t) => {
  const { spki, privateKey } = generateP256()
  const subject = encode(distinguishedName('Old'))
  const signer = createSigner(subject, '', privateKey)
  const period = sequence(time(NOW), time(NOW + DAY))
  const der = signer.seal(sequence(integer(1), signer.algorithm, subject, period, subject, spki))
  t.match(parseCertificate(der), { subjectDer: subject, spki, isCa: false, names: { length: 0 } })
})

t.test('certificates that are not readable', async (t) => {
  const { der } = issue(intermediate, ['a.example'])
  for (const [what, bytes] of [
    ['nothing', Buffer.alloc(0)],
    ['text', Buffer.from('hello')],
    ['half', der.subarray(0, 200)],
    ['more', Buffer.concat([der, Buffer.of(0)])],
  ] as const)
    t.throws(() => parseCertificate(bytes), { code: 'PKI_CERTIFICATE_INVALID' }, what)
  t.equal(
    parseCertificate(der).fingerprint256,
    new X509Certificate(der).fingerprint256.replaceAll(':', '').toLowerCase(),
  )
})

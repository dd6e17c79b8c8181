import assert from 'node:assert/strict'
import {
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  sign,
  verify,
  type webcrypto,
} from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import {
  bits,
  context,
  contextPrimitive,
  type Der,
  encode,
  integer,
  NULL,
  octets,
  oid,
  readAll,
  sequence,
  set,
  utf8,
} from '../src/der.ts'
import { generateKeyPair, generateP256, KEY_TYPES, parseCsr, toPem } from '../src/index.ts'
import { x509 } from './helpers.ts'

const SAN = oid('2.5.29.17')
const EXTENSION_REQUEST = oid('1.2.840.113549.1.9.14')
const ALGORITHMS: Record<string, [Der, string | null]> = {
  ec: [sequence(oid('1.2.840.10045.4.3.2')), 'sha256'],
  rsa: [sequence(oid('1.2.840.113549.1.1.11'), NULL), 'sha256'],
  ed25519: [sequence(oid('1.3.101.112')), null],
}

const dns = (name: string) => contextPrimitive(2, name)
const san = (...names: Der[]) => sequence(SAN, octets(sequence(...names)))
const requested = (...extensions: Der[]) =>
  sequence(EXTENSION_REQUEST, set(sequence(...extensions)))
const commonName = (text: string) => sequence(set(sequence(oid('2.5.4.3'), utf8(text))))

interface Request {
  key?: KeyObject
  spki?: Uint8Array
  subject?: Der
  attributes?: Der[]
  signer?: KeyObject
  version?: number
}

/** A request in DER, well-formed or not. */
function request({
  key = pair.privateKey,
  subject = sequence(),
  attributes = [],
  version = 0,
  ...rest
}: Request): Buffer {
  const spki = rest.spki ?? createPublicKey(key).export({ type: 'spki', format: 'der' })
  const info = encode(sequence(integer(version), subject, spki, context(0, ...attributes)))
  const [algorithm, digest] = ALGORITHMS[key.asymmetricKeyType ?? ''] ?? [
    sequence(oid('1.2.3')),
    'sha256',
  ]
  return encode(sequence(info, algorithm, bits(sign(digest, info, rest.signer ?? key))))
}

const pair = generateP256()
const good = request({
  subject: commonName('a.example'),
  attributes: [requested(san(dns('b.example'), contextPrimitive(7, Buffer.of(10, 0, 0, 1))))],
})

t.test('keys', async (t) => {
  for (const type of KEY_TYPES.filter((type) => !/^rsa[34]/.test(type))) {
    const { privateKey, spki } = await generateKeyPair(type)
    const csr = await parseCsr(request({ key: privateKey }))
    t.match(csr, { keyType: type, spki, names: [], spkiSha256: /^[0-9a-f]{64}$/ }, type)
  }
})

t.test('names and forms', async (t) => {
  const names = async (input: string | Uint8Array) =>
    (await parseCsr(input)).names.map(({ text }) => text)
  const pem = toPem('CERTIFICATE REQUEST', good)
  t.strictSame(
    await names(good),
    ['b.example', '10.0.0.1', 'a.example'],
    'alternative names, then the common name',
  )
  t.strictSame(await names(pem), await names(good), 'PEM')
  t.strictSame(
    await names(pem.replaceAll('CERTIFICATE', 'NEW CERTIFICATE')),
    await names(good),
    'PEM of keytool',
  )

  const table: [what: string, request: Request, names: string[]][] = [
    ['a common name that is a name', { subject: commonName('App.Example') }, ['app.example']],
    ['a common name that is none', { subject: commonName('Ada Lovelace') }, []],
    [
      'each name once',
      {
        subject: commonName('b.example'),
        attributes: [requested(san(dns('b.example'), dns('B.EXAMPLE')))],
      },
      ['b.example'],
    ],
    ['a wildcard', { attributes: [requested(san(dns('*.b.example')))] }, ['*.b.example']],
    [
      'an IPv6 address',
      {
        attributes: [
          requested(
            san(contextPrimitive(7, Buffer.from('20010db8000000000000000000000001', 'hex'))),
          ),
        ],
      },
      ['2001:db8::1'],
    ],
    [
      'other extensions are passed over',
      {
        attributes: [
          requested(
            sequence(oid('2.5.29.19'), octets(sequence(Buffer.of(1, 1, 255)))),
            san(dns('b.example')),
          ),
        ],
      },
      ['b.example'],
    ],
  ]
  for (const [what, request_, expected] of table)
    t.strictSame(await names(request(request_)), expected, what)
})

t.test('requests that another library made', async (t) => {
  const hash = 'SHA-384'
  const rsa = { modulusLength: 2048, publicExponent: Buffer.of(1, 0, 1), hash }
  const algorithms: object[] = [
    { name: 'ECDSA', namedCurve: 'P-384', hash },
    { name: 'RSASSA-PKCS1-v1_5', ...rsa },
    { name: 'RSA-PSS', ...rsa, saltLength: 48 },
  ]
  for (const algorithm of algorithms) {
    const { subtle } = x509.cryptoProvider.get()
    const csr = await x509.Pkcs10CertificateRequestGenerator.create({
      name: 'CN=c.example,O=Example',
      keys: await subtle.generateKey(algorithm as webcrypto.EcKeyGenParams, true, [
        'sign',
        'verify',
      ]),
      signingAlgorithm: algorithm as webcrypto.EcdsaParams,
      extensions: [new x509.SubjectAlternativeNameExtension([{ type: 'dns', value: 'd.example' }])],
    })
    const { names } = await parseCsr(csr.toString('pem'))
    t.strictSame(
      names.map(({ text }) => text),
      ['d.example', 'c.example'],
      JSON.stringify(algorithm),
    )
  }
})

t.test('refused', async (t) => {
  const rsa = (options: object) =>
    generateKeyPairSync('rsa', { modulusLength: 2048, ...options }).privateKey
  const point = pair.spki.subarray(-64)
  const compressed = Buffer.concat([
    Buffer.from('3039301306072a8648ce3d020106082a8648ce3d030107032200', 'hex'),
    Buffer.of(2 + ((point.at(-1) ?? 0) & 1)),
    point.subarray(0, 32),
  ])
  // What r and s say stays as it is; only the sequence around them says that it ends too soon.
  const withShortSignature = Buffer.from(good)
  const [, , { content } = {}] = readAll(readAll(withShortSignature)[0]?.content ?? good)
  content?.writeUInt8(37, 2)
  const names = (...names: Der[]) => request({ attributes: [requested(san(...names))] })
  const table: [what: string, input: string | Uint8Array, code: string][] = [
    ['nothing', '', 'PKI_CSR_INVALID'],
    ['no bytes', Buffer.alloc(0), 'PKI_CSR_INVALID'],
    ['other text', 'hello', 'PKI_CSR_INVALID'],
    ['a certificate label', toPem('CERTIFICATE', good), 'PKI_CSR_INVALID'],
    ['two requests', toPem('CERTIFICATE REQUEST', good).repeat(2), 'PKI_CSR_INVALID'],
    ['bytes after it', Buffer.concat([good, Buffer.of(0)]), 'PKI_CSR_INVALID'],
    ['bytes missing', good.subarray(0, -1), 'PKI_CSR_INVALID'],
    ['33 kB', Buffer.concat([good, Buffer.alloc(33_000)]), 'PKI_CSR_INVALID'],
    ['deep nesting', Buffer.from('3080'.repeat(10_000), 'hex'), 'PKI_CSR_INVALID'],
    ['only a sequence', encode(sequence()), 'PKI_CSR_INVALID'],
    ['an e-mail address', names(contextPrimitive(1, 'a@b.example')), 'PKI_CSR_INVALID'],
    ['a URI', names(contextPrimitive(6, 'https://b.example')), 'PKI_CSR_INVALID'],
    ['a directory name', names(context(4, commonName('x'))), 'PKI_CSR_INVALID'],
    ['an underscore', names(dns('a_b.example')), 'PKI_CSR_INVALID'],
    ['NUL in a name', names(dns('a.example\0.b')), 'PKI_CSR_INVALID'],
    ['a name that is not ASCII', names(dns('b\u00fccher.example')), 'PKI_CSR_INVALID'],
    ['an address as a DNS name', names(dns('10.0.0.1')), 'PKI_CSR_INVALID'],
    ['an address of 5 bytes', names(contextPrimitive(7, Buffer.alloc(5))), 'PKI_CSR_INVALID'],
    ['101 names', names(...Array.from({ length: 101 }, (_, i) => dns(`a${i}`))), 'PKI_CSR_INVALID'],
    [
      'names twice in one list',
      request({ attributes: [requested(san(dns('a.b')), san(dns('c.d')))] }),
      'PKI_CSR_INVALID',
    ],
    [
      'two lists',
      request({ attributes: [requested(san(dns('a.b'))), requested(san(dns('c.d')))] }),
      'PKI_CSR_INVALID',
    ],
    ['signed by another key', request({ signer: generateP256().privateKey }), 'PKI_CSR_SIGNATURE'],
    ['a signature of which the length is wrong', withShortSignature, 'PKI_CSR_SIGNATURE'],
    ['the key of somebody else', request({ spki: generateP256().spki }), 'PKI_CSR_SIGNATURE'],
    ['RSA of 1024 bits', request({ key: rsa({ modulusLength: 1024 }) }), 'PKI_KEY_WEAK'],
    ['RSA with exponent 3', request({ key: rsa({ publicExponent: 3 }) }), 'PKI_KEY_WEAK'],
    [
      'P-521',
      request({ key: generateKeyPairSync('ec', { namedCurve: 'P-521' }).privateKey }),
      'PKI_KEY_WEAK',
    ],
    ['a compressed point', request({ spki: compressed }), 'PKI_KEY_WEAK'],
  ]
  for (const [what, input, code] of table)
    await t.rejects(parseCsr(input), { name: 'PkiError', code }, what)
})

t.test('a mutated request is refused by code, or its signature holds', async (t) => {
  const rsa = await generateKeyPair('rsa2048')
  const seeds = [
    good,
    request({ key: rsa.privateKey, attributes: [requested(san(dns('b.example')))] }),
  ]
  const edit = fc.record({
    at: fc.nat(1000),
    remove: fc.nat(3),
    insert: fc.uint8Array({ maxLength: 3 }),
  })
  const property = fc.asyncProperty(
    fc.constantFrom(...seeds),
    fc.array(edit, { minLength: 1, maxLength: 3 }),
    async (seed, edits) => {
      let bytes = seed
      for (const { at, remove, insert } of edits) {
        const start = at % bytes.length
        bytes = Buffer.concat([bytes.subarray(0, start), insert, bytes.subarray(start + remove)])
      }
      try {
        const csr = await parseCsr(bytes)
        const [info, , signature] = readAll(readAll(bytes)[0]?.content ?? bytes)
        const key = createPublicKey({ key: csr.spki, type: 'spki', format: 'der' })
        assert.ok(
          info && signature && verify('sha256', info.raw, key, signature.content.subarray(1)),
        )
        assert.ok(info.raw.includes(csr.spki))
      } catch (error) {
        if (error instanceof assert.AssertionError) throw error
        assert.match(
          (error as { code?: string }).code ?? String(error),
          /^PKI_(CSR_INVALID|CSR_SIGNATURE|KEY_WEAK)$/,
        )
      }
    },
  )
  await t.resolves(fc.assert(property, { numRuns: 800, interruptAfterTimeLimit: 3000 }))
})

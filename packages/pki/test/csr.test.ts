import assert from 'node:assert/strict'
import {
  constants,
  createPublicKey,
  generateKeyPairSync,
  verify,
  type webcrypto,
} from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import {
  context,
  contextPrimitive,
  type Der,
  element,
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
import {
  generateKeyPair,
  generateP256,
  KEY_TYPES,
  parseCsr,
  readKnownCsr,
  toPem,
} from '../src/index.ts'
import {
  commonName,
  dns,
  EXTENSION_REQUEST,
  pair,
  type Request,
  request,
  requested,
  SAN,
  san,
} from './csr-helpers.ts'
import { x509 } from './helpers.ts'

const good = request({
  subject: commonName('a.example'),
  attributes: [requested(san(dns('b.example'), contextPrimitive(7, Buffer.of(10, 0, 0, 1))))],
})

t.test('keys', async (t) => {
  for (const type of KEY_TYPES.filter((type) => !/^rsa[34]/.test(type))) {
    const { privateKey, spki } = await generateKeyPair(type)
    const csr = parseCsr(request({ key: privateKey }))
    t.match(csr, { keyType: type, spki, names: { length: 0 }, spkiSha256: /^[0-9a-f]{64}$/ }, type)
  }
})

t.test('names and forms', async (t) => {
  const names = async (input: string | Uint8Array) => parseCsr(input).names.map(({ text }) => text)
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
    ['an address after a byte order mark', { subject: commonName('\ufeff10.0.0.1') }, []],
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
    const { names } = parseCsr(csr.toString('pem'))
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
  // As long as an uncompressed one, of which only the first byte differs.
  const hybrid = Buffer.from(pair.spki)
  hybrid.writeUInt8(6 + ((point.at(-1) ?? 0) & 1), hybrid.length - 65)
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
    ['two requests in DER', Buffer.concat([good, good]), 'PKI_CSR_INVALID'],
    ['bytes after it', Buffer.concat([good, Buffer.of(0)]), 'PKI_CSR_INVALID'],
    ['bytes missing', good.subarray(0, -1), 'PKI_CSR_INVALID'],
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
    ['signed by another key', request({ signer: generateP256().privateKey }), 'PKI_CSR_INVALID'],
    ['a signature of which the length is wrong', withShortSignature, 'PKI_CSR_INVALID'],
    ['the key of somebody else', request({ spki: generateP256().spki }), 'PKI_CSR_INVALID'],
    ['RSA of 1024 bits', request({ key: rsa({ modulusLength: 1024 }) }), 'PKI_KEY_WEAK'],
    ['RSA with exponent 3', request({ key: rsa({ publicExponent: 3 }) }), 'PKI_KEY_WEAK'],
    [
      'P-521',
      request({ key: generateKeyPairSync('ec', { namedCurve: 'P-521' }).privateKey }),
      'PKI_KEY_WEAK',
    ],
    ['a compressed point', request({ spki: compressed }), 'PKI_KEY_WEAK'],
    ['a hybrid point', request({ spki: hybrid }), 'PKI_KEY_WEAK'],
  ]
  for (const [what, input, code] of table)
    t.throws(() => parseCsr(input), { name: 'PkiError', code }, what)
})

const SHA256 = sequence(oid('2.16.840.1.101.3.4.2.1'), NULL)
const SHA384 = sequence(oid('2.16.840.1.101.3.4.2.2'), NULL)
const SHA1 = sequence(oid('1.3.14.3.2.26'), NULL)
const pss = (hash: Der, mgfHash: Der, salt: number | Der, ...more: Der[]) =>
  sequence(
    oid('1.2.840.113549.1.1.10'),
    sequence(
      context(0, hash),
      context(1, sequence(oid('1.2.840.113549.1.1.8'), mgfHash)),
      context(2, typeof salt === 'number' ? integer(salt) : salt),
      ...more,
    ),
  )

t.test('accepts signatures only by listed algorithms with their own parameters', async (t) => {
  const rsa = await generateKeyPair('rsa2048')
  const ed25519 = await generateKeyPair('ed25519')
  const padding = constants.RSA_PKCS1_PSS_PADDING
  const salted = (saltLength: number) => ({ padding, saltLength })
  const ecdsa = (arc: number, ...parameters: Der[]) =>
    sequence(oid(`1.2.840.10045.4.3.${arc}`), ...parameters)
  const pkcs1 = (arc: number, ...parameters: Der[]) =>
    sequence(oid(`1.2.840.113549.1.1.${arc}`), ...parameters)
  type Row = [what: string, key: typeof pair, algorithm: Request['algorithm'], accepted: boolean]
  const table: Row[] = [
    ['ECDSA with SHA-256', pair, [ecdsa(2), 'sha256'], true],
    ['ECDSA with SHA-384', pair, [ecdsa(3), 'sha384'], true],
    ['ECDSA with SHA-512', pair, [ecdsa(4), 'sha512'], true],
    ['ECDSA with SHA-224', pair, [ecdsa(1), 'sha224'], false],
    ['ECDSA with parameters', pair, [ecdsa(2, NULL), 'sha256'], false],
    ['ECDSA that names another hash', pair, [ecdsa(3), 'sha256'], false],
    ['ECDSA with SHA-1', pair, [sequence(oid('1.2.840.10045.4.1')), 'sha1'], false],
    ['an unknown algorithm', pair, [sequence(oid('1.2.3.4')), 'sha256'], false],
    [
      'an unknown algorithm whose signature has no digest',
      ed25519,
      [sequence(oid('1.2.3.4')), null],
      false,
    ],
    ['the algorithm of RSA for an EC key', pair, [pkcs1(11, NULL), 'sha256'], false],
    ['the algorithm of EC for an RSA key', rsa, [ecdsa(2), 'sha256'], false],
    ['RSA with SHA-256', rsa, [pkcs1(11, NULL), 'sha256'], true],
    ['RSA with SHA-384', rsa, [pkcs1(12, NULL), 'sha384'], true],
    ['RSA with SHA-512', rsa, [pkcs1(13, NULL), 'sha512'], true],
    ['RSA without parameters', rsa, [pkcs1(11), 'sha256'], true],
    ['RSA with other parameters', rsa, [pkcs1(11, integer(1)), 'sha256'], false],
    ['RSA with SHA-1', rsa, [pkcs1(5, NULL), 'sha1'], false],
    ['RSA with MD5', rsa, [pkcs1(4, NULL), 'md5'], false],
    ['PSS with SHA-256', rsa, [pss(SHA256, SHA256, 32), 'sha256', salted(32)], true],
    [
      'PSS with a salt of another length',
      rsa,
      [pss(SHA384, SHA384, 20), 'sha384', salted(20)],
      true,
    ],
    [
      'PSS whose salt is not as long as it says',
      rsa,
      [pss(SHA256, SHA256, 32), 'sha256', salted(20)],
      false,
    ],
    [
      'PSS with a salt whose length is negative',
      rsa,
      [pss(SHA256, SHA256, element(2, Buffer.of(200))), 'sha256', salted(200)],
      false,
    ],
    ['PSS with SHA-1', rsa, [pss(SHA1, SHA1, 20), 'sha1', salted(20)], false],
    ['PSS with two hashes', rsa, [pss(SHA256, SHA384, 32), 'sha256', salted(32)], false],
    [
      'PSS with a trailer',
      rsa,
      [pss(SHA256, SHA256, 32, context(3, integer(1))), 'sha256', salted(32)],
      false,
    ],
    ['PSS by its defaults', rsa, [pkcs1(10, sequence()), 'sha1', salted(20)], false],
    ['PSS without parameters', rsa, [pkcs1(10), 'sha256', salted(32)], false],
    ['Ed25519', ed25519, [sequence(oid('1.3.101.112')), null], true],
    ['Ed25519 with parameters', ed25519, [sequence(oid('1.3.101.112'), NULL), null], false],
    ['Ed448 that an Ed25519 key signed', ed25519, [sequence(oid('1.3.101.113')), null], false],
  ]
  for (const [what, { privateKey: key }, algorithm, accepted] of table) {
    const der = request({ key, algorithm })
    if (accepted) t.doesNotThrow(() => parseCsr(der), what)
    else t.throws(() => parseCsr(der), { code: 'PKI_CSR_INVALID' }, what)
  }
})

t.test('reads a request that was accepted before without its signature', async (t) => {
  t.same(readKnownCsr(good), parseCsr(good))
  const FALSE = Buffer.of(1, 1, 0)
  const names = sequence(SAN, FALSE, octets(sequence(dns('b.example'))))
  const old: [what: string, request: Request][] = [
    ['signed with SHA-1', { algorithm: [sequence(oid('1.2.840.10045.4.1')), 'sha1'] }],
    ['`critical: FALSE` written out', {}],
  ]
  for (const [what, options] of old) {
    const der = request({ ...options, attributes: [requested(names)] })
    t.throws(() => parseCsr(der), what)
    t.match(
      readKnownCsr(der),
      { der, spki: pair.spki, keyType: 'p256', names: [{ text: 'b.example' }] },
      what,
    )
  }
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 1024 })
  t.throws(() => readKnownCsr(request({ key: privateKey })), { code: 'PKI_KEY_WEAK' })
  t.throws(() => readKnownCsr(good.subarray(1)), { code: 'PKI_CSR_INVALID' })
})

t.test('refuses anything but a PKCS#10 request in DER', async (t) => {
  const extensionOf = (...parts: Der[]) =>
    request({ attributes: [requested(sequence(oid('2.5.29.99'), ...parts))] })
  const subject = (tag: number, value: Buffer) =>
    request({ subject: sequence(set(sequence(oid('2.5.4.3'), element(tag, value)))) })
  const withUnusedBit = (part: number) => {
    const der = Buffer.from(good)
    const [info, , signature] = readAll(readAll(der)[0]?.content ?? der)
    const key = readAll(info?.content ?? der)[2]
    const bits = [signature, readAll(key?.content ?? der)[1]][part]
    bits?.content.writeUInt8(1, 0)
    return der
  }
  const [info, ...signed] = readAll(readAll(good)[0]?.content ?? good)
  const long = Buffer.concat([Buffer.of(0x30, 0x83, 0, 1), good.subarray(2)])
  const table: [what: string, input: Uint8Array][] = [
    ['version 2', request({ version: 1 })],
    ['a version of two bytes, of which the first is 0', request({ version: 128 })],
    ['another list than that of attributes', request({ lists: [context(1)] })],
    ['two lists of attributes', request({ lists: [context(0), context(0)] })],
    ['a length that is longer than it needs to be', long],
    [
      'an indefinite length',
      Buffer.concat([Buffer.of(0x30, 0x80), good.subarray(4), Buffer.of(0, 0)]),
    ],
    ['no signature', encode(sequence(info?.raw ?? '', signed[0]?.raw ?? ''))],
    ['a fourth part', encode(sequence(info?.raw ?? '', ...signed.map(({ raw }) => raw), NULL))],
    ['a set instead of a sequence', encode(set(info?.raw ?? '', ...signed.map(({ raw }) => raw)))],
    [
      'an extension twice',
      request({
        attributes: [
          requested(sequence(oid('1.2.3'), octets('')), sequence(oid('1.2.3'), octets(''))),
        ],
      }),
    ],
    ['a signature that is not whole bytes', withUnusedBit(0)],
    ['a key that is not whole bytes', withUnusedBit(1)],
    ['a common name that is no text', subject(2, Buffer.of(1))],
    ['a common name that is not UTF-8', subject(12, Buffer.of(0x61, 0xff))],
    ['a common name that is not ASCII', subject(22, Buffer.of(0x61, 0xff))],
    ['a common name that ends within a character of two bytes', subject(30, Buffer.of(0, 0x61, 0))],
    ['a common name that ends within a character of four bytes', subject(28, Buffer.of(0, 0, 0))],
    ['a character that does not exist', subject(28, Buffer.of(0, 0x11, 0, 0))],
    ['an extension that says `critical: false`', extensionOf(Buffer.of(1, 1, 0), octets(''))],
    ['an extension whose `critical` is 1', extensionOf(Buffer.of(1, 1, 1), octets(''))],
    ['an extension without a value', extensionOf()],
    ['an extension with two values', extensionOf(octets(''), octets(''))],
    [
      'an attribute whose values are no set',
      request({ attributes: [sequence(EXTENSION_REQUEST, sequence())] }),
    ],
    [
      'two lists of extensions in one attribute',
      request({ attributes: [sequence(EXTENSION_REQUEST, set(sequence(), sequence()))] }),
    ],
    [
      'names that are no sequence',
      request({ attributes: [requested(sequence(SAN, octets(set(dns('a.example')))))] }),
    ],
    [
      'bytes after the names',
      request({
        attributes: [requested(sequence(SAN, octets(Buffer.concat([encode(sequence()), NULL]))))],
      }),
    ],
    [
      'a usage that is no object identifier',
      request({
        attributes: [requested(sequence(oid('2.5.29.37'), octets(sequence(integer(128)))))],
      }),
    ],
    [
      'an object identifier with a padded number',
      request({ subject: sequence(set(sequence(element(6, Buffer.of(0x80, 0x01)), utf8('x')))) }),
    ],
    [
      'an object identifier that does not end',
      request({ subject: sequence(set(sequence(element(6, Buffer.of(0x55, 0x84)), utf8('x')))) }),
    ],
  ]
  for (const [what, input] of table)
    t.throws(() => parseCsr(input), { name: 'PkiError', code: 'PKI_CSR_INVALID' }, what)
})

t.test('accepts a request without a list of attributes, as OpenSSL does', async (t) => {
  t.strictSame(parseCsr(request({ lists: [] })).names, [])
})

t.test('counts and sizes have limits', async (t) => {
  const { privateKey: key } = await generateKeyPair('ed25519')
  const many = (count: number, make: (i: number) => Der) =>
    Array.from({ length: count }, (_, i) => make(i))
  const extensions = (...all: Der[]) => request({ attributes: [requested(...all)] })
  const filled = (length: number) =>
    request({ key, attributes: [requested(sequence(oid('1.2.3'), octets(Buffer.alloc(length))))] })
  const spare = 32_768 - filled(30_000).length + 30_000
  const table: [what: string, most: number, make: (count: number) => Uint8Array][] = [
    ['bytes', 32_768, (count) => filled(spare + count - 32_768)],
    [
      'attributes',
      16,
      (count) => request({ attributes: many(count, (i) => sequence(oid(`1.2.${i}`), set())) }),
    ],
    [
      'extensions',
      32,
      (count) => extensions(...many(count, (i) => sequence(oid(`1.2.${i}`), octets('')))),
    ],
    [
      'attributes of the subject',
      32,
      (count) =>
        request({
          subject: sequence(...many(count, () => set(sequence(oid('2.5.4.11'), utf8('x'))))),
        }),
    ],
    [
      'usages',
      100,
      (count) =>
        extensions(
          sequence(oid('2.5.29.37'), octets(sequence(...many(count, (i) => oid(`1.2.${i}`))))),
        ),
    ],
    ['names', 100, (count) => extensions(san(...many(count, (i) => dns(`a${i}`))))],
  ]
  for (const [what, most, make] of table) {
    t.doesNotThrow(() => parseCsr(make(most)), `${most} ${what}`)
    t.throws(
      () => parseCsr(make(most + 1)),
      { code: 'PKI_CSR_INVALID' },
      `one more than ${most} ${what}`,
    )
  }
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
        const csr = parseCsr(bytes)
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
          /^PKI_(CSR_INVALID|KEY_WEAK)$/,
        )
      }
    },
  )
  await t.resolves(fc.assert(property, { numRuns: 800, interruptAfterTimeLimit: 3000 }))
})

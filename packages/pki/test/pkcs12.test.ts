import { createDecipheriv, createPrivateKey, pbkdf2Sync, X509Certificate } from 'node:crypto'
import { createSecureContext } from 'node:tls'
import fc from 'fast-check'
import t from 'tap'
import { children, type Element, readAll, readOid } from '../src/der.ts'
import {
  createPkcs12,
  createTruststore,
  generateKeyPair,
  KEY_TYPES,
  type KeyPair,
} from '../src/index.ts'
import { issue, makeAuthorities } from './helpers.ts'

const { root, intermediate } = await makeAuthorities()
const keys = await Promise.all(KEY_TYPES.map(generateKeyPair))
const [firstKey] = keys as [KeyPair]
const PASSWORD = 'correct horse ~ battery'

function keystoreOf(key = firstKey) {
  const { der: certificate } = issue(intermediate, ['app.example.com'], { key })
  return {
    ...{ privateKey: key.pkcs8, certificate, chain: [intermediate.certificate] },
    ...{ password: PASSWORD, friendlyName: 'app.example.com' },
  }
}

/** What an element consists of, as text: types, numbers and identifiers, and the lengths of the rest. */
function outline(element: Element): unknown {
  const { tag, content } = element
  if (tag === 0x02) return Number(`0x${content.toString('hex')}`)
  if (tag === 0x05) return null
  if (tag === 0x06) return readOid(content)
  if (tag === 0x1e) return content.swap16().toString('utf16le')
  if (tag & 0x20) return [`${tag.toString(16)}:`, ...children(element).map(outline)]
  return `${tag.toString(16)}: ${content.length} bytes`
}

/** The parts of a file: the outline of each, and the plaintext of what is encrypted. */
function open(pfx: Buffer, password = PASSWORD) {
  const [file] = readAll(pfx)
  const [version, authSafe, mac] = children(file)
  const safe = contentOf(authSafe).content
  const contents = children(readAll(safe)[0]).map((info) => {
    const content = contentOf(info)
    if (content.tag === 0x04) return { info, bags: bagsIn(content.content) }
    const [, encrypted] = children(content)
    const [, algorithm, ciphertext] = children(encrypted)
    return { info, bags: bagsIn(decrypt(algorithm, ciphertext, password)) }
  })
  return { version, authSafe, mac, contents }
}

function contentOf(info: Element | undefined): Element {
  const [, wrapped] = children(info)
  const [content] = children(wrapped)
  if (!content) throw new Error('no content')
  return content
}

const bagsIn = (safe: Buffer) => children(readAll(safe)[0])

/** PBES2, read by the parameters that stand in the file. */
function decrypt(algorithm?: Element, ciphertext?: Element, password = PASSWORD): Buffer {
  const [, parameters] = children(algorithm)
  const [derivation, scheme] = children(parameters)
  const [salt, iterations, size] = children(children(derivation)[1])
  const [, iv] = children(scheme)
  const numberOf = (element?: Element) => Number(`0x${element?.content.toString('hex')}`)
  const bytesOf = (element?: Element) => element?.content ?? Buffer.alloc(0)
  const key = pbkdf2Sync(password, bytesOf(salt), numberOf(iterations), numberOf(size), 'sha256')
  const decipher = createDecipheriv('aes-256-cbc', key, bytesOf(iv))
  return Buffer.concat([decipher.update(bytesOf(ciphertext)), decipher.final()])
}

const PBES2 = [
  ...['30:', '1.2.840.113549.1.5.13'],
  [
    '30:',
    [
      ...['30:', '1.2.840.113549.1.5.12'],
      ['30:', '4: 16 bytes', 50_000, 32, ['30:', '1.2.840.113549.2.9', null]],
    ],
    ['30:', '2.16.840.1.101.3.4.1.42', '4: 16 bytes'],
  ],
]
const MAC = [
  '30:',
  ['30:', ['30:', '2.16.840.1.101.3.4.2.1', null], '4: 32 bytes'],
  ...['4: 16 bytes', 50_000],
]
const name = (text: string) => ['30:', '1.2.840.113549.1.9.20', ['31:', text]]
const LOCAL_KEY_ID = ['30:', '1.2.840.113549.1.9.21', ['31:', '4: 32 bytes']]
const certificate = (der: Uint8Array) => [
  'a0:',
  ['30:', '1.2.840.113549.1.9.22.1', ['a0:', `4: ${der.length} bytes`]],
]
const encrypted = (length: number) => [
  ...['30:', '1.2.840.113549.1.7.6'],
  ['a0:', ['30:', 0, ['30:', '1.2.840.113549.1.7.1', PBES2, `80: ${length} bytes`]]],
]
const CERTIFICATE_BAG = '1.2.840.113549.1.12.10.1.3'

t.test('a key with its chain: the bytes by their structure', (t) => {
  const keystore = keystoreOf()
  const { version, mac, contents } = open(createPkcs12(keystore))
  t.strictSame(version && outline(version), 3)
  t.strictSame(mac && outline(mac), MAC)
  const [keyContent, certificates] = contents
  const [keyBag] = keyContent?.bags ?? []
  const attributes = ['31:', name('app.example.com'), LOCAL_KEY_ID]
  t.strictSame(keyBag && outline(keyBag), [
    ...['30:', '1.2.840.113549.1.12.10.1.2'],
    ['a0:', ['30:', PBES2, '4: 144 bytes']],
    attributes,
  ])
  const [algorithm, ciphertext] = children(contentOf(keyBag))
  t.ok(decrypt(algorithm, ciphertext).equals(keystore.privateKey), 'the key itself')
  const length = Number(
    /80: (\d+)/.exec(JSON.stringify(outline(certificates?.info as Element)))?.[1],
  )
  t.strictSame(outline(certificates?.info as Element), encrypted(length))
  t.strictSame(certificates?.bags.map(outline), [
    ['30:', CERTIFICATE_BAG, certificate(keystore.certificate), attributes],
    ['30:', CERTIFICATE_BAG, certificate(intermediate.certificate)],
  ])
  t.end()
})

t.test('roots that Java trusts: the bytes by their structure', (t) => {
  const roots = [root.certificate, intermediate.certificate]
  const { mac, contents } = open(createTruststore({ roots, password: PASSWORD }))
  t.strictSame(mac && outline(mac), MAC)
  const trusted = ['30:', '2.16.840.1.113894.746875.1.1', ['31:', '2.5.29.37.0']]
  const fingerprint = (der: Uint8Array) =>
    new X509Certificate(der).fingerprint256.replaceAll(':', '').toLowerCase()
  t.strictSame(
    contents.map(({ bags }) => bags.map(outline)),
    [
      roots.map((der) => [
        ...['30:', CERTIFICATE_BAG, certificate(der)],
        ['31:', trusted, name(fingerprint(der))],
      ]),
    ],
  )
  t.end()
})

t.test('the same input gives the same bytes, and other input gives others', (t) => {
  const keystore = keystoreOf()
  const bytes = createPkcs12(keystore)
  t.ok(createPkcs12({ ...keystore }).equals(bytes))
  const changes: Record<string, Partial<typeof keystore>> = {
    'another password': { password: `${PASSWORD}!` },
    'another name': { friendlyName: 'app.example.org' },
    'another chain': { chain: [] },
    'another certificate': { certificate: keystoreOf().certificate },
    'another key': { privateKey: keys.at(-1)?.pkcs8 ?? Buffer.of() },
  }
  for (const [what, change] of Object.entries(changes))
    t.notOk(createPkcs12({ ...keystore, ...change }).equals(bytes), what)
  const roots = [root.certificate]
  const truststore = createTruststore({ roots, password: PASSWORD })
  t.ok(createTruststore({ roots, password: PASSWORD }).equals(truststore))
  t.notOk(createTruststore({ roots, password: 'another' }).equals(truststore))
  t.notOk(createTruststore({ roots: [], password: PASSWORD }).equals(truststore))
  t.end()
})

/** The octet strings of 16 bytes in what is not encrypted: salts and initialization vectors. */
const saltsIn = (element: Element): string[] =>
  element.tag & 0x20
    ? children(element).flatMap(saltsIn)
    : element.tag === 0x04 && element.content.length === 16
      ? [element.content.toString('hex')]
      : []

t.test('no two of its encryptions share a salt or an initialization vector', (t) => {
  const { mac, contents } = open(createPkcs12(keystoreOf()))
  const [keyContent, certificates] = contents
  const parts = [mac, ...(keyContent?.bags ?? []), certificates?.info]
  const salts = parts.flatMap((part) => (part ? saltsIn(part) : []))
  t.equal(salts.length, 5)
  t.equal(new Set(salts).size, 5)
  t.end()
})

t.test('OpenSSL in Node reads every type of key, and no other password', (t) => {
  for (const key of keys) {
    const pfx = createPkcs12(keystoreOf(key))
    t.doesNotThrow(() => createSecureContext({ pfx, passphrase: PASSWORD }), key.type)
    for (const passphrase of ['', 'correct', `${PASSWORD} `])
      t.throws(() => createSecureContext({ pfx, passphrase }), /mac verify failure/, key.type)
  }
  t.end()
})

t.test('whatever the password, the name and the chain are, all is read back', async (t) => {
  const printable = fc.string({
    unit: fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code)),
    minLength: 1,
    maxLength: 200,
  })
  const property = fc.property(
    fc.constantFrom(...keys),
    printable,
    fc.string({ maxLength: 300 }),
    fc.nat(4),
    (key, password, friendlyName, length) => {
      const chain = Array.from({ length }, () => intermediate.certificate)
      const keystore = { ...keystoreOf(key), chain, password, friendlyName }
      const pfx = createPkcs12(keystore)
      createSecureContext({ pfx, passphrase: password })
      const { contents } = open(pfx, password)
      const [keyBag] = contents[0]?.bags ?? []
      const [algorithm, ciphertext] = children(contentOf(keyBag))
      const pkcs8 = decrypt(algorithm, ciphertext, password)
      createPrivateKey({ key: pkcs8, format: 'der', type: 'pkcs8' })
      const certificates = contents[1]?.bags.map((bag) => {
        const [, wrapped] = children(contentOf(bag))
        return children(wrapped)[0]?.content
      })
      const sent = [keystore.certificate, ...chain]
      return (
        pkcs8.equals(key.pkcs8) &&
        certificates?.length === sent.length &&
        sent.every((der, i) => certificates[i]?.equals(der))
      )
    },
  )
  await t.resolves(async () =>
    fc.assert(property, { numRuns: 40, interruptAfterTimeLimit: 10_000 }),
  )
})

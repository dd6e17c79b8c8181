// @peculiar/x509 reads the same requests: what is accepted here, it accepts with the same key and names.
import assert from 'node:assert/strict'
import { createPublicKey } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import {
  contextPrimitive,
  type Der,
  element,
  integer,
  octets,
  oid,
  readAll,
  sequence,
  set,
  TRUE,
} from '../../src/der.ts'
import { type Csr, generateKeyPair, parseCsr, parseName } from '../../src/index.ts'
import { dns, type Request, request, requested, san } from '../csr-helpers.ts'
import { x509 } from '../helpers.ts'

const keys = await Promise.all(
  (['p256', 'p384', 'rsa2048', 'ed25519'] as const).map(generateKeyPair),
)

const label = fc.stringMatching(/^[a-z0-9]{1,12}$/)
const name = fc.oneof(
  fc.array(label, { minLength: 1, maxLength: 4 }).map((labels) => dns(labels.join('.'))),
  fc.uint8Array({ minLength: 4, maxLength: 4 }).map((ip) => contextPrimitive(7, ip)),
  fc.uint8Array({ minLength: 16, maxLength: 16 }).map((ip) => contextPrimitive(7, ip)),
  fc.constantFrom(dns('*.example.com'), dns('-'), contextPrimitive(1, 'a@b.example')),
)
const text = fc.oneof(
  fc.tuple(
    fc.constantFrom(0x0c, 0x13, 0x14, 0x16),
    label.map((one) => `${one}.example`),
  ),
  fc.tuple(fc.constant(0x0c), fc.string({ unit: 'grapheme', maxLength: 12 })),
  fc.tuple(
    fc.constant(0x1c),
    label.map((one) => utf32(`${one}.example`)),
  ),
  fc.tuple(
    fc.constant(0x1e),
    label.map((one) => Buffer.from(`${one}.example`, 'utf16le').swap16()),
  ),
)
const utf32 = (one: string) =>
  Buffer.concat([...one].map((c) => Buffer.of(0, 0, 0, c.charCodeAt(0))))
const attribute = fc
  .tuple(fc.constantFrom('2.5.4.3', '2.5.4.3', '2.5.4.10', '2.5.4.6'), text)
  .map(([id, [tag, value]]) =>
    set(sequence(oid(id), element(tag, typeof value === 'string' ? Buffer.from(value) : value))),
  )
const extension = fc.constantFrom<Der>(
  sequence(oid('2.5.29.19'), TRUE, octets(sequence(TRUE))),
  sequence(oid('2.5.29.37'), octets(sequence(oid('1.3.6.1.5.5.7.3.2')))),
  sequence(oid('1.3.6.1.5.5.7.1.24'), octets(sequence(integer(5)))),
)
const wellFormed: fc.Arbitrary<Buffer> = fc
  .record({
    key: fc.constantFrom(...keys.map(({ privateKey }) => privateKey)),
    subject: fc.array(attribute, { maxLength: 4 }).map((all) => sequence(...all)),
    attributes: fc
      .tuple(fc.array(name, { maxLength: 5 }), fc.uniqueArray(extension))
      .map(([names, others]) => [
        requested(...others, ...(names.length > 0 ? [san(...names)] : [])),
      ]),
  })
  .map((one: Request) => request(one))

/** What the oracle reads, in the words of this package. */
async function asked(der: Buffer) {
  const csr = new x509.Pkcs10CertificateRequest(der)
  const key = createPublicKey({
    key: Buffer.from(csr.publicKey.rawData),
    type: 'spki',
    format: 'der',
  })
  const altName = csr.getExtension('2.5.29.17')
  const altNames = altName
    ? new x509.SubjectAlternativeNameExtension(altName.rawData).names.items
    : []
  const commonNames = csr.subjectName.getField('CN').flatMap((one) => {
    try {
      return [parseName(one)]
    } catch {
      return []
    }
  })
  const names = [...altNames.map(({ value }) => parseName(value)), ...commonNames]
  return {
    verified: await csr.verify(),
    spki: key.export({ type: 'spki', format: 'der' }),
    names: [...new Set(names.map((one) => one.text))],
  }
}

async function assertSame(der: Buffer, { spki, names }: Csr) {
  const oracle = await asked(der)
  assert.ok(oracle.verified)
  assert.deepEqual(spki, oracle.spki)
  assert.deepEqual(
    names.map(({ text }) => text),
    oracle.names,
  )
}

/** Nothing where it is refused, and then by a code of its own. */
function read(der: Buffer): Csr | undefined {
  try {
    return parseCsr(der)
  } catch (error) {
    const { code } = error as { code?: string }
    assert.match(String(code), /^PKI_(CSR_INVALID|KEY_WEAK)$/)
    return undefined
  }
}

t.test('reads an accepted request as the oracle does', async (t) => {
  let accepted = 0
  const property = fc.asyncProperty(wellFormed, async (der) => {
    const csr = read(der)
    if (csr) await assertSame(der, csr)
    if (csr) accepted++
  })
  await fc.assert(property, { numRuns: 300, interruptAfterTimeLimit: 15_000 })
  t.ok(accepted > 20, 'and many are accepted')
})

t.test('no mutation is accepted that the oracle refuses', async () => {
  const edit = fc.record({
    at: fc.nat(),
    remove: fc.nat(2),
    insert: fc.uint8Array({ maxLength: 2 }),
  })
  const property = fc.asyncProperty(
    wellFormed,
    fc.array(edit, { minLength: 1, maxLength: 2 }),
    async (seed, edits) => {
      let der = seed
      for (const { at, remove, insert } of edits) {
        const start = at % der.length
        der = Buffer.concat([der.subarray(0, start), insert, der.subarray(start + remove)])
      }
      const csr = read(der)
      if (csr) await assertSame(der, csr)
    },
  )
  await fc.assert(property, { numRuns: 500, interruptAfterTimeLimit: 15_000 })
})

t.test('no bit of what is signed or of the signature can be turned', async () => {
  const seed = request({ attributes: [requested(san(dns('a.example')))] })
  const [info, , signature] = readAll(readAll(seed)[0]?.content ?? seed)
  const start = (part = info) => (part ? part.raw.byteOffset - seed.byteOffset : 0)
  const places = [info, signature].flatMap((part) =>
    Array.from({ length: part?.raw.length ?? 0 }, (_, i) => start(part) + i),
  )
  for (const place of places)
    for (let bit = 0; bit < 8; bit++) {
      const der = Buffer.from(seed)
      der[place] = (der[place] ?? 0) ^ (1 << bit)
      assert.equal(read(der), undefined, `byte ${place}, bit ${bit}`)
    }
})

import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import {
  bits,
  type Der,
  element,
  encode,
  integer,
  octets,
  oid,
  readAll,
  readOid,
  sequence,
  time,
  utf8,
} from '../src/der.ts'

const hex = (der: Der) => encode(der).toString('hex')

t.test('elements', async (t) => {
  const table: [what: string, der: Der, hex: string][] = [
    ['zero', integer(0), '020100'],
    ['127', integer(127), '02017f'],
    ['128 has a sign byte', integer(128), '02020080'],
    ['bytes lose leading zeros', integer(Buffer.of(0, 0, 1)), '020101'],
    ['bytes gain a sign byte', integer(Buffer.of(255)), '020200ff'],
    ['a big integer', integer(2n ** 64n), '0209010000000000000000'],
    ['an OID', oid('1.2.840.113549.1.1.11'), '06092a864886f70d01010b'],
    ['an OID with zero', oid('2.5.29.37.0'), '0604551d2500'],
    ['bits', bits(Buffer.of(0xa0), 5), '030205a0'],
    ['UTF-8', utf8('é'), '0c02c3a9'],
    ['nesting', sequence(octets('a'), sequence()), '3005040161' + '3000'],
    [
      'the last UTCTime',
      time(Date.UTC(2049, 11, 31, 23, 59, 59, 999)),
      '170d3439313233313233353935395a',
    ],
    ['the first GeneralizedTime', time(Date.UTC(2050, 0, 1)), '180f32303530303130313030303030305a'],
  ]
  for (const [what, der, expected] of table) t.equal(hex(der), expected, what)
})

t.test('lengths are as short as can be, and read back', async (t) => {
  const table: [length: number, header: string][] = [
    [0x7f, '047f'],
    [0x80, '048180'],
    [0xff, '0481ff'],
    [0x100, '04820100'],
    [0xffff, '0482ffff'],
    [0x10000, '0483010000'],
  ]
  for (const [length, header] of table) {
    const der = encode(octets(Buffer.alloc(length)))
    t.equal(der.subarray(0, der.length - length).toString('hex'), header, `${length} bytes`)
    t.equal(readAll(der)[0]?.content.length, length)
  }
})

t.test('refuses what is no DER', async (t) => {
  const table: [what: string, hex: string][] = [
    ['a tag of several bytes', '1f0100'],
    ['a constructed tag of several bytes', 'bf0100'],
    ['no length', '04'],
    ['an indefinite length', '30800000'],
    ['a length of five bytes', '04850000000000'],
    ['a length that ends too soon', '048201'],
    ['a length below 128 in a byte of its own', `04817f${'00'.repeat(127)}`],
    ['a length with a leading zero', `048200ff${'00'.repeat(255)}`],
    ['one byte too few', '040200'],
  ]
  for (const [what, hex] of table)
    t.throws(() => readAll(Buffer.from(hex, 'hex')), { code: 'PKI_CERTIFICATE_INVALID' }, what)
})

t.test('object identifiers are read as they are written', async (t) => {
  const accepted: [hex: string, dotted: string][] = [
    ['2a864886f70d01010b', '1.2.840.113549.1.1.11'],
    ['551d2500', '2.5.29.37.0'],
    ['27', '0.39'],
    ['4f', '1.39'],
    ['50', '2.0'],
    ['8837', '2.999'],
    ['2aa08080808000', '1.2.1099511627776'],
    [`2a${'01'.repeat(63)}`, `1.2${'.1'.repeat(63)}`],
  ]
  for (const [hex, dotted] of accepted) t.equal(readOid(Buffer.from(hex, 'hex')), dotted, dotted)
  const refused: [what: string, hex: string][] = [
    ['nothing', ''],
    ['no end', '5584'],
    ['a padded number', '2a8001'],
    ['a number above 2^40', '2aa08080808001'],
    ['65 bytes', `2a${'01'.repeat(64)}`],
  ]
  for (const [what, hex] of refused)
    t.throws(() => readOid(Buffer.from(hex, 'hex')), { code: 'PKI_CERTIFICATE_INVALID' }, what)
})

const leaf = fc.tuple(fc.constantFrom(0x02, 0x04, 0x82), fc.uint8Array({ maxLength: 200 }))
const list = fc.array(leaf, { maxLength: 6 })

t.test('property: reads what was written, and throws only PkiError otherwise', async (t) => {
  const inverse = fc.property(list, (leaves) => {
    const [outer] = readAll(encode(sequence(...leaves.map(([tag, bytes]) => element(tag, bytes)))))
    const inner = readAll(outer?.content ?? Buffer.alloc(0))
    assert.deepEqual(
      inner.map(({ tag, content }) => [tag, new Uint8Array(content)]),
      leaves,
    )
  })
  t.doesNotThrow(() => fc.assert(inverse))
  const hostile = fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
    try {
      const total = readAll(Buffer.from(bytes)).reduce((sum, { raw }) => sum + raw.length, 0)
      assert.equal(total, bytes.length)
    } catch (error) {
      assert.equal((error as { code?: string }).code, 'PKI_CERTIFICATE_INVALID')
    }
  })
  t.doesNotThrow(() => fc.assert(hostile, { numRuns: 2000 }))
})

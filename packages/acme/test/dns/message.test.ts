import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { decodeMessage, encodeQuery, encodeUpdate, FLAG } from '../../src/dns/message.ts'
import { AcmeError } from '../../src/index.ts'

const HEADER = '1234 8400 0001 0001 0000 0000'
const QUESTION = '07 6578616d706c65 00 0010 0001'
const bytes = (...hex: string[]) => Buffer.from(hex.join('').replaceAll(' ', ''), 'hex')
const answer = (
  name: string,
  type: string,
  data: string,
  length = data.replaceAll(' ', '').length / 2,
) =>
  bytes(HEADER, QUESTION, name, type, '0001 0000003c', length.toString(16).padStart(4, '0'), data)

const MALFORMED: Record<string, Buffer> = {
  nothing: bytes(),
  'half a header': bytes('1234 8400'),
  'a count without records': bytes(HEADER, QUESTION),
  'bytes after the end': Buffer.concat([answer('c00c', '0010', '01 61'), Buffer.of(0)]),
  'a pointer to itself': answer('c019', '0010', '01 61'),
  'a pointer forwards': answer('c020', '0010', '01 61'),
  'a pointer without its second byte': bytes(HEADER, 'c0'),
  'a label type of old': answer('40', '0010', '01 61'),
  'a label that is not ASCII': answer('01 e4 00', '0010', '01 61'),
  'a name over 255 bytes': answer(`${`3f${'61'.repeat(63)}`.repeat(5)}00`, '0010', '01 61'),
  'a text longer than its record': answer('c00c', '0010', '05 61'),
  'a record longer than the message': answer('c00c', '0010', '01 61', 9),
  'a name longer than its record': answer('c00c', '0005', '02 61', 2),
  'an address of a wrong length': answer('c00c', '0001', '7f00'),
  'more than 250 records': bytes(
    HEADER.replace('0001 0000 0000', '00fb 0000 0000'),
    QUESTION,
    'c00c 00ff 0001 0000003c 0000'.repeat(251),
  ),
}

const ANSWERS: [type: string, code: string, data: string, value: string][] = [
  ['A', '0001', '7f000001', '127.0.0.1'],
  ['AAAA', '001c', '20010db8000000000000000000000001', '2001:db8::1'],
  ['CNAME, compressed', '0005', '01 61 c00c', 'a.example'],
  ['NS in capitals', '0002', '01 41 00', 'a'],
  ['TXT of two strings', '0010', '01 61 02 6263', 'abc'],
  ['TXT with an empty string', '0010', '00', ''],
  ['another type', '00ff', 'ffff', ''],
]

t.test('answers are read', async (t) => {
  for (const [title, type, data, value] of ANSWERS) {
    const message = decodeMessage(answer('c00c', type, data))
    t.match(message.answers, [{ name: 'example', value, ttl: 60, class: 'IN' }], title)
    t.strictSame(message.questions, [{ name: 'example', type: 'TXT' }])
    t.ok(message.flags & FLAG.authoritative)
  }
})

t.test('refuses malformed messages', async (t) => {
  for (const [title, message] of Object.entries(MALFORMED))
    t.throws(() => decodeMessage(message), { code: 'ACME_DNS_LOOKUP' }, title)
  for (const name of ['a..b', '.', 'a.', 'ä', 'A', 'a b', 'x'.repeat(64), 'x.'.repeat(130)])
    for (const encode of [
      () => encodeQuery(0, 0, { name, type: 'TXT' }),
      () => encodeUpdate(0, name, { name: 'a', value: '' }, 'delete'),
      () => encodeUpdate(0, 'a', { name, value: '' }, 'delete'),
    ])
      t.throws(encode, { code: 'ACME_DNS_LOOKUP' }, JSON.stringify(name))
})

t.test(
  'reads as many records as a long chain of compression pointers allows, and no more',
  async (t) => {
    const question = '07 6578616d706c65 00 00ff 0001'
    const links = Array.from({ length: 8_000 }, (_, i) => {
      const previous = i === 0 ? 12 : 12 + 13 + 12 + 2 * (i - 1)
      return (0xc000 | previous).toString(16)
    })
    const last = links.at(-1) ?? ''
    const messageOf = (records: number) =>
      bytes(
        `1234 8400 0001 ${records.toString(16).padStart(4, '0')} 0000 0000`,
        question,
        `c00c 00ff 0001 0000003c ${(2 * links.length).toString(16)} ${links.join('')}`,
        `${last} 00ff 0001 0000003c 0000`.repeat(records - 1),
      )
    t.equal(decodeMessage(messageOf(249)).answers.at(-1)?.name, 'example')
    const refused = { code: 'ACME_DNS_LOOKUP', message: /too many records/ }
    t.throws(() => decodeMessage(messageOf(250)), refused)
  },
)

const label = fc.stringMatching(/^[a-z0-9_*-]{1,20}$/)
const name = fc.array(label, { minLength: 1, maxLength: 8 }).map((labels) => labels.join('.'))
const text = fc.string({ maxLength: 60, unit: 'grapheme' })
const update = fc.record({
  id: fc.nat(0xffff),
  zone: name,
  record: fc.record({ name, value: text }),
  change: fc.oneof(fc.constant('delete' as const), fc.record({ add: fc.nat(0xffff_ffff) })),
})
const encodedUpdate = update.map(({ id, zone, record, change }) =>
  encodeUpdate(id, zone, record, change),
)

t.test('property: what is written is read again', async () => {
  const question = fc.record(
    { name, type: fc.constantFrom('A', 'CNAME', 'SOA', 'TXT') },
    { noNullPrototype: true },
  )
  fc.assert(
    fc.property(fc.nat(0xffff), fc.nat(0x7fff), question, (id, flags, question) => {
      const message = decodeMessage(encodeQuery(id, flags, question))
      assert.deepEqual(message, {
        ...{ id, flags, questions: [question] },
        ...{ answers: [], authorities: [], additionals: [] },
      })
    }),
  )
  fc.assert(
    fc.property(update, ({ id, zone, record, change }) => {
      const message = decodeMessage(encodeUpdate(id, zone, record, change))
      const isDelete = change === 'delete'
      assert.partialDeepStrictEqual(message, {
        id,
        flags: FLAG.update,
        questions: [{ name: zone, type: 'SOA' }],
        answers: [],
        authorities: [
          {
            name: record.name,
            type: 'TXT',
            class: isDelete ? 'UNKNOWN_254' : 'IN',
            ttl: isDelete ? 0 : change.add,
            value: Buffer.from(record.value).toString(),
          },
        ],
        additionals: [],
      })
    }),
  )
})

t.test('property: reads or refuses any bytes', async () => {
  const mutated = fc
    .tuple(encodedUpdate, fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 8 }))
    .map(([encoded, changes]) => {
      for (const [at, byte] of changes) encoded[at % encoded.length] = byte
      return encoded
    })
  const random = fc.uint8Array({ maxLength: 600 }).map((array) => Buffer.from(array))
  fc.assert(
    fc.property(fc.oneof(mutated, random), (input) => {
      try {
        decodeMessage(input)
      } catch (error) {
        return error instanceof AcmeError && error.code === 'ACME_DNS_LOOKUP'
      }
      return true
    }),
    { numRuns: 500 },
  )
})

import fc from 'fast-check'
import t from 'tap'
import {
  CLASS,
  decodeMessage,
  encodeMessage,
  encodeName,
  encodeText,
  FLAG,
  type NewMessage,
  TYPE,
} from '../../src/dns/message.ts'
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

/** The first is the name in the question, each of the others points to the one before: 37 is where they stand. */
const POINTERS = Array.from({ length: 50 }, (_, i) =>
  (0xc000 | (i === 0 ? 12 : 35 + 2 * i)).toString(16),
)

const MALFORMED: Record<string, Buffer> = {
  nothing: bytes(),
  'half a header': bytes('1234 8400'),
  'a count without records': bytes(HEADER, QUESTION),
  'bytes after the end': Buffer.concat([answer('c00c', '0010', '01 61'), Buffer.of(0)]),
  'a pointer to itself': answer('c019', '0010', '01 61'),
  'a pointer forwards': answer('c020', '0010', '01 61'),
  'a pointer without its second byte': bytes(HEADER, 'c0'),
  'a name of pointers to pointers': bytes(
    HEADER.replace('8400 0001 0001', '8400 0001 0002'),
    QUESTION,
    `c00c 00ff 0001 0000003c 0064 ${POINTERS.join('')}`,
    `${POINTERS.at(-1)} 00ff 0001 0000003c 0000`,
  ),
  'a label type of old': answer('40', '0010', '01 61'),
  'a label with a dot': answer('03 612e62 00', '0010', '01 61'),
  'a label that is not ASCII': answer('01 e4 00', '0010', '01 61'),
  'a name over 255 bytes': answer(`${`3f${'61'.repeat(63)}`.repeat(5)}00`, '0010', '01 61'),
  'a text longer than its record': answer('c00c', '0010', '05 61'),
  'a record longer than the message': answer('c00c', '0010', '01 61', 9),
  'a name longer than its record': answer('c00c', '0005', '02 61', 2),
}

const ANSWERS: [type: string, code: string, data: string, value: string][] = [
  ['A', '0001', '7f000001', '127.0.0.1'],
  ['AAAA', '001c', '20010db8000000000000000000000001', '2001:db8::1'],
  ['A of a wrong length', '0001', '7f00', ''],
  ['CNAME, compressed', '0005', '01 61 c00c', 'a.example'],
  ['NS in capitals', '0002', '01 41 00', 'a'],
  ['TXT of two strings', '0010', '01 61 02 6263', 'abc'],
  ['TXT with an empty string', '0010', '00', ''],
  ['another type', '00ff', 'ffff', ''],
]

t.test('answers are read', async (t) => {
  for (const [title, type, data, value] of ANSWERS) {
    const message = decodeMessage(answer('c00c', type, data))
    t.match(message.answers, [{ name: 'example', value, ttl: 60, class: CLASS.IN }], title)
    t.strictSame(message.questions, [{ name: 'example', type: TYPE.TXT }])
    t.ok(message.flags & FLAG.authoritative)
  }
})

t.test('what is malformed is refused', async (t) => {
  for (const [title, message] of Object.entries(MALFORMED))
    t.throws(() => decodeMessage(message), { code: 'ACME_DNS_MESSAGE' }, title)
  for (const name of ['a..b', '.', 'a.', 'ä', 'A', 'a b', 'x'.repeat(64), 'x.'.repeat(130)])
    t.throws(() => encodeName(name), { code: 'ACME_DNS_MESSAGE' }, JSON.stringify(name))
})

const label = fc.stringMatching(/^[a-z0-9_*-]{1,20}$/)
const name = fc.array(label, { maxLength: 8 }).map((labels) => labels.join('.'))
const text = fc.string({ maxLength: 600, unit: 'grapheme' })
const newMessage = fc.record({
  id: fc.nat(0xffff),
  flags: fc.nat(0xffff),
  question: fc.record({ name, type: fc.nat(0xffff) }),
  authorities: fc.array(
    fc.record({
      name,
      type: fc.constant(TYPE.TXT),
      class: fc.constantFrom(CLASS.IN, CLASS.NONE),
      ttl: fc.nat(0xffff_ffff),
      data: text.map(encodeText),
    }),
    { maxLength: 4 },
  ),
})

t.test('property: what is written is read again', async () => {
  fc.assert(
    fc.property(newMessage, (message: NewMessage) => {
      const { id, flags, questions, answers, authorities } = decodeMessage(encodeMessage(message))
      const same = authorities.every((record, index) => {
        const written = message.authorities?.[index]
        return (
          record.name === written?.name &&
          record.ttl === written.ttl &&
          record.class === written.class &&
          record.data.equals(written.data)
        )
      })
      return (
        id === message.id &&
        flags === message.flags &&
        questions[0]?.name === message.question.name &&
        answers.length === 0 &&
        authorities.length === message.authorities?.length &&
        same
      )
    }),
  )
  fc.assert(
    fc.property(text, (value) => {
      const data = encodeText(value)
      const record = { name: 'a', type: TYPE.TXT, class: CLASS.IN, ttl: 0, data }
      const question = { name: 'a', type: TYPE.TXT }
      const message = encodeMessage({ id: 0, flags: 0, question, authorities: [record] })
      return decodeMessage(message).authorities[0]?.value === Buffer.from(value).toString()
    }),
  )
})

t.test('property: whatever comes is read or refused, and reading ends', async () => {
  const mutated = fc
    .tuple(newMessage, fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 8 }))
    .map(([message, changes]) => {
      const encoded = encodeMessage(message)
      for (const [at, byte] of changes) encoded[at % encoded.length] = byte
      return encoded
    })
  const random = fc.uint8Array({ maxLength: 600 }).map((array) => Buffer.from(array))
  fc.assert(
    fc.property(fc.oneof(mutated, random), (input) => {
      try {
        decodeMessage(input)
      } catch (error) {
        return error instanceof AcmeError && error.code === 'ACME_DNS_MESSAGE'
      }
      return true
    }),
    { numRuns: 500 },
  )
})

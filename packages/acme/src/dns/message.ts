// DNS messages (RFC 1035) as far as challenges need them: questions, dynamic updates, and answers.
import { parseIp } from '@gatehouse/net'
import { AcmeError } from '../errors.ts'

export const TYPE = { A: 1, NS: 2, CNAME: 5, SOA: 6, TXT: 16, AAAA: 28, TSIG: 250 } as const
export const CLASS = { IN: 1, NONE: 254, ANY: 255 } as const
/** Bits of the header; the lowest four are the RCODE, and the opcode starts at bit 11. */
export const FLAG = {
  response: 0x8000,
  update: 5 << 11,
  authoritative: 0x0400,
  truncated: 0x0200,
  recursionDesired: 0x0100,
} as const
export const RCODE = { NOERROR: 0, NXDOMAIN: 3, NOTAUTH: 9 } as const

/** Names are in lower case and without the last dot; the root is the empty text. */
export interface Question {
  readonly name: string
  readonly type: number
}

export interface ResourceRecord extends Question {
  readonly class: number
  /** Seconds. */
  readonly ttl: number
  /** As it is on the wire; names in it may be compressed. */
  readonly data: Buffer
  /** The name that NS and CNAME point to, the address of A and AAAA, the text of TXT; else empty. */
  readonly value: string
  /** Where the record begins in the message. */
  readonly start: number
}

export interface Message {
  readonly id: number
  readonly flags: number
  readonly questions: readonly Question[]
  readonly answers: readonly ResourceRecord[]
  readonly authorities: readonly ResourceRecord[]
  readonly additionals: readonly ResourceRecord[]
}

export type NewRecord = Pick<ResourceRecord, 'name' | 'type' | 'class' | 'ttl' | 'data'>

/** What is written: a question in class IN, and for an update the records to add or to delete. */
export interface NewMessage {
  readonly id: number
  readonly flags: number
  readonly question: Question
  readonly authorities?: readonly NewRecord[]
}

export function encodeMessage({ id, flags, question, authorities = [] }: NewMessage): Buffer {
  const header = uint16(id, flags, 1, 0, authorities.length, 0)
  const asked = Buffer.concat([encodeName(question.name), uint16(question.type, CLASS.IN)])
  return Buffer.concat([header, asked, ...authorities.map(encodeRecord)])
}

export function encodeRecord({ name, type, class: cls, ttl, data }: NewRecord): Buffer {
  const fixed = uint16(type, cls, ttl >>> 16, ttl & 0xffff, data.length)
  return Buffer.concat([encodeName(name), fixed, data])
}

/** Without compression. */
export function encodeName(name: string): Buffer {
  const labels = name === '' ? [] : name.split('.')
  const parts = labels.flatMap((label) => {
    if (!LABEL.test(label)) fail(`${JSON.stringify(name)} cannot be written as a name`)
    return [Buffer.of(label.length), Buffer.from(label, 'latin1')]
  })
  const encoded = Buffer.concat([...parts, Buffer.of(0)])
  if (encoded.length > MAX_NAME) fail(`${JSON.stringify(name)} is too long`)
  return encoded
}

/** The data of a TXT record: character strings of at most 255 bytes. */
export function encodeText(text: string): Buffer {
  const bytes = Buffer.from(text)
  const chunks: Buffer[] = []
  for (let at = 0; at === 0 || at < bytes.length; at += 255) {
    const chunk = bytes.subarray(at, at + 255)
    chunks.push(Buffer.of(chunk.length), chunk)
  }
  return Buffer.concat(chunks)
}

export function uint16(...values: number[]): Buffer {
  const bytes = Buffer.allocUnsafe(2 * values.length)
  for (const [index, value] of values.entries()) bytes.writeUInt16BE(value, 2 * index)
  return bytes
}

const MAX_NAME = 255
const MAX_POINTERS = 32
// Printable ASCII without the dot, the backslash and capitals: in names of this kind nothing else occurs.
const LABEL = /^[!-\-/-@[\]-~]{1,63}$/

/**
 * Reads a whole message.
 *
 * @throws AcmeError `ACME_DNS_MESSAGE`
 */
export function decodeMessage(bytes: Buffer): Message {
  const reader = createReader(bytes)
  const [id, flags] = [reader.uint16(), reader.uint16()]
  const counts = [reader.uint16(), reader.uint16(), reader.uint16(), reader.uint16()] as const
  const questions = readMany(counts[0], () => {
    const question = { name: reader.name(), type: reader.uint16() }
    reader.uint16()
    return question
  })
  const records = (count: number) => readMany(count, () => readRecord(reader, bytes))
  const answers = records(counts[1])
  const authorities = records(counts[2])
  const additionals = records(counts[3])
  if (reader.position() !== bytes.length) fail('there are bytes after its last record')
  return { id, flags, questions, answers, authorities, additionals }
}

/** Each of them takes bytes, so that the length of the message bounds the count. */
function readMany<T>(count: number, read: () => T): T[] {
  const items: T[] = []
  while (items.length < count) items.push(read())
  return items
}

type Reader = ReturnType<typeof createReader>

export function createReader(bytes: Buffer, start = 0) {
  let at = start

  function take(length: number): Buffer {
    if (at + length > bytes.length) fail('it ends too soon')
    at += length
    return bytes.subarray(at - length, at)
  }

  function name(): string {
    const { text, end } = readName(bytes, at)
    at = end
    return text
  }

  return { take, name, uint16: () => take(2).readUInt16BE(), position: () => at }
}

function readName(bytes: Buffer, start: number): { text: string; end: number } {
  const labels: string[] = []
  let end: number | undefined
  // A pointer leads backwards only, so that reading ends (RFC 1035 section 4.1.4: "a prior occurrence").
  for (let at = start, limit = start, size = 1, pointers = 0; ; ) {
    const length = bytes[at] ?? fail('it ends within a name')
    if (length >= 0xc0) {
      const target = ((length & 0x3f) << 8) | (bytes[at + 1] ?? fail('it ends within a name'))
      if (target >= limit) fail('a name points forwards')
      if (++pointers > MAX_POINTERS) fail('a name has too many pointers')
      end ??= at + 2
      limit = target
      at = target
      continue
    }
    if (length === 0) return { text: labels.join('.'), end: end ?? at + 1 }
    const label = bytes.toString('latin1', at + 1, at + 1 + length).toLowerCase()
    size += 1 + length
    if (label.length < length || !LABEL.test(label) || size > MAX_NAME) fail('a name is not valid')
    labels.push(label)
    at += 1 + length
  }
}

function readRecord(reader: Reader, bytes: Buffer): ResourceRecord {
  const start = reader.position()
  const [name, type, cls] = [reader.name(), reader.uint16(), reader.uint16()]
  const ttl = reader.take(4).readUInt32BE()
  const length = reader.uint16()
  const data = reader.take(length)
  const value = readValue(type, data, bytes.subarray(0, reader.position()))
  return { name, type, class: cls, ttl, data, value, start }
}

/** `upToHere` ends with the data: a name in it may point back. */
function readValue(type: number, data: Buffer, upToHere: Buffer): string {
  if (data.length === 0) return ''
  if (type === TYPE.NS || type === TYPE.CNAME)
    return readName(upToHere, upToHere.length - data.length).text
  if (type === TYPE.TXT) return decodeText(data)
  if (type === TYPE.A && data.length === 4) return data.join('.')
  if (type !== TYPE.AAAA || data.length !== 16) return ''
  return parseIp(data.toString('hex').replace(/.{4}(?!$)/g, '$&:'))?.text ?? ''
}

function decodeText(data: Buffer): string {
  const chunks: Buffer[] = []
  for (let at = 0; at < data.length; at += 1 + (data[at] ?? 0)) {
    const chunk = data.subarray(at + 1, at + 1 + (data[at] ?? 0))
    if (chunk.length !== data[at]) fail('a text is longer than its record')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}

function fail(why: string): never {
  throw new AcmeError('ACME_DNS_MESSAGE', `the DNS message is not valid: ${why}`)
}

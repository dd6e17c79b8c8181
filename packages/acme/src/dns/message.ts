// DNS messages (RFC 1035), encoded and decoded by dns-packet.
import { type Answer, decode, encode, type Packet } from 'dns-packet'
import { AcmeError } from '../errors.ts'

export type RecordType = 'A' | 'AAAA' | 'CNAME' | 'NS' | 'SOA' | 'TXT'

/** Names are in lower case and without the last dot. */
export interface DnsQuestion {
  readonly name: string
  readonly type: RecordType
}

export interface ResourceRecord {
  readonly name: string
  readonly type: string
  /** The name of NS and CNAME, the address of A and AAAA, the text of TXT; otherwise empty. */
  readonly value: string
}

/** A record whose data dns-packet leaves as it is on the wire, such as TSIG. */
interface RawRecord extends ResourceRecord {
  readonly class: string
  readonly ttl: number
  readonly data: Buffer
}

export interface DnsMessage {
  readonly id: number
  /** The second pair of bytes of the header: see {@link FLAG} and {@link rcodeOf}. */
  readonly flags: number
  readonly questions: readonly DnsQuestion[]
  readonly answers: readonly ResourceRecord[]
  readonly authorities: readonly ResourceRecord[]
  readonly additionals: readonly RawRecord[]
}

export const FLAG = {
  response: 0x8000,
  update: 5 << 11,
  authoritative: 0x0400,
  truncated: 0x0200,
  recursionDesired: 0x0100,
} as const
export const RCODE = { NOERROR: 0, NXDOMAIN: 3 } as const
const CLASS_NONE = 254

export const rcodeOf = ({ flags }: Pick<DnsMessage, 'flags'>): number => flags & 0x0f

/** @throws AcmeError `ACME_DNS_LOOKUP` for a name that DNS messages of this package cannot hold */
export function encodeQuery(id: number, flags: number, question: DnsQuestion): Buffer {
  checkName(question.name)
  return encode({ id, flags, questions: [question] })
}

/**
 * An update of a zone (RFC 2136) that adds one TXT record, with that many seconds as its TTL, or
 * deletes just that record and leaves others at the name alone.
 */
export function encodeUpdate(
  id: number,
  zone: string,
  record: { readonly name: string; readonly value: string },
  change: { readonly add: number } | 'delete',
): Buffer {
  checkName(zone)
  checkName(record.name)
  const data = Buffer.from(record.value)
  const ttl = change === 'delete' ? 0 : change.add
  const bytes = encode({
    id,
    flags: FLAG.update,
    questions: [{ name: zone, type: 'SOA' }],
    authorities: [{ name: record.name, type: 'TXT', ttl, data: [data] }],
  })
  // dns-packet has no class NONE, which deletes one record (RFC 2136 section 2.5.4). After the
  // class come TTL, length, and the text with a length of its own.
  if (change === 'delete')
    bytes.writeUInt16BE(CLASS_NONE, bytes.length - (2 + 4 + 2 + 1 + data.length))
  return bytes
}

// Printable ASCII without dot, backslash and capitals.
const NAME = /^(?=.{1,253}$)[!-\-/-@[\]-~]{1,63}(\.[!-\-/-@[\]-~]{1,63})*$/

function checkName(name: string): void {
  if (!NAME.test(name)) fail(`${JSON.stringify(name)} cannot be written as a name`)
}

const HEADER_BYTES = 12
// dns-packet follows long chains of compression pointers, so the number of names has to be small.
const MAX_RECORDS = 250

/** Decodes a whole message. */
export function decodeMessage(bytes: Buffer): DnsMessage {
  const { questions = [], answers = [], authorities = [], additionals = [] } = decodePacket(bytes)
  return {
    id: bytes.readUInt16BE(0),
    flags: bytes.readUInt16BE(2),
    questions: questions.map(({ name, type }) => ({
      name: canonicalName(name),
      type: type as RecordType,
    })),
    answers: answers.map(toRecord),
    authorities: authorities.map(toRecord),
    additionals: additionals.map(toRecord),
  }
}

function decodePacket(bytes: Buffer): Packet {
  if (bytes.length < HEADER_BYTES) fail('it ends within its header')
  const counts = [4, 6, 8, 10].map((offset) => bytes.readUInt16BE(offset))
  if (counts.reduce((sum, count) => sum + count) > MAX_RECORDS) fail('it has too many records')
  let packet: Packet
  try {
    packet = decode(bytes)
  } catch (cause) {
    return fail((cause as Error).message, cause)
  }
  if (decode.bytes !== bytes.length) fail('its length does not fit its records')
  return packet
}

function toRecord(answer: Answer): RawRecord {
  const { name, type, class: cls = '', ttl = 0, data } = answer as Partial<RawRecord> & Answer
  const value = readValue(type, data)
  return {
    name: canonicalName(name),
    type,
    class: cls,
    ttl,
    data: Buffer.isBuffer(data) ? data : Buffer.alloc(0),
    value,
  }
}

function readValue(type: string, data: unknown): string {
  if (type === 'TXT') return Buffer.concat(data as Buffer[]).toString()
  if (type === 'NS' || type === 'CNAME') return canonicalName(data as string)
  return type === 'A' || type === 'AAAA' ? (data as string) : ''
}

function canonicalName(text: string): string {
  const name = text.toLowerCase()
  return name === '.' || NAME.test(name) ? name : fail('a name is not valid')
}

function fail(why: string, cause?: unknown): never {
  throw new AcmeError('ACME_DNS_LOOKUP', `the DNS message is not valid: ${why}`, { cause })
}

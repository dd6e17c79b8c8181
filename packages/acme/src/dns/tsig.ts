// Signed DNS transactions (RFC 8945).
import { createHmac, timingSafeEqual } from 'node:crypto'
import { decode, encode } from 'dns-packet'
import { AcmeError } from '../errors.ts'
import { decodeMessage } from './message.ts'

export const TSIG_ALGORITHMS = ['hmac-sha256', 'hmac-sha512'] as const

export interface TsigKey {
  /** The name of the key, in lower case and without the last dot. */
  readonly name: string
  readonly algorithm: (typeof TSIG_ALGORITHMS)[number]
  readonly secret: Buffer
}

const FUDGE_SECONDS = 300
const CLASS_ANY = 255
const HEADER_BYTES = 12
const ADDITIONAL_COUNT = 10
/** Errors in the TSIG record of an answer (RFC 8945 section 3). */
const REFUSALS: Readonly<Record<number, string>> = {
  16: 'does not accept the signature: see whether the secret and the algorithm of the key are right',
  17: 'does not know the key: see its name',
  18: 'has another time: set the clocks',
}

/** Appends a TSIG record to the message. @param now - epoch milliseconds */
export function signMessage(message: Buffer, key: TsigKey, now: number) {
  const time = Math.floor(now / 1000)
  const signed = { time, fudge: FUDGE_SECONDS, error: 0, otherData: Buffer.alloc(0) }
  const mac = computeMac(key, [message, variables(key, signed)])
  const data = Buffer.concat([
    encodeName(key.algorithm),
    uint48(time),
    uint16(FUDGE_SECONDS, mac.length),
    mac,
    message.subarray(0, 2),
    uint16(0, 0),
  ])
  const record = { name: key.name, type: 'TSIG', class: 'ANY', ttl: 0, data } as const
  const bytes = Buffer.concat([message, encode({ additionals: [record] }).subarray(HEADER_BYTES)])
  bytes.writeUInt16BE(message.readUInt16BE(ADDITIONAL_COUNT) + 1, ADDITIONAL_COUNT)
  return { bytes, mac }
}

/**
 * Decodes the answer to a signed message, which must be signed with the same key.
 * @param now - epoch milliseconds
 */
export function verifyAnswer(bytes: Buffer, key: TsigKey, requestMac: Buffer, now: number) {
  const message = decodeMessage(bytes)
  const record = message.additionals.at(-1)
  if (record?.type !== 'TSIG' || record.class !== 'ANY' || record.ttl !== 0)
    fail('it is not signed')
  const tsig = readTsig(record.data)
  const refusal = REFUSALS[tsig.error]
  if (refusal) throw new AcmeError('ACME_DNS_CREDENTIALS', `the name server ${refusal}`)
  if (record.name !== key.name || tsig.algorithm !== key.algorithm)
    fail('it is signed with another key')

  const prefix = Buffer.concat([uint16(requestMac.length), requestMac])
  const unsigned = withoutTsig(bytes, tsig.originalId)
  const expected = computeMac(key, [prefix, unsigned, variables(key, tsig)])
  if (tsig.mac.length !== expected.length || !timingSafeEqual(tsig.mac, expected))
    fail('its signature is wrong')
  if (Math.abs(now / 1000 - tsig.time) > tsig.fudge + 1) fail('its signature is not of this time')
  return message
}

/** The message as it was signed: without its last record, and with the identifier it had. */
function withoutTsig(bytes: Buffer, originalId: number): Buffer {
  const unsigned = Buffer.from(bytes)
  unsigned.writeUInt16BE(bytes.readUInt16BE(ADDITIONAL_COUNT) - 1, ADDITIONAL_COUNT)
  decode(unsigned)
  unsigned.writeUInt16BE(originalId, 0)
  return unsigned.subarray(0, decode.bytes)
}

type Variables = Pick<ReturnType<typeof readTsig>, 'time' | 'fudge' | 'error' | 'otherData'>

function variables(key: TsigKey, { time, fudge, error, otherData }: Variables): Buffer {
  return Buffer.concat([
    encodeName(key.name),
    uint16(CLASS_ANY, 0, 0),
    encodeName(key.algorithm),
    uint48(time),
    uint16(fudge, error, otherData.length),
    otherData,
  ])
}

function computeMac({ algorithm, secret }: TsigKey, parts: readonly Buffer[]): Buffer {
  const hmac = createHmac(algorithm.slice('hmac-'.length), secret)
  for (const part of parts) hmac.update(part)
  return hmac.digest()
}

function readTsig(data: Buffer) {
  let offset = 0
  const take = (length: number) => {
    if (offset + length > data.length) fail('its signature ends too soon')
    offset += length
    return data.subarray(offset - length, offset)
  }
  const uint16 = () => take(2).readUInt16BE()
  const algorithm = readName(take)
  const time = take(6).readUIntBE(0, 6)
  const fudge = uint16()
  const mac = take(uint16())
  const originalId = uint16()
  const error = uint16()
  return { algorithm, time, fudge, mac, originalId, error, otherData: take(uint16()) }
}

/** A name without compression, which the data of a TSIG record may not have. */
function readName(take: (length: number) => Buffer): string {
  const labels: string[] = []
  for (let length = take(1)[0]; length; length = take(1)[0])
    labels.push(take(length).toString('latin1').toLowerCase())
  return labels.join('.')
}

function encodeName(name: string): Buffer {
  const labels = name.split('.').flatMap((label) => [Buffer.of(label.length), Buffer.from(label)])
  return Buffer.concat([...labels, Buffer.of(0)])
}

function uint16(...values: number[]): Buffer {
  const bytes = Buffer.alloc(2 * values.length)
  for (const [index, value] of values.entries()) bytes.writeUInt16BE(value, 2 * index)
  return bytes
}

function uint48(value: number): Buffer {
  const bytes = Buffer.alloc(6)
  bytes.writeUIntBE(value, 0, 6)
  return bytes
}

function fail(why: string): never {
  throw new AcmeError('ACME_DNS_LOOKUP', `the answer of the name server cannot be trusted: ${why}`)
}

// Signed DNS transactions (RFC 8945).
import { createHmac, timingSafeEqual } from 'node:crypto'
import { AcmeError } from '../errors.ts'
import {
  CLASS,
  createReader,
  decodeMessage,
  encodeName,
  encodeRecord,
  type Message,
  TYPE,
  uint16,
} from './message.ts'

export const TSIG_ALGORITHMS = ['hmac-sha256', 'hmac-sha512'] as const

export interface TsigKey {
  /** In lower case and without the last dot. */
  readonly name: string
  readonly algorithm: (typeof TSIG_ALGORITHMS)[number]
  readonly secret: Buffer
}

/** A message with its signature as the last record. */
export interface SignedMessage {
  readonly bytes: Buffer
  readonly mac: Buffer
}

const FUDGE_SECONDS = 300
const ADDITIONAL_COUNT = 10
/** What a server says in the TSIG record of a refusal (RFC 8945 section 3). */
const REFUSALS: Readonly<Record<number, string>> = {
  16: 'does not accept the signature: see whether the secret and the algorithm of the key are right',
  17: 'does not know the key: see its name',
  18: 'has another time: set the clocks',
}

/** @param now - epoch milliseconds */
export function signMessage(message: Buffer, key: TsigKey, now: number): SignedMessage {
  const time = Math.floor(now / 1000)
  const mac = computeMac(key, [message, variables(key, { time, error: 0, other: Buffer.alloc(0) })])
  const data = Buffer.concat([
    encodeName(key.algorithm),
    uint48(time),
    uint16(FUDGE_SECONDS, mac.length),
    mac,
    message.subarray(0, 2),
    uint16(0, 0),
  ])
  const record = encodeRecord({ name: key.name, type: TYPE.TSIG, class: CLASS.ANY, ttl: 0, data })
  const bytes = Buffer.concat([message, record])
  bytes.writeUInt16BE(message.readUInt16BE(ADDITIONAL_COUNT) + 1, ADDITIONAL_COUNT)
  return { bytes, mac }
}

/**
 * Reads the answer to a signed message, which must be signed with the same key.
 *
 * @param now - epoch milliseconds
 * @throws AcmeError `ACME_DNS_CREDENTIALS` if the server does not accept our signature, `ACME_DNS_MESSAGE` if
 * we do not accept its own
 */
export function verifyAnswer(
  bytes: Buffer,
  key: TsigKey,
  requestMac: Buffer,
  now: number,
): Message {
  const message = decodeMessage(bytes)
  const record = message.additionals.at(-1)
  if (record?.type !== TYPE.TSIG || record.class !== CLASS.ANY || record.ttl !== 0)
    fail('it is not signed')
  const tsig = readTsig(record.data)
  const refusal = REFUSALS[tsig.error]
  if (refusal) throw new AcmeError('ACME_DNS_CREDENTIALS', `the name server ${refusal}`)
  if (record.name !== key.name || tsig.algorithm !== key.algorithm)
    fail('it is signed with another key')

  const unsigned = Buffer.from(bytes.subarray(0, record.start))
  unsigned.writeUInt16BE(message.additionals.length - 1, ADDITIONAL_COUNT)
  unsigned.writeUInt16BE(tsig.originalId, 0)
  const prefix = Buffer.concat([uint16(requestMac.length), requestMac])
  const expected = computeMac(key, [prefix, unsigned, variables(key, tsig)])
  if (tsig.mac.length !== expected.length || !timingSafeEqual(tsig.mac, expected))
    fail('its signature is wrong')
  if (Math.abs(now / 1000 - tsig.time) > tsig.fudge + 1) fail('its signature is not of this time')
  return message
}

interface Variables {
  /** Epoch seconds. */
  readonly time: number
  readonly fudge?: number
  readonly error: number
  readonly other: Buffer
}

function variables(key: TsigKey, { time, fudge = FUDGE_SECONDS, error, other }: Variables): Buffer {
  return Buffer.concat([
    encodeName(key.name),
    uint16(CLASS.ANY, 0, 0),
    encodeName(key.algorithm),
    uint48(time),
    uint16(fudge, error, other.length),
    other,
  ])
}

function computeMac({ algorithm, secret }: TsigKey, parts: readonly Buffer[]): Buffer {
  const hmac = createHmac(algorithm.slice('hmac-'.length), secret)
  for (const part of parts) hmac.update(part)
  return hmac.digest()
}

function readTsig(data: Buffer) {
  const reader = createReader(data)
  const algorithm = reader.name()
  const time = reader.take(6).readUIntBE(0, 6)
  const fudge = reader.uint16()
  const mac = reader.take(reader.uint16())
  const [originalId, error] = [reader.uint16(), reader.uint16()]
  return { algorithm, time, fudge, mac, originalId, error, other: reader.take(reader.uint16()) }
}

function uint48(value: number): Buffer {
  const bytes = Buffer.alloc(6)
  bytes.writeUIntBE(value, 0, 6)
  return bytes
}

function fail(why: string): never {
  throw new AcmeError('ACME_DNS_MESSAGE', `the answer of the name server cannot be trusted: ${why}`)
}

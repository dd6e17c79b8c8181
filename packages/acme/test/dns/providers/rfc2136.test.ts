import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { createFetch } from '@gatehouse/net'
import { type Answer as DnsAnswer, encode } from 'dns-packet'
import t, { type Test } from 'tap'
import { type DnsMessage, decodeMessage, FLAG } from '../../../src/dns/message.ts'
import { createDnsProvider, type DnsProviderConfig } from '../../../src/index.ts'
import { instantClock, NAME, NOW, recordAt, signal } from './stand-in.ts'

const SECRET = Buffer.alloc(32, 9)
const TIME = Buffer.alloc(6)
TIME.writeUIntBE(NOW / 1_000, 0, 6)
const ALGORITHM = Buffer.from('\x0bhmac-sha256\0')
const KEY = Buffer.from('\x09gatehouse\0')
/** Time and fudge, error and no other data. */
const VARIABLES = Buffer.concat([KEY, uint16(255, 0, 0), ALGORITHM, TIME, uint16(300, 0, 0)])

function uint16(...values: number[]): Buffer {
  return Buffer.concat(values.map((value) => Buffer.of(value >> 8, value & 0xff)))
}

const macOf = (...parts: Buffer[]) =>
  createHmac('sha256', SECRET).update(Buffer.concat(parts)).digest()

/** The signature of a request, as the last 32 bytes before identifier, error and length. */
const macIn = ({ additionals }: DnsMessage) =>
  additionals.at(-1)?.data.subarray(-38, -6) ?? Buffer.alloc(0)

interface Answer {
  readonly rcode?: number
  readonly records?: DnsAnswer[]
  readonly isSigned?: boolean
  readonly isAuthoritative?: boolean
}

/** Writes an answer as a name server does, without help of what is tested. */
function write(
  request: DnsMessage,
  { rcode = 0, records = [], isSigned = true, isAuthoritative = true }: Answer,
): Buffer {
  const packet = {
    id: request.id,
    type: 'response' as const,
    flags: (isAuthoritative ? FLAG.authoritative : 0) | rcode,
    questions: [...request.questions],
    answers: records,
  }
  const message = encode(packet)
  if (!isSigned) return message
  const requestMac = macIn(request)
  const mac = macOf(uint16(requestMac.length), requestMac, message, VARIABLES)
  const data = Buffer.concat([
    ALGORITHM,
    TIME,
    uint16(300, mac.length),
    mac,
    uint16(request.id, 0, 0),
  ])
  const additionals = [{ name: 'gatehouse', type: 'TSIG', class: 'ANY', data }] as const
  return encode({ ...packet, additionals: [...additionals] })
}

const SOA: DnsAnswer = {
  name: 'example.test',
  type: 'SOA',
  data: { mname: 'ns.example.test', rname: 'root.example.test' },
}

/** How long the TSIG record of a request is: name, fixed part and data. */
const tsigLength = ({ additionals }: DnsMessage) =>
  KEY.length + 10 + (additionals.at(-1)?.data.length ?? 0)

/** A primary of `example.test` that remembers the updates. */
async function primary(t: Test, answer: Answer = {}, changes: object = {}, soa: Answer = {}) {
  const updates: DnsMessage[] = []
  const server = createServer((socket) => {
    socket
      .on('error', () => {})
      .on('data', (framed) => {
        const bytes = framed.subarray(2)
        const request = decodeMessage(bytes)
        const signed = bytes.subarray(0, -tsigLength(request))
        signed.writeUInt16BE(0, 10)
        t.strictSame(macIn(request), macOf(signed, VARIABLES), 'the request is signed')
        const isUpdate = request.flags === FLAG.update
        if (isUpdate) updates.push(request)
        const isZone = !isUpdate && request.questions[0]?.name === 'example.test'
        const given = isUpdate ? answer : isZone ? { records: [SOA], ...soa } : { rcode: 3 }
        const reply = write(request, given)
        socket.end(Buffer.concat([uint16(reply.length), reply]))
      })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as { port: number }
  const config = {
    type: 'rfc2136',
    server: `127.0.0.1:${port}`,
    keyName: 'Gatehouse.',
    keySecret: SECRET.toString('base64'),
    algorithm: 'hmac-sha256',
    ...changes,
  } as DnsProviderConfig
  return {
    provider: createDnsProvider(config, { fetch: createFetch(), clock: instantClock }),
    updates,
  }
}

t.test('adds one record to the zone, and deletes only that one', async (t) => {
  const { provider, updates } = await primary(t)
  await provider.present(recordAt(NAME), signal)
  await provider.cleanUp(recordAt(NAME), signal)
  const record = { name: NAME, type: 'TXT', value: 'our-value' }
  t.match(updates, [
    {
      questions: [{ name: 'example.test', type: 'SOA' }],
      answers: { length: 0 },
      authorities: [{ ...record, class: 'IN', ttl: 60 }],
    },
    {
      questions: [{ name: 'example.test', type: 'SOA' }],
      answers: { length: 0 },
      authorities: [{ ...record, class: 'UNKNOWN_254', ttl: 0 }],
    },
  ])
})

t.test('does not look up a configured zone', async (t) => {
  const { provider, updates } = await primary(t, {}, { zone: 'App.Example.Test.' })
  await provider.present(recordAt(NAME), signal)
  t.match(updates, [{ questions: [{ name: 'app.example.test' }] }])
})

const REFUSALS: [title: string, answer: Answer, expected: { code: string; message: RegExp }][] = [
  ['REFUSED', { rcode: 5 }, { code: 'ACME_DNS_PROVIDER', message: /REFUSED: its policy/ }],
  ['another RCODE', { rcode: 7 }, { code: 'ACME_DNS_PROVIDER', message: /RCODE 7/ }],
  [
    'success that is not signed',
    { isSigned: false },
    { code: 'ACME_DNS_LOOKUP', message: /not signed/ },
  ],
]

for (const [title, answer, expected] of REFUSALS)
  t.test(`fails: ${title}`, async (t) => {
    const { provider } = await primary(t, answer)
    await t.rejects(provider.present(recordAt(NAME), signal), expected)
  })

t.test('fails: no zone, no server', async (t) => {
  const { provider } = await primary(t)
  await t.rejects(provider.present(recordAt('_acme-challenge.other.test'), signal), {
    code: 'ACME_DNS_NO_ZONE',
  })
  const cache = await primary(t, {}, {}, { isAuthoritative: false })
  await t.rejects(cache.provider.present(recordAt(NAME), signal), { code: 'ACME_DNS_NO_ZONE' })
  t.strictSame(cache.updates, [], 'a server that only has heard of the zone')
  await t.rejects(primary(t, {}, { server: 'ns 1' }), { code: 'ACME_DNS_PROVIDER' })
})

import { randomInt } from 'node:crypto'
import { type Static, Type } from 'typebox'
import { AcmeError } from '../../errors.ts'
import { exchangeTcp, parseServer, type Server } from '../exchange.ts'
import {
  CLASS,
  encodeMessage,
  encodeText,
  FLAG,
  type Message,
  type NewMessage,
  RCODE,
  TYPE,
} from '../message.ts'
import { Secret, Text } from '../schema.ts'
import { signMessage, TSIG_ALGORITHMS, type TsigKey, verifyAnswer } from '../tsig.ts'
import {
  commonOptions,
  type DnsProvider,
  type DnsProviderDeps,
  type DnsRecord,
  TTL_SECONDS,
} from './provider.ts'
import { findZone } from './zone.ts'

export const Rfc2136Schema = Type.Object({
  type: Type.Literal('rfc2136'),
  ...commonOptions,
  server: Text('Primary name server: host name or IP address, and maybe port.'),
  zone: Type.Optional(Text('Zone. Left out: the server is asked.')),
  keyName: Text('Name of the TSIG key.'),
  keySecret: Secret('Secret of the TSIG key, base64.', { pattern: '^[A-Za-z0-9+/]{22,}={0,2}$' }),
  algorithm: Type.Enum([...TSIG_ALGORITHMS], {
    default: 'hmac-sha256',
    description: 'Algorithm of the TSIG key.',
  }),
})

/** How name servers refuse an update (RFC 2136 section 2.2). */
const REFUSALS: Readonly<Record<number, string>> = {
  1: 'FORMERR',
  2: 'SERVFAIL',
  4: 'NOTIMP: it takes no updates',
  5: 'REFUSED: its policy does not let this key change the name',
  9: 'NOTAUTH: it is not the primary of the zone, or does not know the key',
  10: 'NOTZONE',
}

/** Dynamic updates (RFC 2136) by TCP, both ways signed with a TSIG key (RFC 8945). */
export function createRfc2136(
  config: Static<typeof Rfc2136Schema>,
  { clock }: DnsProviderDeps,
): DnsProvider {
  const server = readServer(config.server)
  const key: TsigKey = {
    name: canonical(config.keyName),
    algorithm: config.algorithm,
    secret: Buffer.from(config.keySecret, 'base64'),
  }

  async function exchange(message: Omit<NewMessage, 'id'>, signal: AbortSignal): Promise<Message> {
    const id = randomInt(0x10000)
    const request = signMessage(encodeMessage({ id, ...message }), key, clock.now())
    const answer = await exchangeTcp(server, request.bytes, signal)
    return verifyAnswer(answer, key, request.mac, clock.now())
  }

  async function findZoneName(name: string, signal: AbortSignal): Promise<string> {
    if (config.zone !== undefined) return canonical(config.zone)
    return await findZone(name, async (zone) => {
      const question = { name: zone, type: TYPE.SOA }
      const { flags, answers } = await exchange({ flags: 0, question }, signal)
      const isZone = answers.some((record) => record.type === TYPE.SOA && record.name === zone)
      return isZone && flags & FLAG.authoritative ? zone : undefined
    })
  }

  /** To add a record it comes with class and TTL; to delete just this one, with class NONE and TTL 0. */
  async function update(
    { name, value }: DnsRecord,
    change: { class: number; ttl: number },
    signal: AbortSignal,
  ): Promise<void> {
    const question = { name: await findZoneName(name, signal), type: TYPE.SOA }
    const record = { name, type: TYPE.TXT, data: encodeText(value), ...change }
    const { flags } = await exchange(
      { flags: FLAG.update, question, authorities: [record] },
      signal,
    )
    const rcode = flags & 0x0f
    if (rcode === RCODE.NOERROR) return
    const why = REFUSALS[rcode] ?? `RCODE ${rcode}`
    throw new AcmeError('ACME_DNS_PROVIDER', `${server.host} refused to change ${name}: ${why}`)
  }

  return {
    present: (record, signal) => update(record, { class: CLASS.IN, ttl: TTL_SECONDS }, signal),
    cleanUp: (record, signal) => update(record, { class: CLASS.NONE, ttl: 0 }, signal),
    async check(name, signal) {
      const zone = await findZoneName(name, signal)
      // Both ways signed: tells whether the server knows the key.
      await exchange({ flags: 0, question: { name: zone, type: TYPE.SOA } }, signal)
    },
  }
}

const canonical = (name: string): string => name.toLowerCase().replace(/\.$/, '')

/** @throws AcmeError `ACME_DNS_PROVIDER` */
function readServer(text: string): Server {
  const server = parseServer(text)
  if (server) return server
  throw new AcmeError('ACME_DNS_PROVIDER', `the name server ${JSON.stringify(text)} is no host`)
}

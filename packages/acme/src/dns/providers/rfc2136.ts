import { randomInt } from 'node:crypto'
import { Type } from 'typebox'
import { AcmeError } from '../../errors.ts'
import { exchangeTcp, parseServer } from '../exchange.ts'
import { type DnsMessage, encodeQuery, encodeUpdate, FLAG, RCODE, rcodeOf } from '../message.ts'
import { signMessage, TSIG_ALGORITHMS, verifyAnswer } from '../tsig.ts'
import {
  type CreateDnsProvider,
  type DnsRecord,
  defineOptions,
  findZone,
  Option,
  TTL_SECONDS,
} from './provider.ts'

export const Rfc2136Schema = defineOptions('rfc2136', {
  server: Option.Text('Primary name server: host name or IP address, with an optional port.'),
  zone: Type.Optional(Option.Text('Zone. Default: the server is asked.')),
  keyName: Option.Text('Name of the TSIG key.'),
  keySecret: Option.Secret('Secret of the TSIG key, base64.', {
    pattern: '^[A-Za-z0-9+/]{22,}={0,2}$',
  }),
  algorithm: Type.Enum([...TSIG_ALGORITHMS], {
    default: 'hmac-sha256',
    description: 'Algorithm of the TSIG key.',
  }),
})

type DnsUpdate = Parameters<typeof encodeUpdate>[3]

/** Why a name server refuses an update (RFC 2136 section 2.2). */
const REFUSALS: Readonly<Record<number, string>> = {
  1: 'FORMERR',
  2: 'SERVFAIL',
  4: 'NOTIMP: it takes no updates',
  5: 'REFUSED: its policy does not let this key change the name',
  9: 'NOTAUTH: it is not the primary of the zone, or does not know the key',
  10: 'NOTZONE',
}

/** Dynamic updates (RFC 2136) over TCP; requests and answers are signed with a TSIG key (RFC 8945). */
export const createRfc2136: CreateDnsProvider<typeof Rfc2136Schema> = (config, { clock }) => {
  const server = readServer(config.server)
  const configuredZone = config.zone === undefined ? undefined : canonical(config.zone)
  const { algorithm, keyName, keySecret } = config
  const key = { name: canonical(keyName), algorithm, secret: Buffer.from(keySecret, 'base64') }

  async function send(message: Buffer, signal: AbortSignal): Promise<DnsMessage> {
    const request = signMessage(message, key, clock.now())
    const answer = await exchangeTcp(server, request.bytes, signal)
    return verifyAnswer(answer, key, request.mac, clock.now())
  }

  const askSoa = (name: string, signal: AbortSignal) =>
    send(encodeQuery(newId(), 0, { name, type: 'SOA' }), signal)

  const zoneOf = async (name: string, signal: AbortSignal) =>
    configuredZone ??
    (await findZone(name, async (zone) => {
      const { flags, answers } = await askSoa(zone, signal)
      const isZone = answers.some((record) => record.type === 'SOA' && record.name === zone)
      return isZone && flags & FLAG.authoritative ? zone : undefined
    }))

  async function update(record: DnsRecord, change: DnsUpdate, signal: AbortSignal): Promise<void> {
    const zone = await zoneOf(record.name, signal)
    const rcode = rcodeOf(await send(encodeUpdate(newId(), zone, record, change), signal))
    if (rcode !== RCODE.NOERROR)
      throw refused(`${server.host} refused to change ${record.name}`, rcode)
  }

  return {
    present: (record, signal) => update(record, { add: TTL_SECONDS }, signal),
    cleanUp: (record, signal) => update(record, 'delete', signal),
    // Asks even if the zone is configured: the signed answer shows that the server knows the key.
    check: async (name, signal) => void (await askSoa(await zoneOf(name, signal), signal)),
  }
}

const refused = (what: string, rcode: number) =>
  new AcmeError('ACME_DNS_PROVIDER', `${what}: ${REFUSALS[rcode] ?? `RCODE ${rcode}`}`)

const newId = (): number => randomInt(0x10000)

const canonical = (name: string): string => name.toLowerCase().replace(/\.$/, '')

function readServer(text: string) {
  const server = parseServer(text)
  if (server) return server
  throw new AcmeError('ACME_DNS_PROVIDER', `the name server ${JSON.stringify(text)} is no host`)
}

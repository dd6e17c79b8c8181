import { randomInt } from 'node:crypto'
import { type Static, Type } from 'typebox'
import { AcmeError } from '../../errors.ts'
import { exchangeTcp, parseServer, type Server } from '../exchange.ts'
import { encodeQuery, encodeUpdate, FLAG, type Message, RCODE, rcodeOf } from '../message.ts'
import { signMessage, TSIG_ALGORITHMS, type TsigKey, verifyAnswer } from '../tsig.ts'
import {
  type DnsProvider,
  type DnsProviderDeps,
  type DnsRecord,
  defineOptions,
  findZone,
  Secret,
  Text,
  TTL_SECONDS,
} from './provider.ts'

export const Rfc2136Schema = defineOptions('rfc2136', {
  server: Text('Primary name server: host name or IP address, with an optional port.'),
  zone: Type.Optional(Text('Zone. Default: the server is asked.')),
  keyName: Text('Name of the TSIG key.'),
  keySecret: Secret('Secret of the TSIG key, base64.', { pattern: '^[A-Za-z0-9+/]{22,}={0,2}$' }),
  algorithm: Type.Enum([...TSIG_ALGORITHMS], {
    default: 'hmac-sha256',
    description: 'Algorithm of the TSIG key.',
  }),
})

type Rfc2136Config = Static<typeof Rfc2136Schema>

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
class Rfc2136 implements DnsProvider {
  readonly #server: Server
  readonly #zone: string | undefined
  readonly #key: TsigKey
  readonly #now: () => number

  constructor(config: Rfc2136Config, { clock }: DnsProviderDeps) {
    this.#server = readServer(config.server)
    this.#zone = config.zone === undefined ? undefined : canonical(config.zone)
    this.#key = {
      name: canonical(config.keyName),
      algorithm: config.algorithm,
      secret: Buffer.from(config.keySecret, 'base64'),
    }
    this.#now = () => clock.now()
  }

  present(record: DnsRecord, signal: AbortSignal): Promise<void> {
    return this.#update(record, { add: TTL_SECONDS }, signal)
  }

  cleanUp(record: DnsRecord, signal: AbortSignal): Promise<void> {
    return this.#update(record, 'delete', signal)
  }

  async check(name: string, signal: AbortSignal): Promise<void> {
    // Asks even if the zone is configured: the signed answer shows that the server knows the key.
    await this.#askSoa(await this.#findZone(name, signal), signal)
  }

  async #update(
    record: DnsRecord,
    change: Parameters<typeof encodeUpdate>[3],
    signal: AbortSignal,
  ): Promise<void> {
    const zone = await this.#findZone(record.name, signal)
    const answer = await this.#send(encodeUpdate(newId(), zone, record, change), signal)
    const rcode = rcodeOf(answer)
    if (rcode === RCODE.NOERROR) return
    const why = REFUSALS[rcode] ?? `RCODE ${rcode}`
    const { host } = this.#server
    throw new AcmeError('ACME_DNS_PROVIDER', `${host} refused to change ${record.name}: ${why}`)
  }

  async #findZone(name: string, signal: AbortSignal): Promise<string> {
    if (this.#zone !== undefined) return this.#zone
    return await findZone(name, async (zone) => {
      const { flags, answers } = await this.#askSoa(zone, signal)
      const isZone = answers.some((record) => record.type === 'SOA' && record.name === zone)
      return isZone && flags & FLAG.authoritative ? zone : undefined
    })
  }

  #askSoa(name: string, signal: AbortSignal): Promise<Message> {
    return this.#send(encodeQuery(newId(), 0, { name, type: 'SOA' }), signal)
  }

  async #send(message: Buffer, signal: AbortSignal): Promise<Message> {
    const request = signMessage(message, this.#key, this.#now())
    const answer = await exchangeTcp(this.#server, request.bytes, signal)
    return verifyAnswer(answer, this.#key, request.mac, this.#now())
  }
}

/** @throws AcmeError `ACME_DNS_PROVIDER` for a server that is no host */
export const createRfc2136 = (config: Rfc2136Config, deps: DnsProviderDeps): DnsProvider =>
  new Rfc2136(config, deps)

const newId = (): number => randomInt(0x10000)

const canonical = (name: string): string => name.toLowerCase().replace(/\.$/, '')

function readServer(text: string): Server {
  const server = parseServer(text)
  if (server) return server
  throw new AcmeError('ACME_DNS_PROVIDER', `the name server ${JSON.stringify(text)} is no host`)
}

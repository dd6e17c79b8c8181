import type { Clock } from '@gatehouse/net'
import { AcmeError } from '../errors.ts'
import type { Ask, DnsServer } from './exchange.ts'
import {
  type DnsMessage,
  type DnsQuestion,
  FLAG,
  RCODE,
  type ResourceRecord,
  rcodeOf,
} from './message.ts'

/** A name server of a zone, or a resolver. */
export interface NameServer {
  readonly name: string
  /** Tries its addresses in turn. @throws AcmeError `ACME_DNS_UNREACHABLE` */
  ask(question: DnsQuestion, signal: AbortSignal): Promise<DnsMessage>
}

/** The name at the end of a chain of CNAME records, and the servers that answer for it. */
export interface Target {
  /** The name, without the last dot. */
  readonly name: string
  readonly servers: readonly NameServer[]
}

interface LookupOptions {
  readonly ask: Ask
  /** Recursive resolvers. */
  readonly resolvers: readonly DnsServer[]
  /** Port of the name servers of a zone. */
  readonly port: number
  /** Whether to ask the name servers of the zone, or only the resolvers. */
  readonly authoritative: boolean
  readonly clock: Clock
}

const LOOKUP_MS = 60_000
const MAX_CNAMES = 8
const MAX_SERVERS = 16
const MAX_ADDRESSES = 4

/**
 * Follows names along their CNAME records. It asks the name servers of the zone themselves, because
 * a resolver may have cached that there is no record yet.
 */
export class Lookup {
  readonly #options: LookupOptions
  readonly #resolvers: readonly NameServer[]

  constructor(options: LookupOptions) {
    this.#options = options
    this.#resolvers = options.resolvers.map((server) => this.#serverAt(server.host, [server], true))
  }

  /** Follows a name for at most a minute. */
  async follow(name: string, signal: AbortSignal): Promise<Target> {
    const late = new AbortController()
    const timer = this.#options.clock.setTimer(() => late.abort(), LOOKUP_MS)
    try {
      return await this.#followCnames(name, AbortSignal.any([signal, late.signal]))
    } catch (error) {
      signal.throwIfAborted()
      if (!late.signal.aborted) throw error
      throw new AcmeError('ACME_DNS_UNREACHABLE', `the name servers for ${name} take too long`)
    } finally {
      timer.cancel()
    }
  }

  async #followCnames(name: string, signal: AbortSignal): Promise<Target> {
    const seen = new Set<string>()
    for (let current = name; seen.size <= MAX_CNAMES; ) {
      seen.add(current)
      const { servers, answers } = await this.#askCname(current, signal)
      const records = answers.filter((record) => record.name === current)
      const [next] = valuesOf(records, 'CNAME')
      if (next === undefined) return { name: current, servers }
      if (seen.has(next)) break
      if (!next.split('.').every((label) => HOST_LABEL.test(label)))
        throw new AcmeError(
          'ACME_DNS_LOOKUP',
          `${current} leads to ${JSON.stringify(next)}, which is no host`,
        )
      current = next
    }
    throw new AcmeError('ACME_DNS_LOOKUP', `the CNAME records of ${name} go in a circle or too far`)
  }

  /** Finds the servers that answer for the name, and its CNAME records. */
  async #askCname(name: string, signal: AbortSignal) {
    const question: DnsQuestion = { name, type: 'CNAME' }
    if (!this.#options.authoritative)
      return { servers: this.#resolvers, ...(await askFirst(this.#resolvers, question, signal)) }
    let zone = await this.#findZone(name, signal)
    const { answers: names } = await askFirst(this.#resolvers, { name: zone, type: 'NS' }, signal)
    let servers = await this.#nameServers(names, signal)
    // A resolver may have cached that a zone does not exist; the servers of its parent refer to it.
    for (;;) {
      const { flags, answers, authorities } = await askFirst(servers, question, signal)
      const referral = authorities.filter(
        (record) => record.type === 'NS' && isBetween(record.name, zone, name),
      )
      if (flags & FLAG.authoritative || !referral[0]) return { servers, answers }
      zone = referral[0].name
      servers = await this.#nameServers(referral, signal)
    }
  }

  /** The closest ancestor of the name, or the name itself, that has an SOA record. */
  async #findZone(name: string, signal: AbortSignal): Promise<string> {
    for (const candidate of suffixes(name)) {
      const question: DnsQuestion = { name: candidate, type: 'SOA' }
      const { answers } = await askFirst(this.#resolvers, question, signal).catch((error) => {
        // Resolvers follow a CNAME at the name itself, and its target may not exist.
        if (candidate === name && error?.code === 'ACME_DNS_LOOKUP') return { answers: [] }
        throw error
      })
      if (answers.some((record) => record.type === 'SOA' && record.name === candidate))
        return candidate
    }
    throw new AcmeError('ACME_DNS_LOOKUP', `no zone holds ${name}`)
  }

  async #nameServers(
    records: readonly ResourceRecord[],
    signal: AbortSignal,
  ): Promise<NameServer[]> {
    const { port } = this.#options
    const names = valuesOf(records, 'NS').slice(0, MAX_SERVERS)
    const servers = names.map(async (name) => {
      const types = ['A', 'AAAA'] as const
      const lookups = types.map((type) => this.#askAddresses({ name, type }, signal))
      const addresses = (await Promise.all(lookups)).flat().map((host) => ({ host, port }))
      return this.#serverAt(name, addresses, false)
    })
    return await Promise.all(servers)
  }

  /** Gives no address if the lookup fails, so that a broken name server counts as a silent one. */
  async #askAddresses(question: DnsQuestion, signal: AbortSignal): Promise<string[]> {
    const message = await askFirst(this.#resolvers, question, signal).catch(() => undefined)
    signal.throwIfAborted()
    return valuesOf(message?.answers ?? [], question.type).slice(0, MAX_ADDRESSES)
  }

  #serverAt(name: string, addresses: readonly DnsServer[], recursive: boolean): NameServer {
    const { ask } = this.#options
    return {
      name,
      async ask(question, signal) {
        let cause: unknown
        for (const address of addresses) {
          try {
            return await ask(address, question, { recursive, signal })
          } catch (error) {
            signal.throwIfAborted()
            cause = error
          }
        }
        const why = `the name server ${name} does not answer`
        throw new AcmeError('ACME_DNS_UNREACHABLE', why, { cause })
      },
    }
  }
}

/** The first answer with RCODE NOERROR or NXDOMAIN. */
async function askFirst(
  servers: readonly NameServer[],
  question: DnsQuestion,
  signal: AbortSignal,
): Promise<DnsMessage> {
  let failure = new AcmeError('ACME_DNS_LOOKUP', `no name server is known for ${question.name}`)
  for (const server of servers) {
    try {
      const answer = await server.ask(question, signal)
      const rcode = rcodeOf(answer)
      if (rcode === RCODE.NOERROR || rcode === RCODE.NXDOMAIN) return answer
      const what = `${server.name} answered ${question.name} with RCODE ${rcode}`
      failure = new AcmeError('ACME_DNS_LOOKUP', what)
    } catch (error) {
      if (!(error instanceof AcmeError)) throw error
      failure = error
    }
  }
  throw failure
}

/** The name and its ancestors, longest first. */
export function suffixes(name: string): string[] {
  const labels = name.split('.')
  return labels.map((_, index) => labels.slice(index).join('.'))
}

// The target of a CNAME becomes part of URLs, of XML and of arguments of programs.
const HOST_LABEL = /^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?$/

/** Whether the zone is below `above` and holds the name. */
const isBetween = (zone: string, above: string, name: string): boolean =>
  zone.length > above.length && suffixes(name).includes(zone)

const valuesOf = (records: readonly ResourceRecord[], type: string): string[] =>
  records.flatMap((record) => (record.type === type && record.value ? record.value : []))

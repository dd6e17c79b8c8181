import type { Clock } from '../clock.ts'
import { AcmeError } from '../errors.ts'
import type { Ask, Server } from './exchange.ts'
import { FLAG, type Message, type Question, RCODE, type ResourceRecord, TYPE } from './message.ts'

/** One who answers for a name: a name server of its zone, or a resolver. */
export interface View {
  readonly name: string
  ask(question: Question, signal: AbortSignal): Promise<Message>
}

/** Where a name leads to, and who answers for that. */
export interface Target {
  /** Without the last dot. */
  readonly name: string
  readonly views: readonly View[]
}

export interface LookupOptions {
  readonly ask: Ask
  /** Recursive ones. */
  readonly resolvers: readonly Server[]
  /** Port of the name servers of a zone. */
  readonly port: number
  /** Whether the name servers of the zone are asked themselves, or the resolvers only. */
  readonly authoritative: boolean
  readonly clock: Clock
}

const LOOKUP_MS = 60_000
const MAX_CNAMES = 8
const MAX_SERVERS = 16
const MAX_ADDRESSES = 4

/**
 * Makes what follows a name along its CNAME records. Name servers of the zone are asked themselves,
 * as what a resolver has cached may be from before a record was there.
 */
export function createLookup(options: LookupOptions) {
  const { ask, resolvers, port, authoritative, clock } = options
  const resolverViews = resolvers.map((server) => viewOf(server.host, [server], true))

  /** @throws AcmeError `ACME_DNS_LOOKUP`, `ACME_DNS_CNAME`, `ACME_DNS_UNREACHABLE` */
  async function follow(name: string, signal: AbortSignal): Promise<Target> {
    const late = new AbortController()
    const timer = clock.setTimer(() => late.abort(), LOOKUP_MS)
    try {
      return await followCnames(name, AbortSignal.any([signal, late.signal]))
    } catch (error) {
      signal.throwIfAborted()
      if (!late.signal.aborted) throw error
      throw new AcmeError('ACME_DNS_UNREACHABLE', `the name servers for ${name} take too long`)
    } finally {
      timer.cancel()
    }
  }

  async function followCnames(name: string, signal: AbortSignal): Promise<Target> {
    const seen = new Set<string>()
    for (let at = name; seen.size <= MAX_CNAMES; ) {
      seen.add(at)
      const { views, answers } = await askCname(at, signal)
      const own = answers.filter((record) => record.name === at)
      const [next] = valuesOf(own, TYPE.CNAME)
      if (next === undefined) return { name: at, views }
      if (seen.has(next)) break
      if (!isHostLike(next))
        throw new AcmeError(
          'ACME_DNS_CNAME',
          `${at} leads to ${JSON.stringify(next)}, which is no host`,
        )
      at = next
    }
    throw new AcmeError('ACME_DNS_CNAME', `the CNAME records of ${name} go in a circle or too far`)
  }

  /** Whom to ask about the name, and what CNAME they have for it. */
  async function askCname(name: string, signal: AbortSignal) {
    const question = { name, type: TYPE.CNAME }
    if (!authoritative)
      return { views: resolverViews, ...(await askFirst(resolverViews, question, signal)) }
    let zone = await findZone(name, signal)
    let views = await viewsOf(await askNames(zone, signal), signal)
    // A resolver may have cached that there is no zone below: those above refer to it.
    for (;;) {
      const { flags, answers, authorities } = await askFirst(views, question, signal)
      const referral = authorities.filter(
        (record) => record.type === TYPE.NS && isBetween(record.name, zone, name),
      )
      if (flags & FLAG.authoritative || !referral[0]) return { views, answers }
      zone = referral[0].name
      views = await viewsOf(valuesOf(referral, TYPE.NS), signal)
    }
  }

  /**
   * The nearest name above, or the name itself, that has a SOA record.
   *
   * @throws AcmeError `ACME_DNS_LOOKUP`, `ACME_DNS_UNREACHABLE`
   */
  async function findZone(name: string, signal: AbortSignal): Promise<string> {
    for (const candidate of suffixes(name)) {
      const question = { name: candidate, type: TYPE.SOA }
      const { answers } = await askFirst(resolverViews, question, signal).catch((error) => {
        // Resolvers follow a CNAME at the name itself, and it may lead nowhere.
        if (candidate === name && isLookupError(error)) return { answers: [] }
        throw error
      })
      if (answers.some((record) => record.type === TYPE.SOA && record.name === candidate))
        return candidate
    }
    throw new AcmeError('ACME_DNS_LOOKUP', `no zone holds ${name}`)
  }

  async function askNames(zone: string, signal: AbortSignal): Promise<string[]> {
    const { answers } = await askFirst(resolverViews, { name: zone, type: TYPE.NS }, signal)
    return valuesOf(answers, TYPE.NS)
  }

  async function viewsOf(names: readonly string[], signal: AbortSignal): Promise<View[]> {
    const views = names.slice(0, MAX_SERVERS).map(async (name) => {
      const found = await Promise.all([
        askAddresses({ name, type: TYPE.A }, signal),
        askAddresses({ name, type: TYPE.AAAA }, signal),
      ])
      return viewOf(
        name,
        found.flat().map((host) => ({ host, port })),
        false,
      )
    })
    return await Promise.all(views)
  }

  /** None if they cannot be had: one broken name server is as one that does not answer. */
  async function askAddresses(question: Question, signal: AbortSignal): Promise<string[]> {
    const message = await askFirst(resolverViews, question, signal).catch(() => undefined)
    signal.throwIfAborted()
    return valuesOf(message?.answers ?? [], question.type).slice(0, MAX_ADDRESSES)
  }

  /** Tries its addresses in turn. */
  function viewOf(name: string, servers: readonly Server[], recursive: boolean): View {
    return {
      name,
      async ask(question, signal) {
        let cause: unknown
        for (const server of servers) {
          try {
            return await ask(server, question, { recursive, signal })
          } catch (error) {
            signal.throwIfAborted()
            cause = error
          }
        }
        throw new AcmeError('ACME_DNS_UNREACHABLE', `the name server ${name} does not answer`, {
          cause,
        })
      },
    }
  }

  return { follow, findZone }
}

/** The first answer that is one: the name is there, or it is not. */
async function askFirst(
  views: readonly View[],
  question: Question,
  signal: AbortSignal,
): Promise<Message> {
  let failure = new AcmeError('ACME_DNS_LOOKUP', `no name server is known for ${question.name}`)
  for (const view of views) {
    try {
      const answer = await view.ask(question, signal)
      const rcode = answer.flags & 0x0f
      if (rcode === RCODE.NOERROR || rcode === RCODE.NXDOMAIN) return answer
      const what = `${view.name} answered ${question.name} with RCODE ${rcode}`
      failure = new AcmeError('ACME_DNS_LOOKUP', what)
    } catch (error) {
      if (!(error instanceof AcmeError)) throw error
      failure = error
    }
  }
  throw failure
}

/** The name and those above it, the longest first. */
export function suffixes(name: string): string[] {
  const labels = name.split('.')
  return labels.map((_, index) => labels.slice(index).join('.'))
}

// Where a name leads to becomes part of URLs, of XML and of arguments of programs.
const HOST_LABEL = /^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?$/
const isHostLike = (name: string): boolean =>
  name.split('.').every((label) => HOST_LABEL.test(label))

const isLookupError = (error: unknown): boolean =>
  error instanceof AcmeError && error.code === 'ACME_DNS_LOOKUP'

/** Whether the zone is below `above` and holds the name. */
const isBetween = (zone: string, above: string, name: string): boolean =>
  zone.length > above.length && suffixes(name).includes(zone)

const valuesOf = (records: readonly ResourceRecord[], type: number): string[] =>
  records.flatMap((record) => (record.type === type && record.value ? record.value : []))

import type { ProviderDeps } from '@gatehouse/identity-providers'
import {
  type BoundedFetch,
  type Cidr,
  cidrContains,
  embeddedIp,
  type IpAddress,
  isPublicIp,
  NetError,
  type NetErrorCode,
  parseCidr,
  parseHostPort,
} from '@gatehouse/net'
import type { Clock } from '@gatehouse/service-kit/clock'
import { LRUCache } from 'lru-cache'
import { parseClientId } from '../client-metadata.ts'
import { FwaError } from '../errors.ts'
import { SignInRate } from '../sign-in/sign-in-rate.ts'
import { type OAuthClient, readDocument } from './client.ts'

const MAX_BYTES = 5_120
const MAX_DOCUMENTS = 1_000
/** The reads of a person in a burst, and the ms in which one is added again. */
const RATE = { burst: 20, interval: 6_000 }
/** The time for which a document is used, in ms. */
const AGE = { min: 60_000, usual: 300_000, max: 86_400_000 }
/** The time for which a failure is repeated, in ms, so that a client in a loop causes no requests. */
const FAILURE_AGE = 10_000

/** The result of a read, its time in ms, and for how many ms it is used. */
interface DocumentRead {
  readonly outcome: OAuthClient | FwaError
  readonly time: number
  readonly age: number
}

/** Reads and keeps client ID metadata documents (draft-ietf-oauth-client-id-metadata-document section 5). */
export class ClientDocuments {
  readonly #deps: ClientDocumentsDeps
  readonly #clients = new LRUCache<string, DocumentRead>({ max: MAX_DOCUMENTS })
  readonly #failures = new LRUCache<string, DocumentRead>({ max: MAX_DOCUMENTS })
  readonly #reading = new Map<string, Promise<OAuthClient>>()
  readonly #rate: SignInRate

  constructor(deps: ClientDocumentsDeps) {
    this.#deps = deps
    this.#rate = new SignInRate(deps.clock.now)
  }

  /**
   * Finds the client with this ID for a person, to whom a request is counted. All that ask for one
   * document at a time share one request.
   * @throws FwaError FWA_CLIENT_INVALID, FWA_CLIENT_UNREACHABLE, FWA_RATE_LIMITED
   */
  async find(clientId: string, person: string): Promise<OAuthClient> {
    const url = parseClientId(clientId)
    const { host } = (url && parseHostPort(url.host)) ?? {}
    if (!url || !host) throw new FwaError('FWA_CLIENT_INVALID', `the client ID is not ${AN_ID}`)
    if (this.#deps.isOwnHost(host.name))
      throw new FwaError('FWA_CLIENT_INVALID', `${url.host} is a host of this service`)

    const reads = [this.#failures.get(clientId), this.#clients.get(clientId)]
    const outcome = reads.find((read) => read && this.#holds(read))?.outcome
    if (outcome instanceof FwaError) throw outcome
    return outcome ?? this.#reading.get(clientId) ?? this.#startReading(url, person)
  }

  /** Ends the requests in flight. */
  async close(): Promise<void> {
    await this.#deps.fetch.close()
  }

  /** Whether a read is still good. None from the future is, in case the clock was set back. */
  #holds({ time, age }: DocumentRead): boolean {
    const now = this.#deps.clock.now()
    return time <= now && now < time + age
  }

  #startReading(url: URL, person: string): Promise<OAuthClient> {
    this.#rate.require(person, 'too many clients were new', RATE)
    const reading = this.#read(url).finally(() => this.#reading.delete(url.href))
    this.#reading.set(url.href, reading)
    return reading
  }

  async #read(url: URL): Promise<OAuthClient> {
    const time = this.#deps.clock.now()
    const accept = { headers: { accept: 'application/json' }, json: true, maxBytes: MAX_BYTES }
    try {
      const { headers, body } = await this.#deps.fetch(url, accept)
      const client = readDocument(url.href, body)
      const age = ageOf(String(headers['cache-control']))
      this.#clients.set(url.href, { outcome: client, time, age })
      return client
    } catch (cause) {
      const outcome = cause instanceof FwaError ? cause : failureOf(url, cause)
      this.#failures.set(url.href, { outcome, time: this.#deps.clock.now(), age: FAILURE_AGE })
      throw outcome
    }
  }
}

interface ClientDocumentsDeps {
  /** The fetch of {@link publicFetch}. */
  readonly fetch: BoundedFetch
  readonly clock: Clock
  /** Whether a canonical host belongs to this service or its apps, so that no client can be there. */
  readonly isOwnHost: (host: string) => boolean
}

const AN_ID =
  'an https URL in canonical spelling, with a path, without user name, password, fragment or dot segments'

const REFUSALS: Partial<Record<NetErrorCode, string>> = {
  NET_FETCH_TYPE: 'must have the content type `application/json`',
  NET_FETCH_TOO_LARGE: `must have at most ${MAX_BYTES} bytes`,
}

/** The error of a read. All that prevents a connection has one sentence, so that nobody learns what is in our network. */
function failureOf(url: URL, cause: unknown): FwaError {
  const code = cause instanceof NetError ? cause.code : 'NET_FETCH_FAILED'
  const what = `the document of ${url.host}`
  const refusal = REFUSALS[code]
  if (refusal) return new FwaError('FWA_CLIENT_INVALID', `${what} ${refusal}`, { cause })
  const isStatus = code === 'NET_FETCH_STATUS'
  const why = isStatus ? 'must be answered with status 200, not a redirect' : 'cannot be read'
  const shown = { cause, retryAfter: FAILURE_AGE / 1_000, expose: true }
  return new FwaError('FWA_CLIENT_UNREACHABLE', `${what} ${why}`, shown)
}

function ageOf(cacheControl: string): number {
  if (/\bno-(?:store|cache)\b/i.test(cacheControl)) return AGE.min
  const [, seconds] = /(?:^|[\s,])max-age="?(\d+)/i.exec(cacheControl) ?? []
  const age = seconds === undefined ? AGE.usual : Number(seconds) * 1_000
  return Math.min(Math.max(age, AGE.min), AGE.max)
}

type Network = Pick<Cidr, 'network' | 'prefix'>

const toCidrs = (texts: readonly string[]) =>
  texts.map(parseCidr).filter((cidr) => cidr !== undefined)
/** The addresses of this machine and its link, where clouds have their metadata service. */
const LOCAL = toCidrs(['127.0.0.0/8', '::1', '0.0.0.0/8', '::', '169.254.0.0/16', 'fe80::/10'])
const isLocal = ({ network, prefix }: Network) =>
  LOCAL.some((local) => cidrContains(local, network) && prefix >= local.prefix)

/**
 * A fetch for URLs that strangers name. It connects to public addresses, and to those in
 * `privateNetworks`; to loopback and link-local ones only by a network that has nothing else,
 * such as `127.0.0.0/8`.
 */
export function publicFetch(
  createFetch: ProviderDeps['createFetch'],
  privateNetworks: readonly string[],
): BoundedFetch {
  const networks = toCidrs(privateNetworks)
  const mayBeLocal = networks.filter(isLocal)
  const allows = (ip: IpAddress): boolean => {
    const among = isLocal({ network: ip, prefix: 128 }) ? mayBeLocal : networks
    const inner = embeddedIp(ip) // Behind a NAT64 that is listed is all of IPv4.
    const isListed = among.some((cidr) => cidrContains(cidr, ip)) && (!inner || allows(inner))
    return isPublicIp(ip) || isListed
  }
  return createFetch({ timeoutMs: 5_000, allows })
}

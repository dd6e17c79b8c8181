import { lookup as lookupHost } from 'node:dns'
import type { IncomingHttpHeaders } from 'node:http'
import type { LookupFunction } from 'node:net'
import type { buildConnector, Dispatcher } from 'undici'
import { codeOf, describeConnectionFault } from './connection-faults.ts'
import { NetError, type NetErrorCode } from './errors.ts'
import { isLoopback, parseHost } from './host.ts'
import { type IpAddress, parseIp } from './ip.ts'

/** A request, its limits and the answers that it accepts. */
export interface FetchInit {
  method?: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  headers?: Record<string, string>
  body?: string | Uint8Array
  signal?: AbortSignal
  /** Milliseconds from the connection to the last byte. */
  timeoutMs?: number
  /** Maximal size of the body, in bytes. */
  maxBytes?: number
  /** Statuses that are accepted; default `[200]`. */
  status?: readonly number[]
  /** Whether only JSON is accepted: `application/json` or a type that ends in `+json`. Default: any type. */
  json?: boolean
}

/** A complete, accepted answer. Header names are in lower case. */
export interface FetchAnswer {
  readonly status: number
  readonly headers: Readonly<IncomingHttpHeaders>
  readonly body: Buffer
}

/** A fetch with limits of time and size that never follows a redirect. */
export interface BoundedFetch {
  /**
   * @throws NetError NET_FETCH_TIMEOUT, NET_FETCH_TOO_LARGE, NET_FETCH_STATUS, NET_FETCH_TYPE, NET_FETCH_FAILED;
   * with `allows` NET_ADDRESS_REFUSED, which does not tell the address
   */
  (url: URL | string, init?: FetchInit): Promise<FetchAnswer>
  /** Ends requests in flight and closes the connections. */
  close(): Promise<void>
}

/** The connection of a {@link BoundedFetch}, and the limits of its requests that have none of their own. */
export interface FetchOptions {
  /** PEM certificates to trust instead of the system's, also if NODE_TLS_REJECT_UNAUTHORIZED asks for no check. */
  ca?: string | undefined
  /** Milliseconds for a connection, and from then on for the whole answer; default 5,000. */
  timeoutMs?: number
  /** Bytes that an answer may have at most; default 1 MiB. */
  maxBytes?: number
  /** A Unix socket to connect to, whatever the host of the URL. */
  socketPath?: string
  /** Carries the requests instead of an agent of its own, and is not closed. */
  dispatcher?: Dispatcher | undefined
  /**
   * Addresses that it may connect to: every address of the name must be one. The name is resolved once,
   * and the connection goes to an address that was checked. With `socketPath` or `dispatcher`, which
   * cannot be checked, a TypeError is thrown.
   */
  allows?: (address: IpAddress) => boolean
}

/** Makes a {@link BoundedFetch} with connections of its own. */
export function createFetch(options: FetchOptions = {}): BoundedFetch {
  const { ca, socketPath, dispatcher, allows, timeoutMs = 5_000, maxBytes = 1_048_576 } = options
  if (allows && (dispatcher || socketPath !== undefined))
    throw new TypeError('allows cannot be enforced with a dispatcher or socketPath')
  let agent: Promise<Dispatcher> | undefined
  const connect = async () =>
    dispatcher
      ? createDispatcher((...request) => dispatcher.dispatch(...request))
      : openAgent({
          ...(ca !== undefined && { ca, timeout: timeoutMs, rejectUnauthorized: true }),
          ...(socketPath !== undefined && { socketPath }),
          ...(allows && { allows }),
        })

  async function boundedFetch(url: URL | string, init: FetchInit = {}): Promise<FetchAnswer> {
    // Before the deadline starts, since loading may take longer than the request.
    const { request } = await loadUndici()
    const deadline = AbortSignal.timeout(init.timeoutMs ?? timeoutMs)
    const signal = init.signal ? AbortSignal.any([init.signal, deadline]) : deadline
    const { method = 'GET', headers = {}, body = null } = init
    const what = `${method} ${describe(url)}`
    try {
      agent ??= connect()
      const response = await request(url, {
        dispatcher: await agent,
        signal,
        method,
        headers,
        body,
      })
      return await readAnswer(response, what, { maxBytes, ...init })
    } catch (cause) {
      if (cause instanceof NetError) throw cause
      if (deadline.aborted)
        throw new NetError('NET_FETCH_TIMEOUT', `${what} took too long`, { cause })
      const fault = describeConnectionFault(codeOf(cause) || (cause as Error).name)
      throw new NetError('NET_FETCH_FAILED', `${what} failed: ${fault}`, { cause })
    }
  }
  return Object.assign(boundedFetch, { close: async () => (await agent)?.destroy() })
}

/**
 * Makes an undici dispatcher of a function. Handlers of requests come in two forms: Node's own fetch has
 * that of the undici in it, which differs from Node to Node. The dispatcher takes both, and the function
 * gets the form that undici 7 and 8 share.
 */
export async function createDispatcher(dispatch: Dispatcher['dispatch']): Promise<Dispatcher> {
  const { Dispatcher } = await loadUndici()
  const entry: Pick<Dispatcher, 'dispatch' | 'destroy'> = {
    // undici 7 passes on which dispatcher it was given, and undici 8 refuses that.
    dispatch: (
      { dispatcher: _, ...options }: Dispatcher.DispatchOptions & { dispatcher?: unknown },
      handler,
    ) => dispatch(options, handler),
    destroy: async () => {},
  }
  return Object.assign(new Dispatcher(), entry).compose((next) => next)
}

async function openAgent({
  allows,
  ...connection
}: buildConnector.BuildOptions & Pick<FetchOptions, 'allows'>): Promise<Dispatcher> {
  const { Agent, buildConnector } = await loadUndici()
  if (allows) {
    // Selects among all addresses of a name, so that the lookup gives all of them.
    const resolution = { autoSelectFamily: true, lookup: lookupAllowed(allows) }
    const connect = buildConnector({ ...connection, ...resolution })
    return new Agent({
      connect(target, done) {
        // Node does not look up a host that is an address.
        const { ip } = parseHost(target.hostname) ?? {}
        if (ip && !allows(ip)) done(addressRefused(target.hostname), null)
        else connect(target, done)
      },
    })
  }
  const connectHere = buildConnector({ ...connection, lookup })
  const connectElsewhere = buildConnector({ ...connection, lookup: lookupHost })
  return new Agent({
    connect(target, done) {
      connectHere(target, (...here) => {
        if (here[1] || !mayBeElsewhere(target)) return done(...here)
        connectElsewhere(target, (...there) => done(...(there[1] ? there : here)))
      })
    },
  })
}

/** Names below `localhost` are this machine, and DNS is not asked for them (RFC 6761 section 6.3). */
const lookup: LookupFunction = (hostname, options, callback) => {
  const host = parseHost(hostname)
  lookupHost(host && isLoopback(host) ? 'localhost' : hostname, options, callback)
}

/** A lookup of Node that refuses a name unless each of its addresses is allowed. */
export function lookupAllowed(allows: (address: IpAddress) => boolean): LookupFunction {
  const isRefused = (address: string) => {
    const ip = parseIp(address)
    return !ip || !allows(ip)
  }
  return (hostname, options, callback) =>
    lookup(hostname, options, (error, result, family) => {
      const addresses = typeof result === 'string' ? [{ address: result }] : (result ?? [])
      const refusal =
        addresses.some(({ address }) => isRefused(address)) && addressRefused(hostname)
      callback(refusal || error, result, family)
    })
}

const addressRefused = (hostname: string) =>
  new NetError('NET_ADDRESS_REFUSED', `${hostname} is at an address that is not allowed`)

/** A network of containers may have such names too. Only over TLS, where a certificate proves the name. */
function mayBeElsewhere({ hostname, protocol }: buildConnector.Options): boolean {
  return protocol === 'https:' && hostname.endsWith('.localhost')
}

// Imported when it is needed, since loading it takes longer than the rest of a start, and by its
// default export: in a bundle, a CommonJS module has no named ones.
const loadUndici = async () => (await import('undici')).default

async function readAnswer(
  { statusCode, headers, body }: Dispatcher.ResponseData,
  what: string,
  { status = [200], json, maxBytes }: FetchInit & { maxBytes: number },
): Promise<FetchAnswer> {
  const refuse = (code: NetErrorCode, why: string) => {
    body.on('error', () => {}).destroy()
    return new NetError(code, `${what} ${why}`)
  }
  if (!status.includes(statusCode)) throw refuse('NET_FETCH_STATUS', `was answered ${statusCode}`)
  if (json && !JSON_TYPE.test(String(headers['content-type'])))
    throw refuse('NET_FETCH_TYPE', 'was not answered with json')

  const tooLarge = () => refuse('NET_FETCH_TOO_LARGE', `was answered with over ${maxBytes} bytes`)
  if (Number(headers['content-length']) > maxBytes) throw tooLarge()
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of body as AsyncIterable<Buffer>) {
    length += chunk.length
    if (length > maxBytes) throw tooLarge()
    chunks.push(chunk)
  }
  return { status: statusCode, headers, body: Buffer.concat(chunks, length) }
}

const JSON_TYPE = /^\s*(application\/json|[^\s/;]+\/[^\s+/;]+\+json)\s*(;|$)/i

/** The URL without its query, which may hold a secret. */
function describe(url: URL | string): string {
  const { origin, pathname } = URL.parse(String(url)) ?? { origin: 'an invalid URL', pathname: '' }
  return origin + pathname
}

/**
 * Milliseconds to wait before the next try after that many failures in a row: 1 s, then twice as long
 * each time, at most 30 s; half of it is random, so that several clients do not come at once.
 */
export function backoffMs(failures: number): number {
  return Math.min(30_000, 1_000 * 2 ** (failures - 1)) * (0.5 + Math.random() / 2)
}

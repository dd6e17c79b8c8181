import { readFile } from 'node:fs/promises'
import {
  type BoundedFetch,
  createAgent,
  createFetch,
  intercept,
  NetError,
  parseAdvertisedUrl,
} from '@gatehouse/net'
import type { GetJwks, JWKSignature } from 'get-jwks'
import type { Dispatcher } from 'undici'
import { AuthError } from '../errors.ts'

/** An issuer, where its keys are, and how to connect. */
export interface IssuerConnection {
  readonly issuerUrl: string
  /** URL of the key set; default: the `jwks_uri` of the discovery document. */
  readonly jwksUrl?: string | undefined
  /** PEM certificates to trust instead of the system's. */
  readonly ca?: string | undefined
  /** File with a bearer token for these requests. It is read for each request. */
  readonly tokenFile?: string | undefined
  readonly allowHttp?: boolean | undefined
}

/** What the header of a token says about its key. */
export interface KeyHint {
  readonly kid: string | undefined
  readonly alg: string
}

const MAX_METADATA_BYTES = 262_144
const MAX_KEYS = 64

/**
 * Reads the keys of one issuer with get-jwks, through an agent with limits of time and size.
 *
 * get-jwks requests the whole set for each key that it is asked for. So the last answer is kept, and
 * serves these requests until {@link JwksClient.read} replaces it.
 */
export class JwksClient {
  readonly #issuer: IssuerConnection
  readonly #dispatcher: Dispatcher | undefined
  #connection: Promise<{ agent: Dispatcher; fetch: BoundedFetch }> | undefined
  readonly #kept = new KeptAnswer()
  /** Of every request of get-jwks. A compressed answer could exceed the limit of size. */
  readonly #headers = new Headers({ 'accept-encoding': 'identity' })
  #url: URL | undefined
  #jwks: GetJwks | undefined

  /** @param dispatcher - carries the requests instead of an agent of its own, and is not closed */
  constructor(issuer: IssuerConnection, dispatcher?: Dispatcher) {
    this.#issuer = issuer
    this.#dispatcher = dispatcher
  }

  /**
   * Requests the key set, for the key of a token, and gives all keys that are published.
   *
   * @throws AuthError AUTH_ISSUER_INVALID; NetError; SyntaxError if an answer is not JSON
   */
  async read(hint: KeyHint): Promise<readonly unknown[]> {
    this.#connection ??= this.#connect()
    const { agent, fetch } = await this.#connection
    const url = await this.#locate(fetch)
    this.#jwks = await this.#clientFor(url, agent)
    clearCaches(this.#jwks)
    const previous = this.#kept.body
    this.#kept.body = undefined
    try {
      const failure = await this.pick(hint).catch((error: unknown) => error)
      return parseKeys(this.#kept.body ?? fail(url, failure))
    } catch (error) {
      this.#kept.body = previous
      throw error
    }
  }

  /**
   * Limits {@link pick} to these keys of the set: get-jwks takes the first one with the key id, whatever
   * its use, and fails at a key that is null.
   */
  limitTo(keys: readonly unknown[]): void {
    this.#kept.body = Buffer.from(JSON.stringify({ keys }))
    if (this.#jwks) clearCaches(this.#jwks)
  }

  /**
   * The key (JWK) that get-jwks picks from the set that was read last.
   *
   * @throws GetJwksError if there is none
   */
  async pick({ kid, alg }: KeyHint): Promise<unknown> {
    // Its types do not know that a token may lack a key id.
    return this.#jwks?.getJwk({ domain: this.#url?.origin, kid, alg } as JWKSignature)
  }

  async close(): Promise<void> {
    if (!this.#dispatcher) await (await this.#connection)?.agent.destroy()
  }

  async #connect() {
    const agent = this.#dispatcher ?? (await createAgent({ ca: this.#issuer.ca }))
    return { agent, fetch: createFetch({ dispatcher: agent }) }
  }

  async #locate(fetch: BoundedFetch): Promise<URL> {
    const { issuerUrl, jwksUrl, tokenFile } = this.#issuer
    const authorization = tokenFile === undefined ? undefined : await readBearer(tokenFile)
    const url = jwksUrl ? new URL(jwksUrl) : await discover(this.#issuer, fetch, authorization)
    this.#headers.delete('authorization')
    // The bearer token is for the issuer, not for another origin that its document names.
    const isTrusted = jwksUrl !== undefined || url.origin === new URL(issuerUrl).origin
    if (authorization !== undefined && isTrusted) this.#headers.set('authorization', authorization)
    return url
  }

  async #clientFor(url: URL, agent: Dispatcher): Promise<GetJwks> {
    if (this.#jwks && url.href === this.#url?.href) return this.#jwks
    // Imported here, since it takes long to load and the start does not need it.
    const { default: buildGetJwks } = await import('get-jwks')
    this.#url = url
    const dispatcher = await intercept(agent, this.#kept.intercept)
    const fetchOptions: object = { dispatcher, redirect: 'error', headers: this.#headers }
    // With the dot, since get-jwks takes the path `/` for none.
    return buildGetJwks({ jwksPath: `.${url.pathname}${url.search}`, fetchOptions })
  }
}

/** Answers requests with the body of the last good answer, if there is one. */
class KeptAnswer {
  body: Buffer | undefined

  readonly intercept: Dispatcher.DispatcherComposeInterceptor =
    (dispatch) => (options, handler) => {
      const { body } = this
      if (!body)
        return dispatch(options, this.#recorder(`${options.origin}${options.path}`, handler))
      queueMicrotask(() => {
        handler.onRequestStart?.(CONTROLLER, {})
        handler.onResponseStart?.(CONTROLLER, 200, {}, 'OK')
        handler.onResponseData?.(CONTROLLER, body)
        handler.onResponseEnd?.(CONTROLLER, {})
      })
      return true
    }

  #recorder(url: string, handler: Dispatcher.DispatchHandler): Dispatcher.DispatchHandler {
    const chunks: Buffer[] = []
    return {
      onRequestStart: (...start) => handler.onRequestStart?.(...start),
      onResponseStart(controller, status, headers, text) {
        const refuse = (why: string) =>
          controller.abort(new NetError('NET_FETCH_STATUS', `GET ${url} was answered ${why}`))
        if (status !== 200) refuse(`${status}`)
        else if (headers['content-encoding'] !== undefined) refuse('in compressed form')
        else handler.onResponseStart?.(controller, status, headers, text)
      },
      onResponseData(controller, chunk) {
        chunks.push(chunk)
        handler.onResponseData?.(controller, chunk)
      },
      onResponseEnd: (...end) => {
        this.body = Buffer.concat(chunks)
        handler.onResponseEnd?.(...end)
      },
      onResponseError: (...failure) => handler.onResponseError?.(...failure),
    }
  }
}

/** Of a kept answer, which nothing can stop. */
const CONTROLLER: Dispatcher.DispatchController = {
  aborted: false,
  paused: false,
  reason: null,
  rawHeaders: [],
  abort() {},
  pause() {},
  resume() {},
}

/** In this order, since what leaves the first cache goes to the second one, errors as well. */
function clearCaches({ cache, staleCache }: GetJwks): void {
  // Its types name a file that the package does not have.
  for (const each of [cache, staleCache] as unknown as Map<string, unknown>[]) each.clear()
}

function parseKeys(body: Buffer): readonly unknown[] {
  const { keys } = Object(JSON.parse(body.toString()))
  if (!Array.isArray(keys) || keys.length > MAX_KEYS)
    throw invalid(`no list of at most ${MAX_KEYS} keys`)
  return keys
}

function invalid(detail: string): AuthError {
  return new AuthError('AUTH_ISSUER_INVALID', { detail })
}

/** Throws what kept get-jwks from reading the set: fetch wraps it in a TypeError. */
function fail({ origin, pathname }: URL, failure: unknown): never {
  const { cause = failure } = Object(failure) as Error
  if (cause instanceof NetError) throw cause
  const { code, name } = Object(cause) as NodeJS.ErrnoException
  const message = `GET ${origin}${pathname} failed: ${code ?? name}`
  throw new NetError('NET_FETCH_FAILED', message, { cause })
}

/** @throws AuthError AUTH_ISSUER_INVALID; the error of the file system */
async function readBearer(file: string): Promise<string> {
  const token = (await readFile(file, 'utf8')).trim()
  // Here, since the error of fetch would show the token.
  if (!/^[!-~]+$/.test(token)) throw invalid(`${file} does not hold a bearer token`)
  return `Bearer ${token}`
}

/**
 * Asks an issuer where its keys are (OpenID Connect Discovery 1.0 section 4). The document must name
 * exactly this issuer.
 *
 * @throws AuthError AUTH_ISSUER_INVALID; NetError
 */
async function discover(
  { issuerUrl, allowHttp = false }: IssuerConnection,
  fetch: BoundedFetch,
  authorization: string | undefined,
): Promise<URL> {
  const url = `${issuerUrl.replace(/\/$/, '')}/.well-known/openid-configuration`
  const headers = authorization === undefined ? {} : { authorization }
  const { body } = await fetch(url, { headers, maxBytes: MAX_METADATA_BYTES })
  const { issuer, jwks_uri: jwksUri } = Object(JSON.parse(body.toString()))
  if (issuer !== issuerUrl) throw invalid(`${url} names the issuer ${JSON.stringify(issuer)}`)
  if (typeof jwksUri !== 'string') throw invalid(`${url} has no jwks_uri`)
  return parseAdvertisedUrl(jwksUri, { from: url, allowHttp })
}

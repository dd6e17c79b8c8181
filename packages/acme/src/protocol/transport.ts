import {
  type BoundedFetch,
  type Clock,
  type FetchInit,
  NetError,
  type NetErrorCode,
  orAborted,
  retryAfterOf,
  sleep,
} from '@gatehouse/net'
import { Type } from 'typebox'
import { AcmeError, type AcmeErrorCode } from '../errors.ts'
import { type RequestSigner, signRequest } from './jws.ts'
import { toError } from './problem.ts'
import {
  type AcmeRequest,
  type AcmeResponse,
  parseJson,
  type Resource,
  readJson,
  readUrl,
  refuse,
} from './request.ts'

const DirectorySchema = Type.Object({
  newNonce: Type.String(),
  newAccount: Type.String(),
  newOrder: Type.String(),
  revokeCert: Type.Optional(Type.String()),
  keyChange: Type.Optional(Type.String()),
  renewalInfo: Type.Optional(Type.String()),
  meta: Type.Optional(
    Type.Object({
      termsOfService: Type.Optional(Type.String({ pattern: '^[!-~]{1,1000}$' })),
      externalAccountRequired: Type.Optional(Type.Boolean()),
      profiles: Type.Optional(Type.Record(Type.String(), Type.String())),
    }),
  ),
})

/** The directory of a CA (RFC 8555 section 7.1.1); `renewalInfo` is for ARI (RFC 9773). */
export type Directory = ReturnType<typeof readDirectory>

export interface TransportOptions {
  readonly directoryUrl: URL
  readonly fetch: BoundedFetch
  readonly clock: Clock
  /** User-Agent header; CAs ask for product and contact. */
  readonly userAgent?: string
  /** Milliseconds for one request; default 30,000, because finalizing takes CAs long. */
  readonly timeoutMs?: number
}

const DIRECTORY_AGE_MS = 3_600_000
const MAX_ATTEMPTS = 6
const MAX_RETRY_AFTER_MS = 10_000
const MAX_NONCES = 32
const MAX_BYTES = 256 * 1024
const NONCE = /^[\w-]{1,512}$/
const BUSY: readonly (number | undefined)[] = [429, 503]
/** All that a CA may answer; a redirect is an error. */
const STATUSES = [
  200, 201, 202, 204, 400, 401, 403, 404, 405, 409, 410, 413, 415, 422, 429, 500, 502, 503, 504,
]

/** Sends requests to one CA. Every method rejects with the signal's reason once it is aborted. */
export type Transport = Pick<HttpTransport, 'directory' | 'send' | 'get'>

export const createTransport = (options: TransportOptions): Transport => new HttpTransport(options)

class HttpTransport {
  readonly #options: TransportOptions
  readonly #nonces: string[] = []
  #cached: { readonly directory: Promise<Directory>; readonly until: number } | undefined

  constructor(options: TransportOptions) {
    this.#options = options
  }

  /** Reads the directory; it is cached for an hour, or until one of its URLs has moved. */
  directory(signal?: AbortSignal): Promise<Directory> {
    const { clock } = this.#options
    if (!this.#cached || this.#cached.until < clock.now()) {
      const directory = this.#readDirectory()
      const entry = { directory, until: clock.now() + DIRECTORY_AGE_MS }
      this.#cached = entry
      directory.catch(() => {
        if (this.#cached === entry) this.#cached = undefined
      })
    }
    return orAborted(this.#cached.directory, signal)
  }

  async #readDirectory(): Promise<Directory> {
    const response = await this.#fetch(this.#options.directoryUrl, {})
    // Whoever answers 404 there may be no CA at all.
    if (response.status >= 400 && response.status !== 404) throw errorOf(response)
    return readDirectory(response)
  }

  /** Gets a resource that needs no signature. @throws AcmeError */
  async get<T>(url: URL, process: (response: AcmeResponse) => T, signal?: AbortSignal): Promise<T> {
    const response = await this.#fetch(url, {}, signal)
    if (response.status >= 400) throw errorOf(response)
    return process(response)
  }

  /**
   * Signs and sends a request with a nonce of its own for each attempt. It retries at once if the
   * nonce is refused, and after Retry-After if the CA is busy for at most ten seconds.
   * @throws AcmeError
   */
  async send<T>(request: AcmeRequest<T>, signer: RequestSigner, signal?: AbortSignal): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      const url = await this.#locate(request.to, signal)
      const response = await this.#post(url, request, signer, signal)
      if (response.status < 400) return request.process(response)
      const error = errorOf(response, request.isDecision)
      if (attempt === MAX_ATTEMPTS) throw error
      if (!(await this.#mayRetry(error, response, url, request.to, signal))) throw error
    }
  }

  async #locate(to: Resource | URL, signal?: AbortSignal): Promise<URL> {
    if (to instanceof URL) return to
    const url = (await this.directory(signal))[to]
    if (!url) throw new AcmeError('ACME_NOT_OFFERED', `the directory has no ${to}`)
    return url
  }

  async #post(
    url: URL,
    request: AcmeRequest<unknown>,
    signer: RequestSigner,
    signal?: AbortSignal,
  ): Promise<AcmeResponse> {
    let nonce = this.#nonces.pop()
    if (nonce === undefined) {
      const { newNonce } = await this.directory(signal)
      const response = await this.#fetch(newNonce, { method: 'HEAD' }, signal)
      nonce = nonceOf(response)
      if (response.status >= 400) return response
      if (nonce === undefined) throw refuse(response, 'answered without a nonce')
    }
    const jws = signRequest(signer, { url: url.href, nonce }, request.payload?.(url.href))
    const headers = {
      'content-type': 'application/jose+json',
      ...(request.accept && { accept: request.accept }),
    }
    const init = { method: 'POST', headers, body: JSON.stringify(jws) } as const
    const response = await this.#fetch(url, init, signal)
    this.#keepNonce(response)
    return response
  }

  #keepNonce(response: AcmeResponse): void {
    const nonce = nonceOf(response)
    if (nonce !== undefined && this.#nonces.length < MAX_NONCES) this.#nonces.push(nonce)
  }

  async #mayRetry(
    { code, problem, retryAfterMs = Number.POSITIVE_INFINITY }: AcmeError,
    response: AcmeResponse,
    url: URL,
    to: Resource | URL,
    signal?: AbortSignal,
  ): Promise<boolean> {
    if (code === 'ACME_BAD_NONCE') {
      // The other nonces are as old as the refused one; the one in this response is new.
      this.#nonces.length = 0
      this.#keepNonce(response)
      return true
    }
    if (BUSY.includes(problem?.status) && retryAfterMs <= MAX_RETRY_AFTER_MS) {
      await sleep(this.#options.clock, retryAfterMs, signal)
      return true
    }
    if (problem?.status !== 404 || to instanceof URL) return false
    this.#cached = undefined
    return (await this.#locate(to, signal)).href !== url.href
  }

  async #fetch(url: URL, init: FetchInit, signal?: AbortSignal): Promise<AcmeResponse> {
    const { fetch, clock, userAgent = 'gatehouse', timeoutMs = 30_000 } = this.#options
    signal?.throwIfAborted()
    try {
      const { status, headers, body } = await fetch(url, {
        ...init,
        headers: { 'user-agent': userAgent, ...init.headers },
        status: STATUSES,
        maxBytes: MAX_BYTES,
        timeoutMs,
        ...(signal && { signal }),
      })
      return { url, status, headers, body, retryAfterMs: retryAfterOf(headers, clock.now()) }
    } catch (error) {
      throw signal?.aborted ? signal.reason : toAcmeError(error)
    }
  }
}

function errorOf(response: AcmeResponse, isDecision?: boolean): AcmeError {
  const { status, body, headers, retryAfterMs } = response
  return toError(parseJson(body), { status, retryAfterMs, isDecision, link: `${headers.link}` })
}

/** The Replay-Nonce header, if it is base64url (RFC 8555 section 6.5.1). */
function nonceOf({ headers }: AcmeResponse): string | undefined {
  const nonce = String(headers['replay-nonce'] ?? '')
  return NONCE.test(nonce) ? nonce : undefined
}

/** All other errors are about what the CA answered. */
const CODES: Partial<Record<NetErrorCode, AcmeErrorCode>> = {
  NET_FETCH_TIMEOUT: 'ACME_TIMEOUT',
  NET_FETCH_FAILED: 'ACME_UNREACHABLE',
}

function toAcmeError(error: unknown): unknown {
  if (!(error instanceof NetError)) return error
  return new AcmeError(CODES[error.code] ?? 'ACME_ANSWER_INVALID', error.message, { cause: error })
}

export function readDirectory(response: AcmeResponse) {
  const directory = readJson(response, DirectorySchema, 'an ACME directory')
  const url = (text: string) => readUrl(text, response)
  const optional = (text: string | undefined) => (text ? url(text) : undefined)
  return {
    newNonce: url(directory.newNonce),
    newAccount: url(directory.newAccount),
    newOrder: url(directory.newOrder),
    revokeCert: optional(directory.revokeCert),
    keyChange: optional(directory.keyChange),
    renewalInfo: optional(directory.renewalInfo),
    meta: directory.meta ?? {},
  }
}

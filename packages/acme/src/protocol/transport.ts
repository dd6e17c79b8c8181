import { type BoundedFetch, type FetchInit, NetError } from '@gatehouse/net'
import { type Clock, orAborted, sleep } from '../clock.ts'
import { AcmeError } from '../errors.ts'
import { type Answer, parseJson, refuse, retryAfterOf } from './answer.ts'
import type { Call, Resource } from './call.ts'
import { type Directory, readDirectory } from './directory.ts'
import { type Signer, signRequest } from './jws.ts'
import { toError } from './problem.ts'

/** The one way to a CA. Every method rejects with the signal's reason once it is aborted. */
export interface Transport {
  /** What the CA offers; read anew after an hour, and when a URL in it has moved. */
  directory(signal?: AbortSignal): Promise<Directory>
  /**
   * Signs the call and sends it, with a nonce of its own at every attempt. A refused nonce is
   * tried again at once, and a busy CA after its Retry-After of at most ten seconds.
   *
   * @throws AcmeError
   */
  send<T>(call: Call<T>, signer: Signer, signal?: AbortSignal): Promise<T>
  /** Reads what needs no signature. @throws AcmeError */
  get<T>(url: URL, process: (answer: Answer) => T, signal?: AbortSignal): Promise<T>
}

export interface TransportOptions {
  readonly directoryUrl: URL
  readonly fetch: BoundedFetch
  readonly clock: Clock
  /** Product and contact, as CAs ask for. */
  readonly userAgent?: string
  /** Milliseconds for one request; default 30,000, since CAs are slow to finalise. */
  readonly timeoutMs?: number
}

const DIRECTORY_AGE_MS = 3_600_000
const MAX_ATTEMPTS = 6
const PATIENCE_MS = 10_000
const MAX_NONCES = 32
const MAX_BYTES = 256 * 1024
const NONCE = /^[\w-]{1,512}$/
const BUSY: readonly (number | undefined)[] = [429, 503]
/** Whatever a CA says. A redirect is no answer. */
const STATUSES = [
  ...[200, 201, 202, 204, 400, 401, 403, 404, 405, 409, 410, 413, 415, 422, 429],
  ...[500, 502, 503, 504],
]

export function createTransport(options: TransportOptions): Transport {
  const { directoryUrl, fetch, clock, userAgent = 'gatehouse', timeoutMs = 30_000 } = options
  const nonces: string[] = []
  let known: { readonly directory: Promise<Directory>; readonly until: number } | undefined

  async function exchange(url: URL, init: FetchInit, signal?: AbortSignal): Promise<Answer> {
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
      throw signal?.aborted ? signal.reason : explain(error)
    }
  }

  async function get<T>(url: URL, process: (answer: Answer) => T, signal?: AbortSignal) {
    const answer = await exchange(url, {}, signal)
    if (answer.status >= 400) throw refusal(answer)
    return process(answer)
  }

  function directory(signal?: AbortSignal): Promise<Directory> {
    if (!known || known.until < clock.now()) {
      const reading = get(directoryUrl, readDirectory)
      const entry = { directory: reading, until: clock.now() + DIRECTORY_AGE_MS }
      known = entry
      reading.catch(() => {
        if (known === entry) known = undefined
      })
    }
    return orAborted(known.directory, signal)
  }

  async function locate(to: Resource | URL, signal?: AbortSignal): Promise<URL> {
    if (to instanceof URL) return to
    const url = (await directory(signal))[to]
    if (!url) throw new AcmeError('ACME_NOT_OFFERED', `the directory has no ${to}`)
    return url
  }

  async function post(url: URL, call: Call<unknown>, signer: Signer, signal?: AbortSignal) {
    let nonce = nonces.pop()
    if (nonce === undefined) {
      const { newNonce } = await directory(signal)
      const answer = await exchange(newNonce, { method: 'HEAD' }, signal)
      nonce = nonceOf(answer)
      if (answer.status >= 400) return answer
      if (nonce === undefined) throw refuse(answer, 'answered without a nonce')
    }
    const jws = signRequest(signer, { url: url.href, nonce }, call.payload?.(url.href))
    const headers = {
      'content-type': 'application/jose+json',
      ...(call.accept && { accept: call.accept }),
    }
    const init = { method: 'POST', headers, body: JSON.stringify(jws) } as const
    const answer = await exchange(url, init, signal)
    keepNonce(nonceOf(answer))
    return answer
  }

  function keepNonce(nonce: string | undefined) {
    if (nonce !== undefined && nonces.length < MAX_NONCES) nonces.push(nonce)
  }

  async function send<T>(call: Call<T>, signer: Signer, signal?: AbortSignal): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      const url = await locate(call.to, signal)
      const answer = await post(url, call, signer, signal)
      if (answer.status < 400) return call.process(answer)
      const error = refusal(answer, call)
      if (attempt === MAX_ATTEMPTS || !(await mayRetry(error, answer, url, call.to, signal)))
        throw error
    }
  }

  async function mayRetry(
    { code, problem, retryAfterMs = Number.POSITIVE_INFINITY }: AcmeError,
    answer: Answer,
    url: URL,
    to: Resource | URL,
    signal?: AbortSignal,
  ): Promise<boolean> {
    if (code === 'ACME_BAD_NONCE') {
      // The others in the pool are as old; the one that came with the refusal is not.
      nonces.length = 0
      keepNonce(nonceOf(answer))
      return true
    }
    if (BUSY.includes(problem?.status) && retryAfterMs <= PATIENCE_MS) {
      await sleep(clock, retryAfterMs, signal)
      return true
    }
    if (problem?.status !== 404 || to instanceof URL) return false
    known = undefined
    return (await locate(to, signal)).href !== url.href
  }

  return { directory, send, get }
}

function refusal(
  { status, body, retryAfterMs }: Answer,
  { isDecision }: Pick<Call<unknown>, 'isDecision'> = {},
): AcmeError {
  return toError(parseJson(body), { status, retryAfterMs, isDecision })
}

/** RFC 8555 section 6.5.1: what is not base64url is no nonce. */
function nonceOf({ headers }: Answer): string | undefined {
  const nonce = String(headers['replay-nonce'] ?? '')
  return NONCE.test(nonce) ? nonce : undefined
}

function explain(error: unknown): unknown {
  if (!(error instanceof NetError)) return error
  if (error.code === 'NET_FETCH_TIMEOUT')
    return new AcmeError('ACME_TIMEOUT', error.message, { cause: error })
  const reached = error.code !== 'NET_FETCH_FAILED'
  const code = reached ? 'ACME_ANSWER_INVALID' : 'ACME_UNREACHABLE'
  return new AcmeError(code, error.message, { cause: error })
}

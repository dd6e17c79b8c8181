import type { JsonWebKey } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import {
  type BoundedFetch,
  createDispatcher,
  createFetch,
  NetError,
  parseAdvertisedUrl,
} from '@gatehouse/net'
import type { JWKSignature } from 'get-jwks'
import type { Dispatcher } from 'undici'
import { AuthError } from '../errors.ts'
import { readJwk, type VerificationKey } from './keys.ts'

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

/** The key as the header of a token names it. */
export interface KeyHint {
  readonly kid: string | undefined
  readonly alg: string
}

/** The keys of an issuer at one time. */
export interface KeySet {
  /** The keys that are safe to use, as get-jwks picks them. */
  readonly keys: readonly VerificationKey[]
  /** The reasons why the other keys are not used. */
  readonly refused: readonly string[]
  /** The published keys as JSON, to compare sets with. */
  readonly published: string
}

/** A set as get-jwks sees it: only keys that are safe to use. */
interface SafeKeys extends KeySet {
  readonly body: string
}

const MAX_METADATA_BYTES = 262_144
const MAX_KEYS = 64

/** Reads the keys of one issuer with get-jwks, within limits of time and size. */
export class JwksClient {
  readonly #issuer: IssuerConnection
  readonly #fetch: BoundedFetch

  /**
   * @param dispatcher - carries the requests instead of an agent of its own, and is not closed
   * @param fetch - makes the requests in place of that, and is closed
   */
  constructor(issuer: IssuerConnection, dispatcher?: Dispatcher, fetch?: BoundedFetch) {
    this.#issuer = issuer
    this.#fetch = fetch ?? createFetch({ ca: issuer.ca, dispatcher })
  }

  /**
   * Requests the key set, for the key of a token. It is a get-jwks for this set alone, so its caches keep
   * no key that was withdrawn. get-jwks requests the set for each key that it is asked for: the first answer
   * serves all these requests, without keys that are not safe to use, which could hide others of their id.
   *
   * @throws AuthError AUTH_ISSUER_INVALID; NetError; SyntaxError if an answer is not JSON
   */
  async read(hint: KeyHint): Promise<KeySet> {
    const { url, headers } = await this.#locate()
    let answer: Promise<SafeKeys> | undefined
    const dispatcher = await answerWith(async () => {
      answer ??= this.#request(url, headers)
      return (await answer).body
    })
    // Imported here, since it takes long to load and the start does not need it.
    const { default: buildGetJwks } = await import('get-jwks')
    // With the dot, since get-jwks takes the path `/` for none.
    const jwksPath = `.${url.pathname}${url.search}`
    const { getJwk } = buildGetJwks({ jwksPath, fetchOptions: { dispatcher } as object })
    // The types of get-jwks do not know that a key may lack an id.
    const pick = ({ kid, alg }: Record<keyof KeyHint, string | undefined>) =>
      getJwk({ domain: url.origin, kid, alg } as JWKSignature)

    const cause = await pick(hint).catch((error: unknown) => error)
    if (!answer) throw new NetError('NET_FETCH_FAILED', `GET ${url.href} was not tried`, { cause })
    const { keys, refused, published } = await answer
    const picked = keys.map(async ({ kid, algorithms }) => {
      const { published, ...jwk } = Object(await pick({ kid, alg: algorithms[0] }))
      return readJwk({ ...jwk, alg: published })
    })
    return { keys: await Promise.all(picked), refused, published }
  }

  close(): Promise<void> {
    return this.#fetch.close()
  }

  async #locate(): Promise<{ url: URL; headers: Record<string, string> }> {
    const { issuerUrl, jwksUrl, tokenFile } = this.#issuer
    const headers = tokenFile === undefined ? {} : { authorization: await readBearer(tokenFile) }
    if (jwksUrl !== undefined) return { url: new URL(jwksUrl), headers }
    const url = await this.#discover(headers)
    // The bearer token is for the issuer, not for another origin that its document names.
    return { url, headers: url.origin === new URL(issuerUrl).origin ? headers : {} }
  }

  /**
   * Asks the issuer where its keys are (OpenID Connect Discovery 1.0 section 4). The document must name
   * exactly this issuer, which get-jwks does not check.
   */
  async #discover(headers: Record<string, string>): Promise<URL> {
    const { issuerUrl, allowHttp = false } = this.#issuer
    const url = `${issuerUrl.replace(/\/$/, '')}/.well-known/openid-configuration`
    const { body } = await this.#fetch(url, { headers, maxBytes: MAX_METADATA_BYTES })
    const { issuer, jwks_uri: jwksUri } = Object(JSON.parse(body.toString()))
    if (issuer !== issuerUrl) throw invalid(`${url} names the issuer ${JSON.stringify(issuer)}`)
    if (typeof jwksUri !== 'string') throw invalid(`${url} has no jwks_uri`)
    return parseAdvertisedUrl(jwksUri, { from: url, allowHttp })
  }

  async #request(url: URL, headers: Record<string, string>): Promise<SafeKeys> {
    const answer = await this.#fetch(url, { headers })
    if (answer.headers['content-encoding'] !== undefined)
      throw new NetError('NET_FETCH_TYPE', `GET ${url.origin}${url.pathname} was compressed`)
    const { keys } = Object(JSON.parse(answer.body.toString()))
    if (!Array.isArray(keys) || keys.length > MAX_KEYS)
      throw invalid(`no list of at most ${MAX_KEYS} keys`)
    return selectSafe(keys)
  }
}

function selectSafe(jwks: readonly JsonWebKey[]): SafeKeys {
  const safe: unknown[] = []
  const keys: VerificationKey[] = []
  const refused: string[] = []
  for (const jwk of jwks) {
    try {
      const key = readJwk(jwk)
      keys.push(key)
      // get-jwks takes a key without `alg` for one of every algorithm, and would hide others of its id.
      safe.push({ ...jwk, alg: key.algorithms[0], published: jwk.alg })
    } catch (error) {
      refused.push(error instanceof TypeError ? error.message : 'not a key')
    }
  }
  return { keys, refused, published: JSON.stringify(jwks), body: JSON.stringify({ keys: safe }) }
}

/** A dispatcher for the requests of get-jwks, each of which is answered with this body. */
function answerWith(readBody: () => Promise<string>): Promise<Dispatcher> {
  return createDispatcher((_request, handler) => {
    readBody()
      .then((body) => {
        handler.onRequestStart?.(CONTROLLER, {})
        handler.onResponseStart?.(CONTROLLER, 200, {}, 'OK')
        handler.onResponseData?.(CONTROLLER, Buffer.from(body))
        handler.onResponseEnd?.(CONTROLLER, {})
      })
      .catch((error) => handler.onResponseError?.(CONTROLLER, error))
    return true
  })
}

/** An answer that is at hand cannot be stopped. */
const CONTROLLER: Dispatcher.DispatchController = {
  aborted: false,
  paused: false,
  reason: null,
  rawHeaders: [],
  abort() {},
  pause() {},
  resume() {},
}

function invalid(detail: string): AuthError {
  return new AuthError('AUTH_ISSUER_INVALID', { detail })
}

/** @throws AuthError AUTH_ISSUER_INVALID; the error of the file system */
async function readBearer(file: string): Promise<string> {
  const token = (await readFile(file, 'utf8')).trim()
  // The token is checked here, since the error of fetch would show it.
  if (!/^[!-~]+$/.test(token)) throw invalid(`${file} does not hold a bearer token`)
  return `Bearer ${token}`
}

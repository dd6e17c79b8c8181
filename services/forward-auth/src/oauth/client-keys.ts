import { hash } from 'node:crypto'
import { AuthError, Authenticator, type TokenCaller } from '@gatehouse/auth-core'
import type { BoundedFetch } from '@gatehouse/net'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'
import { FwaError } from '../errors.ts'

/** The time for which an assertion is valid at most, in ms. */
const LIFETIME = 600_000
/** Clocks differ by that, in ms. */
const SKEW = 60_000
const MAX_BYTES = 65_536
const MAX_CLIENTS = 100
const MAX_JTI = 256

/** Verifies the assertions of clients by the keys that they publish (RFC 7523 section 3). */
export class ClientKeys {
  readonly #app: FastifyInstance
  readonly #fetch: BoundedFetch
  readonly #verifiers = new LRUCache<string, Authenticator>({
    max: MAX_CLIENTS,
    dispose: (verifier) => void verifier.close(),
  })

  /** @param fetch - connects to no address of ours */
  constructor(app: FastifyInstance, fetch: BoundedFetch) {
    this.#app = app
    this.#fetch = fetch
  }

  /**
   * Whether a client has signed an assertion for one of these audiences, which comes for the first time.
   *
   * @throws FwaError FWA_CLIENT_UNREACHABLE if its keys cannot be read now, STORE_UNAVAILABLE
   */
  async isSignedBy(
    { id, jwksUrl }: Readonly<Record<'id' | 'jwksUrl', string>>,
    assertion: string,
    audience: readonly string[],
    request: FastifyRequest,
  ): Promise<boolean> {
    let caller: TokenCaller
    try {
      caller = await this.#verifierOf(id, jwksUrl, audience).verify(assertion, request)
    } catch (error) {
      if (!(error instanceof AuthError)) throw error
      const { code, detail, retryAfter } = error
      request.log.info({ code, client: id, detail }, 'client assertion refused')
      if (error.statusCode < 500) return false
      const cause = { cause: error, ...(retryAfter !== undefined && { retryAfter }) }
      throw new FwaError('FWA_CLIENT_UNREACHABLE', 'the keys of the client cannot be read', cause)
    }
    const { subject, claims } = caller
    const isForUsAlone = [claims.aud].flat().every((aud) => audience.includes(String(aud)))
    return subject === id && isForUsAlone && this.#isFirst(id, claims)
  }

  close(): void {
    this.#verifiers.clear()
  }

  /** RFC 7523 section 3, 7: an assertion is good once. */
  async #isFirst(id: string, { jti, exp }: TokenCaller['claims']): Promise<boolean> {
    if (typeof jti !== 'string' || jti === '' || jti.length > MAX_JTI) return false
    const digest = hash('sha256', JSON.stringify([id, jti]), 'base64url')
    return this.#app.authStore.completeLogin(`assertion ${digest}`, Number(exp) * 1_000 + SKEW)
  }

  #verifierOf(id: string, jwksUrl: string, audience: readonly string[]): Authenticator {
    const key = JSON.stringify([id, jwksUrl, audience])
    const cached = this.#verifiers.get(key)
    if (cached) return cached
    const { clock, log } = this.#app
    const bounded = (...[url, init]: Parameters<BoundedFetch>) =>
      this.#fetch(url, { ...init, maxBytes: MAX_BYTES })
    const issuers = [{ issuerUrl: id, jwksUrl, audience, maxTokenLifetime: LIFETIME }]
    const verifier = new Authenticator(
      { jwt: { issuers } },
      {
        now: () => clock.now(),
        elapsed: () => performance.now(),
        log,
        // The portal closes the dispatcher.
        fetch: Object.assign(bounded, { close: async () => {} }),
      },
    )
    this.#verifiers.set(key, verifier)
    return verifier
  }
}

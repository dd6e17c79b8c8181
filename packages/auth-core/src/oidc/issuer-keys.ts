import { type BoundedFetch, backoffMs, NetError } from '@gatehouse/net'
import type { Dispatcher } from 'undici'
import { AuthError } from '../errors.ts'
import { type IssuerConnection, JwksClient, type KeyHint, type KeySet } from './jwks-client.ts'
import type { VerificationKey } from './keys.ts'

/** The log of this package, in pino's shape. */
export type Log = Readonly<Record<'info' | 'warn', (fields: object, message: string) => void>>

/** The parts that tests replace. */
export interface AuthDeps {
  /** Milliseconds since the epoch: what the times of tokens are compared with. */
  readonly now: () => number
  /** Milliseconds on a clock that is never set: what ages and pauses are measured in. */
  readonly elapsed: () => number
  readonly log: Log
  /** Carries the requests to issuers instead of agents of its own; a dispatcher of undici 7 or 8. */
  readonly dispatcher?: Dispatcher | undefined
  /** Makes the requests to issuers in place of all that, for issuers that strangers name. It is closed. */
  readonly fetch?: BoundedFetch | undefined
}

/** Between two readings for tokens that no key fits. A new key is accepted after this time at the latest. */
const COOLDOWN_MS = 30_000
/** A set that is this new is not read again for such a token. */
const RECENT_MS = 1_000
/** A set that is this old is read again in the background. */
const REFRESH_MS = 300_000
/** A set that is this old is used no longer, so a withdrawn key is refused by then. */
const MAX_AGE_MS = 600_000
/** While the issuer is down, known keys are used this long. */
const OUTAGE_MS = 3_600_000

/** The key that get-jwks is asked for when there is no token. */
const ANY_KEY: KeyHint = { kid: undefined, alg: 'RS256' }

/** The key that a token must be signed with, and the set that it is from. */
export interface FittingKey {
  readonly set: KeySet
  readonly key: VerificationKey
}

/**
 * The keys of one issuer. The set is requested when the first token comes, again before it gets old,
 * and when no key matches a token, but only as often as the cooldown allows, to prevent abuse. One
 * request is in flight at a time. After a failure the next one waits, longer each time.
 */
export class IssuerKeys {
  readonly issuer: string
  readonly #client: JwksClient
  readonly #elapsed: () => number
  readonly #log: Log
  #set: KeySet | undefined
  #readAt = Number.NEGATIVE_INFINITY
  #readForTokenAt = Number.NEGATIVE_INFINITY
  #failure: AuthError | undefined
  #failures = 0
  #retryAt = 0
  #reading: Promise<void> | undefined

  constructor(connection: IssuerConnection, deps: Omit<AuthDeps, 'now'>) {
    this.issuer = connection.issuerUrl
    this.#client = new JwksClient(connection, deps.dispatcher, deps.fetch)
    this.#elapsed = deps.elapsed
    this.#log = deps.log
  }

  /** The set that may be used at this moment, if any. Other keys are another object. */
  current(hint = ANY_KEY): KeySet | undefined {
    const time = this.#elapsed()
    const age = time - this.#readAt
    if (this.#failure ? time >= this.#retryAt : age >= REFRESH_MS) void this.#refresh(hint)
    return age < (this.#failure ? OUTAGE_MS : MAX_AGE_MS) ? this.#set : undefined
  }

  /**
   * Finds the key that a token with this header must be signed with; synchronous if it is at hand. If no
   * key fits, the set is read again, as far as the cooldown allows: its keys may have been replaced.
   *
   * @param failed - the set whose key has not signed the token
   * @throws AuthError AUTH_TOKEN_KEY_UNKNOWN, AUTH_TOKEN_ALGORITHM, AUTH_TOKEN_SIGNATURE,
   * AUTH_ISSUER_UNREACHABLE, AUTH_ISSUER_INVALID
   */
  find(hint: KeyHint, failed?: KeySet): FittingKey | Promise<FittingKey> {
    const set = this.current(hint)
    const match = findIn(set, hint, failed)
    if (match && 'key' in match) return match
    if (!this.#reading && !this.#mayRead(set)) throw match ?? this.#refusal()
    return this.#refresh(hint).then(() => {
      const match = findIn(this.current(), hint, failed)
      if (match && 'key' in match) return match
      throw match ?? this.#refusal()
    })
  }

  failing(): boolean {
    return this.#failure !== undefined
  }

  close(): Promise<void> {
    return this.#client.close()
  }

  #refresh(hint: KeyHint): Promise<void> {
    this.#reading ??= this.#read(hint).finally(() => {
      this.#reading = undefined
    })
    return this.#reading
  }

  async #read(hint: KeyHint): Promise<void> {
    const startedAt = this.#elapsed()
    const { issuer } = this
    try {
      this.#accept(await this.#client.read(hint))
      if (this.#failure) this.#log.info({ issuer }, 'issuer answers again')
      this.#failures = 0
      this.#failure = undefined
      this.#readAt = startedAt
    } catch (error) {
      this.#failure = describeFailure(error)
      this.#retryAt = this.#elapsed() + backoffMs(++this.#failures)
      const { code, detail } = this.#failure
      this.#log.warn({ issuer, code, detail }, 'issuer returned no keys')
    }
  }

  /** An unchanged set stays the same object, so that tokens verified with it stay verified. */
  #accept(set: KeySet): void {
    if (set.published === this.#set?.published) return
    const { issuer } = this
    const { refused } = set
    if (refused.length > 0)
      this.#log.warn({ issuer, refused }, 'issuer publishes keys that cannot be used')
    this.#set = set
  }

  /** Whether to read now for a token that no key of the set fits. */
  #mayRead(set: KeySet | undefined): boolean {
    const time = this.#elapsed()
    if (this.#failure) return time >= this.#retryAt
    if (!set) return true
    if (time - this.#readAt < RECENT_MS || time - this.#readForTokenAt < COOLDOWN_MS) return false
    this.#readForTokenAt = time
    return true
  }

  #refusal(): AuthError {
    const failure = this.#failure
    if (!failure) return new AuthError('AUTH_TOKEN_KEY_UNKNOWN')
    const retryAfter = Math.max(1, Math.ceil((this.#retryAt - this.#elapsed()) / 1_000))
    return new AuthError(failure.code, { detail: failure.detail, cause: failure, retryAfter })
  }
}

/** The first key with the id and algorithm of a token, or why none of those with the id fits; undefined if none has it. */
function findIn(
  set: KeySet | undefined,
  { kid, alg }: KeyHint,
  failed: KeySet | undefined,
): FittingKey | AuthError | undefined {
  if (!set) return undefined
  if (set === failed) return new AuthError('AUTH_TOKEN_SIGNATURE')
  const named = kid === undefined ? set.keys : set.keys.filter((key) => key.kid === kid)
  if (named.length === 0) return undefined
  if (kid === undefined && named.length > 1)
    return new AuthError('AUTH_TOKEN_KEY_UNKNOWN', {
      detail: `it has no kid, and its issuer has ${named.length} keys`,
    })
  const key = named.find(({ algorithms }) => algorithms.includes(alg))
  if (key) return { set, key }
  return new AuthError('AUTH_TOKEN_ALGORITHM', { detail: `alg ${alg} does not fit the key` })
}

function describeFailure(cause: unknown): AuthError {
  if (cause instanceof AuthError) return cause
  const isReachable = !(cause instanceof NetError) || cause.code.startsWith('NET_URL_')
  const detail = cause instanceof Error ? cause.message : undefined
  return new AuthError(isReachable ? 'AUTH_ISSUER_INVALID' : 'AUTH_ISSUER_UNREACHABLE', {
    detail,
    cause,
  })
}

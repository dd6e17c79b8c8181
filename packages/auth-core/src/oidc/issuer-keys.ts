import { backoffMs, NetError } from '@gatehouse/net'
import type { Dispatcher } from 'undici'
import { AuthError } from '../errors.ts'
import { type IssuerConnection, JwksClient, type KeyHint } from './jwks-client.ts'
import { readJwk, type VerificationKey } from './keys.ts'

/** What this package logs to; pino's shape. */
export type Log = Readonly<Record<'info' | 'warn', (fields: object, message: string) => void>>

/** What tests replace. */
export interface AuthDeps {
  /** Milliseconds since the epoch: what the times of tokens are compared with. */
  readonly now: () => number
  /** Milliseconds on a clock that is never set: what ages and pauses are measured in. */
  readonly elapsed: () => number
  readonly log: Log
  /** Carries the requests to issuers instead of agents of its own; a dispatcher of undici 7 or 8. */
  readonly dispatcher?: Dispatcher | undefined
}

/** Between two readings for an unknown key id. A new key is accepted after this time at the latest. */
const COOLDOWN_MS = 30_000
/** A set that is this new is not read again for an unknown key id. */
const RECENT_MS = 1_000
/** A set that is this old is read again in the background. */
const REFRESH_MS = 300_000
/** A set that is this old is used no longer, so a withdrawn key is refused by then. */
const MAX_AGE_MS = 600_000
/** While the issuer is down, known keys are used this long. */
const OUTAGE_MS = 3_600_000

/** A token without `kid` is tried with every key that fits; each try costs as much as a valid token. */
const MAX_TRIES = 4

interface PublishedKey extends Pick<VerificationKey, 'kid' | 'algorithms'> {
  readonly jwk: unknown
  /** What get-jwks has picked for this key id, by algorithm. */
  readonly picked: Map<string, VerificationKey>
}

/** What an issuer publishes; replaced when that changes. */
type KeySet = readonly PublishedKey[]

/** The keys that a token may be signed with, and the set that they are from. */
export interface FittingKeys {
  readonly set: KeySet
  readonly keys: readonly VerificationKey[]
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
  #published = ''
  #readAt = Number.NEGATIVE_INFINITY
  #readForUnknownAt = Number.NEGATIVE_INFINITY
  #failure: AuthError | undefined
  #failures = 0
  #retryAt = 0
  #reading: Promise<void> | undefined
  /** The key of the last token; before any token, the default of OpenID Connect. */
  #hint: KeyHint = { kid: undefined, alg: 'RS256' }

  constructor(connection: IssuerConnection, deps: Omit<AuthDeps, 'now'>) {
    this.issuer = connection.issuerUrl
    this.#client = new JwksClient(connection, deps.dispatcher)
    this.#elapsed = deps.elapsed
    this.#log = deps.log
  }

  /** The set that may be used at this moment, if any. Other keys are another object. */
  current(): KeySet | undefined {
    const time = this.#elapsed()
    const age = time - this.#readAt
    if (this.#failure ? time >= this.#retryAt : age >= REFRESH_MS) void this.#refresh()
    return age < (this.#failure ? OUTAGE_MS : MAX_AGE_MS) ? this.#set : undefined
  }

  /**
   * Finds the keys that a token with this header may be signed with; synchronous if they are at hand.
   *
   * @throws AuthError AUTH_TOKEN_KEY_UNKNOWN, AUTH_TOKEN_ALGORITHM, AUTH_ISSUER_UNREACHABLE,
   * AUTH_ISSUER_INVALID
   */
  find(hint: KeyHint): FittingKeys | Promise<FittingKeys> {
    this.#hint = hint
    const set = this.current()
    if (holds(set, hint)) return this.#choose(set, hint)
    if (!this.#reading && !this.#mayRead(set)) throw this.#refusal()
    return this.#refresh().then(() => {
      const read = this.current()
      if (holds(read, hint)) return this.#choose(read, hint)
      throw this.#refusal()
    })
  }

  failing(): boolean {
    return this.#failure !== undefined
  }

  close(): Promise<void> {
    return this.#client.close()
  }

  #choose(set: KeySet, { kid, alg }: KeyHint): FittingKeys | Promise<FittingKeys> {
    const named = kid === undefined ? set : set.filter((key) => key.kid === kid)
    const fitting = named.filter(({ algorithms }) => algorithms.includes(alg))
    if (fitting.length === 0)
      throw new AuthError('AUTH_TOKEN_ALGORITHM', { detail: `alg ${alg} does not fit the key` })
    if (fitting.length > MAX_TRIES)
      throw new AuthError('AUTH_TOKEN_KEY_UNKNOWN', {
        detail: `${fitting.length} keys fit, and the kid does not say which`,
      })
    const keys = fitting.flatMap(({ picked }) => picked.get(alg) ?? [])
    return keys.length === fitting.length ? { set, keys } : this.#pick(set, fitting, alg)
  }

  /** Has get-jwks pick the keys, each by its own key id: a token may have none. */
  async #pick(set: KeySet, keys: readonly PublishedKey[], alg: string): Promise<FittingKeys> {
    await this.#reading
    const picked = keys.map(async ({ kid, picked }) => {
      const key = readJwk(await this.#client.pick({ kid, alg }))
      picked.set(alg, key)
      return key
    })
    try {
      return { set, keys: await Promise.all(picked) }
    } catch (cause) {
      throw new AuthError('AUTH_TOKEN_KEY_UNKNOWN', { cause })
    }
  }

  #refresh(): Promise<void> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined
    })
    return this.#reading
  }

  async #read(): Promise<void> {
    const startedAt = this.#elapsed()
    const { issuer } = this
    try {
      this.#accept(await this.#client.read(this.#hint))
      if (this.#failure) this.#log.info({ issuer }, 'issuer answers again')
      this.#failures = 0
      this.#failure = undefined
      this.#readAt = startedAt
    } catch (error) {
      this.#failure = describeFailure(error)
      this.#retryAt = this.#elapsed() + backoffMs(++this.#failures)
      const { code, detail } = this.#failure
      this.#log.warn({ issuer, code, detail }, 'issuer gives no keys')
    }
  }

  /** An unchanged set stays the same object, so that tokens verified with it stay verified. */
  #accept(jwks: readonly unknown[]): void {
    const published = JSON.stringify(jwks)
    if (!this.#set || published !== this.#published) {
      const { keys, refused } = readKeys(jwks)
      const { issuer } = this
      if (refused.length > 0)
        this.#log.warn({ issuer, refused }, 'issuer publishes keys that are not used')
      this.#set = keys
      this.#published = published
    }
    this.#client.limitTo(this.#set.map(({ jwk }) => jwk))
  }

  /** Whether to read now for a key id that the set does not hold. */
  #mayRead(set: KeySet | undefined): boolean {
    const time = this.#elapsed()
    if (this.#failure) return time >= this.#retryAt
    if (!set) return true
    if (time - this.#readAt < RECENT_MS || time - this.#readForUnknownAt < COOLDOWN_MS) return false
    this.#readForUnknownAt = time
    return true
  }

  #refusal(): AuthError {
    const failure = this.#failure
    if (!failure) return new AuthError('AUTH_TOKEN_KEY_UNKNOWN')
    const retryAfter = Math.max(1, Math.ceil((this.#retryAt - this.#elapsed()) / 1_000))
    return new AuthError(failure.code, { detail: failure.detail, cause: failure, retryAfter })
  }
}

function holds(set: KeySet | undefined, hint: KeyHint): set is KeySet {
  if (hint.kid === undefined) return set !== undefined && set.length > 0
  return set?.some(({ kid }) => kid === hint.kid) === true
}

function readKeys(jwks: readonly unknown[]): { keys: PublishedKey[]; refused: string[] } {
  const keys: PublishedKey[] = []
  const refused: string[] = []
  for (const jwk of jwks) {
    try {
      const { kid, algorithms } = readJwk(jwk)
      keys.push({ jwk, kid, algorithms, picked: new Map() })
    } catch (error) {
      refused.push(error instanceof TypeError ? error.message : 'not a key')
    }
  }
  return { keys, refused }
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

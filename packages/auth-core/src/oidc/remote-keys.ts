import { readFile } from 'node:fs/promises'
import { type BoundedFetch, createFetch, NetError } from '@gatehouse/net'
import { AuthError } from '../errors.ts'
import { createKeySet, type KeySet, type KeySource } from '../jwt/key-set.ts'
import { readJwk, type VerificationKey } from '../jwt/keys.ts'
import { discoverJwksUrl } from './discovery.ts'
import { readJwks } from './jwks.ts'

/** How to ask an issuer for its keys. */
export interface RemoteKeysOptions {
  readonly issuerUrl: string
  /** Where the keys are; default: where the discovery document says. */
  readonly jwksUrl?: string | undefined
  /** PEM certificates to trust instead of the system's. */
  readonly ca?: string | undefined
  /** File with a bearer token for these requests, read anew for each. */
  readonly tokenFile?: string | undefined
  readonly allowHttp?: boolean | undefined
}

/** What the parts of this package log to; pino's shape. */
export interface Log {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
}

export interface AuthDeps {
  /** Milliseconds since the epoch: what the times of tokens are compared with. */
  readonly now: () => number
  /** Milliseconds that only grow, whatever becomes of the clock: what ages and pauses are measured in. */
  readonly elapsed: () => number
  /** Takes the lines of the log. */
  readonly log: Log
  /** Carries the requests to issuers instead of a fetch of its own. */
  readonly fetch?: BoundedFetch | undefined
}

/** The keys that an issuer publishes. */
export interface RemoteKeys extends KeySource {
  readonly issuer: string
  /** Whether the last try to reach the issuer failed. */
  failing(): boolean
  close(): Promise<void>
}

/** Between two readings for an unknown key id. A new key is accepted this late at the latest. */
const COOLDOWN_MS = 30_000
/** A set this new is not read again for an unknown key id. */
const RECENT_MS = 1_000
/** A set this old is read again in the background. */
const REFRESH_MS = 300_000
/** A set this old is not relied on before it was read again: a withdrawn key is refused by then. */
const MAX_AGE_MS = 600_000
/** Except while the issuer cannot be reached: this long. */
const OUTAGE_MS = 3_600_000
const MAX_BACKOFF_MS = 30_000

/**
 * Keeps the keys of one issuer. It asks when it must and at most once at a time: first when a token
 * comes, then before the set gets old, and for an unknown key id once per cooldown. After a failure
 * it waits, longer each time, and nobody waits with it.
 */
export function createRemoteKeys(
  options: RemoteKeysOptions,
  deps: Pick<AuthDeps, 'log' | 'fetch'> & Partial<Pick<AuthDeps, 'elapsed'>>,
): RemoteKeys {
  const { issuerUrl: issuer } = options
  const { elapsed = sinceStart, log } = deps
  const fetch = deps.fetch ?? createFetch(options.ca === undefined ? {} : { ca: options.ca })

  let keySet: KeySet | undefined
  let published = ''
  let readAt = Number.NEGATIVE_INFINITY
  let readForUnknownAt = Number.NEGATIVE_INFINITY
  let failure: AuthError | undefined
  let failures = 0
  let retryAt = 0
  let reading: Promise<void> | undefined

  function refresh(): Promise<void> {
    reading ??= read().finally(() => {
      reading = undefined
    })
    return reading
  }

  async function read(): Promise<void> {
    const startedAt = elapsed()
    try {
      accept(await readPublished(options, fetch))
      if (failure) log.info({ issuer }, 'issuer answers again')
      failures = 0
      failure = undefined
      readAt = startedAt
    } catch (error) {
      failure = describeFailure(error)
      const backoff = Math.min(MAX_BACKOFF_MS, 1_000 * 2 ** failures++)
      retryAt = elapsed() + backoff * (0.5 + Math.random() / 2)
      log.warn({ issuer, code: failure.code, detail: failure.detail }, 'issuer gives no keys')
    }
  }

  /** An unchanged set stays the same object, so that what was verified with it stays verified. */
  function accept(jwks: readonly unknown[]): void {
    const text = JSON.stringify(jwks)
    if (keySet && text === published) return
    const { keys, refused } = readKeys(jwks)
    if (refused.length > 0) log.warn({ issuer, refused }, 'issuer publishes keys that are not used')
    keySet = createKeySet(keys)
    published = text
  }

  function current(): KeySet | undefined {
    const time = elapsed()
    const age = time - readAt
    if (failure ? time >= retryAt : age >= REFRESH_MS) void refresh()
    return age < (failure ? OUTAGE_MS : MAX_AGE_MS) ? keySet : undefined
  }

  /** Whether to read now for a key id that `set` does not hold. */
  function mayRead(set: KeySet | undefined): boolean {
    const time = elapsed()
    if (failure) return time >= retryAt
    if (!set) return true
    if (time - readAt < RECENT_MS || time - readForUnknownAt < COOLDOWN_MS) return false
    readForUnknownAt = time
    return true
  }

  function refusal(): AuthError {
    if (!failure) return new AuthError('AUTH_TOKEN_KEY_UNKNOWN')
    const retryAfter = Math.max(1, Math.ceil((retryAt - elapsed()) / 1_000))
    return new AuthError(failure.code, { detail: failure.detail, cause: failure, retryAfter })
  }

  function holding(kid: string | undefined): KeySet | Promise<KeySet> {
    const set = current()
    if (set && holds(set, kid)) return set
    if (!reading && !mayRead(set)) throw refusal()
    return refresh().then(() => {
      const set = current()
      if (set && holds(set, kid)) return set
      throw refusal()
    })
  }

  return {
    issuer,
    current,
    holding,
    failing: () => failure !== undefined,
    close: async () => (deps.fetch ? undefined : fetch.close()),
  }
}

/** Milliseconds since this process started, by a clock that nobody sets. */
export function sinceStart(): number {
  return performance.now()
}

function holds(set: KeySet, kid: string | undefined): boolean {
  return set.withId(kid).length > 0
}

async function readPublished(
  { issuerUrl, jwksUrl, tokenFile, allowHttp = false }: RemoteKeysOptions,
  fetch: BoundedFetch,
): Promise<readonly unknown[]> {
  const headers: Record<string, string> = {}
  if (tokenFile !== undefined)
    headers.authorization = `Bearer ${(await readFile(tokenFile, 'utf8')).trim()}`
  if (jwksUrl !== undefined) return readJwks(async () => (await fetch(jwksUrl, { headers })).body)

  const url = await discoverJwksUrl(issuerUrl, { fetch, headers, allowHttp })
  // The bearer token is for the issuer, not for wherever its document points.
  const isSameOrigin = url.origin === new URL(issuerUrl).origin
  return readJwks(async () => (await fetch(url, { headers: isSameOrigin ? headers : {} })).body)
}

function readKeys(jwks: readonly unknown[]): { keys: VerificationKey[]; refused: string[] } {
  const keys: VerificationKey[] = []
  const refused: string[] = []
  for (const jwk of jwks) {
    try {
      keys.push(readJwk(jwk))
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

import { hash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Profile } from '@gatehouse/profile'
import type { FastifyRequest } from 'fastify'
import { ownVerifier } from './bearer.ts'
import { type Caller, type KeyCaller, METHODS, type Method, type TokenCaller } from './caller.ts'
import { AuthError } from './errors.ts'
import { accessTokensOf } from './jwt/access-token.ts'
import { createVerifier } from './jwt/verify.ts'
import { type AuthDeps, IssuerKeys } from './oidc/issuer-keys.ts'
import type { IssuerConnection } from './oidc/jwks-client.ts'
import type { AuthOptions, BearerOptions } from './options.ts'
import { createPersonReader, type PersonReader } from './person.ts'
import { type PskKey, readSettings, type Settings } from './settings.ts'

/** The state of authentication, and ways to change its options: `app.callers`. */
export type Callers = Pick<
  Authenticator,
  | 'status'
  | 'methods'
  | 'portal'
  | 'findKey'
  | 'findNamed'
  | 'digestsOf'
  | 'renamed'
  | 'prepare'
  | 'reload'
>

/** The methods, keys and issuers that one set of options accepts. */
interface Accepted {
  /** The methods in the order in which they are offered. */
  readonly methods: readonly Method[]
  readonly findKey: (sha256: string) => KeyCaller | undefined
  readonly findNamed: (name: string) => KeyCaller | undefined
  readonly digestsOf: (name: string) => readonly string[]
  /** The present name of each caller, by its former ones. */
  readonly renamed: ReadonlyMap<string, string>
  readonly verify: (token: string, request: FastifyRequest) => TokenCaller | Promise<TokenCaller>
  /** The same, or undefined if the claim `iss` names no issuer that is accepted. */
  readonly find: (
    token: string,
    request: FastifyRequest,
  ) => TokenCaller | Promise<TokenCaller> | undefined
  readonly person: PersonReader | undefined
  /** The keys of issuers, by what they depend on. */
  readonly issuers: ReadonlyMap<string, IssuerKeys>
}

/**
 * Authenticates requests by the options that are in effect. The plugin has one for its application; a
 * program that serves several sets of callers makes one for each, and closes it.
 */
export class Authenticator {
  readonly #deps: AuthDeps
  readonly #bearer: BearerOptions | undefined
  #accepted: Accepted

  /**
   * @param bearer - a verifier of the application's own, instead of `jwt` in the options
   * @throws AuthError AUTH_OPTIONS_INVALID, listing all faults
   */
  constructor(options: AuthOptions, deps: AuthDeps, bearer?: BearerOptions) {
    this.#deps = deps
    this.#bearer = bearer
    this.#accepted = this.#build(readSettings(options, bearer !== undefined))
  }

  /**
   * Authenticates a request. Synchronous unless the key of a token must be fetched.
   *
   * @param demanded - the methods that count here; default: all that are configured
   * @throws AuthError of every 4xx and 503 code; asynchronous ones as a rejection
   */
  authenticate(request: FastifyRequest, demanded?: readonly Method[]): Caller | Promise<Caller> {
    const { methods, verify } = this.#accepted
    const { authorization } = request.raw.headers
    if (authorization === undefined) throw new AuthError('AUTH_CREDENTIALS_MISSING')
    refuseRepeated(request.raw)
    const { method, credentials } = parseAuthorization(authorization)
    if (!method || !methods.includes(method) || demanded?.includes(method) === false)
      throw new AuthError('AUTH_SCHEME_UNSUPPORTED')
    refuseEmpty(credentials)
    return method === 'jwt' ? verify(credentials, request) : this.#callerOfKey(credentials)
  }

  /**
   * Authenticates a request whose credentials may be meant for somebody else: undefined without an API
   * key although keys are accepted, or a token whose `iss` names an issuer that is accepted. For programs
   * that leave the credentials of others alone, such as a proxy.
   *
   * @throws AuthError as {@link authenticate} does
   */
  find(request: FastifyRequest): Caller | Promise<Caller> | undefined {
    const { methods, find } = this.#accepted
    const { authorization } = request.raw.headers
    if (authorization === undefined) return undefined
    const { method, credentials } = parseAuthorization(authorization)
    if (!method || !methods.includes(method)) return undefined
    refuseRepeated(request.raw)
    if (method === 'jwt') return find(credentials, request)
    refuseEmpty(credentials)
    return this.#callerOfKey(credentials)
  }

  /**
   * The person whom the assertion of a request is about. Synchronous unless the key of the portal must
   * be fetched.
   *
   * @param optional - whether a request without an assertion gives undefined; so does every request if no
   * assertions are configured
   * @throws AuthError AUTH_ASSERTION_MISSING, AUTH_ASSERTION_INVALID, AUTH_ISSUER_*; asynchronous ones as
   * a rejection
   */
  identify(
    request: Pick<IncomingMessage, 'headers'>,
    { optional = false } = {},
  ): Profile | undefined | Promise<Profile> {
    const person = this.#accepted.person?.read(request)
    if (person === undefined && !optional) throw new AuthError('AUTH_ASSERTION_MISSING')
    return person
  }

  /**
   * Verifies a token that is not the credentials of a request, such as the assertion of a client (RFC 7523).
   * Synchronous unless its key must be fetched.
   *
   * @throws AuthError as {@link authenticate} does for a token; asynchronous ones as a rejection
   */
  verify(token: string, request: FastifyRequest): TokenCaller | Promise<TokenCaller> {
    return this.#accepted.verify(token, request)
  }

  /** The portal whose assertions are accepted. */
  portal(): string | undefined {
    return this.#accepted.person?.issuer
  }

  /** The issuers whose tokens or assertions are accepted. */
  issuers(): readonly string[] {
    return [...this.#accepted.issuers.values()].map(({ issuer }) => issuer)
  }

  /** The methods that a refusal offers: at least one, as a 401 needs a challenge. */
  offered(demanded: readonly Method[] = METHODS): readonly Method[] {
    const offered = this.methods().filter((method) => demanded.includes(method))
    return offered.length > 0 ? offered : demanded
  }

  /** The issuers that could not be reached at the last try. The call also tries them again when due. */
  status(): { degraded: readonly string[] } {
    const issuers = [...this.#accepted.issuers.values()]
    for (const keys of issuers) keys.current()
    return { degraded: issuers.filter((keys) => keys.failing()).map(({ issuer }) => issuer) }
  }

  /** The methods that are accepted now. */
  methods(): readonly Method[] {
    return this.#accepted.methods
  }

  /**
   * The caller whose API key has this SHA-256 now, or undefined. For sessions that are opened with a
   * key: they need not store the key, and they end with it.
   */
  findKey(sha256: Uint8Array): KeyCaller | undefined {
    return this.#accepted.findKey(Buffer.from(sha256).toString('latin1'))
  }

  /**
   * The caller whose API key has this name now, or undefined. For what acts for a caller without its key:
   * it may do what the caller may, and ends with it.
   */
  findNamed(name: string): KeyCaller | undefined {
    return this.#accepted.findNamed(name)
  }

  /**
   * The SHA-256 in hex of each API key that a caller has now, the newest first; none for a name that no key has.
   * For what hangs on the value of a key, and is to end with it.
   *
   * @param name - of a key, or the caller of a request, whose own key comes first
   */
  digestsOf(name: string | KeyCaller): readonly string[] {
    if (typeof name === 'string') return this.#accepted.digestsOf(name)
    const callerDigest = DIGESTS.get(name)
    const digests = this.digestsOf(name.subject)
    return digests.toSorted((a, b) => Number(b === callerDigest) - Number(a === callerDigest))
  }

  /** The names that callers had before, with the present one of each. */
  renamed(): ReadonlyMap<string, string> {
    return this.#accepted.renamed
  }

  /**
   * Checks new options and reads the files that they name, and changes nothing. The function that it
   * returns puts the new options into effect: it is synchronous and does not throw, so that an
   * application can prepare all of its parts first and then change them together.
   *
   * @throws AuthError AUTH_OPTIONS_INVALID
   */
  prepare(options: AuthOptions): () => void {
    const settings = readSettings(options, this.#bearer !== undefined)
    const base = this.#accepted
    const prepared = this.#build(settings, base)
    return () => {
      const current = this.#accepted
      // If other options came into effect meanwhile, share the keys of those instead.
      this.#accepted = current === base ? prepared : this.#build(settings, current)
      const used = new Set(this.#accepted.issuers.values())
      void closeAll([...current.issuers.values()].filter((keys) => !used.has(keys)))
    }
  }

  /**
   * Replaces the options. What was removed is gone from every cache; faulty options change nothing.
   *
   * @throws AuthError AUTH_OPTIONS_INVALID
   */
  reload(options: AuthOptions): void {
    this.prepare(options)()
  }

  close(): Promise<void> {
    return closeAll(this.#accepted.issuers.values())
  }

  #callerOfKey(key: string): KeyCaller {
    const caller = this.#accepted.findKey(hash('sha256', key, 'binary'))
    if (!caller) throw new AuthError('AUTH_KEY_INVALID')
    return caller
  }

  /** @param previous - what is replaced: the keys of an issuer that has not changed are kept */
  #build(settings: Settings, previous?: Accepted): Accepted {
    const issuers = new Map<string, IssuerKeys>()
    const keysOf = (connection: IssuerConnection) => {
      const id = JSON.stringify(connection)
      const keys =
        issuers.get(id) ?? previous?.issuers.get(id) ?? new IssuerKeys(connection, this.#deps)
      issuers.set(id, keys)
      return keys
    }
    const sources = settings.issuers.map(({ connection, demands }) =>
      accessTokensOf(keysOf(connection), demands),
    )
    const { assertion } = settings
    const person =
      assertion && createPersonReader(keysOf(assertion.connection), assertion, this.#deps.now)
    const bearer = this.#bearer
    const methods: Method[] = []
    if (settings.keys.length > 0) methods.push('psk')
    if (sources.length > 0 || bearer) methods.push('jwt')
    const verify = bearer && ownVerifier(bearer)
    const tokens = verify ? { verify, find: verify } : createVerifier(sources, this.#deps.now)
    return { methods, ...findersOf(settings.keys), ...tokens, person, issuers }
  }
}

/**
 * Finds the caller of an API key by its name, or by its SHA-256, one character for each byte. Nobody can choose the
 * digest of a guess, so the time of a comparison reveals nothing about the keys, their number or their
 * length.
 */
function findersOf(
  keys: readonly PskKey[],
): Pick<Accepted, 'findKey' | 'findNamed' | 'digestsOf' | 'renamed'> {
  const credentials = keys.flatMap((key) => key.digests.map((digest) => callerOf(key, digest)))
  const entries = new Map(credentials.map((entry) => [entry.digest.toString('latin1'), entry]))
  const nothing = { digest: Buffer.alloc(32), caller: undefined }
  const offered = Buffer.alloc(32)
  // The newest value of each key comes first.
  const byName = new Map(credentials.toReversed().map(({ caller }) => [caller.subject, caller]))
  const digests = new Map(keys.map(({ name, digests }) => [name, digests]))
  return {
    renamed: new Map(
      keys.flatMap(({ name, formerNames = [] }) => formerNames.map((former) => [former, name])),
    ),
    findNamed: (name) => byName.get(name),
    digestsOf: (name) => digests.get(name) ?? [],
    findKey(sha256) {
      const { digest, caller } = entries.get(sha256) ?? nothing
      offered.write(sha256, 'latin1')
      return timingSafeEqual(digest, offered) ? caller : undefined
    },
  }
}

/** The digest of the value by which a caller was found. It is nothing that the application should send on. */
const DIGESTS = new WeakMap<KeyCaller, string>()

function callerOf({ name, scopes, domains }: PskKey, digest: string) {
  const caller: KeyCaller = Object.freeze({
    method: 'psk',
    subject: name,
    ...(scopes && { scopes: Object.freeze([...scopes]) }),
    ...(domains && { domains: Object.freeze([...domains]) }),
  })
  DIGESTS.set(caller, digest)
  return { digest: Buffer.from(digest, 'hex'), caller }
}

/** Errors of connections that are closed are of no use to anybody. */
async function closeAll(issuers: Iterable<IssuerKeys>): Promise<void> {
  await Promise.allSettled(Array.from(issuers, (keys) => keys.close()))
}

function parseAuthorization(authorization: string) {
  const space = authorization.indexOf(' ')
  const scheme = space === -1 ? authorization : authorization.slice(0, space)
  const credentials = space === -1 ? '' : authorization.slice(space).trimStart()
  return { method: METHOD_OF.get(scheme.toLowerCase()), credentials }
}

/** The method of a scheme, whose name is case-insensitive (RFC 9110 section 11.1). */
const METHOD_OF = new Map<string, Method>([
  ['apikey', 'psk'],
  ['bearer', 'jwt'],
])

function refuseEmpty(credentials: string): void {
  if (credentials === '') throw new AuthError('AUTH_HEADER_INVALID', { detail: 'no credentials' })
}

/** Node takes the first of several Authorization headers; a proxy in front may have taken another one. */
function refuseRepeated({ rawHeaders }: Pick<IncomingMessage, 'rawHeaders'>): void {
  let count = 0
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? ''
    if (name.length === 13 && name.toLowerCase() === 'authorization') count++
  }
  if (count > 1)
    throw new AuthError('AUTH_HEADER_INVALID', { detail: 'more than one Authorization header' })
}

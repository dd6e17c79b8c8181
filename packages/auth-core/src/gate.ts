import type { FastifyRequest } from 'fastify'
import { type Method, readAuthorization } from './authorization.ts'
import type { Caller, KeyCaller, TokenCaller } from './caller.ts'
import { AuthError } from './errors.ts'
import { remoteSource } from './jwt/sources.ts'
import { createVerifier } from './jwt/verify.ts'
import { type AuthDeps, createRemoteKeys, type RemoteKeys } from './oidc/remote-keys.ts'
import type { BearerOptions } from './options.ts'
import { createComparator } from './psk/comparator.ts'
import type { Settings } from './settings.ts'

/** What the plugin does with one set of options. */
export interface Gate {
  /** The methods that are accepted, in the order in which they are offered. */
  readonly methods: readonly Method[]
  /** Of those, the ones that a route demands; if none is left, what it demands: a 401 offers something. */
  offered(demanded: readonly Method[] | undefined): readonly Method[]
  /** Keys of the issuers, each under what its keys depend on. */
  readonly remotes: ReadonlyMap<string, RemoteKeys>
  /**
   * Says who is calling. Synchronous but for a token whose key must be fetched.
   *
   * @param demanded - the methods that count here; default: all that are configured
   * @throws AuthError of every 4xx and 503 code; asynchronous ones as a rejection
   */
  identify(request: FastifyRequest, demanded?: readonly Method[]): Caller | Promise<Caller>
  /** Whose the API key with this SHA-256 is, one character a byte. */
  findKey(sha256: string): KeyCaller | undefined
}

/** What a gate is made with, whatever the options are. */
export interface GateDeps extends AuthDeps {
  readonly bearer?: BearerOptions | undefined
}

/** @param previous - the gate that is replaced; what it knows of an unchanged issuer is kept */
export function createGate(settings: Settings, deps: GateDeps, previous?: Gate): Gate {
  const remotes = new Map<string, RemoteKeys>()
  const sources = settings.issuers.map(
    ({ audience, requiredScopes, requireAccessTokenType, ...options }) => {
      const id = JSON.stringify(options)
      const keys = previous?.remotes.get(id) ?? createRemoteKeys(options, deps)
      remotes.set(id, keys)
      const issuer = options.issuerUrl
      return remoteSource({ issuer, audience, requiredScopes, requireAccessTokenType, keys })
    },
  )
  const methods: Method[] = []
  if (settings.keys.length > 0) methods.push('psk')
  if (sources.length > 0 || deps.bearer) methods.push('jwt')

  const { compare, find } = createComparator(settings.keys)
  const verify = deps.bearer ? ownVerifier(deps.bearer) : createVerifier(sources, deps.now)
  const accepted = (demanded: readonly Method[] | undefined) =>
    demanded ? methods.filter((method) => demanded.includes(method)) : methods

  function offered(demanded: readonly Method[] | undefined): readonly Method[] {
    const both = accepted(demanded)
    return both.length > 0 ? both : (demanded ?? methods)
  }

  function identify(request: FastifyRequest, demanded?: readonly Method[]) {
    const { method, credentials } = readAuthorization(request.raw, accepted(demanded))
    return method === 'psk' ? compare(credentials) : verify(credentials, request)
  }
  return { methods, remotes, offered, identify, findKey: find }
}

/** RFC 6750 section 2.1. */
const TOKEN = /^[A-Za-z0-9\-._~+/]+=*$/

function ownVerifier({ verify }: BearerOptions) {
  const admit = (caller: TokenCaller | undefined) => {
    if (!caller) throw new AuthError('AUTH_TOKEN_INVALID')
    return caller
  }
  return (token: string, request: FastifyRequest): TokenCaller | Promise<TokenCaller> => {
    if (!TOKEN.test(token)) throw new AuthError('AUTH_HEADER_INVALID', { detail: 'not one token' })
    const caller = verify(token, request)
    return caller instanceof Promise ? caller.then(admit) : admit(caller)
  }
}

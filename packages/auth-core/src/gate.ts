import { type Method, type RawRequest, readAuthorization } from './authorization.ts'
import type { Caller, KeyCaller } from './caller.ts'
import { remoteSource } from './jwt/sources.ts'
import { createVerifier } from './jwt/verify.ts'
import { type AuthDeps, createRemoteKeys, type RemoteKeys } from './oidc/remote-keys.ts'
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
  identify(request: RawRequest, demanded?: readonly Method[]): Caller | Promise<Caller>
  /** Whose the API key with this SHA-256 is, one character a byte. */
  findKey(sha256: string): KeyCaller | undefined
}

/** @param previous - the gate that is replaced; what it knows of an unchanged issuer is kept */
export function createGate(settings: Settings, deps: AuthDeps, previous?: Gate): Gate {
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
  if (sources.length > 0) methods.push('jwt')

  const { compare, find } = createComparator(settings.keys)
  const verify = createVerifier(sources, deps.now)
  const accepted = (demanded: readonly Method[] | undefined) =>
    demanded ? methods.filter((method) => demanded.includes(method)) : methods

  function offered(demanded: readonly Method[] | undefined): readonly Method[] {
    const both = accepted(demanded)
    return both.length > 0 ? both : (demanded ?? methods)
  }

  function identify(request: RawRequest, demanded?: readonly Method[]) {
    const { method, credentials } = readAuthorization(request, accepted(demanded))
    return method === 'psk' ? compare(credentials) : verify(credentials)
  }
  return { methods, remotes, offered, identify, findKey: find }
}

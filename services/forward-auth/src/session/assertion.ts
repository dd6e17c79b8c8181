import { GateError, type Principal } from '@gatehouse/gate'
import type { Profile } from '@gatehouse/profile'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { LRUCache } from 'lru-cache'
import type { Portal } from '../portal/portals.ts'
import { issuerOf, type Site, siteOfIssuer } from '../sites.ts'
import { isCurrent, type Times } from './assertion-keys.ts'
import { namesOf, signBounded } from './bounded.ts'

/** The time for which an assertion is valid, in seconds. */
const LIFETIME = 60
/** The time for which the same assertion is sent, in ms. */
const RENEW_AFTER = 30_000
/** Bytes of memory for them: about 60,000 of 900 characters. Others are signed at each check. */
const CACHE_BYTES = 67_108_864
/** Bytes that one takes besides its characters. */
const MADE_BYTES = 200
/** Characters of an assertion: proxies limit the headers of an answer. */
const MAX_LENGTH = 4_096
/** Claims that an assertion omits, in this order, if it would be longer; then the mapped ones. */
const LONG_CLAIMS = ['groups', 'roles', 'picture']

type Identity = Principal['identity']

/** The claims of an assertion that `verify` reads; there are those about the person besides. */
interface AssertionClaims extends Readonly<Record<string, unknown>>, Times {
  readonly iss: string
  readonly aud: string
  /** The provider of a person; absent for a program with an API key. */
  readonly provider?: string
  /** Names the session of a person to this app alone. */
  readonly sid?: string
}

/** The app that an assertion is made for. */
interface Receiver {
  readonly portal: Portal
  readonly site: Site
  /** Origin of the app, such as `https://app.example.com`. */
  readonly origin: string
  /** The tools that it is told of. */
  readonly tools?: readonly string[] | undefined
}

/**
 * Makes and verifies the signed assertions that tell apps who sends a request: a JWT (RFC 7519) that
 * is valid for a minute, at one app.
 */
class Assertions {
  readonly #app: FastifyInstance
  readonly #made = new LRUCache<string, { readonly token: string; readonly time: number }>({
    maxSize: CACHE_BYTES,
    sizeCalculation: ({ token }) => token.length + MADE_BYTES,
  })
  /** Numbers the identities, whose objects are as old as what they say. */
  readonly #numbers = new WeakMap<Identity, number>()
  #count = 0

  constructor(app: FastifyInstance) {
    this.#app = app
  }

  /** The assertion of an identity for an app; the same one for up to 30 seconds. */
  for(identity: Identity, receiver: Receiver): string {
    const now = this.#app.clock.now()
    const { origin, tools = [] } = receiver
    const key = [this.#numberOf(identity), origin, ...tools].join(' ')
    const { token: cachedToken, time = 0 } = this.#made.get(key) ?? {}
    if (cachedToken && now >= time && now < time + RENEW_AFTER) return cachedToken
    const token = this.#make(identity, receiver, now)
    this.#made.set(key, { token, time: now })
    return token
  }

  /** The claims of an assertion of the portal that is valid now, for an app; else undefined. */
  verify(token: string, portal: Portal, audience: unknown): AssertionClaims | undefined {
    const { keys, sites, clock } = this.#app
    const now = clock.now()
    const claims = keys.assertion.read<AssertionClaims>('assertion', token, now)
    if (!claims || !isCurrent(claims, now) || claims.aud !== audience) return undefined
    return siteOfIssuer(sites, portal, claims.iss) && claims
  }

  /** The ID of the session that an assertion was made of; undefined for one of a program. */
  sessionOf({ sid, aud }: AssertionClaims): string | undefined {
    return sid === undefined ? undefined : this.#app.keys.assertion.reveal(sid, aud)
  }

  #numberOf(identity: Identity): number {
    const number = this.#numbers.get(identity)
    if (number !== undefined) return number
    this.#numbers.set(identity, ++this.#count)
    return this.#count
  }

  #make(identity: Identity, { portal, site, origin, tools }: Receiver, now: number): string {
    const { keys } = this.#app
    const iat = Math.floor(now / 1_000)
    const { session } = identity
    const mapped = portal.gate.assertion?.claims ?? []
    const claims = {
      ...claimsAbout(identity, mapped),
      iss: issuerOf({ portal, site }),
      aud: origin,
      iat,
      exp: Math.min(iat + LIFETIME, session?.exp ?? Number.POSITIVE_INFINITY),
      ...(session && { sid: keys.assertion.conceal(session.sid, origin) }),
      ...(tools && { tools }),
    }
    const { sign } = keys.assertion.present(now).assertion
    const token = signBounded(claims, [...LONG_CLAIMS, ...mapped], sign, MAX_LENGTH)
    if (token !== undefined) return token
    const message = `the assertion would have more than ${MAX_LENGTH} characters`
    throw new GateError('FWA_IDENTITY_UNSENDABLE', message)
  }
}

/** Claims of OpenID Connect (Core sections 2 and 5.1): who somebody is, and how they signed in. */
const PERSONAL = [
  'name',
  'given_name',
  'family_name',
  'preferred_username',
  'picture',
  'auth_time',
  'acr',
  'amr',
]

function claimsAbout(identity: Identity, mapped: readonly string[]) {
  const { method, profile, scopes, client, groups = profile.groups } = identity
  const { id, provider, name, email, roles } = profile
  return {
    ...pick(profile, [...PERSONAL, ...mapped]),
    sub: id,
    method,
    ...(provider !== '' && { provider }),
    ...(name?.full !== undefined && { name: name.full }),
    ...(email && { email: email.address, email_verified: email.verified }),
    ...(groups && { groups }),
    ...(roles && { roles }),
    ...(scopes && { scope: scopes.join(' ') }),
    ...(client !== undefined && { client_id: client }),
  }
}

/** The claims of a profile by their names. Those that are not known are named, and have no value. */
function pick({ claims }: Profile, names: readonly string[]): Record<string, unknown> {
  const unknown = Object.keys((claims._claim_names as object | undefined) ?? {})
  const missing = unknown.filter((name) => names.includes(name) || LONG_CLAIMS.includes(name))
  return {
    ...Object.fromEntries(
      names
        .filter((name) => Object.hasOwn(claims, name) && !unknown.includes(name))
        .map((name) => [name, claims[name]]),
    ),
    ...(missing.length > 0 && { _claim_names: namesOf(missing) }),
  }
}

declare module 'fastify' {
  interface FastifyInstance {
    readonly assertions: Assertions
  }
}

export const assertions = fp(
  async (app: FastifyInstance) => {
    app.decorate('assertions', new Assertions(app))
  },
  {
    name: 'forward-auth/assertions',
    dependencies: ['forward-auth/keys', 'forward-auth/sites', 'service-kit/clock'],
  },
)

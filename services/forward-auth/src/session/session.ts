import { hash } from 'node:crypto'
import { Principal, type Refusal } from '@gatehouse/gate'
import type { Provider, SignedIn } from '@gatehouse/identity-providers'
import { fromClaims, type Profile } from '@gatehouse/profile'
import { FwaError } from '../errors.ts'
import { isMacOf, type KeyRing, MAX_LENGTH, macOf, seal, unsealValue } from '../keys/key-ring.ts'
import type { Portal } from '../portal/portals.ts'
import type { SessionRow } from '../store/store.ts'

/** The members of a row that a session in memory has. */
type Kept = 'sid' | 'portal' | 'person' | 'begun' | 'lastSeen' | 'idle' | 'reRead' | 'ends' | 'rev'

/** A person who signed in at a portal, as the store has it. Immutable and shared. */
export interface Session extends Pick<SessionRow, Kept> {
  /** URL of the portal at its sign-in host (claim `iss`). */
  readonly issuer: string
  readonly profile: Profile
  readonly authentications: readonly Authentication[]
  /** NumericDates (RFC 7519 section 2), in seconds. */
  readonly iat: number
  readonly exp: number
  /** Whether the provider can be asked about it, or was so once. */
  readonly isReadable: boolean
  /** The end of that time, in ms since the epoch, if the provider has stated it. */
  readonly readableUntil?: number | undefined
  /** Whether it is for the agents of the person alone. */
  readonly isOffline: boolean
  /** The consent and the parent session, for an agent. */
  readonly agent?: (Consent & { readonly parent: string }) | undefined
}

/** The method and time of the authentication at the provider (OpenID Connect Core section 2). */
export type Authentication = Readonly<{ acr?: string; auth_time?: number }>

/** Authentications that a session remembers, each with another `acr` of at most so many characters. */
const MAX_AUTHENTICATIONS = 8
const MAX_ACR = 256

/** The authentications of a session after another sign-in. */
export function authenticationsAfter(
  authentications: readonly Authentication[],
  claims: Profile['claims'],
): readonly Authentication[] {
  // A copy, since claims of a profile refuse to tell what is not known of them.
  const { acr, auth_time: time } = { ...claims }
  const level = typeof acr === 'string' && acr.length <= MAX_ACR ? { acr } : {}
  const sameLevel = authentications.find((previous) => previous.acr === level.acr)
  const times = [time, sameLevel?.auth_time].filter((number) => typeof number === 'number')
  const latest = times.length > 0 && { auth_time: Math.max(...times) }
  const otherLevels = authentications.filter((previous) => previous.acr !== level.acr)
  return [{ ...level, ...latest }, ...otherLevels].slice(0, MAX_AUTHENTICATIONS)
}

/** The authentication of a client: none, by a secret (RFC 6749 section 2.3.1) or by a key (RFC 7523 section 2.2). */
export type ClientAuthentication = 'none' | 'secret' | 'key'

/** The consent of a person to a program. */
export interface Consent {
  readonly clientId: string
  /** The name that the client gives itself. */
  readonly clientName: string | undefined
  /** The required authentication. Default: none. */
  readonly authentication?: ClientAuthentication
  /** URL of the resource. */
  readonly resource: string
  readonly scopes: readonly string[]
  /** The redirect URI to which its code was sent. */
  readonly redirectUri?: string
}

export interface Browser {
  readonly userAgent: string
  readonly address: string | undefined
}

/** The sealed contents of a row. */
export interface SessionContents {
  readonly issuer: string
  readonly provider: string
  readonly claims: Profile['claims']
  readonly authentications?: readonly Authentication[] | undefined
  /** Undefined if they were lost, so that the provider cannot be asked any more. */
  readonly tokens: SignedIn['tokens'] | undefined
  /** Whether its provider has given another refresh token for one, so that each may be good once. */
  readonly rotates?: boolean | undefined
  readonly browser: Browser
  /** Whether it is for the agents of the person alone, and of no browser. */
  readonly isOffline?: boolean | undefined
  readonly agent?: Consent | undefined
  /** The times at which its last refresh tokens were spent, in ms, the newest last. */
  readonly spent?: readonly number[] | undefined
}

/**
 * Seals the contents of a session, for the row that it belongs to and no other one.
 *
 * @throws FwaError FWA_SESSION_TOO_LARGE
 */
export function sealSession(
  row: Omit<SessionRow, 'sealed' | 'seenMac'>,
  contents: SessionContents,
  keys: KeyRing,
): SessionRow {
  const text = JSON.stringify(contents)
  if (Buffer.byteLength(text) <= MAX_LENGTH)
    return { ...row, seenMac: seenMacOf(row, keys), sealed: seal(text, keys, contextOf(row)) }
  const reason = `what ${contents.provider} says of you is longer than ${MAX_LENGTH} bytes`
  throw new FwaError('FWA_SESSION_TOO_LARGE', reason)
}

/** Opens a row; undefined unless somebody who has a key has sealed it for this row. */
export function openRow(row: SessionRow, keys: KeyRing): SessionContents | undefined {
  if (!isMacOf(row.seenMac, seenOf(row), keys)) return undefined
  return unsealValue(row.sealed, keys, contextOf(row))
}

export type SessionUse = Pick<SessionRow, 'sid' | 'lastSeen'>
const seenOf = ({ sid, lastSeen }: SessionUse) => ['seen', sid, lastSeen]

/** Returns the MAC of the last use of a session, which is written too often to be part of the sealed contents. */
export function seenMacOf(use: SessionUse, keys: KeyRing): string {
  return macOf(seenOf(use), keys)
}

export function profileOf({
  provider,
  claims,
}: Pick<SessionContents, 'provider' | 'claims'>): Profile {
  // A copy, since claims of a profile refuse to tell what is not known of them.
  return fromClaims(provider, { ...claims })
}

export function sessionOf(row: SessionRow, contents: SessionContents): Session {
  const { issuer, tokens, agent, authentications = [] } = contents
  const { sid, portal, person, begun, lastSeen, idle, reRead, ends, rev, parent } = row
  const profile = profileOf(contents)
  Object.freeze(profile.claims)
  return Object.freeze({
    ...{ sid, portal, person, begun, lastSeen, idle, reRead, ends, rev, issuer },
    profile: Object.freeze(profile),
    authentications,
    iat: Math.floor(begun / 1_000),
    exp: Math.floor(ends / 1_000),
    isOffline: contents.isOffline === true,
    readableUntil: tokens?.refreshUntil,
    isReadable: !tokens || tokens.refresh !== undefined || tokens.access !== undefined,
    ...(agent && parent !== null && { agent: { ...agent, parent } }),
  })
}

/**
 * Whoever writes into the store must not be able to move or prolong a session, nor hide it from its ends: all
 * that changes by a new revision alone.
 */
function contextOf(row: Omit<SessionRow, 'sealed' | 'seenMac'>): string {
  const { sid, portal, person, mail, subject, providerSid, issuedAt, begun, idle, reRead } = row
  const names = [sid, portal, person, mail, subject, providerSid]
  const times = [issuedAt, begun, idle, reRead]
  // An agent ends with its session.
  const end = row.parent === null ? [row.ends, row.rev] : [row.rev, row.parent]
  return `session ${JSON.stringify([...names, ...times, ...end])}`
}

/** A digest of the person, since the store need not say in the clear who signed in. */
export function personOf(portal: string, { provider, id }: Pick<Profile, 'provider' | 'id'>) {
  return digestOf(portal, provider, id)
}

/** A digest of an e-mail address, by which administrators find sessions. */
export function mailOf(portal: string, address: string): string {
  return digestOf(portal, 'mail', address.toLowerCase())
}

/** The beginning of the keys of consents to a client. */
export function consentsTo(clientId: string): string {
  return digestOf(clientId)
}

/** The issuer and the client to which a provider names people and their sessions. */
export type Relation = Readonly<Record<'issuer' | 'clientId', string>>

/** A digest of a person, or of a session of theirs, as a provider names them. */
export function nameAtProvider({ issuer, clientId }: Relation, kind: 'sub' | 'sid', name: string) {
  return digestOf(issuer, clientId, kind, name)
}

/** The digests by which a session is found. */
export function digestsOf(
  portal: string,
  profile: Profile,
  providerSid: string | undefined,
  relation: Relation | undefined,
): Pick<SessionRow, 'person' | 'mail' | 'subject' | 'providerSid'> {
  const nameOf = (kind: 'sub' | 'sid', name: string | undefined) =>
    relation && name !== undefined ? nameAtProvider(relation, kind, name) : null
  return {
    person: personOf(portal, profile),
    mail: profile.email ? mailOf(portal, profile.email.address) : null,
    subject: nameOf('sub', profile.id),
    providerSid: nameOf('sid', providerSid),
  }
}

function digestOf(...parts: string[]): string {
  return hash('sha256', JSON.stringify(parts), 'base64url').slice(0, 22)
}

/** A person with a session at a portal. */
export class Visitor extends Principal {
  readonly session: Session
  readonly portal: Portal
  /** The origin of the sign-in pages. */
  readonly authOrigin: string
  readonly #provider: Provider
  #isAdmitted: boolean | undefined

  constructor(session: Session, portal: Portal, provider: Provider, authOrigin: string) {
    const { profile, authentications } = session
    const subject = { claims: profile.claims, authentications }
    super({ method: 'session', portal: portal.name, profile, session }, subject, portal.gate)
    this.session = session
    this.portal = portal
    this.authOrigin = authOrigin
    this.#provider = provider
  }

  /** Whether the session may be used from an address; only some providers bind it to one. */
  isAllowedAt(clientIp: () => string | undefined): boolean {
    if (this.#provider.type !== 'seamless') return true
    const address = clientIp()
    return address !== undefined && this.#provider.fits(this.session.profile, address)
  }

  get isAdmitted(): boolean {
    this.#isAdmitted ??= this.portal.admits(this.session.profile) === true
    return this.#isAdmitted
  }

  refusal(): Refusal | undefined {
    return this.isAdmitted ? undefined : this.portal.refusalOf(this.session.profile)
  }
}

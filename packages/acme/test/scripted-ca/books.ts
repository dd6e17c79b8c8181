import type { JsonWebKey } from 'node:crypto'
import { randomBytes } from 'node:crypto'
import type { Identifier } from '../../src/identifier.ts'
import type { ExternalAccount } from '../../src/protocol/jws.ts'
import type { ChainIssuer } from './issuer.ts'
import { type Exchange, Refusal } from './protocol.ts'

export interface ScriptedCaOptions {
  /** Milliseconds since the epoch; default the time of this machine. */
  readonly now?: () => number
  /** Common names of the roots; the first is that of the default chain. */
  readonly roots?: readonly string[]
  /** Milliseconds; default 90 days. */
  readonly lifetimeMs?: number
  readonly externalAccount?: ExternalAccount
  readonly termsOfService?: string
  readonly profiles?: Readonly<Record<string, string>>
  /** The types of challenges that are offered. */
  readonly challenges?: readonly string[]
  /** Looks at the answer to a challenge; a type of problem refuses it. Default: all is well. */
  readonly validate?: (challenge: ValidatedChallenge) => Promise<string | undefined>
  /** How often an authorization is seen `pending` after its challenge was answered. */
  readonly validating?: number
  /** How often an order is seen `processing` before it is done. */
  readonly processing?: number
  /** Gives an order that is still open back to whoever orders the same names. */
  readonly reuseOrders?: boolean
  /** Takes an authorization that was given for a later order. */
  readonly reuseAuthorizations?: boolean
  /** Offers ARI, with this window for a certificate. */
  readonly renewalWindow?: (id: string) => { start: string; end: string; explanationURL?: string }
}

export interface ValidatedChallenge {
  readonly type: string
  readonly identifier: Identifier
  readonly wildcard: boolean
  readonly token: string
  readonly keyAuthorization: string
}

export interface Account {
  readonly url: string
  jwk: JsonWebKey
  status: string
  contact: readonly string[]
}

export interface Authorization {
  readonly id: string
  readonly identifier: Identifier
  readonly wildcard: boolean
  readonly challenges: Challenge[]
  status: string
}

export interface Challenge {
  readonly id: string
  readonly type: string
  readonly token: string
  status: string
  error?: object
  /** While the CA validates. */
  work?: { readonly keyAuthorization: string; looksLeft: number }
}

export interface Order {
  readonly id: string
  readonly account: string
  readonly identifiers: readonly Identifier[]
  readonly authorizations: readonly Authorization[]
  readonly profile?: string
  readonly replaces?: string
  status: string
  looksLeft: number
  /** PEM, one for each root. */
  chains: readonly string[]
  revoked: boolean
}

/** All that the scripted CA knows. */
export interface Books {
  readonly origin: string
  readonly options: ScriptedCaOptions & { readonly now: () => number }
  readonly issuers: readonly ChainIssuer[]
  /** By the thumbprint of the key. */
  readonly accounts: Map<string, Account>
  readonly orders: Map<string, Order>
  readonly authorizations: Map<string, Authorization>
  readonly nonces: Set<string>
  /** Part of the URLs in the directory. */
  version: number
}

/** The parts of a path after its kind: identifiers, as {@link newId} made them. */
export const idsOf = ({ path }: Exchange): string[] => path.split('/').slice(2)

export const newId = (): string => randomBytes(12).toString('base64url')

export function find<T>(books: ReadonlyMap<string, T>, id = ''): T {
  return books.get(id) ?? refuse(404, 'malformed', 'no such thing')
}

export function refuse(status: number, type: string, detail?: string): never {
  throw new Refusal(status, type, detail)
}

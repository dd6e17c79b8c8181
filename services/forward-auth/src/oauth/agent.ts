import type { TokenCaller } from '@gatehouse/auth-core'
import { Principal, type Refusal } from '@gatehouse/gate'
import type { Consent, Visitor } from '../session/session.ts'
import { scopesIn } from './authorization-request.ts'
import type { AccessClaims } from './tokens.ts'

/** A program that a person allows to act for them: it has what the person has, limited to its scopes. */
export class Agent extends Principal {
  readonly token: TokenCaller
  readonly claims: AccessClaims
  readonly visitor: Visitor
  readonly consent: Consent

  constructor(visitor: Visitor, accessClaims: AccessClaims, consent: Consent) {
    const { iss, sub, client_id: client, scope } = accessClaims
    const { identity, portal } = visitor
    const scopes = Object.freeze(scopesIn(scope))
    const claims = Object.freeze({ client_id: client })
    super(
      { ...identity, method: 'agent', scopes, client },
      { ...visitor.subject, caller: { method: 'agent', scopes, claims } },
      portal.gate,
    )
    this.claims = accessClaims
    this.visitor = visitor
    this.consent = consent
    this.token = Object.freeze({ method: 'jwt', issuer: iss, subject: sub, scopes, claims })
  }

  refusal(): Refusal | undefined {
    return this.visitor.refusal()
  }
}

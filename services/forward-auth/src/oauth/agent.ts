import type { TokenCaller } from '@gatehouse/auth-core'
import { Principal, type Refusal } from '@gatehouse/gate'
import type { Session, Visitor } from '../session/session.ts'
import { scopesIn } from './authorization-request.ts'
import type { AccessClaims } from './tokens.ts'

/** A program that a person allows to act for them: it has what the person has, limited to its scopes. */
export class Agent extends Principal {
  readonly token: TokenCaller
  readonly claims: AccessClaims
  readonly visitor: Visitor
  /** Its own session, which has the consent. */
  readonly session: Session

  constructor(visitor: Visitor, accessClaims: AccessClaims, session: Session) {
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
    this.session = session
    this.token = Object.freeze({ method: 'jwt', issuer: iss, subject: sub, scopes, claims })
  }

  refusal(): Refusal | undefined {
    return this.visitor.refusal()
  }
}

import type { Condition } from '@gatehouse/profile'
import type { Portal } from '../portals.ts'
import type { Provider } from '../providers/provider.ts'
import type { Session } from './session.ts'

/**
 * What was found out of a session, so that the next check need not: the session is the same each
 * time, and so is what a portal and a condition say of it. It is a part of the session, as what a
 * check reads of one among many has to come from far memory, object by object.
 */
export interface Findings {
  /** What `Revocations.learned` said when the session was last looked for there; -1: never. */
  unrevokedAt: number
  /** The portal that the following are of; another one after a reload. */
  foundAt: Portal | undefined
  /** Who vouched for the person; undefined if that is none of the portal's providers any more. */
  provider: Provider | undefined
  /** Whether the portal admits the person. */
  admitted: boolean | undefined
  /** The last condition, and whether the person meets it. */
  condition: Condition | undefined
  meets: boolean
  /** Of its 200: names and values in turn. */
  headers: readonly string[] | undefined
}

export const NOTHING_FOUND: Readonly<Findings> = {
  unrevokedAt: -1,
  foundAt: undefined,
  provider: undefined,
  admitted: undefined,
  condition: undefined,
  meets: false,
  headers: undefined,
}

/** The findings at a portal. */
export function findingsAt(portal: Portal, session: Session): Findings {
  if (session.foundAt === portal) return session
  session.provider = portal.providers.get(session.profile.provider)
  session.admitted = undefined
  session.condition = undefined
  session.headers = undefined
  session.foundAt = portal
  return session
}

/** Whether a portal admits the person. */
export function isAdmitted(portal: Portal, session: Session): boolean {
  const findings = findingsAt(portal, session)
  findings.admitted ??= portal.admits(session.profile) === true
  return findings.admitted
}

/** Whether the person meets a condition. */
export function meets(condition: Condition, session: Session): boolean {
  if (session.condition === condition) return session.meets
  session.meets = condition(session.profile) === true
  session.condition = condition
  return session.meets
}

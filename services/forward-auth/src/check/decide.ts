import type { Condition } from '@gatehouse/profile'
import type { Portal } from '../portal.ts'
import { isAdmitted, meets } from '../session/findings.ts'
import type { Session } from '../session/session.ts'
import type { RequestKind } from './kind.ts'

/** What a check comes to. `preflight` passes without anybody's identity. */
export type Decision = 'allow' | 'preflight' | 'sign-in' | 'no-session' | 'forbidden'

/**
 * Whether a request may pass. Who has no session, or is not admitted, or does not meet the
 * condition, may not; a preflight alone may pass without a session, where the portal says so.
 *
 * @param kind - asked for only when there is no session
 */
export function decide(
  portal: Portal,
  session: Session | undefined,
  condition: Condition | undefined,
  kind: () => RequestKind,
): Decision {
  if (!session) return decideWithout(portal, kind())
  const passes = isAdmitted(portal, session) && (!condition || meets(condition, session))
  return passes ? 'allow' : 'forbidden'
}

function decideWithout({ preflight }: Pick<Portal, 'preflight'>, kind: RequestKind): Decision {
  if (kind === 'navigation') return 'sign-in'
  return kind === 'preflight' && preflight ? 'preflight' : 'no-session'
}

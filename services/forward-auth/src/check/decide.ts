import type { Condition } from '@gatehouse/profile'
import type { Portal } from '../portals.ts'
import { isAdmitted, meets } from '../session/findings.ts'
import type { Session } from '../session/session.ts'
import type { RequestKind } from './kind.ts'

/** What a check comes to. `preflight` passes without anybody's identity. */
export type Decision = 'allow' | 'preflight' | 'sign-in' | 'no-session' | 'forbidden'

/**
 * Whether a request may pass. Who has no session, or is not admitted, or does not meet the
 * condition, may not; a preflight alone may pass without a session, where the portal says so.
 *
 * @param condition - read only for who might pass: compiling one is too dear to do for anybody
 * @param kind - asked for only when there is no session
 */
export function decide(
  portal: Portal,
  session: Session | undefined,
  condition: () => Condition | undefined,
  kind: () => RequestKind,
): Decision {
  const without = session ? undefined : decideWithout(portal, kind())
  if (without === 'sign-in' || without === 'no-session') return without
  // What cannot be read denies, a preflight too.
  const wanted = condition()
  if (!session) return 'preflight'
  const passes = isAdmitted(portal, session) && (!wanted || meets(wanted, session))
  return passes ? 'allow' : 'forbidden'
}

function decideWithout({ preflight }: Pick<Portal, 'preflight'>, kind: RequestKind) {
  if (kind === 'navigation') return 'sign-in'
  return kind === 'preflight' && preflight ? 'preflight' : 'no-session'
}

import type { Exchange, Journal, SessionEntry } from '../journal.ts'
import { GRACE } from './certificates.ts'
import { count, groupBy, seconds, type Verdict, verdictOf } from './verdict.ts'

/** Within that time every replica usually knows of a logout, in ms. The report has the longest time. */
export const USUALLY_KNOWN_AFTER = 100
/** Within that time it does on a busy machine as well, in ms. */
const KNOWN_AFTER = 1_000

export interface SessionLimits {
  /** How long a replica that is cut off from the database may believe sessions, in ms. */
  readonly staleness: number
}

export interface SessionVerdicts {
  readonly verdicts: readonly Verdict[]
  /** The longest time after which an ended session still passed, in ms; by a replica that was cut off or not. */
  readonly longestMs: { readonly connected: number; readonly cutOff: number }
}

const isOut = ({ status }: Exchange) => status === 200 || status === 303

/** Who signed out is out, and who did not is in. */
export function judgeSessions(journal: Journal, { staleness }: SessionLimits): SessionVerdicts {
  const ended = verdictOf('no session passes after its logout')
  const live = verdictOf('no live session is refused as ended')
  const longestMs = { connected: 0, cutOff: 0 }
  const bySession = groupBy(journal.of('sign-out', 'check'), ({ session }) => `${session}`)
  for (const entries of bySession.values()) {
    const outs = entries.filter(({ kind }) => kind === 'sign-out')
    const done = outs.find(isOut)
    const firstTry = Math.min(...outs.map(({ sent }) => sent))
    for (const check of entries.filter(({ kind }) => kind === 'check')) {
      if (check.answered < firstTry) judgeLive(live, check)
      if (!done || check.sent <= done.answered) continue
      const late = check.sent - done.answered
      const isCutOff = journal.wasCutOff(check.replica, check.sent, check.answered, GRACE)
      const passed = check.status === 200
      const which = isCutOff ? 'cutOff' : 'connected'
      if (passed) longestMs[which] = Math.max(longestMs[which], late)
      if (!passed) {
        if (check.status !== 0) count(ended, undefined)
      } else if (late <= KNOWN_AFTER) continue
      else if (isCutOff && late <= staleness + USUALLY_KNOWN_AFTER) ended.excused += 1
      else
        count(
          ended,
          `${check.replica} let ${check.person} pass ${seconds(late)} after the logout${isCutOff ? ', cut off' : ''}`,
        )
    }
  }
  return { verdicts: [ended, live], longestMs }
}

/** 503 says that it is not known; whatever else is not 200 says that nobody is signed in. */
function judgeLive(verdict: Verdict, { status, replica, person }: SessionEntry): void {
  if (status === 200) count(verdict, undefined)
  else if (status === 0 || status >= 500) return
  else count(verdict, `${replica} answered ${status} to ${person}, who is signed in`)
}

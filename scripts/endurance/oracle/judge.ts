import type { Evidence } from '../evidence.ts'
import type { Journal } from '../journal.ts'
import { judgeCertificateAudit, judgeSessionAudit } from './audit.ts'
import { judgeKept, judgeLists, judgeWithdrawn } from './certificates.ts'
import { judgeIssuance, judgeSerials } from './issuance.ts'
import { judgeOrders } from './orders.ts'
import { judgeRoots } from './roots.ts'
import { judgeSessions, type SessionLimits, type SessionVerdicts } from './sessions.ts'

/** Every promise. `endAt` is when the load had ended and everything ran again. */
export function judge(
  journal: Journal,
  evidence: Evidence,
  endAt: number,
  limits: SessionLimits,
): SessionVerdicts {
  const sessions = judgeSessions(journal, limits)
  const verdicts = [
    judgeIssuance(journal, evidence),
    judgeSerials(journal, evidence),
    judgeOrders(journal, evidence),
    judgeKept(journal, evidence, endAt),
    judgeWithdrawn(journal),
    ...sessions.verdicts,
    ...judgeLists(journal, evidence),
    judgeRoots(journal),
    judgeCertificateAudit(journal, evidence),
    judgeSessionAudit(journal, evidence),
  ]
  return { ...sessions, verdicts }
}

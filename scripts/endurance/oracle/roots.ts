import type { CertificateEntry, Exchange, Journal, RollEntry } from '../journal.ts'
import { isExcused } from './certificates.ts'
import { count, seconds, type Verdict, verdictOf } from './verdict.ts'

/** Each replica signs below the root of the stage, and publishes those that are to be trusted then. */
export function judgeRoots(journal: Journal): Verdict {
  const verdict = verdictOf('every replica has the roots of the stage')
  const steps = journal.of('roll')
  for (const { status, stage } of steps.filter(({ status }) => status !== 200))
    count(verdict, `the step to the stage ${stage} was answered by status ${status}`)
  for (const answer of journal.of('issue', 'renew').filter(isOfOurs))
    judgeAnswer(journal, verdict, answer, ({ signing }) =>
      answer.told?.root === signing ? undefined : `signed below ${answer.told?.root}`,
    )
  for (const answer of journal.of('roots').filter(({ subjects }) => subjects))
    judgeAnswer(journal, verdict, answer, ({ stage, from, to }) => {
      const anchors = stage === 'finished' ? [to] : [from, to]
      const { subjects = [] } = answer
      const areSame = anchors.toSorted().join() === subjects.toSorted().join()
      return areSame ? undefined : `published ${subjects.join(' and ')}`
    })
  return verdict
}

/** Whether it was just issued by the private CA. */
const isOfOurs = ({ told }: CertificateEntry) => told?.issuer === 'ca' && !told.cached

/** Judges an answer by the stage of then, unless a step was just being taken. */
function judgeAnswer(
  journal: Journal,
  verdict: Verdict,
  { replica, sent, answered }: Exchange,
  faultOf: (step: RollEntry) => string | undefined,
): void {
  const steps = journal.of('roll').filter(({ status }) => status === 200)
  const step = steps.findLast((candidate) => candidate.answered < sent)
  if (!step || steps.some((change) => change.sent < answered && change.answered >= sent)) return
  const fault = faultOf(step)
  if (fault === undefined) count(verdict, undefined)
  else if (isExcused(journal, step, { replica, sent })) verdict.excused += 1
  else
    count(
      verdict,
      `${replica} ${fault} ${seconds(sent - step.answered)} after it was ${step.stage}`,
    )
}

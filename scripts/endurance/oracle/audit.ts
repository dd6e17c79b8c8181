import type { Evidence } from '../evidence.ts'
import type { Journal } from '../journal.ts'
import { GRACE } from './certificates.ts'
import { count, type Verdict, verdictOf } from './verdict.ts'

/** Each certificate that was answered and each end of one has its row. */
export function judgeCertificateAudit(journal: Journal, { audit }: Evidence): Verdict {
  const verdict = verdictOf('the audit trail has every issuance, hand-out and revocation')
  const serialsOf = (...actions: readonly string[]) =>
    new Set(audit.filter(({ action }) => actions.includes(action)).map(({ serial }) => serial))
  const issued = serialsOf('issue', 'renew')
  const handedOut = serialsOf('hand-out')
  for (const { name, told, replica, sent, answered } of journal.of('issue', 'read', 'renew')) {
    if (!told) continue
    const { serial, cached } = told
    const hasRow = (cached ? handedOut : issued).has(serial)
    const what = cached ? 'hand-out' : 'issuance'
    // While the database is away, only the log has what is answered from memory.
    if (!hasRow && cached && journal.wasCutOff(replica, sent, answered, GRACE)) verdict.excused += 1
    else count(verdict, hasRow ? undefined : `${name}: the ${what} of ${serial} has no row`)
  }
  for (const action of ['revoke', 'delete'] as const) {
    const rows = tally(audit.filter((row) => row.action === action).flatMap(({ names }) => names))
    const done = journal.of(action).filter(({ status }) => status === 200 || status === 204)
    for (const [name, times] of tally(done.map(({ name }) => name)))
      compare(verdict, `${action} ${name}`, times, rows.get(name) ?? 0)
  }
  return verdict
}

/** Each sign-in and sign-out that was answered has its row. */
export function judgeSessionAudit(journal: Journal, { signIns }: Evidence): Verdict {
  const verdict = verdictOf('the audit trail has every sign-in and sign-out')
  for (const event of ['sign-in', 'sign-out'] as const) {
    const rows = tally(
      signIns
        .filter((row) => row.event === event)
        .map(({ person = '' }) => person.replace(/^demo:/, '')),
    )
    const done = journal
      .of(event)
      .filter(({ status, session }) => session !== undefined && (status === 200 || status === 303))
    for (const [person, times] of tally(done.map(({ person }) => person)))
      compare(verdict, `${event} ${person}`, times, rows.get(person) ?? 0)
  }
  return verdict
}

/** More rows than answers are right: not every answer arrives. */
function compare(verdict: Verdict, what: string, answered: number, rows: number): void {
  verdict.held += Math.min(answered, rows)
  if (rows < answered) count(verdict, `${what}: ${answered} were answered, and ${rows} have rows`)
}

function tally(items: readonly string[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>()
  for (const item of items) counts.set(item, (counts.get(item) ?? 0) + 1)
  return counts
}

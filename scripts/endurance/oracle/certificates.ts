import type { Evidence } from '../evidence.ts'
import {
  ANY_REPLICA,
  type CertificateEntry,
  type Exchange,
  type Journal,
  type WithdrawalEntry,
} from '../journal.ts'
import { count, groupBy, seconds, type Verdict, verdictOf } from './verdict.ts'

/** How long a replica that is connected again may take to know what it missed. */
export const GRACE = 6_000

const isDone = ({ status }: Exchange) => status === 200 || status === 204
const isRefused = ({ status }: Exchange) => status >= 400 && status < 500

/** What a client was told is in the store, and is answered until it ends. */
export function judgeKept(journal: Journal, evidence: Evidence, endAt: number): Verdict {
  const verdict = verdictOf('no certificate that was answered is lost')
  const { stored, timeOrigin } = evidence
  const bySerial = new Map(stored.map((row) => [row.serial, row]))
  const answers = journal.of('issue', 'read', 'renew')
  const withdrawals = groupBy(journal.of('revoke', 'delete'), ({ name }) => name)

  for (const { name, told } of answers) {
    if (!told) continue
    const { serial, fingerprint, hasItsKey } = told
    const row = bySerial.get(serial)
    if (!row) count(verdict, `${name}: ${serial} was answered and is not in the store`)
    else if (row.fingerprint !== fingerprint)
      count(verdict, `${name}: ${serial} is another one now`)
    else count(verdict, hasItsKey ? undefined : `${name}: ${serial} came with another key`)
  }

  const [during, final] = partition(answers, ({ sent }) => sent < endAt)
  const lastOf = new Map<string, CertificateEntry>()
  for (const entry of during) {
    if (entry.told && entry.sent >= (lastOf.get(entry.name)?.sent ?? 0))
      lastOf.set(entry.name, entry)
  }
  for (const answer of final) {
    const last = lastOf.get(answer.name)
    if (!last?.told) continue
    const { serial } = last.told
    const mayBeGone = (withdrawals.get(answer.name) ?? []).some(
      (one) =>
        !isRefused(one) &&
        (one.answered >= last.sent ||
          (isExcused(journal, one, last) && serialsOf(one, answers).has(serial))),
    )
    if (mayBeGone) continue
    const isExpired = last.told.notAfter - timeOrigin < answer.sent
    const older =
      (bySerial.get(answer.told?.serial ?? '')?.id ?? -1) <
      (bySerial.get(last.told.serial)?.id ?? 0)
    if (answer.told && !older) count(verdict, undefined)
    else if (isExpired && !answer.told) verdict.excused += 1
    else {
      const now = answer.told ? `an older one, ${answer.told.serial}` : `status ${answer.status}`
      count(
        verdict,
        `${answer.name}: ${answer.replica} answers ${now} instead of ${last.told.serial}`,
      )
    }
  }
  return verdict
}

/** What was revoked or deleted is answered by nobody any more. */
export function judgeWithdrawn(journal: Journal): Verdict {
  const verdict = verdictOf('nothing revoked or deleted is answered')
  const answers = groupBy(journal.of('issue', 'read', 'renew'), ({ name }) => name)
  for (const withdrawal of journal.of('revoke', 'delete').filter(isDone)) {
    const ofName = answers.get(withdrawal.name) ?? []
    const withdrawn = serialsOf(withdrawal, ofName)
    for (const answer of ofName) {
      if (answer.sent <= withdrawal.answered || answer.status === 0) continue
      if (!answer.told || !withdrawn.has(answer.told.serial)) count(verdict, undefined)
      else if (isExcused(journal, withdrawal, answer)) verdict.excused += 1
      else count(verdict, describe(withdrawal, answer))
    }
  }
  return verdict
}

/** What a withdrawal takes out of service: a deletion does not tell, so what was answered before. */
function serialsOf(
  { kind, name, sent, serials }: WithdrawalEntry,
  answers: readonly CertificateEntry[],
): ReadonlySet<string> {
  if (kind === 'revoke') return new Set(serials)
  const known = answers.filter((one) => one.name === name && one.answered < sent)
  return new Set(known.flatMap(({ told }) => told?.serial ?? []))
}

/**
 * Whether the answer to a change named that replica, which could not hear of it until it was asked. `*` names
 * all: the database could not be asked who has heard.
 */
export function isExcused(
  journal: Journal,
  { unconfirmed, answered }: Pick<WithdrawalEntry, 'unconfirmed' | 'answered'>,
  { replica, sent }: Pick<Exchange, 'replica' | 'sent'>,
): boolean {
  const isNamed = unconfirmed.some(
    (one) => one === '*' || replica === ANY_REPLICA || one.includes(replica),
  )
  return isNamed && (sent - answered < GRACE || journal.wasCutOff(replica, sent, sent, GRACE))
}

function describe(
  { name, kind, answered, unconfirmed }: WithdrawalEntry,
  answer: CertificateEntry,
) {
  const named = unconfirmed.length === 0 ? '' : `, unconfirmed by ${unconfirmed.join(' and ')}`
  return `${name}: ${answer.replica} answered ${answer.told?.serial} ${seconds(answer.sent - answered)} after the ${kind}${named}`
}

function partition<T>(items: readonly T[], test: (item: T) => boolean): [T[], T[]] {
  const { yes = [], no = [] } = Object.groupBy(items, (item) => (test(item) ? 'yes' : 'no'))
  return [yes, no]
}

/** Numbers of revocation lists only grow, and lists have what was revoked. */
export function judgeLists(journal: Journal, { stored }: Evidence): readonly [Verdict, Verdict] {
  const growing = verdictOf('numbers of revocation lists only grow')
  const complete = verdictOf('revocation lists have what was revoked')
  const lists = journal.of('crl').filter(({ list }) => list)
  for (const ofIssuer of groupBy(lists, ({ list }) => list?.issuer ?? '').values()) {
    for (const [n, later] of ofIssuer.entries()) {
      // Of all that was answered before this one was asked for, the latest by number.
      const before = ofIssuer.slice(0, n).filter(({ answered }) => answered < later.sent)
      const highest = before.reduce(
        (max, { list }) => (list && list.number > max ? list.number : max),
        0n,
      )
      const number = later.list?.number ?? 0n
      if (number >= highest) count(growing, undefined)
      else if (journal.wasCutOff(later.replica, later.sent, later.answered, GRACE))
        growing.excused += 1
      else count(growing, `${later.replica} answered number ${number} after ${highest}`)
    }
  }
  const ofOurs = stored.filter(({ issuer }) => issuer === 'ca')
  const authorities = new Map(ofOurs.map(({ serial, authority }) => [serial, authority]))
  for (const revocation of journal.of('revoke').filter(isDone)) {
    for (const answer of lists.filter(({ sent }) => sent > revocation.answered)) {
      const issuer = answer.list?.issuer
      const serials = revocation.serials.filter((serial) => authorities.get(serial) === issuer)
      const missing = serials.find((serial) => !answer.list?.serials.has(serial))
      if (missing === undefined) complete.held += serials.length
      else if (isExcused(journal, revocation, answer)) complete.excused += 1
      else
        count(
          complete,
          `${answer.replica}: ${missing} is not listed ${seconds(answer.sent - revocation.answered)} after its revocation`,
        )
    }
  }
  return [growing, complete]
}

import type { Evidence, StoredCertificate } from '../evidence.ts'
import type { Journal } from '../journal.ts'
import { CLIENT_PREFIX } from './orders.ts'
import { count, groupBy, seconds, type Verdict, verdictOf } from './verdict.ts'

/** The embedded CA dates certificates so much back. */
const BACKDATED = 5 * 60_000
/** Certificates are dated to the second. */
const ROUNDING = 1_500
/** The earliest that a certificate is renewed, of its lifetime. */
const EARLIEST_SHARE = 0.45
/** For how long a request whose answer was lost may still have an effect. */
const AFTERMATH = 15_000

interface Issued {
  readonly name: string
  readonly serial: string
  /** On the monotonic clock. */
  readonly at: number
  /** From when on it may be replaced. */
  readonly dueAt: number
}

interface Withdrawal {
  readonly from: number
  readonly to: number
  isUsed: boolean
}

/** Every certificate that was made has a reason: the first, due for renewal, or withdrawn before. */
export function judgeIssuance(journal: Journal, evidence: Evidence): Verdict {
  const verdict = verdictOf('each certificate is made once: first, renewed, or after its end')
  const withdrawals = groupBy(journal.of('revoke', 'delete'), ({ name }) => name)
  const bySerial = new Map(evidence.stored.map((one) => [one.serial, one]))
  for (const { serial, name } of evidence.atCa)
    if (!bySerial.has(serial))
      count(verdict, `${name}: ${serial} of the ACME CA is not in the store`)

  for (const [name, issued] of groupBy(allIssued(evidence, bySerial), ({ name }) => name)) {
    // ACME clients renew when they want to.
    if (name.startsWith(CLIENT_PREFIX)) continue
    const ends = (withdrawals.get(name) ?? []).flatMap(({ sent, answered, status }) => {
      if (status >= 400 && status < 500) return []
      const to = status === 200 || status === 204 ? answered : answered + AFTERMATH
      return { from: sent, to, isUsed: false }
    })
    const inOrder = issued.toSorted((a, b) => a.at - b.at)
    for (const [n, one] of inOrder.entries()) count(verdict, faultOf(inOrder[n - 1], one, ends))
  }
  return verdict
}

function allIssued(
  { atCa, stored, timeOrigin }: Evidence,
  bySerial: ReadonlyMap<string, StoredCertificate>,
): readonly Issued[] {
  const dueAt = ({ notBefore, notAfter, renewAt }: StoredCertificate) =>
    Math.min(renewAt ?? Infinity, notBefore + (notAfter - notBefore) * EARLIEST_SHARE) - timeOrigin
  const ofAcme = atCa.map((one) => {
    const row = bySerial.get(one.serial)
    return { ...one, dueAt: row ? dueAt(row) : Number.POSITIVE_INFINITY }
  })
  const ofOurs = stored
    .filter(({ issuer }) => issuer === 'ca')
    .map((row) => ({ ...row, at: row.notBefore + BACKDATED - timeOrigin, dueAt: dueAt(row) }))
  return [...ofAcme, ...ofOurs]
}

function faultOf(
  before: Issued | undefined,
  { name, serial, at }: Issued,
  ends: readonly Withdrawal[],
): string | undefined {
  if (!before || at + ROUNDING >= before.dueAt) return undefined
  const end = ends
    .filter(
      ({ isUsed, from, to }) => !isUsed && from <= at + ROUNDING && to >= before.at - ROUNDING,
    )
    .toSorted((a, b) => a.to - b.to)[0]
  if (end) {
    end.isUsed = true
    return undefined
  }
  return `${name}: ${serial} was made ${seconds(at - before.at)} after ${before.serial}, which was neither due nor withdrawn`
}

/** A serial number of an issuer is of one certificate. */
export function judgeSerials(journal: Journal, { stored }: Evidence): Verdict {
  const verdict = verdictOf('no serial number twice')
  const told = journal.of('issue', 'read', 'renew').flatMap(({ told }) => told ?? [])
  const all = groupBy([...stored, ...told], ({ issuer, serial }) => `${issuer} ${serial}`)
  const rows = groupBy(stored, ({ issuer, serial }) => `${issuer} ${serial}`)
  for (const [key, ones] of all) {
    const { size } = new Set(ones.map(({ fingerprint }) => fingerprint))
    const isTwice = size > 1 || (rows.get(key)?.length ?? 0) > 1
    count(verdict, isTwice ? `${key} is of ${size} certificates` : undefined)
  }
  return verdict
}

import { pickMoment, type RenewalInfo } from '@gatehouse/acme'
import type { Clock } from '@gatehouse/service-kit'
import type { Issuers } from '../issuers/issuer.ts'
import type { CertificateRecord, RenewalWindow, Store } from '../store/store.ts'
import type { Holdings } from './holdings.ts'
import { soonestRenewal } from './renewal.ts'

const HOUR = 3_600_000
/** How many certificates are asked about at a time. */
const AT_A_TIME = 16
/** A CA that says nothing today may say something later. */
const ASK_AGAIN = 12 * HOUR
const TRY_AGAIN = HOUR

interface WindowDeps {
  readonly store: Store
  readonly holdings: Holdings
  readonly issuers: Issuers
  readonly clock: Clock
  readonly log: { info(fields: object, message: string): void }
  /** From 0 up to 1. */
  random(): number
}

/** Asks CAs when they would have their certificates renewed (RFC 9773), where that is due. */
export async function checkRenewalWindows(deps: WindowDeps, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const due = await deps.store.listUnchecked(deps.clock.now(), AT_A_TIME)
    await Promise.all(due.map((record) => checkOne(record, deps, signal)))
    if (due.length < AT_A_TIME) return
  }
}

async function checkOne(
  record: CertificateRecord,
  deps: WindowDeps,
  signal: AbortSignal,
): Promise<void> {
  const { id, lineage, renewAt, explanationUrl = null } = record
  const next = await ask(record, deps, signal)
  if (signal.aborted) return
  await deps.store.setRenewalWindow(id, next)
  if (next.renewAt !== renewAt || next.explanationUrl !== explanationUrl)
    deps.holdings.forget(lineage)
}

type Plan = RenewalWindow & { readonly renewAt: number }

async function ask(
  record: CertificateRecord,
  deps: WindowDeps,
  signal: AbortSignal,
): Promise<Plan> {
  const { issuers, clock, log } = deps
  const { issuer, certificate, names } = record
  const { windowStart = null, windowEnd = null, explanationUrl = null } = record
  const renewAt = record.renewAt ?? clock.now()
  const unchanged = { windowStart, windowEnd, explanationUrl, renewAt }
  try {
    const info = await issuers.find(issuer)?.renewalInfo?.(certificate, signal)
    const checkAt = clock.now() + (info?.retryAfterMs ?? ASK_AGAIN)
    // A window that outlasts the certificate is no advice.
    if (!info || info.end > record.notAfter) return { ...unchanged, checkAt }
    return { ...follow(info, record, unchanged, deps), checkAt }
  } catch (err) {
    log.info({ err, names }, 'the CA could not be asked when to renew')
    return { ...unchanged, checkAt: clock.now() + TRY_AGAIN }
  }
}

/** The moment is drawn once for each window, so asking again does not move it. */
function follow(
  info: RenewalInfo,
  record: CertificateRecord,
  before: Omit<Plan, 'checkAt'>,
  { clock, log, random }: WindowDeps,
): Omit<Plan, 'checkAt'> {
  const { start, end, explanationUrl = null } = info
  const isNew = start !== before.windowStart || end !== before.windowEnd
  if (explanationUrl !== null && (isNew || explanationUrl !== before.explanationUrl))
    log.info(
      { names: record.names, explanationUrl },
      'the CA says why it would have a certificate renewed',
    )
  if (!isNew) return { ...before, explanationUrl }
  // The first window is heard of when the certificate is new, whatever the clocks say.
  const since = before.windowStart === null ? clock.now() : record.notBefore
  const soonest = Math.min(soonestRenewal(record, since), before.renewAt)
  const renewAt = Math.max(pickMoment(info, random), soonest)
  return { windowStart: start, windowEnd: end, explanationUrl, renewAt }
}

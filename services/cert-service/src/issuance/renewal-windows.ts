import { pickMoment } from '@gatehouse/acme'
import type { Clock } from '@gatehouse/service-kit'
import type { Issuers } from '../issuers/issuers.ts'
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
  const { id, lineage, renewAt } = record
  const next = await ask(record, deps, signal)
  if (signal.aborted) return
  await deps.store.setRenewalWindow(id, next)
  if (next.renewAt !== renewAt) deps.holdings.forget(lineage)
}

/** The moment is drawn once for each window, so asking again does not move it. */
async function ask(
  record: CertificateRecord,
  { issuers, clock, log, random }: WindowDeps,
  signal: AbortSignal,
): Promise<RenewalWindow & { readonly renewAt: number }> {
  const { issuer, certificate, names, renewAt, windowStart = null, windowEnd = null } = record
  const unchanged = { windowStart, windowEnd, renewAt: renewAt ?? clock.now() }
  try {
    const info = await issuers.find(issuer)?.renewalInfo?.(certificate, signal)
    const checkAt = clock.now() + (info?.retryAfterMs ?? ASK_AGAIN)
    const isNew = info && (info.start !== windowStart || info.end !== windowEnd)
    // A window that outlasts the certificate is no advice.
    if (!isNew || info.end > record.notAfter) return { ...unchanged, checkAt }
    const { start, end, explanationUrl } = info
    if (explanationUrl !== undefined)
      log.info({ names, explanationUrl }, 'the CA says why it would have a certificate renewed')
    const moment = pickMoment(info, random)
    // The first window is heard of when the certificate is new, whatever the clocks say.
    const since = windowStart === null ? clock.now() : record.notBefore
    const soonest = Math.min(soonestRenewal(record, since), unchanged.renewAt)
    return { windowStart: start, windowEnd: end, renewAt: Math.max(moment, soonest), checkAt }
  } catch (err) {
    log.info({ err, names }, 'the CA could not be asked when to renew')
    return { ...unchanged, checkAt: clock.now() + TRY_AGAIN }
  }
}

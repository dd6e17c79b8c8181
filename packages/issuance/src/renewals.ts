import { pickMoment, type RenewalInfo } from '@gatehouse/acme'
import type { CertificateRecord, RenewalWindow, Store } from '@gatehouse/cert-store/port'
import type { Clock } from '@gatehouse/net'
import { TitledError } from '@gatehouse/net'
import { SYSTEM } from './admission.ts'
import { IssueError } from './errors.ts'
import { describeWait } from './failure.ts'
import type { Holdings } from './holdings.ts'
import type { Issuance } from './issuance.ts'
import type { IssuanceRequest, Issuers } from './request.ts'
import { HOUR, retryAfter, soonestRenewal } from './times.ts'

const MINUTE = 60_000
/** Certificates that are renewed, or whose CA is asked, at once. */
const BATCH = 16
/** Wait while a renewal takes longer than callers would wait. */
const PENDING = MINUTE
/** The time for which other replicas leave a certificate to the one that asks its CA. */
const CLAIMED = 10 * MINUTE
/** A CA without renewal information today may have some later. */
const ASK_AGAIN = 12 * HOUR

export interface RenewalDeps {
  readonly store: Pick<
    Store,
    'claimDue' | 'claimUnchecked' | 'runTime' | 'setRenewAt' | 'setRenewalWindow'
  >
  readonly holdings: Pick<Holdings, 'forget'>
  readonly issuance: Pick<Issuance, 'obtain' | 'renew'>
  readonly issuers: Pick<Issuers, 'find'>
  readonly clock: Pick<Clock, 'now'>
  readonly log: Record<'info' | 'warn', (fields: object, message: string) => void>
  random(): number
}

/** The next time to ask a CA about a renewal, and its last answer. */
type Plan = RenewalWindow & { readonly renewAt: number }

/** Renews certificates in time. */
export function renewalsOf(deps: RenewalDeps) {
  const { store, holdings, issuance, issuers, clock, log, random } = deps

  /** Issues the configured certificates that are absent, and renews all that are due. */
  async function renewDue(configured: readonly IssuanceRequest[], signal: AbortSignal) {
    for (let start = 0; start < configured.length && !signal.aborted; start += BATCH)
      await Promise.all(configured.slice(start, start + BATCH).map(ensure))
    const requestKeys = new Set(configured.map(({ requestKey }) => requestKey))
    while (!signal.aborted) {
      const due = await store.claimDue(clock.now(), BATCH)
      await Promise.all(due.map((record) => renewOne(record, requestKeys.has(record.requestKey))))
      if (due.length < BATCH) return
    }
  }

  /** Asks the CAs of certificates when to renew them (RFC 9773), as far as that is due. */
  async function checkWindows(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const now = clock.now()
      const due = await store.claimUnchecked(now, BATCH, now + CLAIMED)
      await Promise.all(due.map((record) => checkOne(record, signal)))
      if (due.length < BATCH) return
    }
  }

  async function ensure(request: IssuanceRequest): Promise<void> {
    try {
      await issuance.obtain(request, SYSTEM)
    } catch (error) {
      const names = request.names.map((name) => name.text)
      log.warn({ err: error, names }, 'a configured certificate could not be issued')
    }
  }

  async function renewOne(record: CertificateRecord, isConfigured: boolean): Promise<void> {
    const { id, requestKey, names } = record
    const setRenewAt = async (renewAt: number | null) => {
      await store.setRenewAt(id, renewAt)
      holdings.forget([requestKey])
    }
    const times = { now: clock.now(), ran: store.runTime() }
    if (!isConfigured && isAbandoned(record, times)) return setRenewAt(null)
    try {
      const result = await issuance.renew(record, SYSTEM)
      if (!result.certificate) await setRenewAt(clock.now() + PENDING)
    } catch (error) {
      const nextTryAt = clock.now() + (waitOf(error) ?? retryAfter(record))
      const waiting = { err: error, names, ...describeWait(nextTryAt, record) }
      log.warn(waiting, 'a certificate could not be renewed')
      await setRenewAt(nextTryAt)
    }
  }

  async function checkOne(record: CertificateRecord, signal: AbortSignal): Promise<void> {
    const { id, requestKey, renewAt, explanationUrl = null } = record
    const next = await ask(record, signal)
    if (signal.aborted) return
    await store.setRenewalWindow(id, next)
    if (next.renewAt !== renewAt || next.explanationUrl !== explanationUrl)
      holdings.forget([requestKey])
  }

  async function ask(record: CertificateRecord, signal: AbortSignal): Promise<Plan> {
    const { issuer, certificate, names } = record
    const { windowStart = null, windowEnd = null, explanationUrl = null } = record
    const renewAt = record.renewAt ?? clock.now()
    const unchanged = { windowStart, windowEnd, explanationUrl, renewAt }
    try {
      const info = await issuers.find(issuer)?.renewalInfo?.(certificate, signal)
      const checkAt = clock.now() + (info?.retryAfterMs ?? ASK_AGAIN)
      // A window that ends after the certificate is no advice.
      if (!info || info.end > record.notAfter) return { ...unchanged, checkAt }
      return { ...planFrom(info, record, unchanged), checkAt }
    } catch (err) {
      log.info({ err, names }, 'renewal information could not be read from the CA')
      return { ...unchanged, checkAt: clock.now() + retryAfter(record) }
    }
  }

  /** Draws the moment once for each window, so that asking again does not move it. */
  function planFrom(
    info: RenewalInfo,
    record: CertificateRecord,
    previous: Omit<Plan, 'checkAt'>,
  ): Omit<Plan, 'checkAt'> {
    const { start, end, explanationUrl = null } = info
    const isNew = start !== previous.windowStart || end !== previous.windowEnd
    if (explanationUrl !== null && (isNew || explanationUrl !== previous.explanationUrl))
      log.info({ names: record.names, explanationUrl }, 'the CA explains its renewal window')
    if (!isNew) return { ...previous, explanationUrl }
    // The first window is read when the certificate is new, whatever the clocks say.
    const since = previous.windowStart === null ? clock.now() : record.notBefore
    const soonest = Math.min(soonestRenewal(record, since), previous.renewAt)
    const renewAt = Math.max(pickMoment(info, random), soonest)
    return { windowStart: start, windowEnd: end, explanationUrl, renewAt }
  }

  return { renewDue, checkWindows }
}

/** Tells whether nobody has fetched a certificate for two of its lifetimes, by the clock and by the run time. */
export function isAbandoned(
  record: Pick<CertificateRecord, 'notBefore' | 'notAfter' | 'fetchedAt' | 'fetchedRan'>,
  { now, ran }: { readonly now: number; readonly ran: number },
): boolean {
  const { notBefore, notAfter, fetchedAt, fetchedRan = 0 } = record
  const patience = 2 * (notAfter - notBefore)
  return now - fetchedAt >= patience && ran - fetchedRan >= patience
}

/** Milliseconds that an error asks to wait. */
function waitOf(error: unknown): number | undefined {
  const demanded = error instanceof TitledError ? error.retryAfter : undefined
  const seconds = error instanceof IssueError ? error.wait : demanded
  return seconds ? seconds * 1000 : undefined
}

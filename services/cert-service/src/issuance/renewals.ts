import { pickMoment, type RenewalInfo } from '@gatehouse/acme'
import { TitledError } from '@gatehouse/cert-store'
import type { CertificateRecord, RenewalWindow } from '@gatehouse/cert-store/port'
import type { FastifyInstance } from 'fastify'
import { IssueError } from '../errors.ts'
import { soonestRenewal } from '../times.ts'
import { SYSTEM } from './issue.ts'
import type { IssuanceRequest } from './request.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
/** Certificates that are renewed, or whose CA is asked, at once. */
const BATCH = 16
/** Wait after failures that do not say when to try again. */
const RETRY = HOUR
/** Wait while a renewal takes longer than callers would wait. */
const PENDING = MINUTE
/** For how long the others leave a certificate to the replica that asks its CA. */
const CLAIMED = 10 * MINUTE
/** A CA without renewal information today may have some later. */
const ASK_AGAIN = 12 * HOUR

interface RenewalDeps
  extends Pick<FastifyInstance, 'clock' | 'holdings' | 'issuance' | 'issuers' | 'store'> {
  readonly log: {
    info(fields: object, message: string): void
    warn(fields: object, message: string): void
  }
  random(): number
}

type RenewDeps = Omit<RenewalDeps, 'issuers' | 'random'>
type WindowDeps = Omit<RenewalDeps, 'issuance'>

/** Issues the configured certificates that are absent, and renews all that are due. */
export async function renewDue(
  configured: readonly IssuanceRequest[],
  deps: RenewDeps,
  signal: AbortSignal,
): Promise<void> {
  for (let at = 0; at < configured.length && !signal.aborted; at += BATCH)
    await Promise.all(configured.slice(at, at + BATCH).map((one) => ensure(one, deps)))
  const lineages = new Set(configured.map(({ lineage }) => lineage))
  while (!signal.aborted) {
    const due = await deps.store.claimDue(deps.clock.now(), BATCH)
    await Promise.all(due.map((record) => renewOne(record, lineages.has(record.lineage), deps)))
    if (due.length < BATCH) return
  }
}

async function ensure(request: IssuanceRequest, { issuance, log }: RenewDeps): Promise<void> {
  try {
    await issuance.obtain(request, SYSTEM)
  } catch (error) {
    const names = request.names.map((name) => name.text)
    log.warn({ err: error, names }, 'a configured certificate could not be issued')
  }
}

async function renewOne(
  record: CertificateRecord,
  isConfigured: boolean,
  deps: RenewDeps,
): Promise<void> {
  const { clock, log, issuance, store, holdings } = deps
  const { id, lineage, names } = record
  const setRenewAt = async (at: number | null) => {
    await store.setRenewAt(id, at)
    holdings.forget([lineage])
  }
  const times = { now: clock.now(), ran: store.runTime() }
  if (!isConfigured && isAbandoned(record, times)) return setRenewAt(null)
  try {
    const outcome = await issuance.renew(record, SYSTEM)
    if (!outcome.held) await setRenewAt(clock.now() + PENDING)
  } catch (error) {
    const wait = waitOf(error) ?? RETRY
    log.warn({ err: error, names, retryAfter: wait / 1000 }, 'a certificate could not be renewed')
    await setRenewAt(clock.now() + wait)
  }
}

/** Whether nobody has fetched a certificate for two of its lifetimes, by the clock and by the run time. */
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
  const seconds =
    error instanceof IssueError
      ? error.wait
      : error instanceof TitledError
        ? error.retryAfter
        : undefined
  return seconds ? seconds * 1000 : undefined
}

/** Asks the CAs of certificates when to renew them (RFC 9773), as far as that is due. */
export async function checkRenewalWindows(deps: WindowDeps, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const now = deps.clock.now()
    const due = await deps.store.claimUnchecked(now, BATCH, now + CLAIMED)
    await Promise.all(due.map((record) => checkOne(record, deps, signal)))
    if (due.length < BATCH) return
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
    deps.holdings.forget([lineage])
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
    // A window that ends after the certificate is no advice.
    if (!info || info.end > record.notAfter) return { ...unchanged, checkAt }
    return { ...planFrom(info, record, unchanged, deps), checkAt }
  } catch (err) {
    log.info({ err, names }, 'the CA could not be asked when to renew')
    return { ...unchanged, checkAt: clock.now() + RETRY }
  }
}

/** Draws the moment once for each window, so that asking again does not move it. */
function planFrom(
  info: RenewalInfo,
  record: CertificateRecord,
  before: Omit<Plan, 'checkAt'>,
  { clock, log, random }: WindowDeps,
): Omit<Plan, 'checkAt'> {
  const { start, end, explanationUrl = null } = info
  const isNew = start !== before.windowStart || end !== before.windowEnd
  if (explanationUrl !== null && (isNew || explanationUrl !== before.explanationUrl))
    log.info({ names: record.names, explanationUrl }, 'the CA explains when it wants a renewal')
  if (!isNew) return { ...before, explanationUrl }
  // The first window is read when the certificate is new, whatever the clocks say.
  const since = before.windowStart === null ? clock.now() : record.notBefore
  const soonest = Math.min(soonestRenewal(record, since), before.renewAt)
  const renewAt = Math.max(pickMoment(info, random), soonest)
  return { windowStart: start, windowEnd: end, explanationUrl, renewAt }
}

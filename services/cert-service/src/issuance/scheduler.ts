import type { Clock } from '@gatehouse/service-kit'
import { CertError, IssueError } from '../errors.ts'
import type { CertificateRecord, Store } from '../store/store.ts'
import type { Holdings } from './holdings.ts'
import { SYSTEM } from './issue.ts'
import type { Issuance } from './obtain.ts'
import { isAbandoned } from './renewal.ts'
import type { CertificateRequest } from './request.ts'

/** How many certificates are renewed at a time. */
const AT_A_TIME = 16
/** For failures that do not say when to try again, in seconds. */
const TRY_AGAIN = 3_600
/** For renewals that take longer than callers would wait, in seconds. */
const LOOK_AGAIN = 60

interface SchedulerDeps {
  readonly store: Store
  readonly holdings: Holdings
  readonly issuance: Issuance
  readonly clock: Clock
  readonly log: { warn(fields: object, message: string): void }
}

/** Issues the configured certificates that are absent, and renews whatever is due. */
export async function renewDue(
  configured: readonly CertificateRequest[],
  deps: SchedulerDeps,
  signal: AbortSignal,
): Promise<void> {
  for (let at = 0; at < configured.length && !signal.aborted; at += AT_A_TIME)
    await Promise.all(configured.slice(at, at + AT_A_TIME).map((one) => ensure(one, deps)))
  const kept = new Set(configured.map(({ lineage }) => lineage))
  while (!signal.aborted) {
    const due = await deps.store.listDue(deps.clock.now(), AT_A_TIME)
    await Promise.all(due.map((record) => renewOne(record, kept, deps)))
    if (due.length < AT_A_TIME) return
  }
}

async function ensure(
  request: CertificateRequest,
  { issuance, log }: SchedulerDeps,
): Promise<void> {
  try {
    await issuance.obtain(request, SYSTEM)
  } catch (error) {
    const names = request.names.map((name) => name.text)
    log.warn({ err: error, names }, 'a configured certificate could not be issued')
  }
}

async function renewOne(
  record: CertificateRecord,
  kept: ReadonlySet<string>,
  deps: SchedulerDeps,
): Promise<void> {
  const { clock, log, issuance } = deps
  const { names } = record
  const times = { now: clock.now(), ran: deps.store.runTime() }
  if (isAbandoned(record, times) && !kept.has(record.lineage)) return setRenewAt(record, null, deps)
  try {
    const outcome = await issuance.renew(record, SYSTEM)
    if (!outcome.held) await setRenewAt(record, clock.now() + LOOK_AGAIN * 1000, deps)
  } catch (error) {
    const wait = waitOf(error) ?? TRY_AGAIN
    log.warn({ err: error, names, retryAfter: wait }, 'a certificate could not be renewed')
    await setRenewAt(record, clock.now() + wait * 1000, deps)
  }
}

/** Seconds that an error asks to wait. */
function waitOf(error: unknown): number | undefined {
  if (error instanceof IssueError) return error.wait || undefined
  return error instanceof CertError ? error.retryAfter || undefined : undefined
}

async function setRenewAt(
  { id, lineage }: CertificateRecord,
  at: number | null,
  { store, holdings }: SchedulerDeps,
): Promise<void> {
  await store.setRenewAt(id, at)
  holdings.forget(lineage)
}

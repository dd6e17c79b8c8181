import { join } from 'node:path'
import { openKeyring } from '@gatehouse/cert-store'
import type { AuditEntry, Store } from '@gatehouse/cert-store/port'
import { TitledError } from '@gatehouse/net'
import { PkiError } from '@gatehouse/pki'
import { testFolder } from '@gatehouse/service-kit/testing'
import type { Test } from 'tap'
import { quietLog } from '../../../../scripts/test/quiet.ts'
import { openSqliteStore } from '../../../cert-store/src/engines/sqlite.ts'
import { Callers } from '../../src/admission.ts'
import { IssueError } from '../../src/errors.ts'
import type { CertEvent } from '../../src/flight/ports.ts'
import { Holdings } from '../../src/holdings.ts'
import { Issuance } from '../../src/issuance.ts'
import { type IssuersOptions, openIssuers } from '../../src/open-issuers.ts'
import type { CaConfig } from '../../src/options/ca.ts'
import type { CallerLimits } from '../../src/options/callers.ts'
import { renewalsOf } from '../../src/renewals.ts'
import { type Actor, parseRequest, type RequestFields } from '../../src/request.ts'
import { RENEW_EVERY } from '../../src/times.ts'
import { type LeapClock, leapClock, settle } from '../leap-clock.ts'

export const NOW = Date.UTC(2030, 0, 1)
export const DAY = 86_400_000
export const WAIT = 20_000

/** Whose limits tests leave alone. */
export const OPERATOR: Actor = { actor: 'psk:operator', isOperator: true }

export interface StageOptions extends Pick<IssuersOptions, 'createSolver'> {
  readonly folder?: string
  readonly clock?: LeapClock
  readonly ca?: Partial<CaConfig>
  readonly issuers?: IssuersOptions['issuers']
  /** The issuer of all names that no configured issuer signs. */
  readonly issuer?: IssuersOptions['fallback']
  readonly limits?: { readonly [Of in keyof CallerLimits]?: Partial<CallerLimits[Of]> }
  /** What `start` has issued and renewed, whoever asks. */
  readonly certificates?: readonly RequestFields[]
  readonly wait?: number
  readonly random?: () => number
  /** Stands before the store. */
  readonly withStore?: (store: Store) => Store
}

const USUAL = { names: 5_000, issuancesPerMinute: 60, burst: 120 }

/** Issues as a service does, on a store in a folder of its own, by a clock that stands still, without HTTP. */
export async function openStage(t: Test, options: StageOptions = {}) {
  const { folder = testFolder(t), clock = leapClock(NOW), wait = WAIT, random = () => 0 } = options
  const { withStore = (store) => store } = options
  const { log, logged } = quietLog(t, 'debug')
  const store = withStore(
    await openSqliteStore({ folder: join(folder, 'data'), elapsed: clock.elapsed }),
  )
  const masterKeyFile = join(folder, 'keys', 'master.key')
  const keyring = await openKeyring({ masterKeyFile, folder: join(folder, 'data'), store })
  const ca = { name: 'Gatehouse', permitted: [], leafLifetime: 7 * DAY, ...options.ca }
  const deps = { store, keyring, clock, log, random }
  const { issuers: configs = [], issuer, createSolver } = options
  const opened = await openIssuers(
    { ca, issuers: configs, fallback: issuer, createSolver },
    { ...deps, userAgent: 'test' },
  )
  const { perName, perCaller, perOperator } = options.limits ?? {}
  const limits: CallerLimits = {
    perName: { certificates: 500, ...perName },
    perCaller: { ...USUAL, ...perCaller },
    ...(perOperator && { perOperator: { ...USUAL, ...perOperator } }),
  }
  const holdings = new Holdings(deps)
  const callers = new Callers(limits, deps)
  const deliveries: string[] = []
  const events: CertEvent[] = []
  const issuance = new Issuance({
    ...deps,
    ...{ issuers: opened.issuers, holdings, callers, wait, metrics: undefined },
    events: { emit: (event) => void events.push(event) },
    audit: {
      recordDelivery: (_, { actor }, detail = '') => void deliveries.push(`${actor}${detail}`),
      recordUse() {},
    },
  })
  const stopping = new AbortController()
  const loops: Promise<void>[] = []
  let closing: Promise<void> | undefined
  const close = () => (closing ??= end())
  async function end() {
    issuance.stopWaiting()
    stopping.abort()
    await issuance.close()
    await Promise.all(loops)
    await opened.close()
    await store.close()
  }
  t.teardown(close)

  function repeat(run: () => Promise<void>): void {
    const turn = () => run().catch((err) => log.error({ err }, 'a loop failed'))
    const next = () => {
      if (!stopping.signal.aborted)
        loops.push(turn().then(() => void clock.setTimer(next, RENEW_EVERY)))
    }
    next()
  }

  /** Begins to resume, renew and ask CAs, as a service does once it listens. */
  async function start(): Promise<void> {
    const renewals = renewalsOf({ ...deps, holdings, issuance, issuers: opened.issuers })
    const configured = (options.certificates ?? []).map((fields) =>
      parseRequest(fields, opened.issuers, () => Number.POSITIVE_INFINITY),
    )
    void issuance.voidOutdated()
    repeat(async () => {
      await opened.ca.upkeep()
      holdings.forget(await store.makeFutureDue(clock.now()))
      await issuance.resume()
      await renewals.renewDue(configured, stopping.signal)
    })
    repeat(() => renewals.checkWindows(stopping.signal))
    await settle()
  }

  return {
    ...{ ...opened, store, keyring, clock, holdings, callers, issuance, folder },
    /** What was logged, handed out and told. */
    ...{ logged, deliveries, events },
    /** Rows of the audit trail, the newest first. */
    audit: (): Promise<readonly AuditEntry[]> => store.listAudit({ limit: 100 }),
    start,
    close,
  }
}

export type Stage = Awaited<ReturnType<typeof openStage>>

// biome-ignore lint/suspicious/noExplicitAny: tests look at whatever came.
type Answer = any

/** Asks for a certificate. Gives its members, or its order, or the members of the error that it comes to. */
export async function obtain(
  { issuers, issuance }: Stage,
  fields: Partial<RequestFields> = {},
  {
    actor = OPERATOR,
    longest = Number.POSITIVE_INFINITY,
  }: { actor?: Actor; longest?: number } = {},
): Promise<Answer> {
  return answerOf(async () => {
    const request = parseRequest({ domain: 'a.test', ...fields }, issuers, () => longest)
    return issuance.obtain(request, actor)
  })
}

/** Renews the current certificate of a name. */
export async function renew({ store, issuance }: Stage, domain = 'a.test'): Promise<Answer> {
  return answerOf(async () => issuance.renew((await currentOf({ store }, domain))!, OPERATOR))
}

export const currentOf = async ({ store }: Pick<Stage, 'store'>, domain = 'a.test') =>
  (await store.findByDomain(domain))[0]

async function answerOf(work: () => Promise<Answer>): Promise<Answer> {
  try {
    const { certificate, cached, ...others } = await work()
    if (!certificate) return others
    return JSON.parse(certificate.json(certificate.record.names[0], cached))
  } catch (error) {
    if (!(error instanceof TitledError || error instanceof PkiError || error instanceof IssueError))
      throw error
    const { code, message: detail, errors, members, retryAfter } = error as Answer
    return { code, detail, errors, retryAfter, ...members }
  }
}

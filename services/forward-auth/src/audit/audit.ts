import type { Refusal } from '@gatehouse/gate'
import type { Profile } from '@gatehouse/profile'
import type { Metrics } from '@gatehouse/service-kit/telemetry'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { ForwardAuthConfig } from '../config/schema.ts'
import type { AuditEvent, AuditRow, EndedBy, StoredAuditRow } from '../store/store.ts'
import { createCounters } from './counters.ts'
import { RowLimit } from './row-limit.ts'

const HOUR = 3_600_000
const DAY = 86_400_000
/** Rows that wait for the store; further ones are lost. */
const MAX_WAITING = 10_000
/** Pause before rows are tried again, in ms. */
const RETRY = 1_000
const MAX_TEXT = 256

interface Happening {
  readonly event: AuditEvent
  readonly portal: string
  /** The profile of the person, if it is known. */
  readonly profile?: Profile | undefined
  readonly provider?: string | undefined
  /** The caller. Default: the person. */
  readonly caller?: string | undefined
  readonly host: string
  readonly code?: string | undefined
  readonly refusal?: Refusal | undefined
  readonly endedBy?: EndedBy | undefined
}

type Count = ReturnType<typeof createCounters>

interface Kind {
  readonly message: string
  /** The time in which an event that anybody can repeat has one row, in ms; 0 for a row each. */
  readonly limit: 0 | typeof HOUR | typeof DAY
}

const KINDS: Readonly<Record<AuditEvent, Kind>> = {
  'sign-in': { message: 'signed in', limit: 0 },
  'sign-in-refused': { message: 'sign-in refused', limit: HOUR },
  'sign-in-failed': { message: 'sign-in failed', limit: HOUR },
  'sign-out': { message: 'signed out', limit: 0 },
  'session-ended': { message: 'session ended', limit: 0 },
  'access-refused': { message: 'access refused', limit: HOUR },
  'program-passed': { message: 'program passed', limit: DAY },
}

/**
 * Records who signed in and out, which programs passed, and who was refused: a log line, a row and a
 * counter. Never throws.
 */
class AuditTrail {
  readonly #app: FastifyInstance
  readonly #count: Count | undefined
  readonly #limits = { [HOUR]: new RowLimit(HOUR), [DAY]: new RowLimit(DAY) }
  #waiting: StoredAuditRow[] = []
  #writing: Promise<void> | undefined
  #retry: { cancel(): void } | undefined
  #isDelayed = false
  #isClosing = false

  constructor(app: FastifyInstance, count: Count | undefined) {
    this.#app = app
    this.#count = count
  }

  /** @param request - undefined for what no request of the person has caused */
  record(request: FastifyRequest | undefined, happening: Happening): void {
    const { message, limit } = KINDS[happening.event]
    this.#count?.(happening.event, happening.portal, happening.endedBy)
    const described = this.#describe(request, happening)
    const row = limit === 0 ? described : this.#limits[limit].take(described)
    if (!row) return
    const { time: _, requestId: __, name: ___, person: caller, ...fields } = row
    ;(request ?? this.#app).log.info({ ...fields, caller }, message)
    this.#write(row)
  }

  #describe(request: FastifyRequest | undefined, happening: Happening): AuditRow {
    const { event, portal, profile, host, code, refusal, endedBy } = happening
    const { provider = happening.provider, id, name } = profile ?? {}
    const person = id === undefined ? undefined : `${provider}:${id}`
    return {
      time: new Date(this.#app.clock.now()).toISOString(),
      event,
      portal,
      provider,
      person: (happening.caller ?? person)?.slice(0, MAX_TEXT),
      name: name?.full?.slice(0, MAX_TEXT),
      host: host.slice(0, MAX_TEXT),
      clientAddress: request && this.#app.trust.clientIp(request.raw),
      requestId: request?.id ?? '',
      code,
      refusedBy: refusal?.by,
      clause: refusal?.clause?.slice(0, MAX_TEXT),
      endedBy,
    }
  }

  #write(row: AuditRow): void {
    if (this.#waiting.length < MAX_WAITING)
      this.#waiting.push({ ...row, ran: this.#app.authStore.runningTime() })
    else this.#lose(new Error('too many rows wait'), 1)
    if (!this.#retry) this.#writing ??= this.#writeAll()
  }

  /** One write is in progress at most, and the next one takes all rows that came meanwhile. */
  async #writeAll(): Promise<void> {
    while (this.#waiting.length > 0 && !this.#retry) {
      const rows = this.#waiting
      this.#waiting = []
      try {
        await this.#app.authStore.audit.append(rows)
        this.#isDelayed = false
      } catch (error) {
        if (this.#isClosing || Object(error).code !== 'FWA_STORE_UNAVAILABLE')
          this.#lose(error, rows.length)
        else this.#retrySoon(rows, error)
      }
    }
    this.#writing = undefined
  }

  /** A database that is away comes back. */
  #retrySoon(rows: readonly StoredAuditRow[], error: unknown): void {
    if (!this.#isDelayed) this.#app.log.warn({ err: error }, 'audit rows wait for the store')
    this.#isDelayed = true
    const all = [...rows, ...this.#waiting]
    this.#waiting = all.slice(0, MAX_WAITING)
    const lost = all.length - this.#waiting.length
    if (lost > 0) this.#lose(new Error('too many rows wait'), lost)
    this.#retry = this.#app.clock.setTimer(() => {
      this.#retry = undefined
      this.#writing ??= this.#writeAll()
    }, RETRY)
  }

  #lose(error: unknown, rows: number): void {
    this.#app.log.error({ err: error, rows }, 'audit.lost')
  }

  /** Resolves when every row is written that can be. */
  async flush(): Promise<void> {
    await this.#writing
  }

  /** Tries once more to write what waits. */
  async close(): Promise<void> {
    this.#isClosing = true
    this.#retry?.cancel()
    this.#retry = undefined
    await this.#writing
    await this.#writeAll()
  }

  async prune(retention: number): Promise<void> {
    const { authStore: store, log } = this.#app
    try {
      await store.audit.prune(retention)
    } catch (error) {
      log.error({ err: error }, 'old rows of the audit trail could not be removed')
    }
  }
}

declare module 'fastify' {
  interface FastifyInstance {
    readonly auditTrail: AuditTrail
  }
}

interface AuditOptions extends Pick<ForwardAuthConfig, 'audit'> {
  readonly metrics?: Metrics | undefined
}

/** The audit trail, in the store. Old rows are removed at the start and once a day. */
export const audit = fp<AuditOptions>(
  async (app: FastifyInstance, { audit: { retention }, metrics }) => {
    const trail = new AuditTrail(app, metrics && createCounters(app, metrics))
    let timer: { cancel(): void } | undefined
    let pruning = Promise.resolve()
    function prune(): void {
      pruning = trail.prune(retention)
      timer = app.clock.setTimer(prune, DAY)
    }
    prune()
    app.addHook('onClose', async () => {
      timer?.cancel()
      await Promise.all([pruning, trail.close()])
    })
    app.decorate('auditTrail', trail)
  },
  {
    fastify: '5.x',
    name: 'forward-auth/audit',
    dependencies: [
      'forward-auth/portals',
      'forward-auth/store',
      'forward-auth/trust',
      'service-kit/clock',
      'service-kit/reload',
    ],
  },
)

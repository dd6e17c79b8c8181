import type { Profile } from '@gatehouse/profile'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { ForwardAuthConfig } from '../config/schema.ts'
import type { AuthMetrics } from '../metrics.ts'
import { clientIpOf } from '../routes/portal-page.ts'
import { appendRows, auditFolder, pruneDays, type StoredRow } from './day-files.ts'
import { type AuditEvent, type AuditRow, RefusalLimit } from './rows.ts'

const DAY = 86_400_000
/** Rows that wait for the disk; further ones are lost. */
const MAX_WAITING = 10_000
const MAX_TEXT = 256

interface Happening {
  readonly event: AuditEvent
  readonly portal: string
  /** Of the person, if it is known. */
  readonly profile?: Profile | undefined
  readonly provider?: string | undefined
  /** Default: the person. */
  readonly caller?: string | undefined
  readonly host: string
  readonly code?: string | undefined
}

interface Kind {
  readonly message: string
  /** Refusals can be repeated at will, so that not each has a row. */
  readonly isLimited: boolean
  count(metrics: AuthMetrics, portal: string): void
}

const KINDS: Readonly<Record<AuditEvent, Kind>> = {
  'sign-in': {
    message: 'signed in',
    isLimited: false,
    count: ({ login }, portal) => login(portal, 'finished'),
  },
  'sign-in-refused': {
    message: 'sign-in refused',
    isLimited: true,
    count: ({ login }, portal) => login(portal, 'refused'),
  },
  'sign-in-failed': {
    message: 'sign-in failed',
    isLimited: true,
    count: ({ login }, portal) => login(portal, 'failed'),
  },
  'sign-out': {
    message: 'signed out',
    isLimited: false,
    count: ({ logout }, portal) => logout(portal),
  },
  'session-ended': {
    message: 'session ended',
    isLimited: false,
    count: ({ sessionEnded }, portal) => sessionEnded(portal),
  },
  // Checks have a counter of their own.
  'access-refused': { message: 'access refused', isLimited: true, count() {} },
}

/** Records who signed in and out, and who was refused: a log line, a row and a counter. Never throws. */
class AuditTrail {
  readonly #app: FastifyInstance
  readonly #folder: string
  readonly #limit = new RefusalLimit()
  #waiting: StoredRow[] = []
  #writing: Promise<void> | undefined
  /** Ends a row that a write which failed has left in part. */
  #start = ''

  constructor(app: FastifyInstance, folder: string) {
    this.#app = app
    this.#folder = folder
  }

  record(request: FastifyRequest, happening: Happening): void {
    const { message, isLimited, count } = KINDS[happening.event]
    count(this.#app.authMetrics, happening.portal)
    const described = this.#describe(request, happening)
    const row = isLimited ? this.#limit.take(described) : described
    if (!row) return
    const { time: _, requestId: __, name: ___, person: caller, ...fields } = row
    request.log.info({ ...fields, caller }, message)
    this.#write(row)
  }

  #describe(request: FastifyRequest, happening: Happening): AuditRow {
    const { event, portal, profile, host, code } = happening
    const { provider = happening.provider, id, name } = profile ?? {}
    const person = id === undefined ? undefined : `${provider}:${id}`
    return {
      time: new Date(this.#app.clock.now()).toISOString(),
      ...{ event, portal, provider },
      person: (happening.caller ?? person)?.slice(0, MAX_TEXT),
      name: name?.full?.slice(0, MAX_TEXT),
      host: host.slice(0, MAX_TEXT),
      clientAddress: clientIpOf(request),
      ...{ requestId: request.id, code },
    }
  }

  /** One write is in progress at most, and the next one takes all rows that came meanwhile. */
  #write(row: AuditRow): void {
    if (this.#waiting.length < MAX_WAITING)
      this.#waiting.push({ ...row, ran: this.#app.sessions.runningTime() })
    else this.#lose(new Error('too many rows wait for the disk'), 1)
    this.#writing ??= this.#writeAll()
  }

  async #writeAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const rows = this.#waiting
      this.#waiting = []
      try {
        await appendRows(this.#folder, rows, this.#start)
        this.#start = ''
      } catch (error) {
        this.#start = '\n'
        this.#lose(error, rows.length)
      }
    }
    this.#writing = undefined
  }

  #lose(error: unknown, rows: number): void {
    this.#app.log.error({ err: error, rows }, 'audit.lost')
  }

  /** Resolves when every row is written. */
  async flush(): Promise<void> {
    await this.#writing
  }

  async prune(retention: number): Promise<void> {
    const { clock, log, sessions } = this.#app
    try {
      const age = { now: clock.now(), running: sessions.runningTime(), retention }
      await pruneDays(this.#folder, age)
    } catch (error) {
      log.error({ err: error }, 'old days of the audit trail could not be removed')
    }
  }
}

declare module 'fastify' {
  interface FastifyInstance {
    readonly auditTrail: AuditTrail
  }
}

/** The audit trail, in files below `storage.path`. Old days are removed at the start and once a day. */
export const audit = fp<Pick<ForwardAuthConfig, 'audit' | 'storage'>>(
  async (app: FastifyInstance, { audit: { retention }, storage }) => {
    const trail = new AuditTrail(app, auditFolder(storage))
    let timer: { cancel(): void } | undefined
    let pruning = Promise.resolve()
    function prune(): void {
      pruning = trail.prune(retention)
      timer = app.clock.setTimer(prune, DAY)
    }
    prune()
    app.addHook('onClose', async () => {
      timer?.cancel()
      await Promise.all([pruning, trail.flush()])
    })
    app.decorate('auditTrail', trail)
  },
  {
    fastify: '5.x',
    name: 'forward-auth/audit',
    dependencies: ['forward-auth/metrics', 'forward-auth/sessions', 'forward-auth/trust'],
  },
)

import type { Refusal } from '@gatehouse/gate'
import { isUnknown, type Profile } from '@gatehouse/profile'
import type { Metrics } from '@gatehouse/service-kit/telemetry'
import { StoreError } from '@gatehouse/store'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { ForwardAuthConfig } from '../config/schema.ts'
import type { AuditEvent, AuditRow, EndedBy, StoredAuditRow } from '../store/store.ts'
import { createCounters } from './counters.ts'
import { RowLimit } from './row-limit.ts'
import { shownPath } from './shown-path.ts'

const MINUTE = 60_000
const HOUR = 3_600_000
const DAY = 86_400_000
/** Rows that wait for the store; further ones are lost. */
const MAX_WAITING = 10_000
/** Pause before rows are tried again, in ms. */
const RETRY = 1_000
const MAX_TEXT = 256
const MAX_GROUPS = 50
/** Characters of all groups of a person. */
const MAX_GROUPS_TEXT = 2_000
const USERNAME = 'preferred_username'
/** Kinds of events with rows of their own in a time, of one person or program. */
const MAX_KINDS = 100

export interface Happening
  extends Pick<
    AuditRow,
    'event' | 'portal' | 'provider' | 'code' | 'client' | 'method' | 'tool' | 'outcome' | 'duration'
  > {
  readonly host: string | undefined
  /** Path and query of a request that is refused. */
  readonly target?: string | undefined
  /** Whether a person sees the answer, and may read its request ID to somebody. */
  readonly isPage?: boolean | undefined
  /** Whether the log says it in a line of its own already. */
  readonly isQuiet?: true
  /** The person or rule that ended a session, or the person who decided about a call. */
  readonly ender?: Ender | undefined
  readonly profile?: Profile | undefined
  /** The caller. Default: the person. */
  readonly caller?: string | undefined
  readonly refusal?: Refusal | undefined
  /** The program or agent that was checked. Equal calls of a minute are counted in one row. */
  readonly program?: object | undefined
}

/** The actor that ends a session early, with its role, or the person who asks or decides. */
export type Ender = Readonly<
  Partial<{ endedBy: EndedBy } & Record<'actor' | 'actorName', string | undefined>>
>

type Count = ReturnType<typeof createCounters>

interface EventKind {
  /** The message of its log line; undefined for none. */
  readonly message?: string
  /** Whether anybody can repeat it, and it has a row per hour. */
  readonly isHourly?: true
}

const KINDS: Readonly<Record<AuditEvent, EventKind>> = {
  'sign-in': { message: 'signed in' },
  'sign-in-refused': { message: 'sign-in refused', isHourly: true },
  'sign-in-failed': { message: 'sign-in failed', isHourly: true },
  'sign-out': { message: 'signed out' },
  'session-ended': { message: 'session ended' },
  'agent-allowed': { message: 'agent allowed' },
  'call-asked': { message: 'approval of a call requested' },
  'call-allowed': { message: 'call allowed' },
  'call-denied': { message: 'call denied' },
  'access-refused': { message: 'access refused', isHourly: true },
  // Programs do it all the time; the lines of requests are there for who wants them.
  'program-passed': {},
  'tool-called': {},
}

/**
 * Records who signed in and out, what programs called, and who was refused: a log line, a row and a
 * counter. Never throws.
 */
class AuditTrail {
  readonly #app: FastifyInstance
  readonly #count: Count | undefined
  readonly #hour: RowLimit
  readonly #minute: RowLimit
  readonly #recorded = new WeakSet<FastifyRequest>()
  #waiting: StoredAuditRow[] = []
  #writing: Promise<void> | undefined
  #retry: { cancel(): void } | undefined
  #isDelayed = false
  #isClosing = false

  constructor(app: FastifyInstance, count: Count | undefined) {
    const { clock } = app
    this.#app = app
    this.#count = count
    this.#hour = new RowLimit({ clock, time: HOUR, most: MAX_KINDS })
    const repeated = (row: AuditRow) => this.#write(row)
    this.#minute = new RowLimit({ clock, time: MINUTE, most: MAX_KINDS, repeated })
  }

  /** @param request - undefined for what no request of the person has caused */
  record(request: FastifyRequest | undefined, happening: Happening): void {
    const { event, host, method, tool, program } = happening
    const clientAddress = request && this.#app.trust.clientIp(request.raw)
    const from = { clientAddress, requestId: request?.id ?? '' }
    const passed = event === 'program-passed' ? program : undefined
    // What was described before is counted and no more, since programs call all the time.
    if (passed && this.#minute.repeats({ host, method, tool, ...from }, passed)) return
    const { message, isHourly } = KINDS[event]
    if (request) this.#recorded.add(request)
    this.#count?.(event, happening.portal, happening.ender?.endedBy)
    const described = { ...this.#describe(happening), ...from }
    const limit = program ? this.#minute : isHourly && this.#hour
    const row = limit ? limit.take(described, happening.isPage, passed) : described
    if (!row) return
    if (message && !happening.isQuiet) (request ?? this.#app).log.info(fieldsOf(row), message)
    this.#write(row)
  }

  /** Whether something of a request was recorded. */
  has(request: FastifyRequest): boolean {
    return this.#recorded.has(request)
  }

  #describe(happening: Happening): Omit<AuditRow, 'requestId'> {
    const { event, portal, profile, host, code, refusal, ender, method, target } = happening
    const { client, tool, outcome, duration } = happening
    const { provider = happening.provider, id, name, email, groups, claims } = profile ?? {}
    const person = id === undefined ? undefined : `${provider}:${id}`
    const text = (value: unknown) =>
      typeof value === 'string' ? value.slice(0, MAX_TEXT) : undefined
    return {
      time: new Date(this.#app.clock.now()).toISOString(),
      event,
      portal,
      provider: provider || undefined,
      person: text(happening.caller ?? person),
      name: text(name?.full),
      username: text(claims && !isUnknown(claims, USERNAME) && claims[USERNAME]),
      email: text(email?.address),
      groups: code !== undefined && groups ? groupsOf(groups) : undefined,
      host: text(host),
      method,
      path: target === undefined ? undefined : shownPath(target),
      code,
      refusedBy: refusal?.reason,
      clause: text(refusal?.clause),
      ...ender,
      actor: text(ender?.actor),
      actorName: text(ender?.actorName),
      client: text(client),
      tool: text(tool),
      outcome,
      duration,
    }
  }

  #write(row: AuditRow): void {
    if (this.#waiting.length < MAX_WAITING)
      this.#waiting.push({ ...row, ran: this.#app.authStore.age().running })
    else this.#lose(new Error('too many rows wait'), 1)
    if (!this.#retry) this.#writing ??= this.#writeAll()
  }

  /** Writes all rows that wait. One write is in progress at most, and the next one takes all that came meanwhile. */
  async #writeAll(): Promise<void> {
    while (this.#waiting.length > 0 && !this.#retry) {
      const rows = this.#waiting
      this.#waiting = []
      try {
        await this.#app.authStore.audit.append(rows)
        this.#isDelayed = false
      } catch (error) {
        if (this.#isClosing || !(error instanceof StoreError)) this.#lose(error, rows.length)
        else this.#retrySoon(rows, error)
      }
    }
    this.#writing = undefined
  }

  /** A database that is away comes back. */
  #retrySoon(rows: readonly StoredAuditRow[], error: unknown): void {
    if (!this.#isDelayed) this.#app.log.warn({ err: error }, 'audit rows could not be stored yet')
    this.#isDelayed = true
    const queue = [...rows, ...this.#waiting]
    this.#waiting = queue.slice(0, MAX_WAITING)
    const lost = queue.length - this.#waiting.length
    if (lost > 0) this.#lose(new Error('too many rows wait'), lost)
    this.#retry = this.#app.clock.setTimer(() => {
      this.#retry = undefined
      this.#writing ??= this.#writeAll()
    }, RETRY)
  }

  #lose(error: unknown, rows: number): void {
    this.#app.log.error({ err: error, rows }, 'audit rows were lost')
  }

  /** Resolves when every row is written that can be. */
  async flush(): Promise<void> {
    await this.#writing
  }

  /** Tries once more to write what waits, with the calls of this minute. */
  async close(): Promise<void> {
    this.#isClosing = true
    this.#retry?.cancel()
    this.#retry = undefined
    for (const limit of [this.#minute, this.#hour]) limit.end()
    await this.#writing
    await this.#writeAll()
  }
}

/** Whole names, and how many there are where some are left out. */
function groupsOf(groups: readonly string[]): string {
  const shown = groups.slice(0, MAX_GROUPS)
  while (shown.join(', ').length > MAX_GROUPS_TEXT) shown.pop()
  const isCut = shown.length < groups.length
  return [...shown, ...(isCut ? [`... (${groups.length} in all)`] : [])].join(', ')
}

/** The members of a log line, which names people as providers do. The one who acts is its caller. */
function fieldsOf(row: AuditRow) {
  const { time: _, requestId: __, actor, ...fields } = row
  const { name, username, email, groups, actorName, person, ...described } = fields
  const who = actor === undefined ? { caller: person } : { caller: actor, person }
  return { ...described, actor, ...who }
}

declare module 'fastify' {
  interface FastifyInstance {
    readonly auditTrail: AuditTrail
  }
}

type AuditOptions = Pick<ForwardAuthConfig, 'audit'> & { readonly metrics?: Metrics | undefined }

/** The audit trail, in the store. Old rows are removed at the start and once a day. */
export const audit = fp<AuditOptions>(
  async (app: FastifyInstance, { audit: { retention }, metrics }) => {
    const trail = new AuditTrail(app, metrics && createCounters(app, metrics))
    const prune = () => app.authStore.audit.prune(retention)
    app.loops.add(DAY, prune, 'old audit rows could not be deleted')
    app.addHook('onClose', () => trail.close())
    app.decorate('auditTrail', trail)
  },
  {
    name: 'forward-auth/audit',
    dependencies: [
      'forward-auth/portals',
      'forward-auth/store',
      'service-kit/trust',
      'service-kit/loops',
      'service-kit/clock',
      'service-kit/reload',
    ],
  },
)

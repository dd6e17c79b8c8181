import type { Clock } from '@gatehouse/service-kit/clock'
import type { EventStore } from '@gatehouse/service-kit/events'
import type { HealthReport } from '@gatehouse/service-kit/http'
import { type Loop, repeat } from '@gatehouse/service-kit/lifecycle'
import {
  columns,
  type Engine,
  outboxOn,
  type Parameter,
  type RowOf,
  type Transaction,
  type WriteOptions,
} from '@gatehouse/store'
import type { KeyRing } from '../keys/key-ring.ts'
import {
  type ApprovalRow,
  type AuditStore,
  type Code,
  type ConsentRow,
  type End,
  type Listed,
  type Listing,
  MAX_HOSTS,
  type SecretName,
  type Seen,
  type SessionEvent,
  type SessionFollower,
  type SessionRow,
  type StoreOptions,
} from './store.ts'
import {
  APPROVALS,
  COMPLETED,
  CONSENTS,
  ENDING,
  EVENTS,
  type MARKS,
  OUTBOX,
  SESSIONS,
} from './tables.ts'

/** Rows that are added, or looked for, at once. */
const PAGE = 1_000
/** Sessions that one transaction touches, whose rows it locks. */
const TOUCHED = 300
/** Rows that one transaction removes, for which readers of a folder wait: each is in a dozen of indexes. */
const MAX_REMOVED = 100
/** The maximum number of calls that wait for a decision, of an agent or program, and of all agents of a person. */
const MAX_ASKED = { agent: 5, person: 20 }
/** The time by which rows outlive their end, in ms, for instances whose clock is behind. */
const MARGIN = 3_600_000
/** Ms for which no sign-in is under way. */
const SIGN_IN = 3_600_000
/** Events that wait for one receiver, and for how many ms. */
const MAX_WAITING = 1_000
const MAX_WAIT = 86_400_000
/** The pause between two reads after which changes may have been missed, in ms. */
const MAX_PAUSE = 600_000
/** The margin of a time at which a session was last seen, in ms: it is written by the minute. */
const IDLE_MARGIN = 120_000
/** A clock that gains more, in ms, was set ahead. For so long after that no session is removed. */
const LARGEST_GAIN = 120_000
const DISTRUST = 3_600_000
const NEVER = { now: Number.NEGATIVE_INFINITY, running: Number.NEGATIVE_INFINITY }

const FIND = 'SELECT 1 AS found FROM completed WHERE login = $1'
/** The digests by which providers end sessions. Their marks are locked in this order. */
const MARKED = { subject: 'subject', providerSid: 'provider_sid' } as const
const MARK = `
  INSERT INTO marks (key, before, until, due) VALUES ($1, $2, $3, $4)
  ON CONFLICT (key) DO UPDATE SET before = greatest(marks.before, excluded.before),
    until = greatest(marks.until, excluded.until), due = greatest(marks.due, excluded.due)
  RETURNING before`
/** All that a revision changes. When a session was last seen has its own statement. */
const CHANGED = SESSIONS.members.filter((member) => !['lastSeen', 'seenMac'].includes(member))
const SET = CHANGED.map((member, i) => `${columns(member).split(' ', 1)} = $${i + 1}`)
const UPDATE = `UPDATE sessions SET ${SET.slice(1)} WHERE sid = $1 AND rev = $${SET.length + 1}`
/** The sessions of a person but for one. Agents end with theirs. */
const OTHERS = 'person = $1 AND parent IS NULL AND sid <> $2'
/** Agents that end with their session still do. */
const PROLONG = 'UPDATE sessions SET ends = $2 WHERE parent = $1 AND ends = $3'
const LEASE = 'UPDATE sessions SET lease = $4 WHERE sid = $1 AND rev = $2 AND lease = $3'
// It locks the session also if that was seen later, so that no end comes between it and the visits.
const TOUCH = `
  UPDATE sessions SET last_seen = greatest(last_seen, $2),
    seen_mac = CASE WHEN last_seen < $2 THEN $3 ELSE seen_mac END
  WHERE sid = $1`
const VISIT = `
  INSERT INTO visits (sid, host, at) SELECT sid, $2::text, $3::bigint FROM sessions WHERE sid = $1
    AND (SELECT count(*) FROM visits WHERE visits.sid = $1 AND host <> $2::text) < ${MAX_HOSTS}
  ON CONFLICT (sid, host) DO UPDATE SET at = greatest(visits.at, excluded.at)`
const MEMBERS = columns(SESSIONS.members.join(', '))
const LIST = `
  SELECT ${MEMBERS}, (SELECT string_agg(host, ' ' ORDER BY at DESC, host) FROM visits
    WHERE visits.sid = sessions.sid) AS hosts FROM sessions`
const VALUES = '(SELECT value FROM json_array_elements_text($1::json))'
const LISTED = `sid IN ${VALUES}`
const REMOVE_LISTED = `DELETE FROM sessions WHERE ${LISTED}`
const AGENTS = `sid IN (SELECT sid FROM sessions WHERE parent IN ${VALUES} LIMIT $2)`
const HAS_LISTED = `SELECT 1 AS found FROM sessions WHERE ${LISTED} LIMIT 1`
/** Keeps others from ending this session until the commit, and waits for an end that is under way. */
const HOLD = 'SELECT 1 AS found FROM sessions WHERE sid = $1 AND parent IS NULL FOR SHARE'
/** The same of an agent. */
const HOLD_AGENT = 'SELECT 1 AS found FROM sessions WHERE sid = $1 FOR SHARE'
const OPEN = "state = 'asked' AND until > $2"
const FORGET = 'DELETE FROM approvals WHERE key = $1 AND until <= $2'
const DECIDE = `UPDATE approvals SET state = $3, until = $4, sealed = $5 WHERE key = $1 AND ${OPEN}`
const USE = "UPDATE approvals SET until = 0 WHERE key = $1 AND state = 'allowed' AND until > $2"
const WITHDRAW = removing('consents', 'key', 'person = $1 AND substr(key, 1, length($2)) = $2')
const WITHDRAW_ALL = removing('consents', 'key', 'substr(key, 1, length($1)) = $1')
// By the running time, which no clock puts ahead: what is due has ended by the clock too, unless that was set back.
const PRUNE = ENDING.map(({ name, key: [key] }) =>
  removing(name, `${key}`, 'until <= $1 AND due <= $2 ORDER BY due LIMIT $3'),
)
const OVER = ['ends <= $1', 'idle IS NOT NULL AND last_seen + idle < $1']
/** Rows are locked in one order, so that no two instances wait for each other. */
const IN_ORDER = 'ORDER BY sid COLLATE "C"'
const LOCK_FAMILY = `SELECT sid FROM sessions WHERE sid = $1 OR parent = $1 ${IN_ORDER} FOR UPDATE`

type Lasting = Pick<RowOf<typeof MARKS>, 'until' | 'due'>
type EventRow = Omit<RowOf<typeof EVENTS>, 'id'>

/** Locks the rows first, and so looks again at those that another transaction has just changed. */
function removing(table: string, key: string, which: string): string {
  const locked = `SELECT ${key} FROM ${table} WHERE ${which} FOR UPDATE`
  return `DELETE FROM ${table} WHERE ${key} IN (${locked})`
}

/**
 * The state that instances share beside their configuration, in a database or a folder. Every change is durable when its
 * promise resolves. Whatever cannot be done rejects with STORE_UNAVAILABLE.
 */
export abstract class AuthStore {
  /** The clock that all instances go by. */
  readonly clock: Clock
  abstract readonly audit: AuditStore
  /**
   * Gives the reason why sessions must not be accepted now; undefined if they may. Absent in a store whose instances
   * are never cut off from each other.
   */
  abstract readonly staleness: (() => Error | undefined) | undefined
  /** What receivers of events have not accepted yet. */
  readonly outbox: EventStore
  readonly #engine: Engine
  readonly #log: StoreOptions['log']
  /** Whether something has failed since the last check, which was logged. */
  #hasFailed = false
  #watching: Loop | undefined
  #isClosed = false
  /** The age at the last read of events. */
  #lastRead = NEVER
  /** The difference between the clock and the running time, and the running time when the clock was last set ahead. */
  #clockOffset = Number.POSITIVE_INFINITY
  #setAhead = Number.NEGATIVE_INFINITY

  protected constructor(engine: Engine, clock: Clock, log: StoreOptions['log']) {
    this.#engine = engine
    this.clock = clock
    this.#log = log
    const { enqueue, ...outbox } = outboxOn(engine, OUTBOX, MAX_WAITING)
    this.outbox = {
      ...outbox,
      addEvent: ({ body, at, receivers }) => {
        const row = { body, at, ...this.#lasting(at + MAX_WAIT, 0) }
        return this.#write((tx) => enqueue(tx, receivers, row))
      },
    }
  }

  /** Learns what matters of the events there are, before it resolves, and later those of any instance. */
  abstract follow(follower: SessionFollower): Promise<void>

  /** Learns what has happened at other instances until now. Resolves in any case. */
  abstract catchUp(): Promise<void>

  /**
   * A random secret, which is made once: all instances get the same one.
   *
   * @param sealing - keys that seal it, where others than this service may read the store
   * @throws FwaError FWA_KEY_UNUSABLE
   */
  abstract secret(name: SecretName, sealing?: KeyRing): Promise<string>

  /** Adds a session. Resolves with false if the provider has ended it meanwhile. */
  beginSession(row: SessionRow): Promise<boolean> {
    return this.#write(async (tx) => {
      return !(await this.#isEnded(tx, row)) && (await SESSIONS.add(tx, row)) === 1
    })
  }

  /**
   * Adds an agent for a code. Resolves with false if the session of its person has ended, or if the code was redeemed
   * before, at any instance: then whoever asks ends the agent with this `sid`.
   */
  beginAgent(row: SessionRow, { id, until }: Code): Promise<boolean> {
    const code = { login: `code ${id}`, ...this.#lasting(until) }
    return this.#write(async (tx) => {
      if ((await COMPLETED.add(tx, code, ' ON CONFLICT DO NOTHING')) === 0) return false
      return (await tx.get(HOLD, row.parent)) !== undefined && (await SESSIONS.add(tx, row)) === 1
    })
  }

  /**
   * Replaces the row of this session and the revision before, and frees its lease. Resolves with false if it is gone
   * or newer, or if the provider has ended what it is to become.
   */
  updateSession(row: SessionRow): Promise<boolean> {
    const { sid, rev, subject, providerSid, ends, lastSeen, seenMac } = row
    const free = { ...row, lease: 0 }
    const values = CHANGED.map((member) => free[member as keyof SessionRow])
    return this.#write(async (tx) => {
      const old = await SESSIONS.find(tx, 'WHERE sid = $1 AND rev = $2', sid, rev - 1)
      // By the digests that it has, an end finds the row.
      const isFound = old?.subject === subject && old.providerSid === providerSid
      if (!old || (!isFound && (await this.#isEnded(tx, row)))) return false
      if (old.ends !== ends) await tx.all(LOCK_FAMILY, sid)
      if ((await tx.run(UPDATE, ...values, rev - 1)) === 0) return false
      if (old.ends !== ends) await tx.run(PROLONG, sid, ends, old.ends)
      if (old.lastSeen < lastSeen) await tx.run(TOUCH, sid, lastSeen, seenMac)
      const lasting = this.#lasting(this.clock.now(), 2 * MAX_PAUSE)
      await this.addEvents(tx, [{ kind: 'changed', key: sid, ...lasting }])
      return true
    })
  }

  findSession(sid: string): Promise<SessionRow | undefined> {
    return this.reportFailure('reading', SESSIONS.find(this.#engine, 'WHERE sid = $1', sid))
  }

  /** The newest first. */
  async listSessions({ agents, ...filter }: Listing, limit: number): Promise<readonly Listed[]> {
    const [[column, value] = []] = Object.entries(filter)
    const where = `${column} = $1 AND parent IS ${agents ? 'NOT ' : ''}NULL`
    const sql = `${LIST} WHERE ${where} ORDER BY begun DESC, sid LIMIT ${limit}`
    type Row = SessionRow & { readonly hosts: string | null }
    const rows = await this.reportFailure('reading', this.#engine.all<Row>(sql, value))
    return rows.map((row) => ({ ...row, hosts: row.hosts?.split(' ') ?? [] }))
  }

  /** Ends sessions. Gives their rows. An end by the provider also holds for sign-ins that are under way. */
  endSessions(which: End): Promise<readonly SessionRow[]> {
    return this.#write(async (tx) => {
      if ('sid' in which) return this.#end(tx, 'sid = $1', which.sid)
      if ('person' in which) return this.#end(tx, OTHERS, which.person, which.except ?? '')
      const claim = 'subject' in which ? 'subject' : 'providerSid'
      const digest = 'subject' in which ? which.subject : which.providerSid
      // Before its rows are looked for: a sign-in has added its row by then, or will see the mark.
      const until = this.clock.now() + SIGN_IN
      await this.#mark(tx, `${claim} ${digest}`, which.issuedUntil, this.#lasting(until))
      return this.#end(tx, `${MARKED[claim]} = $1 AND issued_at <= $2`, digest, which.issuedUntil)
    })
  }

  /**
   * Lets one caller ask the provider. Leases are times, in ms since the epoch, of which no two are the same: whoever
   * names the one that is there replaces it.
   */
  async leaseSession(
    sid: string,
    rev: number,
    expectedLease: number,
    until: number,
  ): Promise<boolean> {
    return (await this.#write((tx) => tx.run(LEASE, sid, rev, expectedLease, until))) === 1
  }

  /** Notes when sessions were last seen, and at which hosts. */
  async touchSessions(seen: readonly Seen[]): Promise<void> {
    const sorted = seen.toSorted((a, b) => (a.sid < b.sid ? -1 : 1))
    for (const page of pagesOf(sorted, TOUCHED)) {
      const touch = async (tx: Transaction) => {
        const touched = page.map(({ sid, lastSeen, seenMac }) =>
          tx.run(TOUCH, sid, lastSeen, seenMac),
        )
        const visits = page.flatMap(({ sid, lastSeen, hosts }) =>
          hosts.map((host) => tx.run(VISIT, sid, host, lastSeen)),
        )
        await Promise.all([...touched, ...visits])
      }
      await this.#write(touch, { durable: false })
    }
  }

  /** Tells all instances. */
  tell({ kind, key, until }: SessionEvent): Promise<void> {
    return this.#write((tx) => this.addEvents(tx, [{ kind, key, ...this.#lasting(until, 0) }]))
  }

  /** Whether the login has completed, at any instance. */
  async hasCompleted(login: string): Promise<boolean> {
    return (await this.reportFailure('reading', this.#engine.get(FIND, login))) !== undefined
  }

  /**
   * Completes a login. Resolves with false if it was completed before, at any instance.
   *
   * @param expiresAt - until when the login could be completed, in ms since the epoch
   */
  async completeLogin(login: string, expiresAt: number): Promise<boolean> {
    const row = { login, ...this.#lasting(expiresAt) }
    const added = await this.#write((tx) => COMPLETED.add(tx, row, ' ON CONFLICT DO NOTHING'))
    return added === 1
  }

  /** Finds a consent that has not ended. */
  findConsent(key: string): Promise<ConsentRow | undefined> {
    const [where, now] = ['WHERE key = $1 AND until > $2', this.clock.now()]
    return this.reportFailure('reading', CONSENTS.find(this.#engine, where, key, now))
  }

  giveConsent(consent: ConsentRow): Promise<void> {
    const row = { ...consent, ...this.#lasting(consent.until, 0) }
    return this.#write((tx) => CONSENTS.put(tx, row))
  }

  /**
   * Forgets what a person has allowed, or everybody.
   *
   * @param client - the beginning of the keys. Default: of all of them
   */
  async withdrawConsents(person: string | undefined, client = ''): Promise<void> {
    await this.#write((tx) =>
      person === undefined ? tx.run(WITHDRAW_ALL, client) : tx.run(WITHDRAW, person, client),
    )
  }

  /** Adds a call to decide about. Resolves with false if it is there, its agent has ended, or too many wait. */
  addApproval(row: ApprovalRow): Promise<boolean> {
    const { key, agent, person } = row
    const now = this.clock.now()
    return this.#write(async (tx) => {
      // One at a time, so that no two count the same ones.
      await this.#mark(tx, `approvals ${person}`, -1, this.#lasting(now))
      if (agent !== null && !(await tx.get(HOLD_AGENT, agent))) return false
      const open = await APPROVALS.list(tx, `WHERE person = $1 AND ${OPEN}`, person, now)
      const isFull = open.filter((other) => other.agent === agent).length >= MAX_ASKED.agent
      if (isFull || open.length >= MAX_ASKED.person) return false
      await tx.run(FORGET, key, now)
      return (await APPROVALS.add(tx, this.#approval(row), ' ON CONFLICT DO NOTHING')) === 1
    })
  }

  /** Finds an approval, also one that has ended. */
  findApproval(key: string): Promise<ApprovalRow | undefined> {
    return this.reportFailure('reading', APPROVALS.find(this.#engine, 'WHERE key = $1', key))
  }

  /** Calls that wait for a decision, the oldest first. */
  listApprovals(decider: string, limit: number): Promise<readonly ApprovalRow[]> {
    const clause = `WHERE decider = $1 AND ${OPEN} ORDER BY until LIMIT ${limit}`
    const list = APPROVALS.list(this.#engine, clause, decider, this.clock.now())
    return this.reportFailure('reading', list)
  }

  /**
   * Decides about a call. Resolves with false if it has ended, or if somebody has decided before.
   *
   * @param remembered - what further calls are allowed by
   */
  decideApproval(row: ApprovalRow, remembered?: ApprovalRow): Promise<boolean> {
    const { key, agent, state, until, sealed } = row
    const now = this.clock.now()
    return this.#write(async (tx) => {
      // Whoever ends the agent locks it first, too.
      if (agent !== null && !(await tx.get(HOLD_AGENT, agent))) return false
      if ((await tx.run(DECIDE, key, now, state, until, sealed)) === 0) return false
      if (remembered) await APPROVALS.put(tx, this.#approval(remembered))
      await this.addEvents(tx, [{ kind: 'changed', key, ...this.#lasting(now, 2 * MAX_PAUSE) }])
      return true
    })
  }

  /** Uses what was allowed once. Resolves with false if it was used before, at any instance. */
  async useApproval(key: string): Promise<boolean> {
    return (await this.#write((tx) => tx.run(USE, key, this.clock.now()))) === 1
  }

  /** Removes what has expired by the clock and by the running time. */
  async prune(): Promise<void> {
    const { now, running } = this.age()
    this.#noteClock(now, running)
    // Every session would be gone by a mistake, until somebody sets the clock right.
    const over = running - this.#setAhead < DISTRUST ? [] : OVER
    const removeSome = async (tx: Transaction) => {
      let left = MAX_REMOVED
      for (const [i, isOver] of over.entries())
        left -= await this.#removeOver(tx, isOver, now - i * IDLE_MARGIN, left)
      for (const sql of PRUNE) left -= await tx.run(sql, now, running, left)
      return left
    }
    while ((await this.#write(removeSome)) === 0);
    await this.recheck()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    // What it is reading ends with the engine.
    void this.#watching?.stop()
    await this.#engine.close()
  }

  /** The time in ms, by the clock and by how long the service has run on this store, whatever clocks were set to. */
  age() {
    return { now: this.clock.now(), running: this.#engine.runTime() }
  }

  /** Reports the state of the store. Sessions in memory are answered without it. */
  health(): HealthReport {
    return { degraded: this.isFailing ? ['store'] : [] }
  }

  protected get isFailing(): boolean {
    return this.#hasFailed || this.#engine.failure() !== undefined
  }

  /** Finds out whether the store can be written, and what failed works again. Saves the running time. */
  protected async recheck(): Promise<void> {
    await this.reportFailure('writing', this.#engine.check())
    if (this.#hasFailed) this.#log.info({}, 'the store can be used again')
    this.#hasFailed = false
  }

  /** Calls {@link look} now, and then every so many ms. */
  protected watch(interval: number): void {
    // `look` has reported the failure.
    this.#watching = repeat(
      this.clock,
      interval,
      () => this.look(),
      () => {},
    )
  }

  protected abstract look(): Promise<void>

  /** Waits for the engine, and logs once that it fails. @throws StoreError */
  protected async reportFailure<T>(what: 'reading' | 'writing', work: Promise<T>): Promise<T> {
    try {
      return await work
    } catch (error) {
      if (!this.#hasFailed && !this.#isClosed)
        this.#log.error({ err: error }, `the store cannot be used: ${what} fails`)
      this.#hasFailed = true
      throw error
    }
  }

  /** Part of a write: what all instances learn. */
  protected async addEvents(tx: Transaction, events: readonly EventRow[]): Promise<void> {
    await EVENTS.addAll(tx, events)
  }

  /** Passes on the events since the last read. @param full - some before may have been missed */
  protected async pass(to: SessionFollower, events: readonly SessionEvent[], full: boolean) {
    const { now, running } = this.age()
    this.#noteClock(now, running)
    const pause = Math.max(now - this.#lastRead.now, running - this.#lastRead.running)
    const isFull = full || pause > MAX_PAUSE
    const ended = isFull ? to.ended() : []
    // If this read fails, the next one is full too.
    if (isFull) this.#lastRead = NEVER
    to.learn(events, isFull)
    await this.#endAgain(ended)
    this.#lastRead = { now, running }
  }

  #noteClock(now: number, running: number): void {
    const offset = now - running
    if (offset > this.#clockOffset + LARGEST_GAIN) this.#setAhead = running
    this.#clockOffset = offset
  }

  #write<T>(job: (tx: Transaction) => Promise<T>, options?: WriteOptions): Promise<T> {
    return this.reportFailure('writing', this.#engine.transaction(job, options))
  }

  /** The time until which a row is stored that ends at a time. */
  #lasting(time: number, margin = MARGIN) {
    const { now, running } = this.age()
    return { until: time + margin, due: running + Math.max(time - now, 0) + margin }
  }

  /** The row of an approval, which outlives its end for those who look for it. */
  #approval(row: ApprovalRow): RowOf<typeof APPROVALS> {
    return { ...row, due: this.#lasting(row.until).due }
  }

  /** Part of a write: whether the provider has ended a session. Until the commit, it cannot do so. */
  async #isEnded(tx: Transaction, row: SessionRow): Promise<boolean> {
    const lasting = this.#lasting(this.clock.now(), 0)
    const marks = (['subject', 'providerSid'] as const)
      .filter((member) => row[member] !== null)
      .map((member) => this.#mark(tx, `${member} ${row[member]}`, -1, lasting))
    return (await Promise.all(marks)).some((before) => before >= row.issuedAt)
  }

  /** Part of a write: locks a mark. Gives the time up to which the provider has ended its sessions, in seconds. */
  async #mark(tx: Transaction, key: string, before: number, { until, due }: Lasting) {
    const mark = await tx.get<{ before: number }>(MARK, key, before, until, due)
    return mark?.before ?? before
  }

  /**
   * Part of a write: ends sessions, and their agents with them. Once the sessions are locked, which is a statement of
   * its own, no other agent of theirs can begin.
   */
  async #end(tx: Transaction, where: string, ...params: readonly Parameter[]) {
    const lock = `SELECT sid FROM sessions WHERE ${where} ${IN_ORDER} FOR UPDATE`
    const locked = await tx.all<Pick<SessionRow, 'sid'>>(lock, ...params)
    if (locked.length === 0) return []
    const sids = JSON.stringify(locked.map(({ sid }) => sid))
    const removed = [`parent IN ${VALUES} ${IN_ORDER}`, LISTED].map((which) => {
      const sql = removing('sessions', 'sid', which)
      return tx.all<SessionRow>(`${sql} RETURNING ${MEMBERS}`, sids)
    })
    const rows = (await Promise.all(removed)).flat()
    const kind = 'ended'
    const events = rows.map(({ sid, ends }) => ({ kind, key: sid, ...this.#lasting(ends) }))
    await this.addEvents(tx, events)
    return rows
  }

  /** Part of a write: removes sessions that are over, or first the agents that end with them. Gives how many. */
  async #removeOver(tx: Transaction, isOver: string, time: number, limit: number) {
    const some = `sid IN (SELECT sid FROM sessions WHERE ${isOver} LIMIT $2) AND ${isOver}`
    const lock = `SELECT sid FROM sessions WHERE ${some} ${IN_ORDER} FOR UPDATE`
    const locked = await tx.all<Pick<SessionRow, 'sid'>>(lock, time, limit)
    if (locked.length === 0) return 0
    const sids = JSON.stringify(locked.map(({ sid }) => sid))
    // Other instances learn of these ends: a session that is in use may be in their memory.
    const agents = await this.#end(tx, AGENTS, sids, limit)
    if (agents.length < limit) await tx.run(REMOVE_LISTED, sids)
    return agents.length < limit ? locked.length : limit
  }

  /** A store that was restored, or failed over to a copy that was behind, may have sessions again. */
  async #endAgain(sids: readonly string[]): Promise<void> {
    let sessions = 0
    for (const page of pagesOf(sids, PAGE)) {
      const list = JSON.stringify(page)
      if (await this.#engine.get(HAS_LISTED, list))
        sessions += (await this.#write((tx) => this.#end(tx, LISTED, list))).length
    }
    if (sessions > 0)
      this.#log.warn({ sessions }, 'sessions that had ended reappeared: they were ended again')
  }
}

function* pagesOf<T>(items: readonly T[], size: number): Generator<readonly T[]> {
  for (let i = 0; i < items.length; i += size) yield items.slice(i, i + size)
}

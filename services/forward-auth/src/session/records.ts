import { setImmediate } from 'node:timers/promises'
import { orLate, sleep } from '@gatehouse/net'
import { LRUCache } from 'lru-cache'
import type { KeyRing } from '../keys/key-ring.ts'
import type { AuthStore } from '../store/auth-store.ts'
import {
  type End,
  MAX_HOSTS,
  type SessionEvent,
  type SessionFollower,
  type SessionRow,
} from '../store/store.ts'
import {
  openRow,
  type Session,
  type SessionContents,
  type SessionUse,
  seenMacOf,
  sessionOf,
} from './session.ts'

const SECOND = 1_000
const MINUTE = 60 * SECOND
/** The lifetime of a lease, in ms. Its instance renews it three times as often, and another one can ask when it is over. */
export const LEASE = 15 * SECOND
const PRUNE_INTERVAL = 10 * MINUTE
/** Bytes of memory for sessions: about 60,000 with claims of 800 characters. Others are read at each check. */
const CACHE_BYTES = 134_217_728
/** Bytes that a session takes besides its claims. */
const SESSION_BYTES = 700
/** The time for which an ID is remembered that the store does not have, in ms. */
const MISSED = 2 * SECOND
const MAX_MISSED = 10_000
const MAX_ENDED = 200_000
const MAX_BURNT = 10_000
const MAX_CHANGED = 100_000

export interface OpenedRow {
  readonly row: SessionRow
  readonly contents: SessionContents
}

/** The last use of a session: when, and where. */
interface Use {
  time: number
  readonly hosts: string[]
}

type SessionRevision = Pick<Session, 'sid' | 'rev'>

interface PendingRead {
  result: Promise<Session | undefined>
  /** Whether the session has changed since it was read. */
  isOld: boolean
}

/** The times of so many IDs. By its option `max` a cache would take the memory of all of them at once. */
export function timesOf(max: number, forget = (_time: number) => {}): LRUCache<string, number> {
  return new LRUCache({
    maxSize: max,
    sizeCalculation: () => 1,
    dispose: (time, _id, reason) => reason === 'evict' && forget(time),
  })
}

/**
 * The sessions of the store that this instance has read. One that ends or changes, at any instance, leaves the
 * memory and is read again, so that nothing is decided by what was true before.
 */
export class Records implements SessionFollower {
  readonly #store: AuthStore
  readonly #keys: () => KeyRing
  readonly #sessions = new LRUCache<string, Session>({ maxSize: CACHE_BYTES })
  readonly #reads = new Map<string, PendingRead>()
  /** Times until which IDs are known to be missing, ended or burnt, in ms. */
  readonly #missed = timesOf(MAX_MISSED)
  readonly #ended = timesOf(MAX_ENDED)
  readonly #burnt = timesOf(MAX_BURNT, (until) => {
    this.#burntBefore = Math.max(this.#burntBefore, until)
  })
  /** Tickets that end until then count as burnt: there were so many that some are forgotten. */
  #burntBefore = 0
  /** The newest revisions of sessions that have changed: no older row counts any more. */
  readonly #newest = timesOf(MAX_CHANGED)
  /** Sessions whose end the store has not taken yet. */
  readonly #unsaved = new Set<string>()
  /** The uses of sessions that the store does not have yet, and those written before. */
  #uses = new Map<string, Use>()
  #writtenUses = new Map<string, Use>()
  /** Sessions of the first that came back after a minute, or are at another app, which are written at once. */
  readonly #urgent = new Set<string>()
  #isWritingUrgent = false
  /** Called when the session with an ID has ended or changed. */
  readonly #watchers = new Map<string, Set<() => void>>()
  #retry: { cancel(): void } | undefined
  readonly #timers: { cancel(): void }[] = []
  #isClosed = false

  constructor(store: AuthStore, keys: () => KeyRing) {
    this.#store = store
    this.#keys = keys
  }

  /** Follows what other instances change. @throws StoreError STORE_UNAVAILABLE */
  async start(): Promise<void> {
    await this.#store.follow(this)
    this.#every(MINUTE, () => this.#writeUses())
    this.#every(PRUNE_INTERVAL, async () => {
      // Otherwise sessions that were in use while the store was away would count as idle.
      await this.#writeUses()
      await this.#store.prune()
    })
  }

  learn(events: readonly SessionEvent[], isFull = false): void {
    if (isFull) this.forgetAll()
    for (const { kind, key, until } of events) {
      if (kind === 'burnt') this.#burnt.set(key, until)
      if (kind === 'ended') this.#ended.set(key, until)
      this.forget(key)
    }
    for (const { key } of events) for (const changed of this.#watchers.get(key) ?? []) changed()
  }

  ended(): readonly string[] {
    const now = this.#store.clock.now()
    return [...this.#ended].filter(([, until]) => until > now).map(([sid]) => sid)
  }

  /**
   * The session with an ID, of any portal. All that ask for one at a time share one read.
   * @throws StoreError STORE_UNAVAILABLE
   */
  find(sid: string): Session | undefined | Promise<Session | undefined> {
    const session = this.#sessions.get(sid)
    if (session || this.#ended.has(sid)) return session
    if (Number(this.#missed.get(sid)) > this.#store.clock.now()) return undefined
    return (this.#reads.get(sid) ?? this.#read(sid)).result
  }

  /** The row of a session as it is now, with what memory does not keep. */
  async open(sid: string): Promise<OpenedRow | undefined> {
    const row = this.#ended.has(sid) ? undefined : await this.#store.findSession(sid)
    const contents = row && this.#opened(row)
    return contents && { row, contents }
  }

  #opened(row: SessionRow): SessionContents | undefined {
    if (row.rev < (this.#newest.get(row.sid) ?? 0)) return undefined
    const contents = openRow(row, this.#keys())
    if (contents && row.rev > 1) this.#newest.set(row.sid, row.rev)
    return contents
  }

  /** Forgets a session that may not be the newest one, so that it is read again. Nobody who watches it is told. */
  forget(sid: string): void {
    this.#sessions.delete(sid)
    const read = this.#reads.get(sid)
    if (read) read.isOld = true
  }

  forgetAll(): void {
    this.#sessions.clear()
    this.#missed.clear()
    for (const read of this.#reads.values()) read.isOld = true
  }

  #read(sid: string): PendingRead {
    const read: PendingRead = { isOld: false, result: Promise.resolve(undefined) }
    this.#reads.set(sid, read)
    read.result = this.#load(sid, read)
    return read
  }

  async #load(sid: string, read: PendingRead): Promise<Session | undefined> {
    try {
      let row: SessionRow | undefined
      do {
        read.isOld = false
        row = await this.#store.findSession(sid)
      } while (read.isOld)
      const contents = row && this.#opened(row)
      if (!row || !contents || this.#ended.has(sid)) {
        this.#missed.set(sid, this.#store.clock.now() + MISSED)
        return undefined
      }
      const session = sessionOf(row, contents)
      const size =
        2 * JSON.stringify([contents.claims, session.authentications]).length + SESSION_BYTES
      this.#sessions.set(sid, session, { size })
      return session
    } finally {
      // At once, so that nobody joins it who may know of a change since.
      this.#reads.delete(sid)
    }
  }

  /** Replaces what a session says. Resolves with false if it has ended or was changed meanwhile. */
  async update(row: SessionRow): Promise<boolean> {
    const isDone = await this.#store.updateSession(row)
    if (isDone) this.learn([{ kind: 'changed', key: row.sid, until: row.ends }])
    return isDone
  }

  /**
   * Takes the lease of a session, so that this instance alone asks the provider. Gives the lease; undefined if
   * another instance has it, or the session has changed.
   *
   * @param previousLease - the lease of the row, or that of this instance, which lasts longer then
   */
  async lease(
    { sid, rev }: SessionRevision,
    previousLease: number,
    isOwn = false,
  ): Promise<number | undefined> {
    const now = this.#store.clock.now()
    // A row that lasts for longer was written while the clock was ahead.
    if (!isOwn && previousLease > now && previousLease <= now + LEASE) return undefined
    const lease = now + LEASE
    return (await this.#store.leaseSession(sid, rev, previousLease, lease)) ? lease : undefined
  }

  /** Renews a lease until `over`, while this instance runs. */
  async hold(session: SessionRevision, lease: number, over: AbortSignal): Promise<void> {
    for (let latest: number | undefined = lease; latest !== undefined; ) {
      await sleep(this.#store.clock, LEASE / 3, over)
      latest = await this.lease(session, latest, true).catch(() => latest)
    }
  }

  /**
   * Calls back whenever a session, or what else has an ID, has ended or changed at any instance, as far as events come.
   *
   * @returns a function that ends it
   */
  watch(id: string, changed: () => void): () => void {
    const watchers = this.#watchers.get(id) ?? new Set()
    this.#watchers.set(id, watchers.add(changed))
    return () => {
      watchers.delete(changed)
      if (watchers.size === 0 && this.#watchers.get(id) === watchers) this.#watchers.delete(id)
    }
  }

  /** Resolves when a session has ended or changed, or after so many ms. */
  async changed(sid: string, ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const unwatch = this.watch(sid, resolve)
    await orLate(promise, this.#store.clock, ms)
    unwatch()
  }

  /**
   * Ends a session, on this instance at once. The promise resolves when that is stored. If it rejects, writing is tried
   * again every second.
   */
  async endOne({ sid, ends }: Pick<Session, 'sid' | 'ends'>): Promise<void> {
    this.#unsaved.add(sid)
    this.learn([{ kind: 'ended', key: sid, until: ends }])
    await this.#save(sid)
  }

  async end(target: End): Promise<readonly SessionRow[]> {
    const rows = await this.#store.endSessions(target)
    this.learn(rows.map(({ sid, ends }) => ({ kind: 'ended', key: sid, until: ends })))
    return rows
  }

  /** Whether the end of a session waits for the store. */
  isUnsaved(sid: string): boolean {
    return this.#unsaved.has(sid)
  }

  /** Makes every instance refuse a ticket. */
  async burn({ key, until }: Pick<SessionEvent, 'key' | 'until'>): Promise<void> {
    const event = { kind: 'burnt', key, until } as const
    this.learn([event])
    await this.#store.tell(event)
  }

  isBurnt({ key, until }: Pick<SessionEvent, 'key' | 'until'>): boolean {
    return until <= this.#burntBefore || this.#burnt.has(key)
  }

  /**
   * Notes that a session is in use, at an app or at the sign-in pages. That is written once a minute, but the first use
   * after a minute at once: before another instance could take the session for idle.
   */
  noteUse(session: SessionUse): void {
    const now = this.#store.clock.now()
    const isBack = now - this.lastSeen(session) >= MINUTE
    this.#note(session.sid, now, undefined)
    if (isBack) this.#writeSoon(session.sid)
  }

  /** Notes an app that let a session pass. The first time is written at once, so that the person sees it. */
  noteHost({ sid }: Pick<SessionUse, 'sid'>, host: string): void {
    if (this.#uses.get(sid)?.hosts.includes(host)) return
    const writtenHosts = this.#writtenUses.get(sid)?.hosts ?? []
    this.#note(sid, this.#store.clock.now(), host)
    if (writtenHosts.length < MAX_HOSTS && !writtenHosts.includes(host)) this.#writeSoon(sid)
  }

  /** Returns the time of the last use of a session that this instance knows of. */
  lastSeen({ sid, lastSeen }: SessionUse): number {
    return Math.max(lastSeen, (this.#uses.get(sid) ?? this.#writtenUses.get(sid))?.time ?? 0)
  }

  /** Writes what is left. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#retry?.cancel()
    for (const timer of this.#timers) timer.cancel()
    await Promise.allSettled([
      this.#writeUses(),
      ...[...this.#unsaved].map((sid) => this.#save(sid)),
    ])
  }

  async #save(sid: string): Promise<void> {
    try {
      // The agents of the session are forgotten too.
      await this.end({ sid })
      this.#unsaved.delete(sid)
    } catch (error) {
      if (!this.#isClosed)
        this.#retry ??= this.#store.clock.setTimer(() => {
          this.#retry = undefined
          for (const pendingSid of this.#unsaved) this.#save(pendingSid).catch(() => {})
        }, SECOND)
      throw error
    }
  }

  /** Has the use of a session written. No request waits for the store. */
  #writeSoon(sid: string): void {
    this.#urgent.add(sid)
    if (!this.#isWritingUrgent) void this.#writeUrgent()
  }

  async #writeUrgent(): Promise<void> {
    this.#isWritingUrgent = true
    // What a request notes of a session, when it has been decided too, is written together.
    await setImmediate()
    while (this.#urgent.size > 0) {
      const uses = new Map<string, Use>()
      for (const sid of this.#urgent) {
        const use = this.#uses.get(sid)
        if (!use) continue
        this.#uses.delete(sid)
        const hosts = new Set([...use.hosts, ...(this.#writtenUses.get(sid)?.hosts ?? [])])
        this.#writtenUses.set(sid, { ...use, hosts: [...hosts].slice(0, MAX_HOSTS) })
        uses.set(sid, use)
      }
      // Those who come meanwhile are written together, next.
      this.#urgent.clear()
      // The store has logged a failure, and the next minute writes the rest.
      await this.#write(uses).catch(() => {})
    }
    this.#isWritingUrgent = false
  }

  async #writeUses(): Promise<void> {
    const uses = this.#uses
    if (uses.size === 0) return
    this.#uses = new Map()
    this.#writtenUses = uses
    await this.#write(uses)
  }

  async #write(uses: ReadonlyMap<string, Use>): Promise<void> {
    try {
      const keys = this.#keys()
      const rows = [...uses].map(([sid, { time: lastSeen, hosts }]) => {
        return { sid, lastSeen, hosts, seenMac: seenMacOf({ sid, lastSeen }, keys) }
      })
      await this.#store.touchSessions(rows)
    } catch (error) {
      // Who uses a session while the store is away does not lose it by that.
      for (const [sid, { time, hosts }] of uses)
        for (const host of hosts.length > 0 ? hosts : [undefined]) this.#note(sid, time, host)
      throw error
    }
  }

  #note(sid: string, time: number, host: string | undefined): void {
    const use = this.#uses.get(sid)
    if (!use) this.#uses.set(sid, { time, hosts: host === undefined ? [] : [host] })
    else {
      use.time = Math.max(use.time, time)
      const { hosts } = use
      if (host !== undefined && hosts.length < MAX_HOSTS && !hosts.includes(host)) hosts.push(host)
    }
  }

  /** Repeats a task, which logs its failures itself. */
  #every(ms: number, work: () => Promise<unknown>, i = this.#timers.length): void {
    this.#timers[i] = this.#store.clock.setTimer(() => {
      work().catch(() => {})
      this.#every(ms, work, i)
    }, ms)
  }
}

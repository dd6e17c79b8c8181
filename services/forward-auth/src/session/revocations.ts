import { hash } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import type { Clock } from '@gatehouse/service-kit'
import { FwaError } from '../errors.ts'
import { createEndedSessions, type EndedSessions } from './ended-sessions.ts'
import { openRevocationFile, type Row, type StoredRow } from './revocation-file.ts'
import { createRevocationWriter } from './revocation-writer.ts'
import type { Session } from './session.ts'

const SECOND = 1_000
/** In what time an instance sees what another one on the same folder wrote. */
const READ_EVERY = SECOND
/** From the end of a commit to the next one, which takes all that came meanwhile: real ms, for the disk. */
const PAUSE = 50
const PRUNE_EVERY = 600 * SECOND
/** How long a revocation outlives its session, for instances whose clock is behind. */
const KEPT_LONGER = 3_600 * SECOND
const MAX_ROWS = 1_000_000

/** What of a session its end goes by. */
export type Endable = Pick<Session, 'sid' | 'portal' | 'profile' | 'iat' | 'exp' | 'generation'>

/** The sessions that were ended before their time. */
export interface Revocations {
  /** From memory; `since` is what `learned` said when it was found that the session has not ended, or -1. */
  has(session: Endable, since: number): boolean
  /** The revocations in memory. */
  readonly ended: EndedSessions
  /**
   * Ends a session, here from the call on, and elsewhere and for good when the promise resolves. If it
   * rejects, writing is tried again each second for as long as this process runs.
   *
   * @throws FwaError FWA_STORE_UNAVAILABLE, as a rejection
   */
  add(session: Endable): Promise<void>
  /** The generation of a new session of the person, above those that were ended together. */
  nextGeneration(session: Pick<Endable, 'portal' | 'profile'>): number
  /** Whether the last reading and the last writing succeeded. */
  storeIsUp(): boolean
  close(): Promise<void>
}

interface RevocationDeps {
  readonly folder: string
  readonly clock: Clock
  /** Milliseconds on a clock that nobody sets; default: that of the process. */
  readonly monotonic?: (() => number) | undefined
  readonly log: { error(fields: object, message: string): void }
}

/**
 * Opens the list in `folder`, which several instances may share: each sees the others' revocations
 * within a second. What is in it is removed when it has ended by the clock and also by the time that
 * the list has been in use since, so that a clock that was ahead brings no session back.
 *
 * @throws FwaError FWA_STORE_UNAVAILABLE
 */
export function openRevocations(deps: RevocationDeps): Revocations {
  const { folder, clock, monotonic = () => performance.now(), log } = deps
  const ended = createEndedSessions()
  const writer = createRevocationWriter()
  const unsaved = new Map<string, Row>()
  const unremoved = new Set<string>()
  const failing = { reading: false, writing: false }
  let file = attempt(folder, () => openRevocationFile(folder))
  let lastId = 0
  let isClosed = false
  let isPruneDue = true
  let isWriting = false
  /** The commit that is under way or was the last one, and the one that follows it. */
  let current: Promise<void> = Promise.resolve()
  let next: Promise<void> | undefined
  let retry: { cancel(): void } | undefined

  // Several instances at once count once, as none counts from more than it has read.
  const start = attempt(folder, () => file.runningTime()) - monotonic()
  const running = () => Math.floor(start + monotonic())

  function note(what: keyof typeof failing, cause?: unknown): void {
    if (cause !== undefined && !failing[what])
      log.error({ err: cause }, `the list of ended sessions cannot be used: ${what} fails`)
    failing[what] = cause !== undefined
  }

  function take(rows: readonly StoredRow[]): void {
    for (const row of rows) {
      ended.learn(row)
      lastId = row.id
    }
  }

  function read(): void {
    if (!file.isThere()) reopen()
    take(file.rowsAfter(lastId))
  }

  /** Somebody has removed or replaced the file: what is known here is written to the new one. */
  function reopen(): void {
    log.error({ folder }, 'the list of ended sessions was replaced: it is written anew')
    const fresh = openRevocationFile(folder)
    file.close()
    file = fresh
    lastId = 0
    for (const row of ended.rows()) unsaved.set(row.sid, row)
    commit().catch(() => {})
  }

  function poll(): void {
    // The commit brings what is new, and would have to be waited for.
    if (isWriting) return
    try {
      read()
      note('reading')
    } catch (error) {
      note('reading', error)
    }
  }

  /** Writes all that is not saved; at most one commit is under way, and the next takes all that came meanwhile. */
  function commit(prune = false): Promise<void> {
    if (prune) isPruneDue = true
    next ??= current.then(() => {
      next = undefined
      const done = write()
      current = done.catch(() => {}).then(() => setTimeout(PAUSE))
      return done
    })
    return next
  }

  async function write(): Promise<void> {
    const insert = [...unsaved.values()]
    const remove = [...unremoved]
    const times = { now: clock.now(), running: running() }
    const isPruning = isPruneDue
    isPruneDue = false
    try {
      isWriting = true
      const batch = { path: file.path, insert, remove, running: times.running, after: lastId }
      const rows = await writer.write({ ...batch, ...(isPruning && { ended: times }) })
      for (const row of insert) if (unsaved.get(row.sid) === row) unsaved.delete(row.sid)
      for (const sid of remove) unremoved.delete(sid)
      take(rows)
      note('writing')
      note('reading')
    } catch (cause) {
      isPruneDue ||= isPruning
      note('writing', cause)
      retrySoon()
      throw unavailable(folder, cause)
    } finally {
      isWriting = false
    }
  }

  function retrySoon(): void {
    if (isClosed) return
    retry ??= clock.setTimer(() => {
      retry = undefined
      commit().catch(() => {})
    }, SECOND)
  }

  function prune(): void {
    const [now, ran] = [clock.now(), running()]
    ended.forget(({ until, due }) => until <= now && due <= ran)
    commit(true).catch(() => {})
  }

  function collapse(person: string): void {
    const { row, instead } = ended.collapse(person) ?? {}
    if (!row || !instead) return
    unsaved.set(row.sid, row)
    for (const sid of instead) {
      unsaved.delete(sid)
      unremoved.add(sid)
    }
  }

  take(attempt(folder, () => file.rowsAfter(0)))
  const loops = [repeat(clock, READ_EVERY, poll), repeat(clock, PRUNE_EVERY, prune)]

  return {
    has: (session, since) => ended.has(session, () => personOf(session), since),
    ended,
    async add(session) {
      if (ended.size >= MAX_ROWS) throw unavailable(folder, new Error('it is full'))
      const row = rowOf(session, running())
      ended.learn(row)
      unsaved.set(row.sid, row)
      collapse(row.person)
      await commit()
    },
    nextGeneration(session) {
      // What another instance has just ended does not end this session too.
      poll()
      return ended.nextGeneration(personOf(session))
    },
    storeIsUp: () => !failing.reading && !failing.writing,
    async close() {
      isClosed = true
      for (const loop of loops) loop.stop()
      retry?.cancel()
      await (next ?? current).catch(() => {})
      await writer.close()
      try {
        file.keepRunningTime(running())
      } catch {
        // The time since it was last written is lost, and rows stay longer.
      }
      file.close()
    },
  }
}

/** The life of a session is that which its token says, so that no clock has a part in it. */
function rowOf(session: Endable, running: number): Row {
  const { sid, iat, exp, generation } = session
  const life = (exp - iat) * SECOND
  return {
    ...{ sid, person: personOf(session), first: iat, last: iat, generation },
    ...{ until: exp * SECOND + KEPT_LONGER, due: running + life + KEPT_LONGER },
  }
}

/** A digest, as the list need not say who signs out. */
function personOf({ portal, profile: { provider, id } }: Pick<Endable, 'portal' | 'profile'>) {
  return hash('sha256', JSON.stringify([portal, provider, id]), 'base64url').slice(0, 22)
}

/** Until it is stopped. */
function repeat(clock: Clock, every: number, action: () => void): { stop(): void } {
  let timer = clock.setTimer(run, every)
  function run(): void {
    action()
    timer = clock.setTimer(run, every)
  }
  return { stop: () => timer.cancel() }
}

function attempt<T>(folder: string, action: () => T): T {
  try {
    return action()
  } catch (cause) {
    throw unavailable(folder, cause)
  }
}

function unavailable(folder: string, cause: unknown): FwaError {
  const { message } = cause as Error
  const why = `the list of ended sessions in ${folder} cannot be used: ${message}`
  return new FwaError('FWA_STORE_UNAVAILABLE', why, { cause, retryAfter: 5 })
}

import { setTimeout } from 'node:timers/promises'
import type { Clock } from '@gatehouse/service-kit'
import { FwaError } from '../errors.ts'
import { EndedSessions } from './ended-sessions.ts'
import { RevocationFile, type Row, type StoredRow } from './revocation-file.ts'
import { RevocationWriter } from './revocation-writer.ts'
import type { Session } from './session.ts'

const SECOND = 1_000
/** Delay until an instance sees what another one on the same folder wrote. */
const POLL_INTERVAL = SECOND
/** Pause between two commits, in real ms for the disk; the next one takes all that came meanwhile. */
const PAUSE = 50
const PRUNE_INTERVAL = 600 * SECOND
/** How long a revocation outlives its session, for instances whose clock is behind. */
const MARGIN = 3_600 * SECOND
const MAX_ROWS = 1_000_000

interface RevocationOptions {
  readonly folder: string
  readonly clock: Clock
  /** Milliseconds on a clock that is never set. Default: that of the process. */
  readonly monotonic?: (() => number) | undefined
  readonly log: { error(fields: object, message: string): void }
}

/**
 * The list of revoked sessions in a folder that several instances may share: each sees the
 * revocations of the others within a second. A row is removed when its sessions have expired both by
 * the clock and by the time that the list has been in use, so that a clock that was ahead brings no
 * session back.
 */
export class Revocations {
  readonly ended = new EndedSessions()
  readonly #options: RevocationOptions
  readonly #writer = new RevocationWriter()
  readonly #unsaved = new Map<string, Row>()
  readonly #unremoved = new Set<string>()
  readonly #failing = { reading: false, writing: false }
  readonly #loops: readonly { stop(): void }[]
  readonly #monotonic: () => number
  /** When the list was first used, on the monotonic clock. */
  readonly #start: number
  #file: RevocationFile
  #lastId = 0
  #isClosed = false
  #isPruneDue = true
  #isWriting = false
  #current: Promise<void> = Promise.resolve()
  #next: Promise<void> | undefined
  #retry: { cancel(): void } | undefined

  constructor(options: RevocationOptions) {
    const { folder, clock, monotonic = () => performance.now() } = options
    this.#options = options
    this.#monotonic = monotonic
    try {
      this.#file = new RevocationFile(folder)
      // Several instances at once count once, as none counts from more than it has read.
      this.#start = this.#file.runningTime() - monotonic()
      this.#take(this.#file.rowsAfter(0))
    } catch (cause) {
      throw this.#unavailable(cause)
    }
    this.#loops = [
      repeat(clock, POLL_INTERVAL, () => this.#poll()),
      repeat(clock, PRUNE_INTERVAL, () => this.#prune()),
    ]
  }

  /**
   * Revokes a session, on this instance at once. The promise resolves when the revocation is on disk.
   * If it rejects, writing is tried again every second while the process runs.
   *
   * @param onRange - called if the person has ended so many sessions that all in between end too
   */
  async add(session: Session, onRange: () => void = () => {}): Promise<void> {
    if (this.ended.size >= MAX_ROWS) throw this.#unavailable(new Error('it is full'))
    const row = rowOf(session, this.runningTime())
    this.ended.learn(row)
    this.#unsaved.set(row.sid, row)
    if (this.#collapse(row.person)) onRange()
    await this.#commit()
  }

  /** The generation of a new session of the person, above those that were revoked together. */
  nextGeneration(person: string): number {
    // A range that another instance has just revoked must not include this session.
    this.#poll()
    return this.ended.nextGeneration(person)
  }

  storeIsUp(): boolean {
    return !this.#failing.reading && !this.#failing.writing
  }

  async close(): Promise<void> {
    this.#isClosed = true
    for (const loop of this.#loops) loop.stop()
    this.#retry?.cancel()
    await (this.#next ?? this.#current).catch(() => {})
    await this.#writer.close()
    try {
      this.#file.keepRunningTime(this.runningTime())
    } catch {
      // The time since it was last written is lost, and rows stay longer.
    }
    this.#file.close()
  }

  /** How long the list has been in use, in ms, by all instances that share its folder. */
  runningTime(): number {
    return Math.floor(this.#start + this.#monotonic())
  }

  #note(what: 'reading' | 'writing', cause?: unknown): void {
    if (cause !== undefined && !this.#failing[what])
      this.#options.log.error(
        { err: cause },
        `the list of ended sessions cannot be used: ${what} fails`,
      )
    this.#failing[what] = cause !== undefined
  }

  #take(rows: readonly StoredRow[]): void {
    for (const row of rows) {
      this.ended.learn(row)
      this.#lastId = row.id
    }
  }

  #poll(): void {
    // The commit in progress brings new rows, and reading would have to wait for it.
    if (this.#isWriting) return
    try {
      if (!this.#file.isThere()) this.#reopen()
      this.#take(this.#file.rowsAfter(this.#lastId))
      this.#note('reading')
    } catch (error) {
      this.#note('reading', error)
    }
  }

  /** The file was removed or replaced: writes everything in memory to the new one. */
  #reopen(): void {
    const { folder, log } = this.#options
    log.error({ folder }, 'the list of ended sessions was replaced: it is written anew')
    const fresh = new RevocationFile(folder)
    this.#file.close()
    this.#file = fresh
    this.#lastId = 0
    for (const row of this.ended.rows()) this.#unsaved.set(row.sid, row)
    this.#commit().catch(() => {})
  }

  /** Writes all unsaved rows. One commit is in progress at most, and the next takes what came since. */
  #commit(): Promise<void> {
    this.#next ??= this.#current.then(() => {
      this.#next = undefined
      const done = this.#write()
      this.#current = done.catch(() => {}).then(() => setTimeout(PAUSE))
      return done
    })
    return this.#next
  }

  async #write(): Promise<void> {
    const insert = [...this.#unsaved.values()]
    const remove = [...this.#unremoved]
    const isPruning = this.#isPruneDue
    this.#isPruneDue = false
    this.#isWriting = true
    try {
      const rows = await this.#writer.write({
        ...{ path: this.#file.path, insert, remove, after: this.#lastId },
        running: this.runningTime(),
        expiredBy: isPruning ? this.#options.clock.now() : undefined,
      })
      for (const row of insert)
        if (this.#unsaved.get(row.sid) === row) this.#unsaved.delete(row.sid)
      for (const sid of remove) this.#unremoved.delete(sid)
      this.#take(rows)
      this.#note('writing')
      this.#note('reading')
    } catch (cause) {
      this.#isPruneDue ||= isPruning
      this.#note('writing', cause)
      this.#retrySoon()
      throw this.#unavailable(cause)
    } finally {
      this.#isWriting = false
    }
  }

  #retrySoon(): void {
    if (this.#isClosed) return
    this.#retry ??= this.#options.clock.setTimer(() => {
      this.#retry = undefined
      this.#commit().catch(() => {})
    }, SECOND)
  }

  #prune(): void {
    const [now, running] = [this.#options.clock.now(), this.runningTime()]
    this.ended.forget(({ until, due }) => until <= now && due <= running)
    this.#isPruneDue = true
    this.#commit().catch(() => {})
  }

  #collapse(person: string): boolean {
    const collapsed = this.ended.collapse(person)
    if (!collapsed) return false
    this.#unsaved.set(collapsed.range.sid, collapsed.range)
    for (const { sid } of collapsed.instead) {
      this.#unsaved.delete(sid)
      this.#unremoved.add(sid)
    }
    return true
  }

  #unavailable(cause: unknown): FwaError {
    const { message } = cause as Error
    const why = `the list of ended sessions in ${this.#options.folder} cannot be used: ${message}`
    return new FwaError('FWA_STORE_UNAVAILABLE', why, { cause, retryAfter: 5 })
  }
}

/** The lifetime is that of the token, so that it does not depend on a clock. */
function rowOf({ sid, person, iat, exp, generation }: Session, running: number): Row {
  const lifetime = (exp - iat) * SECOND
  return {
    ...{ sid, person, first: iat, last: iat, generation },
    ...{ until: exp * SECOND + MARGIN, due: running + lifetime + MARGIN },
  }
}

function repeat(clock: Clock, interval: number, action: () => void): { stop(): void } {
  let timer = clock.setTimer(run, interval)
  function run(): void {
    action()
    timer = clock.setTimer(run, interval)
  }
  return { stop: () => timer.cancel() }
}

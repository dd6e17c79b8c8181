import { setTimeout } from 'node:timers/promises'
import { type Clock, type HealthReport, systemClock } from '@gatehouse/service-kit'
import { FwaError } from '../../errors.ts'
import {
  type AuditStore,
  type AuthStore,
  type CompletedLogin,
  MARGIN,
  type RevocationChange,
  type RevocationFollower,
  type SecretName,
  type StoreOptions,
} from '../store.ts'
import { auditFolder, DayFiles } from './day-files.ts'
import { storedSecret } from './secret-file.ts'
import { isLocked, StateFile, type StoredRevocation } from './state-file.ts'
import { StateWriter, type Written } from './state-writer.ts'

/** Delay until an instance sees what another one on the same folder wrote, in ms. */
const POLL_INTERVAL = 1_000
/** Pause between two commits, in real ms for the disk; the next one takes all that came meanwhile. */
const PAUSE = 50
/** Tries of a read while another instance commits, and the pause between two of them, in real ms. */
const READ_TRIES = 80
const READ_PAUSE = 25

/** What waits for the next commit. */
interface Waiting {
  readonly changes: RevocationChange[]
  readonly logins: CompletedLogin[]
}

/**
 * A folder that several instances may share: each sees the revocations of the others within a second.
 * Its running time counts once for all of them, as none counts from more than it has read.
 */
export class SqliteStore implements AuthStore {
  readonly clock: Clock
  readonly audit: AuditStore
  readonly #folder: string
  readonly #log: StoreOptions['log']
  readonly #monotonic: () => number
  readonly #writer = new StateWriter()
  readonly #failing = { reading: false, writing: false }
  /** When the folder was first used, on the monotonic clock. */
  readonly #start: number
  #file: StateFile
  #follower: RevocationFollower | undefined
  #poll: { cancel(): void } | undefined
  #lastId = 0
  #isPruneDue = true
  #isClosed = false
  #waiting: Waiting = { changes: [], logins: [] }
  #writing: Promise<unknown> | undefined
  #current: Promise<void> = Promise.resolve()
  #next: Promise<Written> | undefined

  /** Throws FwaError FWA_STORE_UNAVAILABLE. */
  constructor(folder: string, options: StoreOptions) {
    const { clock = systemClock, monotonic = () => performance.now(), log } = options
    this.clock = clock
    this.#folder = folder
    this.#log = log
    this.#monotonic = monotonic
    try {
      this.#file = new StateFile(folder)
      this.#start = this.#file.runningTime() - monotonic()
    } catch (cause) {
      throw this.#unavailable(cause)
    }
    const age = () => ({ now: clock.now(), running: this.runningTime() })
    this.audit = new DayFiles(auditFolder({ path: folder }), age)
  }

  runningTime(): number {
    return Math.floor(this.#start + this.#monotonic())
  }

  async follow(follower: RevocationFollower): Promise<void> {
    this.#follower = follower
    try {
      this.#take(await this.#unlocked(() => this.#file.rowsAfter(0)))
    } catch (cause) {
      throw this.#unavailable(cause)
    }
    this.#pollSoon()
  }

  async catchUp(): Promise<void> {
    // The commit in progress brings new rows, and reading would wait for its end.
    await this.#writing?.catch(() => {})
    await this.#read()
  }

  async revoke(change: RevocationChange): Promise<void> {
    this.#waiting.changes.push(change)
    await this.#commit()
  }

  async hasCompleted(login: string): Promise<boolean> {
    await this.#writing?.catch(() => {})
    try {
      return await this.#unlocked(() => this.#file.hasCompleted(login))
    } catch (cause) {
      this.#note('reading', cause)
      throw this.#unavailable(cause)
    }
  }

  async completeLogin(login: string, expiresAt: number): Promise<boolean> {
    const left = Math.max(expiresAt - this.clock.now(), 0)
    const due = this.runningTime() + left + MARGIN
    const index = this.#waiting.logins.push({ login, until: expiresAt + MARGIN, due }) - 1
    const { isFirst } = await this.#commit()
    return isFirst[index] === true
  }

  async prune(): Promise<void> {
    this.#isPruneDue = true
    await this.#commit()
  }

  secret(name: SecretName): Promise<string> {
    return storedSecret(this.#folder, name)
  }

  health(): HealthReport {
    return { unready: this.#failing.reading || this.#failing.writing ? 'store' : undefined }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#poll?.cancel()
    await this.#next?.catch(() => {})
    await this.#current
    await this.#writer.close()
    try {
      this.#file.keepRunningTime(this.runningTime())
    } catch {
      // The time since it was last written is lost, and rows stay longer.
    }
    this.#file.close()
  }

  #pollSoon(): void {
    this.#poll = this.clock.setTimer(() => {
      if (!this.#writing) void this.#read()
      this.#pollSoon()
    }, POLL_INTERVAL)
  }

  #take(rows: readonly StoredRevocation[]): void {
    this.#follower?.learn(rows)
    this.#lastId = rows.at(-1)?.id ?? this.#lastId
  }

  async #read(): Promise<void> {
    try {
      if (!this.#file.isThere()) this.#reopen()
      this.#take(await this.#unlocked(() => this.#file.rowsAfter(this.#lastId)))
      this.#note('reading')
    } catch (error) {
      if (!this.#isClosed) this.#note('reading', error)
    }
  }

  /** Reads once no other instance is committing, which locks the file for as long as its disk takes. */
  async #unlocked<T>(read: () => T): Promise<T> {
    for (let left = READ_TRIES; ; left--)
      try {
        return read()
      } catch (error) {
        if (left === 0 || !isLocked(error)) throw error
        await setTimeout(READ_PAUSE)
      }
  }

  /** The file was removed or replaced. */
  #reopen(): void {
    const folder = this.#folder
    this.#log.error({ folder }, 'the list of ended sessions was replaced: it is written anew')
    const fresh = new StateFile(folder)
    this.#file.close()
    this.#file = fresh
    this.#lastId = 0
    this.#follower?.write([...this.#follower.rows()])
  }

  /** One commit is in progress at most, and the next one takes all that came meanwhile. */
  #commit(): Promise<Written> {
    this.#next ??= this.#current.then(() => {
      this.#next = undefined
      const written = this.#write()
      this.#writing = written
      this.#current = written
        .catch(() => {})
        .then(() => {
          this.#writing = undefined
          return setTimeout(PAUSE)
        })
      return written
    })
    return this.#next
  }

  async #write(): Promise<Written> {
    const { changes, logins } = this.#waiting
    this.#waiting = { changes: [], logins: [] }
    const isPruning = this.#isPruneDue
    this.#isPruneDue = false
    try {
      const written = await this.#writer.write({
        ...{ path: this.#file.path, logins, after: this.#lastId },
        add: changes.flatMap(({ add }) => add),
        remove: changes.flatMap(({ remove }) => remove),
        running: this.runningTime(),
        expiredBy: isPruning ? this.clock.now() : undefined,
      })
      this.#take(written.rows)
      this.#note('writing')
      this.#note('reading')
      return written
    } catch (cause) {
      this.#isPruneDue ||= isPruning
      this.#note('writing', cause)
      throw this.#unavailable(cause)
    }
  }

  #note(what: 'reading' | 'writing', cause?: unknown): void {
    if (cause !== undefined && !this.#failing[what])
      this.#log.error({ err: cause }, `the list of ended sessions cannot be used: ${what} fails`)
    this.#failing[what] = cause !== undefined
  }

  #unavailable(cause: unknown): FwaError {
    const { message } = cause as Error
    const why = `the list of ended sessions in ${this.#folder} cannot be used: ${message}`
    return new FwaError('FWA_STORE_UNAVAILABLE', why, { cause, retryAfter: 5 })
  }
}

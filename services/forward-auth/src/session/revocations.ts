import { FwaError } from '../errors.ts'
import { type AuthStore, MARGIN, type Revocation, type RevocationFollower } from '../store/store.ts'
import { EndedSessions, rangeId } from './ended-sessions.ts'
import type { Session } from './session.ts'

const SECOND = 1_000
const PRUNE_INTERVAL = 600 * SECOND
const MAX_ROWS = 1_000_000

type Share = (rows: readonly Revocation[]) => Promise<void>

/**
 * The revoked sessions of all instances, in memory. A row is removed when its sessions have expired
 * both by the clock and by the time that the store has been in use, so that a clock that was ahead
 * brings no session back.
 */
export class Revocations implements RevocationFollower {
  readonly ended = new EndedSessions()
  readonly #store: AuthStore
  readonly #share: Share
  readonly #unsaved = new Map<string, Revocation>()
  readonly #unremoved = new Set<string>()
  #isClosed = false
  #current: Promise<void> = Promise.resolve()
  #next: Promise<void> | undefined
  #retry: { cancel(): void } | undefined
  #pruning: { cancel(): void } | undefined

  /** @param share - tells other processes of this instance at once what is stored */
  constructor(store: AuthStore, share: Share = async () => {}) {
    this.#store = store
    this.#share = share
  }

  /** Learns what has been revoked before. Rejects with FwaError FWA_STORE_UNAVAILABLE. */
  async open(): Promise<void> {
    await this.#store.follow(this)
    this.#pruneLater()
  }

  learn(rows: readonly Revocation[]): void {
    for (const row of rows) this.ended.learn(row)
  }

  rows(): Iterable<Revocation> {
    return this.ended.rows()
  }

  write(rows: readonly Revocation[]): void {
    for (const row of rows) this.#unsaved.set(row.sid, row)
    this.#commit().catch(() => {})
  }

  /**
   * Revokes a session, on this instance at once. The promise resolves when the revocation is stored
   * and was shared. If it rejects, writing is tried again every second while the process runs.
   *
   * @param onRange - called if the person has ended so many sessions that all in between end too
   */
  async add(session: Session, onRange: () => void = () => {}): Promise<void> {
    if (this.ended.size >= MAX_ROWS) {
      const why = 'the list of ended sessions is full'
      throw new FwaError('FWA_STORE_UNAVAILABLE', why, { retryAfter: 5 })
    }
    const row = rowOf(session, this.#store.runningTime())
    this.ended.learn(row)
    this.#unsaved.set(row.sid, row)
    const range = this.#collapse(row.person)
    if (range) onRange()
    await this.#commit()
    await this.#share([range ?? row])
  }

  /** Whether a session is revoked, and that is stored. */
  isStored(session: Session): boolean {
    const { sid, person } = session
    return this.ended.has(session) && ![sid, rangeId(person)].some((id) => this.#unsaved.has(id))
  }

  /** Stops what it repeats. What was added is written, if that is possible. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#pruning?.cancel()
    this.#retry?.cancel()
    await (this.#next ?? this.#current).catch(() => {})
  }

  /** Writes all unsaved rows. One write is in progress at most, and the next takes what came since. */
  #commit(): Promise<void> {
    this.#next ??= this.#current.then(() => {
      this.#next = undefined
      const done = this.#write()
      this.#current = done.catch(() => {})
      return done
    })
    return this.#next
  }

  async #write(): Promise<void> {
    const add = [...this.#unsaved.values()]
    const remove = [...this.#unremoved]
    try {
      await this.#store.revoke({ add, remove })
    } catch (error) {
      this.#retrySoon()
      throw error
    }
    for (const row of add) if (this.#unsaved.get(row.sid) === row) this.#unsaved.delete(row.sid)
    for (const sid of remove) this.#unremoved.delete(sid)
  }

  #retrySoon(): void {
    if (this.#isClosed) return
    this.#retry ??= this.#store.clock.setTimer(() => {
      this.#retry = undefined
      this.#commit().catch(() => {})
    }, SECOND)
  }

  #pruneLater(): void {
    const { clock } = this.#store
    this.#pruning = clock.setTimer(() => {
      const now = clock.now()
      const running = this.#store.runningTime()
      this.ended.forget(({ until, due }) => until <= now && due <= running)
      this.#store.prune().catch(() => this.#retrySoon())
      this.#pruneLater()
    }, PRUNE_INTERVAL)
  }

  #collapse(person: string): Revocation | undefined {
    const collapsed = this.ended.collapse(person)
    if (!collapsed) return undefined
    this.#unsaved.set(collapsed.range.sid, collapsed.range)
    for (const { sid } of collapsed.instead) {
      this.#unsaved.delete(sid)
      this.#unremoved.add(sid)
    }
    return collapsed.range
  }
}

/** The lifetime is that of the token, so that it does not depend on a clock. */
function rowOf({ sid, person, iat, exp, generation }: Session, running: number): Revocation {
  const lifetime = (exp - iat) * SECOND
  return {
    sid,
    person,
    first: iat,
    last: iat,
    generation,
    until: exp * SECOND + MARGIN,
    due: running + lifetime + MARGIN,
  }
}

import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { type Clock, makeFolder } from '@gatehouse/service-kit'
import { FwaError } from '../errors.ts'

const FILE = 'revocations.db'
const SECOND = 1_000
/** In what time an instance sees what another one on the same folder wrote. */
const READ_EVERY = SECOND
const PRUNE_EVERY = 600 * SECOND
/** How long a revocation outlives its session, for instances whose clock is behind. */
const KEPT_LONGER = 3_600 * SECOND
/** Some 100 bytes each. */
const MAX_SESSIONS = 1_000_000
const BUSY_TIMEOUT = 500

/** The sessions that were ended before their time. */
export interface Revocations {
  /** From memory. */
  has(sid: string): boolean
  /** How many it has learned of: as long as it says the same, so does `has` of what it had not. */
  learned(): number
  /**
   * Writes a revocation down for good.
   *
   * @throws FwaError FWA_STORE_UNAVAILABLE: the session goes on
   */
  add(sid: string, expiresAt: number): void
  /** Whether the last reading or writing succeeded. */
  storeIsUp(): boolean
  close(): void
}

interface RevocationDeps {
  readonly folder: string
  readonly clock: Clock
  readonly log: { error(fields: object, message: string): void }
}

interface Row {
  readonly id: number
  readonly sid: string
  readonly until: number
}

/**
 * Opens the list in `folder`, which several instances may share: each sees the others' revocations
 * within a second.
 *
 * @throws FwaError FWA_STORE_UNAVAILABLE
 */
export function openRevocations({ folder, clock, log }: RevocationDeps): Revocations {
  const store = connect(folder)
  const revoked = new Map<string, number>()
  let learned = 0
  let lastId = 0
  let isUp = true

  /** Runs what touches the file, and notes whether it can. */
  function touch<T>(action: () => T): T {
    try {
      const result = action()
      isUp = true
      return result
    } catch (cause) {
      if (isUp) log.error({ err: cause }, 'the list of ended sessions cannot be used')
      isUp = false
      throw unavailable(folder, cause)
    }
  }

  function learn(sid: string, until: number): void {
    revoked.set(sid, until)
    learned += 1
  }

  function readNew(): void {
    for (const { id, sid, until } of store.after(lastId)) {
      learn(sid, until)
      lastId = id
    }
  }

  function prune(): void {
    for (const [sid, until] of revoked) if (until <= clock.now()) revoked.delete(sid)
    store.removeUntil(clock.now())
  }

  touch(readNew)
  const loops = [
    repeat(clock, READ_EVERY, () => touch(readNew)),
    repeat(clock, PRUNE_EVERY, () => touch(prune)),
  ]

  return {
    has: (sid) => revoked.has(sid),
    learned: () => learned,
    add(sid, expiresAt) {
      if (revoked.size >= MAX_SESSIONS)
        throw new FwaError('FWA_STORE_UNAVAILABLE', 'the list of ended sessions is full')
      const until = expiresAt + KEPT_LONGER
      touch(() => store.insert(sid, until))
      learn(sid, until)
    },
    storeIsUp: () => isUp,
    close() {
      for (const loop of loops) loop.stop()
      store.close()
    },
  }
}

/** Until it is stopped. What an action throws was told already, and the next one may succeed. */
function repeat(clock: Clock, every: number, action: () => void): { stop(): void } {
  let timer = clock.setTimer(run, every)
  function run(): void {
    try {
      action()
    } catch {}
    timer = clock.setTimer(run, every)
  }
  return { stop: () => timer.cancel() }
}

function connect(folder: string) {
  try {
    makeFolder(folder)
    const file = join(folder, FILE)
    closeSync(openSync(file, 'a', 0o600))
    const db = new DatabaseSync(file, { timeout: BUSY_TIMEOUT })
    // No WAL: it wants all instances on one machine.
    db.exec(`
      PRAGMA journal_mode = DELETE;
      PRAGMA synchronous = FULL;
      CREATE TABLE IF NOT EXISTS revoked (
        id INTEGER PRIMARY KEY AUTOINCREMENT, sid TEXT NOT NULL UNIQUE, until INTEGER NOT NULL
      ) STRICT`)
    const after = db.prepare('SELECT id, sid, until FROM revoked WHERE id > ? ORDER BY id')
    const insert = db.prepare('INSERT OR IGNORE INTO revoked (sid, until) VALUES (?, ?)')
    const removeUntil = db.prepare('DELETE FROM revoked WHERE until <= ?')
    return {
      after: (id: number) => after.all(id) as unknown as Row[],
      insert: (sid: string, until: number) => insert.run(sid, until),
      removeUntil: (time: number) => removeUntil.run(time),
      close: () => db.close(),
    }
  } catch (cause) {
    throw unavailable(folder, cause)
  }
}

function unavailable(folder: string, cause: unknown): FwaError {
  const { message } = cause as Error
  const why = `the list of ended sessions in ${folder} cannot be used: ${message}`
  return new FwaError('FWA_STORE_UNAVAILABLE', why, { cause, retryAfter: 5 })
}

import { join } from 'node:path'
import { systemClock } from '@gatehouse/service-kit/clock'
import { makeFolder } from '@gatehouse/service-kit/files'
import { asStoreError, SharedSqlite, StoreError } from '@gatehouse/store'
import { AuthStore } from '../auth-store.ts'
import type {
  AuditStore,
  SecretName,
  SessionEvent,
  SessionFollower,
  StoreOptions,
} from '../store.ts'
import { EVENTS, MIGRATIONS, RECENT } from '../tables.ts'
import { auditFolder, dayFilesIn } from './day-files.ts'
import { storedSecret } from './secret-file.ts'

/** The file of the store, named after its first contents. */
export const STATE_FILE = 'revocations.db'
/** Delay until an instance sees what another one on the same folder wrote, in ms. */
const POLL_INTERVAL = 1_000
const MEMBERS = 'id, kind, key, until'
const READ = EVENTS.select('WHERE id > $1 ORDER BY id', MEMBERS)
const READ_RECENT = EVENTS.select(RECENT, MEMBERS)

/** A folder that several instances may share: each sees what happens at the others within a second. */
export class SqliteStore extends AuthStore {
  readonly audit: AuditStore
  readonly staleness = undefined
  readonly #folder: string
  readonly #engine: SharedSqlite
  readonly #log: StoreOptions['log']
  #follower: SessionFollower | undefined
  /** The id of the last event that was read. */
  #lastId: number | undefined

  /** Throws StoreError. */
  constructor(folder: string, { clock = systemClock, monotonic, log }: StoreOptions) {
    const engine = open(folder, monotonic)
    super(engine, clock, log)
    this.#folder = folder
    this.#engine = engine
    this.#log = log
    this.audit = dayFilesIn(auditFolder({ path: folder }), () => this.age())
  }

  async follow(follower: SessionFollower): Promise<void> {
    this.#follower = follower
    await this.reportFailure('reading', this.#read())
    this.watch(POLL_INTERVAL)
  }

  async catchUp(): Promise<void> {
    await this.reportFailure('reading', this.#read()).catch(() => {})
  }

  secret(name: SecretName): Promise<string> {
    return storedSecret(this.#folder, name)
  }

  protected async look(): Promise<void> {
    await this.reportFailure('reading', this.#read())
    if (this.isFailing) await this.recheck()
  }

  async #read(): Promise<void> {
    const isReplaced = this.#engine.renew()
    if (isReplaced) {
      const folder = this.#folder
      this.#log.error({ folder }, 'the session store was replaced: everybody signs in again')
      this.#lastId = undefined
    }
    const after = this.#lastId === undefined ? [] : [this.#lastId]
    const sql = this.#lastId === undefined ? READ_RECENT : READ
    const rows = await this.#engine.all<SessionEvent & { readonly id: number }>(sql, ...after)
    const events = rows.map(({ id: _, ...event }) => event)
    if (this.#follower) await this.pass(this.#follower, events, isReplaced)
    this.#lastId = rows.at(-1)?.id ?? this.#lastId ?? 0
  }
}

function open(folder: string, monotonic: StoreOptions['monotonic']): SharedSqlite {
  try {
    makeFolder(folder)
    return new SharedSqlite(join(folder, STATE_FILE), MIGRATIONS, { elapsed: monotonic })
  } catch (cause) {
    if (cause instanceof StoreError) throw cause
    const { message } = asStoreError(cause) as Error
    const why = `The sessions in ${folder} cannot be used: ${message}`
    throw new StoreError('STORE_UNAVAILABLE', why, { cause })
  }
}

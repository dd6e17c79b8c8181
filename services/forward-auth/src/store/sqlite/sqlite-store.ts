import { join } from 'node:path'
import { systemClock } from '@gatehouse/service-kit/clock'
import { makeFolder } from '@gatehouse/service-kit/files'
import type { HealthReport } from '@gatehouse/service-kit/http'
import { SharedSqlite, StoreError, sqliteFailure } from '@gatehouse/store'
import { FwaError } from '../../errors.ts'
import { EngineStore } from '../engine-store.ts'
import type {
  AuditStore,
  AuthStore,
  Revocation,
  RevocationFollower,
  SecretName,
  StoreOptions,
} from '../store.ts'
import { MIGRATIONS, REVOKED } from '../tables.ts'
import { unavailable } from '../unavailable.ts'
import { auditFolder, DayFiles } from './day-files.ts'
import { storedSecret } from './secret-file.ts'

/** Named after what it held first. */
export const STATE_FILE = 'revocations.db'
/** Delay until an instance sees what another one on the same folder wrote, in ms. */
const POLL_INTERVAL = 1_000
const READ = REVOKED.select('WHERE id > $1 ORDER BY id')

/** A folder that several instances may share: each sees the revocations of the others within a second. */
export class SqliteStore extends EngineStore implements AuthStore {
  readonly audit: AuditStore
  readonly #folder: string
  readonly #engine: SharedSqlite
  readonly #log: StoreOptions['log']
  #follower: RevocationFollower | undefined
  #lastId = 0

  /** Throws FwaError FWA_STORE_UNAVAILABLE; StoreError of a store of another version. */
  constructor(folder: string, { clock = systemClock, monotonic, log }: StoreOptions) {
    const engine = open(folder, monotonic)
    super(engine, clock, log)
    this.#folder = folder
    this.#engine = engine
    this.#log = log
    this.audit = new DayFiles(auditFolder({ path: folder }), () => this.age())
  }

  async follow(follower: RevocationFollower): Promise<void> {
    this.#follower = follower
    await this.told('reading', this.#read())
    this.watch(POLL_INTERVAL)
  }

  async catchUp(): Promise<void> {
    await this.told('reading', this.#read()).catch(() => {})
  }

  secret(name: SecretName): Promise<string> {
    return storedSecret(this.#folder, name)
  }

  health(): HealthReport {
    return { unready: this.isFailing ? 'store' : undefined }
  }

  protected async look(): Promise<void> {
    await this.told('reading', this.#read())
    if (this.isFailing) await this.recheck()
  }

  async #read(): Promise<void> {
    if (this.#engine.renew()) this.#rewrite()
    const rows = await this.#engine.all<Revocation & { readonly id: number }>(READ, this.#lastId)
    this.#follower?.learn(rows.map(({ id: _, ...row }) => row))
    this.#lastId = rows.at(-1)?.id ?? this.#lastId
  }

  /** The file was removed or replaced. */
  #rewrite(): void {
    const folder = this.#folder
    this.#log.error({ folder }, 'the list of ended sessions was replaced: it is written again')
    this.#lastId = 0
    this.#follower?.write([...this.#follower.rows()])
  }
}

function open(folder: string, monotonic: StoreOptions['monotonic']): SharedSqlite {
  try {
    makeFolder(folder)
    const options = { elapsed: monotonic, reported: unavailable }
    return new SharedSqlite(join(folder, STATE_FILE), MIGRATIONS, options)
  } catch (cause) {
    if (cause instanceof StoreError) throw cause
    const { message } = sqliteFailure(cause) ?? (cause as Error)
    const why = `the list of ended sessions in ${folder} cannot be used: ${message}`
    throw new FwaError('FWA_STORE_UNAVAILABLE', why, { cause, retryAfter: 5 })
  }
}

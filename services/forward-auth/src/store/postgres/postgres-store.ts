import {
  type Feed,
  openPostgres,
  type Postgres,
  type PostgresOptions,
  parsePostgresUrl,
} from '@gatehouse/postgres'
import {
  type Clock,
  type HealthReport,
  requireNamedFile,
  systemClock,
} from '@gatehouse/service-kit'
import { FwaError } from '../../errors.ts'
import type { KeyRing } from '../../key-ring.ts'
import {
  type AuditStore,
  type AuthStore,
  type CompletedLogin,
  MARGIN,
  type Revocation,
  type RevocationChange,
  type RevocationFollower,
  type SecretName,
  type StoredAuditRow,
  type StoreOptions,
} from '../store.ts'
import { AuditTable, readRows } from './audit-table.ts'
import { MIGRATIONS } from './migrations.ts'
import { SealedSecrets } from './sealed-secrets.ts'
import { completions, PRUNE, READ, revocations } from './statements.ts'
import { unavailable } from './unavailable.ts'

/** Ms for which a database is waited for at the start. Less than the timeout of plugins. */
const PATIENCE = 30_000

export interface PostgresConfig {
  readonly url: string
  readonly caFile?: string
  readonly schema: string
  /** In ms. */
  readonly revocationStaleness: number
  readonly whenStale: 'refuse' | 'allow'
}

/**
 * Opens a schema of PostgreSQL, which any number of instances share.
 *
 * @throws PostgresError; FwaError FWA_STORE_UNAVAILABLE; ConfigError CONFIG_FILE_UNUSABLE
 */
export async function openPostgresStore(
  config: PostgresConfig,
  options: StoreOptions,
): Promise<AuthStore> {
  const db = await connect(config, { feeds: ['revoked'], log: options.log })
  try {
    const [row] = await db.all<{ ms: number }>('SELECT ms FROM running')
    return new PostgresStore(db, config, options, row?.ms ?? 0)
  } catch (error) {
    await db.close()
    throw unavailable(error)
  }
}

/** Reads the audit trail of a schema that exists, in which nothing changes. Throws PostgresError. */
export async function* readAuditTable(
  config: PostgresConfig,
  since: number,
): AsyncGenerator<StoredAuditRow> {
  const log = { info() {}, warn() {} }
  const db = await connect(config, { existing: true, log })
  try {
    yield* readRows(db, since)
  } finally {
    await db.close()
  }
}

function connect(
  { url, caFile, schema }: PostgresConfig,
  options: Pick<PostgresOptions, 'existing' | 'feeds' | 'log'>,
): Promise<Postgres> {
  return openPostgres({
    url: parsePostgresUrl(url),
    ca: caFile === undefined ? undefined : requireNamedFile('storage.caFile', caFile),
    schema,
    name: 'gatehouse-auth',
    migrations: MIGRATIONS,
    patience: PATIENCE,
    ...options,
  })
}

class PostgresStore implements AuthStore {
  readonly clock: Clock
  readonly audit: AuditStore
  readonly staleness: AuthStore['staleness']
  readonly #db: Postgres
  readonly #config: PostgresConfig
  readonly #log: StoreOptions['log']
  readonly #secrets: SealedSecrets
  readonly #channel: string
  readonly #change: (change: RevocationChange) => Promise<void>
  readonly #complete: (login: CompletedLogin) => Promise<boolean>
  readonly #monotonic: () => number
  /** When the schema was first used, on the monotonic clock. */
  readonly #start: number
  #feed: Feed | undefined

  constructor(db: Postgres, config: PostgresConfig, options: StoreOptions, saved: number) {
    const { monotonic = () => performance.now(), log } = options
    const now = () => db.clock.now()
    this.clock = options.clock ?? { now, setTimer: systemClock.setTimer }
    this.#db = db
    this.#config = config
    this.#log = log
    this.#monotonic = monotonic
    this.#start = saved - monotonic()
    this.#secrets = new SealedSecrets(db)
    this.#channel = `${config.schema}_revoked`
    this.#change = db.turn(revocations(this.#channel))
    this.#complete = db.turn(completions)
    this.audit = new AuditTable({
      db,
      age: () => this.#age(),
      isLeading: () => this.#isLeading(),
    })
    if (config.whenStale === 'refuse')
      this.staleness = () => (this.#isStale() ? stale(this.#lag()) : undefined)
  }

  runningTime(): number {
    return Math.floor(this.#start + this.#monotonic())
  }

  async follow(follower: RevocationFollower): Promise<void> {
    this.#feed = this.#db.follow<Revocation>({
      channel: this.#channel,
      sql: READ,
      apply: (rows, isComplete) => {
        follower.learn(rows)
        if (isComplete) this.#restore(rows, follower)
      },
    })
    await whenAvailable(this.#feed.read())
  }

  async catchUp(): Promise<void> {
    // Without the database, what is in memory counts, as it does for checks.
    await this.#feed?.read().catch(() => {})
  }

  revoke(change: RevocationChange): Promise<void> {
    return whenAvailable(this.#change(change))
  }

  async hasCompleted(login: string): Promise<boolean> {
    const sql = 'SELECT 1 AS found FROM completed WHERE login = $1'
    return (await whenAvailable(this.#db.all(sql, [login]))).length > 0
  }

  completeLogin(login: string, expiresAt: number): Promise<boolean> {
    const { now, running } = this.#age()
    const due = running + Math.max(expiresAt - now, 0) + MARGIN
    return whenAvailable(this.#complete({ login, until: expiresAt + MARGIN, due }))
  }

  async prune(): Promise<void> {
    await whenAvailable(this.#pruneAsLeader())
  }

  secret(name: SecretName, sealing?: KeyRing): Promise<string> {
    if (sealing) return this.#secrets.open(name, sealing)
    throw new FwaError('FWA_KEY_UNUSABLE', 'storage.url needs session.keys')
  }

  health(): HealthReport {
    if (this.#isStale() && this.staleness) return { unready: 'store' }
    return { degraded: this.#db.failure() || this.#isStale() ? ['store'] : [] }
  }

  async close(): Promise<void> {
    this.#feed?.close()
    // Otherwise the time since it was last saved is lost, and rows stay longer.
    if (!this.#db.failure()) await this.#db.write([this.#running()]).catch(() => {})
    await this.#db.close()
  }

  async #pruneAsLeader(): Promise<void> {
    await this.#db.prune()
    if (!(await this.#isLeading())) return
    const { now, running } = this.#age()
    const params = [now, running]
    await this.#db.write([this.#running(), ...PRUNE.map((sql) => ({ sql, params }))])
  }

  #running() {
    const sql = 'UPDATE running SET ms = greatest(ms, $1::bigint)'
    return { sql, params: [this.runningTime()] }
  }

  #age() {
    return { now: this.clock.now(), running: this.runningTime() }
  }

  #isLeading(): Promise<boolean> {
    return this.#db.tryLead('maintenance')
  }

  #lag(): number {
    return this.#feed?.lag() ?? 0
  }

  #isStale(): boolean {
    return this.#lag() > this.#config.revocationStaleness
  }

  /** A database that was restored, or failed over to a copy that was behind, gets back what it lost. */
  #restore(stored: readonly Revocation[], follower: RevocationFollower): void {
    const known = new Map(stored.map((row) => [row.sid, row]))
    const { now, running } = this.#age()
    const lost = [...follower.rows()].filter((row) => {
      const other = known.get(row.sid)
      const isOver = row.until <= now && row.due <= running
      return !isOver && !(other && isWithin(row, other))
    })
    if (lost.length === 0) return
    this.#log.warn(
      { rows: lost.length },
      'ended sessions that the database lacks are written again',
    )
    follower.write(lost)
  }
}

function isWithin(row: Revocation, other: Revocation): boolean {
  return other.first <= row.first && row.last <= other.last && row.generation <= other.generation
}

async function whenAvailable<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    throw unavailable(error)
  }
}

function stale(lag: number): FwaError {
  const seconds = Math.floor(lag / 1_000)
  const text = `for ${seconds} seconds it has not been known who signed out elsewhere`
  return new FwaError('FWA_STORE_STALE', text, { retryAfter: 5, expose: true })
}

import { systemClock } from '@gatehouse/service-kit/clock'
import { requireNamedFile } from '@gatehouse/service-kit/config'
import type { HealthReport } from '@gatehouse/service-kit/http'
import {
  type Feed,
  openPostgres,
  type Postgres,
  type PostgresOptions,
  parsePostgresUrl,
  type Transaction,
} from '@gatehouse/store'
import { FwaError } from '../../errors.ts'
import type { KeyRing } from '../../key-ring.ts'
import { EngineStore } from '../engine-store.ts'
import type { PostgresConfig } from '../storage-schema.ts'
import type {
  AuditStore,
  AuthStore,
  Revocation,
  RevocationChange,
  RevocationFollower,
  SecretName,
  StoredAuditRow,
  StoreOptions,
} from '../store.ts'
import { MIGRATIONS, REVOKED, TABLES } from '../tables.ts'
import { unavailable } from '../unavailable.ts'
import { AuditTable, MAINTENANCE, readRows } from './audit-table.ts'
import { SealedSecrets } from './sealed-secrets.ts'

/** Ms for which a database is waited for at the start. Less than the timeout of plugins. */
const PATIENCE = 30_000
/** Ms between two tests whether the database can be written. */
const CHECK_INTERVAL = 5_000
/** The revocations of transactions since one. */
const READ = REVOKED.select(
  'WHERE xid >= $1::xid8',
  'sid, person, first, last, generation, until, due',
)
const TELL = `SELECT pg_notify($1, '')`

/**
 * Opens a schema of PostgreSQL, which any number of instances share.
 *
 * @throws StoreError; ConfigError CONFIG_FILE_UNUSABLE
 */
export async function openPostgresStore(
  config: PostgresConfig,
  options: StoreOptions,
): Promise<AuthStore> {
  const { log, monotonic: elapsed } = options
  const db = await connect(config, {
    log,
    elapsed,
    reported: unavailable,
    feeds: [REVOKED.name],
    writable: TABLES.postgres.map(({ name }) => name),
  })
  return new PostgresStore(db, config, options)
}

/** Reads the audit trail of a schema that exists, in which nothing changes. Throws StoreError. */
export async function* readAuditTable(
  config: PostgresConfig,
  since: number,
): AsyncGenerator<StoredAuditRow> {
  const log = { info() {}, warn() {} }
  await using db = await connect(config, { existing: true, log })
  yield* readRows(db, since)
}

function connect(
  { url, caFile, schema }: PostgresConfig,
  options: Omit<PostgresOptions, 'url' | 'schema' | 'name' | 'migrations'>,
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

class PostgresStore extends EngineStore implements AuthStore {
  readonly audit: AuditStore
  readonly staleness: AuthStore['staleness']
  readonly #db: Postgres
  readonly #config: PostgresConfig
  readonly #log: StoreOptions['log']
  readonly #secrets: SealedSecrets
  readonly #channel: string
  #feed: Feed | undefined

  constructor(db: Postgres, config: PostgresConfig, { clock, log }: StoreOptions) {
    const now = () => db.clock.now()
    super(db, clock ?? { now, setTimer: systemClock.setTimer }, log)
    this.#db = db
    this.#config = config
    this.#log = log
    this.#secrets = new SealedSecrets(db)
    this.#channel = `${config.schema}_revoked`
    this.audit = new AuditTable(db, () => this.age())
    if (config.whenStale === 'refuse')
      this.staleness = () => {
        if (!this.#isStale()) return undefined
        const seconds = Math.floor(this.#lag() / 1_000)
        const text = `for ${seconds} seconds it has not been known who signed out elsewhere`
        return new FwaError('FWA_STORE_STALE', text, { retryAfter: 5, expose: true })
      }
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
    await this.told('reading', this.#feed.read())
    this.watch(CHECK_INTERVAL)
  }

  async catchUp(): Promise<void> {
    // Without the database, what is in memory counts, as it does for checks.
    await this.#feed?.read().catch(() => {})
  }

  override async prune(): Promise<void> {
    await this.told('writing', this.#db.prune())
    if (await this.#db.tryLead(MAINTENANCE)) await super.prune()
  }

  secret(name: SecretName, sealing?: KeyRing): Promise<string> {
    if (sealing) return this.#secrets.open(name, sealing)
    throw new FwaError('FWA_KEY_UNUSABLE', 'storage.url needs session.keys')
  }

  health(): HealthReport {
    if (this.#isStale() && this.staleness) return { unready: 'store' }
    return { degraded: this.#db.failure() || this.#isStale() ? ['store'] : [] }
  }

  protected look(): Promise<void> {
    return this.recheck()
  }

  /** Tells the other instances if there are new rows. */
  protected override async change(tx: Transaction, change: RevocationChange): Promise<void> {
    await super.change(tx, change)
    if (change.add.length > 0) await tx.all(TELL, this.#channel)
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
    const { now, running } = this.age()
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

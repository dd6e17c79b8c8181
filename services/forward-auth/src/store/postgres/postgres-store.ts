import { systemClock } from '@gatehouse/service-kit/clock'
import { requireNamedFile } from '@gatehouse/service-kit/config'
import type { HealthReport } from '@gatehouse/service-kit/http'
import {
  type Feed,
  openPostgres,
  type Postgres,
  type PostgresOptions,
  parsePostgresUrl,
  StoreError,
} from '@gatehouse/store'
import { FwaError } from '../../errors.ts'
import type { KeyRing } from '../../keys/key-ring.ts'
import { AuthStore } from '../auth-store.ts'
import type { PostgresConfig } from '../storage-schema.ts'
import type {
  AuditStore,
  SecretName,
  SessionEvent,
  SessionFollower,
  StoredAuditRow,
  StoreOptions,
} from '../store.ts'
import { EVENTS, MIGRATIONS, RECENT, TABLES } from '../tables.ts'
import { auditTableOf, MAINTENANCE, readRows } from './audit-table.ts'
import { sealedSecretsOf } from './sealed-secrets.ts'

/** Ms for which a database is waited for at the start. Less than the timeout of plugins. */
const PATIENCE = 30_000
/** Ms between two tests whether the database can be written, and of what has failed. */
const CHECK_INTERVAL = 5_000
const RETRY_INTERVAL = 1_000
/** The events of transactions since one. */
const READ = EVENTS.select('WHERE xid >= $1::xid8', 'kind, key, until')
const READ_RECENT = EVENTS.select(RECENT, 'kind, key, until')
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
    feeds: [EVENTS.name],
    writable: TABLES.map(({ name }) => name),
  })
  return new PostgresStore(db, config, options)
}

/** Reads the audit trail of a schema that exists, in which nothing changes. Throws StoreError. */
export async function* readAuditTable(
  config: PostgresConfig,
  since: number,
  until?: number,
): AsyncGenerator<StoredAuditRow> {
  const log = { info() {}, warn() {} }
  await using db = await connect(config, { existing: true, log })
  yield* readRows(db, since, until)
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

class PostgresStore extends AuthStore {
  readonly audit: AuditStore
  readonly staleness: AuthStore['staleness']
  #checkedAt = 0
  readonly #db: Postgres
  readonly #config: PostgresConfig
  readonly #openSecret: ReturnType<typeof sealedSecretsOf>
  readonly #channel: string
  #feed: Feed | undefined

  constructor(db: Postgres, config: PostgresConfig, { clock, log }: StoreOptions) {
    const now = () => db.clock.now()
    super(db, clock ?? { now, setTimer: systemClock.setTimer }, log)
    this.#db = db
    this.#config = config
    this.#openSecret = sealedSecretsOf(db)
    this.#channel = `${config.schema}_events`
    this.audit = auditTableOf(db, () => this.age())
    if (config.whenStale === 'refuse')
      this.staleness = () => {
        if (!this.#isStale()) return undefined
        const seconds = Math.floor(this.#lag() / 1_000)
        const text = `for ${seconds} seconds it has not been known who signed out elsewhere`
        return new StoreError('STORE_UNAVAILABLE', text, { retryAfter: 5, expose: true })
      }
  }

  async follow(follower: SessionFollower): Promise<void> {
    this.#feed = this.#db.follow<SessionEvent>({
      channel: this.#channel,
      sql: READ,
      full: READ_RECENT,
      apply: (events, full) => this.pass(follower, events, full),
    })
    await this.reportFailure('reading', this.#feed.read())
    this.watch(RETRY_INTERVAL)
  }

  async catchUp(): Promise<void> {
    // Without the database, what is in memory counts, as it does for checks.
    await this.#feed?.read().catch(() => {})
  }

  override async prune(): Promise<void> {
    await this.reportFailure('writing', this.#db.prune())
    if (await this.#db.tryLead(MAINTENANCE)) await super.prune()
  }

  secret(name: SecretName, sealing?: KeyRing): Promise<string> {
    if (sealing) return this.#openSecret(name, sealing)
    throw new FwaError('FWA_KEY_UNUSABLE', 'storage.url needs session.keys')
  }

  override health(): HealthReport {
    if (!this.#isStale()) return super.health()
    return this.staleness ? { unready: 'store' } : { degraded: ['store'] }
  }

  protected async look(): Promise<void> {
    const age = Math.abs(this.clock.now() - this.#checkedAt)
    if (!this.isFailing && age < CHECK_INTERVAL) return
    this.#checkedAt = this.clock.now()
    await this.recheck()
  }

  /** Tells the other instances that there are new rows. */
  protected override async addEvents(...[tx, events]: Parameters<AuthStore['addEvents']>) {
    await super.addEvents(tx, events)
    if (events.length > 0) await tx.all(TELL, this.#channel)
  }

  #lag(): number {
    return this.#feed?.lag() ?? 0
  }

  #isStale(): boolean {
    return this.#lag() > this.#config.revocationStaleness
  }
}

export {
  type Engine,
  groupCommit,
  type Parameter,
  type Queries,
  type Row,
  shareNext,
  type Transaction,
  type WriteOptions,
} from './engine.ts'
export {
  isUnavailable,
  STORE_ERRORS,
  StoreError,
  type StoreErrorCode,
  storeUnavailable,
} from './errors.ts'
export type { Migration } from './migrations.ts'
export { outboxOn, WAITING } from './outbox.ts'
export type { Feed, FeedOptions } from './postgres/feed.ts'
export type { PostgresLog } from './postgres/log.ts'
export {
  openPostgres,
  type Postgres,
  type PostgresOptions,
  SCHEMA_PATTERN,
} from './postgres/postgres.ts'
export { type PostgresHost, type PostgresUrl, parsePostgresUrl } from './postgres/url.ts'
export { asStoreError, isBusy } from './sqlite/failures.ts'
export { SqliteHealth } from './sqlite/health.ts'
export { migrateSqlite, requireMigratedSqlite } from './sqlite/migrate.ts'
export { SharedSqlite, Sqlite } from './sqlite/sqlite.ts'
export {
  type ColumnType,
  columns,
  indexable,
  MAX_INDEXED,
  type RecordOf,
  type RowOf,
  Table,
  type TableOptions,
} from './tables.ts'

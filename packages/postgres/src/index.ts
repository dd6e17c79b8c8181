export { POSTGRES_ERRORS, PostgresError, type PostgresErrorCode } from './errors.ts'
export type { Feed, FeedOptions } from './feed.ts'
export type { PostgresLog } from './log.ts'
export {
  openPostgres,
  type Postgres,
  type PostgresOptions,
  SCHEMA_PATTERN,
  type Transaction,
  type WriteOptions,
} from './postgres.ts'
export type { ArrayElement, Parameter, Row, Statement } from './statement.ts'
export type { Turn } from './turns.ts'
export { type PostgresHost, type PostgresUrl, parsePostgresUrl } from './url.ts'

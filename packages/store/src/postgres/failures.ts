import { certificateFault, codeOf, describeConnectionFault } from '@gatehouse/net'
import { StoreError } from '../errors.ts'
import type { FailedStatements } from '../failed-statements.ts'
import type { Connection, Statement } from './connection.ts'

/**
 * The meaning of an error of a statement.
 *
 * - `conflict`: with another transaction; nothing was written, and it may be tried again
 * - `replan`: the schema changed under a prepared statement; a new connection does not know that one
 * - `lost`: the connection or the server is gone; a write whose COMMIT was sent may have been committed
 * - `read-only`: nothing was written; if it was a write, the server is not the right one
 * - `written`: an earlier attempt of this write was committed
 * - `busy`: the database works but not now, such as with a full disk
 * - `rejected`: the statement is at fault, or the code around it
 */
export type Failure = 'conflict' | 'replan' | 'lost' | 'read-only' | 'written' | 'busy' | 'rejected'

/** An error of pg that has five characters of SQLSTATE came from the server. */
interface ServerError extends Error {
  readonly code: string
  readonly constraint?: string
  readonly table?: string
  readonly routine?: string
}

const RETRY_AFTER = 2
const TOOK_TOO_LONG = '57014'
const PREFIX = 'The database cannot be used: '

const REASONS: Readonly<Record<string, string>> = {
  '25006': 'it is read-only',
  '53100': 'its disk is full',
  '53200': 'it is out of memory',
  '53300': 'it has no connection left',
  '55P03': 'a lock was not free in time',
  [TOOK_TOO_LONG]: 'a statement took too long',
  '57P03': 'it starts up or shuts down',
}

/** Errors of a connection that last until somebody configures something. */
const REFUSALS: Readonly<Record<string, string>> = {
  '28000': 'pg_hba.conf does not let this user in, or there is no such user',
  '28P01': 'the password is wrong, or there is no such user',
  '3D000': 'there is no such database',
  '42501': 'the user lacks a right',
}

/** What pg throws without a code. */
const NO_TLS = 'The server does not support SSL connections'

/** What is wrong with TLS, which lasts as {@link REFUSALS} do. */
function tlsFault(error: unknown): string | undefined {
  if ((error as Error).message === NO_TLS)
    return 'it has no TLS; `?sslmode=disable` in its URL does without, in a network that nobody else can read'
  const fault = certificateFault(codeOf(error))
  return fault && `${fault}; \`storage.caFile\` names the root of a private CA`
}

export function isRefusal(error: unknown): boolean {
  const reason = isServerError(error) ? REFUSALS[error.code] : tlsFault(error)
  return reason !== undefined
}

/** Whether the server works, and has no room for one more connection. */
export function isFull(error: unknown): boolean {
  return isServerError(error) && error.code === '53300'
}

function isServerError(error: unknown): error is ServerError {
  const { code, severity } = error as { code?: unknown; severity?: unknown }
  return error instanceof Error && typeof code === 'string' && severity !== undefined
}

/** An error together with what it means. */
export class StatementFailure extends Error {
  readonly failure: Failure
  readonly error: unknown

  constructor(failure: Failure, error: unknown) {
    super(failure, { cause: error })
    this.failure = failure
    this.error = error
  }
}

/** Runs `job`. Classifies what it throws, and ends a connection that is no longer of use. */
export async function diagnose<T>(connection: Connection, job: () => Promise<T>): Promise<T> {
  try {
    return await job()
  } catch (error) {
    const failure = failureOf(connection, error)
    if (failure === 'lost') connection.destroy(error as Error)
    if (failure === 'replan') void connection.close()
    throw new StatementFailure(failure, failure === 'lost' ? connection.lost : error)
  }
}

function failureOf(connection: Connection, error: unknown): Failure {
  if (!isServerError(error)) return connection.lost ? 'lost' : 'rejected'
  const { code, routine, table, constraint } = error
  if (code === '40001' || code === '40P01') return 'conflict'
  if (code === '0A000' && routine === 'RevalidateCachedQuery') return 'replan'
  if (code === '23505' && table === 'writes' && constraint === 'writes_pkey') return 'written'
  if (code === '25006') return 'read-only'
  // Sessions that were terminated or timed out, and servers that end.
  if (/^57P|^08|^25P03|^25P04/.test(code)) return 'lost'
  if (/^53|^58|^57014|^55P03/.test(code)) return 'busy'
  return 'rejected'
}

/** The error to report. It holds no value of the statement, unlike the server's. */
export function toStoreError({ failure, error }: StatementFailure): unknown {
  if (error instanceof StoreError) return error
  if (failure === 'lost' || failure === 'busy') return unavailable(reasonOf(error))
  if (isServerError(error) && REFUSALS[error.code])
    return new StoreError('STORE_REFUSED', `The database refuses: ${reasonOf(error)}.`)
  return isServerError(error) ? rejected(error) : error
}

/**
 * The error to report. A statement that the server refuses for no fault of its own is noted, but not one that took
 * too long: it may be too much for any server, and would take as long when it is tried again.
 */
export function noteFailure(
  statements: FailedStatements,
  statement: Statement | undefined,
  failed: StatementFailure,
): unknown {
  const report = toStoreError(failed)
  const { failure, error } = failed
  const isRefused = failure !== 'lost' && isServerError(error) && error.code !== TOOK_TOO_LONG
  if (statement && isRefused) statements.note(statement.sql, statement.params ?? [], report)
  return report
}

/** Waits for a connection, or what is done with one; throws the error to report. */
export async function reportFailure<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (thrown) {
    throw toStoreError(failureIn(thrown))
  }
}

/** The failure that {@link diagnose} has thrown. Only making a connection throws anything else. */
export function failureIn(thrown: unknown): StatementFailure {
  return thrown instanceof StatementFailure ? thrown : new StatementFailure('lost', thrown)
}

/** @param maybeWritten - of a write: it may have been committed, and the database could not be asked in time */
export function unavailable(reason: string, maybeWritten = false): StoreError {
  const result = maybeWritten ? ' Whether the write was committed is not known.' : ''
  return new StoreError('STORE_UNAVAILABLE', `${PREFIX}${reason}.${result}`, {
    retryAfter: RETRY_AFTER,
  })
}

/** The reason in a few words, without user and password. */
export function reasonOf(error: unknown): string {
  if (error instanceof StoreError) return error.message.replace(PREFIX, '').replace(/\.$/, '')
  if (isServerError(error))
    return REASONS[error.code] ?? REFUSALS[error.code] ?? `it answers with SQLSTATE ${error.code}`
  const code = codeOf(error)
  return tlsFault(error) ?? (code ? describeConnectionFault(code) : (error as Error).message)
}

function rejected(error: ServerError): StoreError {
  const { code, constraint } = error
  const suffix = constraint === undefined ? '' : `, constraint ${constraint}`
  return new StoreError(
    'STORE_STATEMENT_FAILED',
    `The database rejects a statement: ${textOf(error)} (SQLSTATE ${code}${suffix}).`,
    { constraint },
  )
}

/** Messages about data quote them. */
function textOf({ code, message }: ServerError): string {
  return code.startsWith('22') ? 'a value is not valid' : message
}

import { createHash } from 'node:crypto'
import { Socket } from 'node:net'
import type { Client, ClientConfig, QueryResult } from 'pg'
import type { Parameter, Row } from '../engine.ts'
import type { PostgresHost, PostgresUrl } from './url.ts'

/** The database, its user and the session, the same for every server. */
export interface ConnectionOptions {
  readonly url: PostgresUrl
  /** PEM certificates of a private CA, which replace those of the system. */
  readonly ca?: string | undefined
  /** The schema, which is created if it is absent. Fits `SCHEMA_PATTERN`. */
  readonly schema: string
  /** Shown by the database as `application_name`. */
  readonly name: string
}

/** An SQL statement with its parameters. */
export interface Statement {
  readonly sql: string
  readonly params?: readonly Parameter[]
}

/** The rows of a statement, the number that it gave or changed, and the command: a COMMIT may become a ROLLBACK. */
export type StatementResult = Pick<QueryResult<Row>, 'rows' | 'rowCount' | 'command'>

export type StatementOutcome = PromiseSettledResult<StatementResult>

/** Milliseconds. The server gives up before the client, so that its reason is known. */
const CONNECT_TIMEOUT = 2_000
const ANSWER_TIMEOUT = 5_000
const STATEMENT_TIMEOUT = 4_000
const LOCK_TIMEOUT = 3_000
const KEEP_ALIVE = 10_000
const MAX_PARAMS = 1_000
const MAX_NAMES = 1_000

/**
 * Settings of every session. Outside of a transaction nothing can be written, so that a pipeline whose BEGIN
 * failed does nothing. A server whose client vanished notices after 25 seconds, and frees its locks.
 * Statements find their rows by indexes, one after the other: a plan that was made while a table was small would
 * otherwise read or join all of it when it has grown. JIT would compile what has to read all, since its cost then
 * counts as huge.
 */
const SETTINGS = `SET default_transaction_read_only TO on; SET jit TO off;
SET enable_seqscan TO off; SET enable_hashjoin TO off; SET enable_mergejoin TO off;
SET statement_timeout TO ${STATEMENT_TIMEOUT}; SET lock_timeout TO ${LOCK_TIMEOUT};
SET idle_in_transaction_session_timeout TO 10000;
SET tcp_keepalives_idle TO 10; SET tcp_keepalives_interval TO 5; SET tcp_keepalives_count TO 3;
SELECT pg_is_in_recovery()`

const names = new Map<string, string>()

/** A connection. Statements may be sent before earlier ones were answered. */
export class Connection {
  readonly host: PostgresHost
  readonly #client: Client
  readonly #socket: Socket
  readonly #ended = Promise.withResolvers<Error>()
  /** Whether it was ended by {@link close}. */
  isClosing = false
  /** Whether it was given up since the server did not answer. */
  isSilent = false
  #lost: Error | undefined
  /** Answers that are still to come, and the end of the patience with the next one. */
  #owed = 0
  #silence: NodeJS.Timeout | undefined

  private constructor(host: PostgresHost, client: Client, socket: Socket) {
    this.host = host
    this.#client = client
    this.#socket = socket
    // pg reports both that it is lost, and then why each statement failed.
    client.on('error', (error) => this.#end(error))
    client.on('end', () => this.#end(new Error('the connection ended')))
  }

  /** Connects to a server that takes writes. Throws what pg or the system does. */
  static async open(options: ConnectionOptions, host: PostgresHost): Promise<Connection> {
    const { Client, types } = (await import('pg')).default
    const socket = new Socket()
    const client = new Client({
      ...configOf(options, host),
      stream: () => socket,
      types: { getTypeParser: typeParsers(types.getTypeParser) as typeof types.getTypeParser },
    })
    const connection = new Connection(host, client, socket)
    try {
      await client.connect()
      const answer = client.query(`SET search_path TO ${quoted(options.schema)};\n${SETTINGS}`)
      const outcomes = await connection.#answered([answer as unknown as Promise<QueryResult[]>])
      const [results] = fulfilled(outcomes)
      if (results?.at(-1)?.rows[0].pg_is_in_recovery) throw new Error('it is a standby')
      return connection
    } catch (error) {
      connection.destroy(error as Error)
      throw error
    }
  }

  /** The reason why it can no longer be used. */
  get lost(): Error | undefined {
    return this.#lost
  }

  /** Resolves with the reason when it can no longer be used. */
  get ended(): Promise<Error> {
    return this.#ended.promise
  }

  async all(sql: string, params: readonly Parameter[] = []): Promise<readonly Row[]> {
    const [result] = fulfilled(await this.pipeline([{ sql, params }]))
    return result?.rows ?? []
  }

  /** Sends all at once. Resolves when each was answered. */
  async pipeline(statements: readonly Statement[]): Promise<readonly StatementOutcome[]> {
    const queries = statements.map(queryOf)
    const { stream } = this.#client.connection
    // All that is sent in one turn goes in one packet.
    stream.cork()
    process.nextTick(() => stream.uncork())
    const answers = queries.map((query) => this.#client.query(query))
    return this.#answered(answers)
  }

  /** Runs SQL of several statements, without a limit of time. */
  async script(sql: string): Promise<void> {
    await this.#client.query(sql)
  }

  /** @param heard - is called for each notification on the channels that LISTEN named */
  onNotification(heard: (channel: string) => void): void {
    this.#client.on('notification', ({ channel }) => heard(channel))
  }

  /** Ends it at once. What is under way fails. */
  destroy(reason: Error): void {
    this.#end(reason)
    this.#socket.destroy()
  }

  /** Ends it in order. */
  async close(): Promise<void> {
    this.isClosing = true
    this.#end(new Error('it was closed'))
    const timer = setTimeout(() => this.#socket.destroy(), CONNECT_TIMEOUT)
    await this.#client.end()
    clearTimeout(timer)
  }

  #end(reason: Error): void {
    this.#lost ??= reason
    this.#ended.resolve(this.#lost)
  }

  /** Fails all that the server still owes as soon as it is silent for too long. */
  async #answered<T>(answers: readonly Promise<T>[]): Promise<readonly PromiseSettledResult<T>[]> {
    this.#owed += answers.length
    this.#silence ??= this.#beginSilence()
    const progress = () => {
      this.#owed--
      clearTimeout(this.#silence)
      this.#silence = this.#owed > 0 ? this.#beginSilence() : undefined
    }
    for (const answer of answers) answer.then(progress, progress)
    return Promise.allSettled(answers)
  }

  #beginSilence(): NodeJS.Timeout {
    const giveUp = () => {
      if (this.#silence !== silence) return
      this.isSilent = true
      this.destroy(new Error(`no answer in ${ANSWER_TIMEOUT / 1000} seconds`))
    }
    // What has arrived while this process stood still is read first.
    const silence = setTimeout(() => setImmediate(giveUp), ANSWER_TIMEOUT)
    return silence
  }
}

/** The results of the statements. Throws the first error: the others only follow from it. */
export function fulfilled<T>(outcomes: readonly PromiseSettledResult<T>[]): readonly T[] {
  return outcomes.map((outcome) => {
    if (outcome.status === 'rejected') throw outcome.reason
    return outcome.value
  })
}

/** An identifier as SQL. */
export function quoted(identifier: string): string {
  return `"${identifier.replaceAll('"', '""')}"`
}

/** Everything that pg would otherwise read from the environment or a file is given. */
function configOf(
  { url, ca, name }: ConnectionOptions,
  { host, port, tls }: PostgresHost,
): ClientConfig {
  const { user, password = '', database } = url
  return {
    host,
    port,
    user,
    password: () => password,
    database,
    application_name: name,
    ssl: tls && { rejectUnauthorized: true, ...(ca !== undefined && { ca }) },
    pipeline: true,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE,
    connectionTimeoutMillis: CONNECT_TIMEOUT,
  }
}

function queryOf({ sql, params = [] }: Statement) {
  if (params.length > MAX_PARAMS) throw new TypeError(`More than ${MAX_PARAMS} parameters`)
  for (const param of params) checkParameter(param)
  const name = nameOf(sql)
  return { text: sql, values: [...params], ...(name !== undefined && { name }) }
}

/** pg would send the statements after one that it cannot send. */
function checkParameter(param: Parameter): void {
  if (param == null || param instanceof Uint8Array) return
  if (!['string', 'number', 'bigint', 'boolean'].includes(typeof param))
    throw new TypeError('A parameter is not plain')
}

/** Prepared once on each connection. Beyond a number that no program reaches, statements have no name. */
function nameOf(sql: string): string | undefined {
  let name = names.get(sql)
  if (name === undefined && names.size < MAX_NAMES) {
    name = createHash('sha256').update(sql).digest('base64url').slice(0, 24)
    names.set(sql, name)
  }
  return name
}

/** int8 as number, xid8 as bigint. The rest as pg has it. */
function typeParsers(parserOf: (oid: number, format?: 'text') => (text: string) => unknown) {
  const parsers = new Map<number, (text: string) => unknown>([
    [20, Number],
    [5069, BigInt],
  ])
  return (oid: number, format?: 'text') => parsers.get(oid) ?? parserOf(oid, format)
}

import { attempt, isLoopback, parseHostPort } from '@gatehouse/net'
import { StoreError } from '../errors.ts'

/** A server of a {@link PostgresUrl}. */
export interface PostgresHost {
  /** A DNS name or an IP address without brackets. */
  readonly host: string
  readonly port: number
  /** Whether the connection is encrypted, and the certificate checked against `host`. */
  readonly tls: boolean
}

/** The servers of the database, and the user who connects. `password` is not enumerable, so that nothing prints it. */
export interface PostgresUrl {
  readonly hosts: readonly PostgresHost[]
  readonly user: string
  readonly password: string | undefined
  readonly database: string
}

const PORT = 5432
const MAX_HOSTS = 16
const URL = /^postgres(?:ql)?:\/\/(?:([^@/?#]*)@)?([^@/?#]*)\/([^@/?#]*)(?:\?([^?#]*))?$/
/** PostgreSQL ends names at NUL; the others only confuse who reads a log. */
const CONTROL = /\p{Cc}/u

/**
 * Parses `postgres://user:password@host1:5432,host2:5432/database?sslmode=verify-full`. `sslmode` is
 * `verify-full` or `disable`. Without it, hosts are verified in full, except loopback ones, which are
 * not encrypted.
 * @throws StoreError `STORE_URL_INVALID`, with a message that repeats nothing of the URL
 */
export function parsePostgresUrl(text: string): PostgresUrl {
  const [, credentials, hosts, database, query] = URL.exec(text) ?? []
  if (hosts === undefined || database === undefined)
    throw invalid('it is not `postgres://user:password@host/database`')
  if (credentials === undefined) throw invalid('it has no user')
  const colon = credentials.indexOf(':')
  const user = decode(colon < 0 ? credentials : credentials.slice(0, colon), 'user')
  const password = colon < 0 ? undefined : decode(credentials.slice(colon + 1), 'password')
  const tls = parseTls(query)
  const url = { hosts: parseHosts(hosts, tls), user, database: decode(database, 'database') }
  return Object.defineProperty(url, 'password', { value: password }) as PostgresUrl & typeof url
}

function parseHosts(text: string, tls: boolean | undefined): readonly PostgresHost[] {
  const parts = text.split(',')
  if (parts.length > MAX_HOSTS) throw invalid(`it has more than ${MAX_HOSTS} hosts`)
  return parts.map((part, i) => {
    const parsed = parseHostPort(part)
    if (!parsed) throw invalid(`host ${i + 1} is not valid`)
    const { host, port = PORT } = parsed
    return { host: host.name, port, tls: tls ?? !isLoopback(host) }
  })
}

/** Undefined if the URL does not say. */
function parseTls(query: string | undefined): boolean | undefined {
  if (query === undefined) return undefined
  const [, mode] = /^sslmode=(verify-full|disable)$/.exec(query) ?? []
  if (mode === undefined)
    throw invalid('its only parameter is `sslmode`, which is `verify-full` or `disable`')
  return mode === 'verify-full'
}

function decode(text: string, part: string): string {
  const decoded = attempt(() => decodeURIComponent(text))
  if (decoded === undefined) throw invalid(`its ${part} is not percent-encoded`)
  if (decoded === '') throw invalid(`its ${part} is empty`)
  if (CONTROL.test(decoded)) throw invalid(`its ${part} has control characters`)
  return decoded
}

function invalid(reason: string): StoreError {
  return new StoreError('STORE_URL_INVALID', `The URL of the database is not valid: ${reason}.`)
}

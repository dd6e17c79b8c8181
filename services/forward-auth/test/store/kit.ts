import { systemClock } from '@gatehouse/service-kit/clock'
import { testFolder } from '@gatehouse/service-kit/testing'
import type { Test } from 'tap'
import { type PostgresServer, startPostgres } from '../../../../scripts/test/postgres.ts'
import { deriveKeys } from '../../src/key-ring.ts'
import { openPostgresStore } from '../../src/store/postgres/postgres-store.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import type { AuthStore, Revocation, StoreOptions } from '../../src/store/store.ts'
import { NEW_SECRET, OLD_SECRET } from '../session/kit.ts'

export const OLD_KEYS = deriveKeys([OLD_SECRET], 'store')
export const NEW_KEYS = deriveKeys([NEW_SECRET], 'store')

export const SECOND = 1_000
export const HOUR = 3_600 * SECOND

type Changes = Partial<StoreOptions> & {
  readonly revocationStaleness?: number
  readonly whenStale?: 'refuse' | 'allow'
}

/** A store, what it has told and what it follows. */
export interface Opened {
  readonly store: AuthStore
  /** The revocations that it has learned, by their IDs. */
  readonly learned: Map<string, Revocation>
  /** What it was told to write again. */
  readonly rewritten: Revocation[]
  readonly log: string[]
  close(): Promise<void>
}

export type Open = (changes?: Changes) => Promise<Opened>

const LOG_LEVELS = ['error', 'warn', 'info'] as const

/** Opens a store as an instance does. */
async function follow(
  t: Pick<Test, 'teardown'>,
  open: (options: StoreOptions) => Promise<AuthStore>,
  changes: Changes,
): Promise<Opened> {
  const log: string[] = []
  const told = (_fields: object, message: string) => void log.push(message)
  const levels = Object.fromEntries(LOG_LEVELS.map((level) => [level, told]))
  const store = await open({ log: levels as unknown as StoreOptions['log'], ...changes })
  let closing: Promise<void> | undefined
  const close = () => (closing ??= store.close())
  t.teardown(close)
  const learned = new Map<string, Revocation>()
  const rewritten: Revocation[] = []
  await store.follow({
    learn: (rows) => {
      // The wider one, as in memory.
      for (const row of rows)
        if (row.last >= (learned.get(row.sid)?.last ?? 0)) learned.set(row.sid, row)
    },
    rows: () => learned.values(),
    write: (rows) => {
      rewritten.push(...rows)
      store.revoke({ add: rows, remove: [] }).catch(() => {})
    },
  })
  return { store, learned, rewritten, log, close }
}

let schemas = 0

/** Instances on a schema of their own. */
export function onPostgres(
  t: Pick<Test, 'teardown'>,
  { url }: Pick<PostgresServer, 'url'>,
  schema = `auth${++schemas}`,
): Open {
  return (changes = {}) => {
    const { revocationStaleness = 60_000, whenStale = 'refuse', ...options } = changes
    const config = { url, schema, revocationStaleness, whenStale }
    return follow(t, (given) => openPostgresStore(config, given), options)
  }
}

/** Instances on a folder of their own. */
export function onFolder(t: Test): { readonly folder: string; readonly open: Open } {
  const folder = testFolder(t)
  const open: Open = (changes = {}) =>
    follow(t, async (options) => new SqliteStore(folder, options), changes)
  return { folder, open }
}

/** Each engine: prepares what gives new stores, and for each of them what opens another instance. */
export const ENGINES: Readonly<Record<string, (t: Test) => Promise<(t: Test) => Open>>> = {
  'a folder': async () => (t) => onFolder(t).open,
  async PostgreSQL(t) {
    const server = await startPostgres(t)
    return (t) => onPostgres(t, server)
  },
}

/** A revocation that ends at a time that is far away. */
export const revocation = (sid: string, changes: Partial<Revocation> = {}): Revocation => ({
  ...{ sid, person: `person of ${sid}`, first: 100, last: 100, generation: 0 },
  ...{ until: systemClock.now() + HOUR, due: HOUR, ...changes },
})

export { until } from '../../../../scripts/test/until.ts'

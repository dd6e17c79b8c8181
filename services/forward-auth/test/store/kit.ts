import { systemClock } from '@gatehouse/service-kit/clock'
import { testFolder } from '@gatehouse/service-kit/testing'
import type { Test } from 'tap'
import { type PostgresServer, startPostgres } from '../../../../scripts/test/postgres.ts'
import { deriveKeys } from '../../src/keys/key-ring.ts'
import type { AuthStore } from '../../src/store/auth-store.ts'
import { openPostgresStore } from '../../src/store/postgres/postgres-store.ts'
import { SqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import type { ApprovalRow, SessionEvent, SessionRow, StoreOptions } from '../../src/store/store.ts'
import { NEW_SECRET, OLD_SECRET } from '../session/kit.ts'

export const OLD_KEYS = deriveKeys([OLD_SECRET], 'store')
export const NEW_KEYS = deriveKeys([NEW_SECRET], 'store')

export const SECOND = 1_000
export const MINUTE = 60 * SECOND
export const HOUR = 60 * MINUTE

type Changes = Partial<StoreOptions> & {
  readonly revocationStaleness?: number
  readonly whenStale?: 'refuse' | 'allow'
}

/** A store, what it has told and what it follows. */
export interface Opened {
  readonly store: AuthStore
  /** The events that it has learned. */
  readonly events: SessionEvent[]
  /** The keys of those of a kind, each once. */
  learned(kind: SessionEvent['kind']): string[]
  /** For each read after which something may have been missed: how many events there were before. */
  readonly full: number[]
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
  const events: SessionEvent[] = []
  const full: number[] = []
  const learned = (kind: SessionEvent['kind']) =>
    [...new Set(events.filter((event) => event.kind === kind).map(({ key }) => key))].toSorted()
  await store.follow({
    learn(more, isFull) {
      if (isFull) full.push(events.length)
      events.push(...more)
    },
    ended: () => learned('ended'),
  })
  return { store, events, learned, full, log, close }
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

/** SQL: more events than whoever starts learns, the second one of a ticket. */
export const MANY_EVENTS = `
  INSERT INTO events (kind, key, until, due)
  WITH RECURSIVE rows (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM rows WHERE n < 10003)
  SELECT CASE WHEN n = 2 THEN 'burnt' ELSE 'ended' END, 'event ' || n, 1, 1 FROM rows`

/** Each engine: prepares what gives new stores, and for each of them what opens another instance. */
export const ENGINES: Readonly<Record<string, (t: Test) => Promise<(t: Test) => Open>>> = {
  'a folder': async () => (t) => onFolder(t).open,
  async PostgreSQL(t) {
    const server = await startPostgres(t)
    return (t) => onPostgres(t, server)
  },
}

/** A session that begins now, of a person of its own. */
export function session(sid: string, changes: Partial<SessionRow> = {}): SessionRow {
  const { begun = systemClock.now() } = changes
  return {
    ...{ sid, portal: 'main', person: `person of ${sid}`, mail: `mail of ${sid}` },
    ...{ subject: `subject of ${sid}`, providerSid: `provider's ${sid}`, issuedAt: 100 },
    ...{ begun, lastSeen: begun, seenMac: '', idle: null, reRead: begun, ends: begun + 8 * HOUR },
    ...{ rev: 0, lease: 0, sealed: `sealed of ${sid}`, parent: null, ...changes },
  }
}

/** An agent of a session. */
export function agent(sid: string, parent: string, changes: Partial<SessionRow> = {}): SessionRow {
  return session(sid, { parent, mail: null, subject: null, providerSid: null, ...changes })
}

/** When a session was seen, and where. */
export const seenAt = (sid: string, lastSeen: number, hosts: readonly string[] = []) => ({
  ...{ sid, lastSeen, seenMac: `seen at ${lastSeen}`, hosts },
})

/** What somebody has allowed. */
export const consent = (key: string, person: string, until: number) => ({
  ...{ key, person, until, mac: `until ${until}` },
})

/** A call that waits for a person. */
export const approval = (key: string, changes: Partial<ApprovalRow> = {}): ApprovalRow => ({
  ...{ key, portal: 'main', person: 'ada', agent: null, decider: 'ada', state: 'asked' },
  ...{ until: Date.now() + 10 * MINUTE, sealed: `sealed of ${key}`, ...changes },
})

/** A code that is used for the first time, and could be for an hour. */
export const codeOf = (id: string) => ({ id, until: Date.now() + HOUR })

export { until } from '../../../../scripts/test/until.ts'

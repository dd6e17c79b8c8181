import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync } from 'node:fs'
import { rename, symlink, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import t, { type Test } from 'tap'
import {
  connect,
  initialise,
  sqliteStore,
  storeFile,
} from '../../../../packages/cert-store/src/engines/sqlite.ts'
import { openStore } from '../../../../packages/cert-store/src/open.ts'
import {
  newSchema,
  testServer,
  until,
} from '../../../../packages/cert-store/test/helpers/engines.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { type Running, start } from '../helpers/app.ts'

// What is wrong in these tests, and said.
expectWarnings(
  t,
  ...[
    'STORE_UNAVAILABLE',
    'STORE_REFUSED',
    'database is down',
    'connection for notifications was lost',
  ],
)

const CHECKED_EVERY = 5_000
const FULL = '/dev/full'

interface Serving extends Pick<Running, 'call' | 'logged'> {
  /** Lets the time pass until the store has been checked. */
  check(): Promise<void>
}

/** On a store that can be made to refuse what is written. */
interface Refusing extends Serving {
  /** Gives what ends it. */
  refuse(): Promise<() => unknown>
}

interface Cause {
  setup(t: Test): Promise<Refusing>
  /** Whether the check finds it before anything is written. */
  readonly isFound: boolean
  readonly skip?: string | false
}

/** A service whose clock stands still, when all that it does at its start is done. */
async function startOn(t: Test, changes: object, open: typeof openStore): Promise<Serving> {
  const done = { check: 0, claimDue: 0, claimUnchecked: 0, pruneUsage: 0 }
  const openCounted: typeof openStore = async (options) => {
    const store = await open(options)
    const counted =
      <A extends unknown[], R>(name: keyof typeof done, of: (...args: A) => Promise<R>) =>
      (...args: A) =>
        of(...args).finally(() => {
          done[name] += 1
        })
    return {
      ...store,
      check: counted('check', store.check),
      claimDue: counted('claimDue', store.claimDue),
      claimUnchecked: counted('claimUnchecked', store.claimUnchecked),
      pruneUsage: counted('pruneUsage', store.pruneUsage),
    }
  }
  const running = await start(t, changes, { openStore: openCounted })
  running.service.start()
  await until(() => Object.values(done).every((times) => times > 0))
  const check = async () => {
    const before = done.check
    await running.clock.advance(CHECKED_EVERY)
    await until(() => done.check > before)
  }
  return { ...running, check }
}

/** @param begin - gives what ends it; `@` stands for the schema in SQL */
function onPostgres(
  isFound: boolean,
  begin: (sql: (text: string) => Promise<unknown[]>, folder: string) => Promise<() => unknown>,
): Cause {
  return {
    isFound,
    async setup(t) {
      const [schema, server] = [newSchema(), await testServer()]
      const masterKey = randomBytes(32).toString('base64')
      const storage = { url: server.url, schema, masterKey }
      const running = await startOn(t, { storage }, openStore)
      const sql = (text: string) => server.sql(text.replaceAll('@', `${schema}.`))
      return { ...running, refuse: () => begin(sql, server.folder) }
    },
  }
}

function onSqlite(begin: (sqlite: DatabaseSync, file: string) => () => unknown): Cause {
  return {
    isFound: true,
    async setup(t) {
      const opened = Promise.withResolvers<readonly [DatabaseSync, string]>()
      const running = await startOn(t, {}, async ({ storage: { path }, elapsed }) => {
        const file = storeFile(path)
        mkdirSync(path, { recursive: true })
        initialise(file)
        const sqlite = connect(file)
        opened.resolve([sqlite, file])
        return sqliteStore(sqlite, { file, elapsed, closed() {} })
      })
      return { ...running, refuse: async () => begin(...(await opened.promise)) }
    },
  }
}

const SESSIONS = `
  SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'gatehouse'`
const SLEEPING = `SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'`

const causes: Readonly<Record<string, Cause>> = {
  'PostgreSQL: a table that another session locks': onPostgres(true, async (sql) => {
    const held = sql('BEGIN; LOCK TABLE @certificates IN SHARE MODE; SELECT pg_sleep(600)')
    const ended = held.catch(() => {})
    await until(async () => (await sql(SLEEPING)).length > 0)
    return async () => {
      await sql(`SELECT pg_terminate_backend(pid) FROM (${SLEEPING}) AS holders`)
      await ended
    }
  }),
  'PostgreSQL: a right that was revoked': onPostgres(true, async (sql) => {
    await sql('REVOKE ALL ON @certificates FROM gatehouse')
    await sql('GRANT SELECT ON @certificates TO gatehouse')
    return () => sql('GRANT ALL ON @certificates TO gatehouse')
  }),
  'PostgreSQL: a full disk': {
    ...onPostgres(false, async (sql, folder) => {
      const [row] = await sql(`SELECT pg_relation_filepath('@certificates') AS path`)
      const file = join(folder, String((row as { path: unknown }).path))
      await rename(file, `${file}.aside`)
      await symlink(FULL, file)
      // Sessions have the file open.
      await sql(SESSIONS)
      return async () => {
        await unlink(file)
        await rename(`${file}.aside`, file)
        await sql(SESSIONS)
      }
    }),
    skip: !existsSync(FULL) && 'Linux',
  },
  'SQLite: a file that another program locks': onSqlite((_, file) => {
    const other = new DatabaseSync(file)
    other.exec('BEGIN IMMEDIATE')
    return () => other.close()
  }),
  'SQLite: a file that cannot be written': onSqlite((sqlite) => {
    sqlite.exec('PRAGMA query_only = ON')
    return () => sqlite.exec('PRAGMA query_only = OFF')
  }),
}

for (const [what, { setup, isFound, skip = false }] of Object.entries(causes))
  for (const first of isFound ? ['a write', 'the check'] : ['a write'])
    t.test(`${what}, found by ${first}`, { skip }, async (t) => {
      const { call, check, refuse, logged } = await setup(t)
      const isUp = async () => {
        const { status, body } = await call('GET', '/readyz')
        return status === 200 && body.degraded.length === 0
      }
      const obtain = (name: string) => call('POST', '/api/certificate', { domain: name })
      t.ok(await isUp())
      const end = await refuse()
      // As it was, where that took its connections away.
      await until(isUp)

      if (first === 'a write') {
        const refused = await obtain('refused.example.com')
        t.match(refused, { status: 503, body: { code: /^STORE_(UNAVAILABLE|REFUSED)$/ } })
      } else await check()
      const down = { status: 200, body: { status: 'ready', degraded: ['store'] } }
      t.match(await call('GET', '/readyz'), down, 'at once')
      await check()
      t.match(await call('GET', '/readyz'), down, 'for as long as it lasts')
      t.equal(logged.filter((line) => line.includes('the store cannot be used')).length, 1)

      await end()
      await until(async () => {
        await check()
        return isUp()
      })
      t.ok(logged.some((line) => line.includes('the store can be used again')))
      t.equal((await obtain('refused.example.com')).status, 200)
      t.ok(await isUp())
    })

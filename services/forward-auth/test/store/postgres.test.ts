import { openPostgres, parsePostgresUrl } from '@gatehouse/store'
import t from 'tap'
import { type PostgresServer, startPostgres } from '../../../../scripts/test/postgres.ts'
import { AssertionKeys } from '../../src/session/assertion-keys.ts'
import type { StoredAuditRow } from '../../src/store/store.ts'
import { MIGRATIONS } from '../../src/store/tables.ts'
import { OLD_SECRET } from '../session/kit.ts'
import {
  HOUR,
  MANY_EVENTS,
  NEW_KEYS,
  OLD_KEYS,
  onPostgres,
  SECOND,
  seenAt,
  session,
  until,
} from './kit.ts'

/** Both keys, the new one first. */
const ROTATED = { first: NEW_KEYS.first, keys: [...NEW_KEYS.keys, ...OLD_KEYS.keys] }
const DOWN = { code: 'STORE_UNAVAILABLE', retryAfter: Number }

/** Ways in which a database refuses writes, and accepts them again: SQL for a table. `lasts`: until then it runs. */
const REFUSALS: Readonly<
  Record<string, { refuse(table: string): string; accept(table: string): string; lasts?: true }>
> = {
  'a missing right': {
    refuse: (table) =>
      `REVOKE ALL ON ${table} FROM gatehouse; GRANT SELECT ON ${table} TO gatehouse`,
    accept: (table) => `GRANT ALL ON ${table} TO gatehouse`,
  },
  'a locked table': {
    refuse: (table) => `BEGIN; LOCK TABLE ${table} IN SHARE MODE; SELECT pg_sleep(600)`,
    accept: (table) => `SELECT pg_terminate_backend(pid) ${held(table)}`,
    lasts: true,
  },
  // As one would say it.
  'a full disk': {
    refuse: (table) => `
      CREATE FUNCTION ${table}_full() RETURNS trigger LANGUAGE plpgsql
        AS $$ BEGIN RAISE 'no space' USING ERRCODE = '53100'; END $$;
      CREATE TRIGGER is_full BEFORE INSERT ON ${table} EXECUTE FUNCTION ${table}_full()`,
    accept: (table) => `DROP TRIGGER is_full ON ${table}`,
  },
}
/** Of this table alone: to create an index of another one takes such a lock too. */
const held = (table: string) =>
  `FROM pg_locks WHERE mode = 'ShareLock' AND granted AND relation = '${table}'::regclass`

t.test('with one server', async (t) => {
  const server = await startPostgres(t)
  // Those that are buffered: each waits for seconds until a write is given up.
  t.jobs = Object.keys(REFUSALS).length

  t.test('a transaction that commits late is not passed over', async (t) => {
    const open = onPostgres(t, server, 'late')
    const here = await open()
    const silent = { info() {}, warn() {} }
    const db = await openPostgres({
      ...{ url: parsePostgresUrl(server.url), schema: 'late', name: 'test', log: silent },
      migrations: MIGRATIONS,
    })
    t.teardown(() => db.close())
    let commit = () => {}
    let hasWritten = () => {}
    const written = new Promise<void>((resolve) => {
      hasWritten = resolve
    })
    const late = db.transaction(async (tx) => {
      await tx.all(`INSERT INTO events (kind, key, until, due) VALUES ('ended', 'late', 1, 1)`)
      hasWritten()
      await new Promise<void>((resolve) => {
        commit = resolve
      })
    })
    await written
    const there = await open()
    for (let i = 0; i < 3; i++) {
      await there.store.tell({ kind: 'burnt', key: `early${i}`, until: Date.now() + HOUR })
      await here.store.catchUp()
      t.ok(here.learned('burnt').includes(`early${i}`))
    }
    t.strictSame(here.learned('ended'), [], 'it has not committed')
    commit()
    await late
    await here.store.catchUp()
    t.strictSame(here.learned('ended'), ['late'])
  })

  t.test('whoever starts learns of tickets, the last ends and all that comes', async (t) => {
    const open = onPostgres(t, server, 'many')
    await open()
    const add = () => server.sql(`SET search_path TO many; ${MANY_EVENTS}`)
    await add()
    const { store, events, learned } = await open()
    t.equal(events.length, 10_001)
    t.strictSame(learned('burnt'), ['event 2'])
    await add()
    await store.catchUp()
    t.equal(new Set(events.slice(10_001).map(({ key }) => key)).size, 10_003)
  })

  t.test('nobody who reads the database learns a secret', async (t) => {
    const open = onPostgres(t, server, 'sealed')
    const { store } = await open()
    const secret = await store.secret('assertion', OLD_KEYS)
    const dump = await dumpOf(server, 'sealed')
    t.match(dump, /assertion/, 'the row is there')
    const made = new AssertionKeys(secret)
    const secrets = [secret, OLD_SECRET, OLD_KEYS.first.secret, Buffer.from(secret, 'base64url')]
    for (const one of secrets)
      for (const text of textsOf(one)) t.notOk(dump.includes(text), 'nothing of a secret')
    t.notOk(dump.includes(made.conceal('A'.repeat(22), '')), 'nor what is made of it')
  })

  t.test('a secret is sealed anew when the first key is another one', async (t) => {
    const open = onPostgres(t, server, 'rotated')
    const before = await open()
    const secret = await before.store.secret('assertion', OLD_KEYS)
    const sealed = async () => JSON.stringify(await server.sql('SELECT * FROM rotated.secrets'))
    const first = await sealed()
    t.equal(await (await open()).store.secret('assertion', OLD_KEYS), secret)
    t.equal(await sealed(), first, 'the same key changes nothing')
    const both = await open()
    t.equal(await both.store.secret('assertion', ROTATED), secret)
    t.not(await sealed(), first)
    t.equal(await (await open()).store.secret('assertion', NEW_KEYS), secret, 'the old one may go')
    await t.rejects((await open()).store.secret('assertion', OLD_KEYS), {
      code: 'FWA_KEY_UNUSABLE',
      message: /append the key of before to session.keys/,
    })
    t.equal(await before.store.secret('assertion', OLD_KEYS), secret, 'who knows it goes on')
  })

  t.test('a row that PostgreSQL cannot hold does not lose the others', async (t) => {
    const { store } = await onPostgres(t, server)()
    const row = (person: string): StoredAuditRow => ({
      ...{ time: new Date(0).toISOString(), event: 'sign-in', portal: 'main', requestId: 'a' },
      ...{ ran: 0, person },
    })
    const odd = row('corp:\0ada\ud800')
    await store.audit.append([row('corp:a'), odd, row('corp:\u{1f600}')])
    await store.audit.append([odd])
    const people: unknown[] = []
    for await (const { person } of store.audit.rows(0)) people.push(person)
    t.strictSame(people, ['corp:a', 'corp:\u{fffd}ada\u{fffd}', 'corp:\u{1f600}'], 'each once')
  })

  for (const [way, { refuse, accept, lasts }] of Object.entries(REFUSALS))
    t.test(`a database that refuses writes: ${way}`, { buffered: true }, async (t) => {
      const schema = `refusing_${way.replaceAll(' ', '_')}`
      const { store, log } = await onPostgres(t, server, schema)()
      await store.beginSession(session('before'))
      t.strictSame(store.health(), { degraded: [] })
      const refusing = server.sql(refuse(`${schema}.sessions`))
      const refused = lasts ? refusing.catch(() => {}) : refusing
      const isHeld = `SELECT 1 ${held(`${schema}.sessions`)}`
      if (lasts) await until(async () => (await server.sql(isHeld)).length > 0)
      else await refused
      const code = way === 'a missing right' ? 'STORE_REFUSED' : DOWN.code
      await t.rejects(store.beginSession(session('later')), { ...DOWN, code })
      t.strictSame(store.health(), { degraded: ['store'] })
      t.match(log, ['the store cannot be used: writing fails'])
      t.equal(await store.completeLogin('login', Date.now() + HOUR), true, 'the rest goes on')
      t.strictSame(store.health(), { degraded: ['store'] }, 'and does not hide it')
      await server.sql(accept(`${schema}.sessions`))
      await refused
      await until(() => store.health().degraded?.length === 0)
      t.equal(await store.beginSession(session('later')), true)
    })

  t.test('all instances go by the clock of the database', async (t) => {
    const { store } = await onPostgres(t, server)()
    const before = store.clock.now()
    const [row] = await server.sql<{ now: string }>(
      'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now',
    )
    const now = Number(row?.now)
    t.ok(before - 5 * SECOND < now && now < store.clock.now() + 5 * SECOND, `${now - before} ms`)
  })
})

t.test('a database that is away', async (t) => {
  const server = await startPostgres(t)
  const open = onPostgres(t, server)
  // What holds before it is stale is looked at where it never is, however long a step takes.
  const { store } = await open({ revocationStaleness: HOUR })
  const { store: stale } = await open({ revocationStaleness: 3 * SECOND })
  const allowing = await open({ revocationStaleness: 3 * SECOND, whenStale: 'allow' })
  await store.beginSession(session('before'))
  await allowing.store.catchUp()
  t.strictSame(store.health(), { degraded: [] })
  t.equal(store.staleness?.(), undefined)
  await server.kill()

  const failed = Promise.all([
    t.rejects(store.beginSession(session('lost')), DOWN),
    t.rejects(store.endSessions({ sid: 'before' }), DOWN),
    t.rejects(store.findSession('before'), DOWN),
    t.rejects(store.listSessions({ portal: 'main' }, 1), DOWN),
    t.rejects(store.completeLogin('login', Date.now() + HOUR), DOWN),
    t.rejects(store.hasCompleted('login'), DOWN),
    t.rejects(store.audit.append([]), DOWN),
    store.catchUp(),
  ])
  await until(() => store.health().degraded?.length)
  t.strictSame(store.health(), { degraded: ['store'] }, 'it goes on from memory')
  t.equal(store.staleness?.(), undefined)
  await failed
  t.match(await until(() => stale.staleness?.()), { code: 'STORE_UNAVAILABLE', retryAfter: 5 })
  t.strictSame(stale.health(), { unready: 'store' })
  await until(() => allowing.store.health().degraded?.length === 1)
  t.equal(allowing.store.staleness, undefined, 'allow: it goes on')

  await server.start()
  await until(() => store.health().degraded?.length === 0)
  await until(() => stale.staleness?.() === undefined)
  await store.endSessions({ sid: 'before' })
  await until(() => allowing.learned('ended').includes('before'))
  t.equal(allowing.full.length, 2, 'something may have been missed')
  t.strictSame(store.health(), { degraded: [] })
})

t.test('in a database that went back, what had ended ends again', async (t) => {
  const server = await startPostgres(t)
  const open = onPostgres(t, server, 'restored')
  const [one, two] = [await open(), await open()]
  const sids = ['a', 'b', 'c']
  for (const sid of sids) await one.store.beginSession(session(sid))
  await server.sql('CREATE TABLE backup AS SELECT * FROM restored.sessions')
  await one.store.endSessions({ sid: 'a' })
  await one.store.endSessions({ sid: 'b' })
  await until(() => two.learned('ended').length === 2)
  await server.sql(`DELETE FROM restored.events; DELETE FROM restored.sessions;
    INSERT INTO restored.sessions SELECT * FROM backup`)
  t.ok(await two.store.findSession('a'), 'it is there again')
  await server.kill()
  await server.start()
  const left = async () => {
    const rows = await server.sql<{ sid: string }>('SELECT sid FROM restored.sessions')
    return rows.map(({ sid }) => sid).join()
  }
  await until(async () => (await left()) === 'c')
  const late = await open()
  t.strictSame(late.learned('ended'), ['a', 'b'], 'with events')
  const told = [...one.log, ...two.log].filter((text) => text.includes('had ended'))
  t.ok(told.length >= 1, 'whoever was faster')
})

t.test('a session that ends while an older use of it is written', async (t) => {
  const server = await startPostgres(t)
  const { store } = await onPostgres(t, server, 'touched')()
  await store.beginSession(session('a'))
  const ending = await openPostgres({
    ...{ url: parsePostgresUrl(server.url), schema: 'touched', name: 'test' },
    ...{ log: { info() {}, warn() {} }, migrations: MIGRATIONS },
  })
  const [deleted, waited] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const ended = ending.transaction(async (tx) => {
    await tx.run('DELETE FROM sessions WHERE sid = $1', 'a')
    deleted.resolve()
    await waited.promise
  })
  await deleted.promise
  const touched = store.touchSessions([seenAt('a', 1, ['a.example'])])
  const waiting = `SELECT 1 AS found FROM pg_stat_activity WHERE wait_event_type = 'Lock'`
  await until(async () => (await server.sql(waiting)).length > 0)
  waited.resolve()
  await ended
  await touched
  t.strictSame(await server.sql('SELECT sid FROM touched.visits'), [])
  await ending.close()
})

t.test('a schema that is not of this version', async (t) => {
  const server = await startPostgres(t)
  const other = await openPostgres({
    url: parsePostgresUrl(server.url),
    schema: 'foreign',
    name: 'test',
    log: { info() {}, warn() {} },
    migrations: [() => 'SELECT 1'],
  })
  await other.close()
  await t.rejects(onPostgres(t, server, 'foreign')(), { code: 'STORE_NOT_EMPTY' })
})

t.test('events of a dump from a server that was ahead are read once', async (t) => {
  const server = await startPostgres(t)
  const open = onPostgres(t, server, 'ahead')
  const before = await open()
  await before.store.tell({ kind: 'burnt', key: 'ticket', until: Date.now() + HOUR })
  await before.close()
  await server.sql(`UPDATE ahead.events SET xid = '999999999'`)
  const { store, events } = await open()
  for (let i = 0; i < 3; i++) await store.catchUp()
  t.equal(events.length, 1)
})

/** Every row of a schema, as text. */
async function dumpOf(server: PostgresServer, schema: string): Promise<string> {
  const tables = await server.sql<{ name: string }>(
    `SELECT tablename AS name FROM pg_tables WHERE schemaname = '${schema}'`,
  )
  const rows = await Promise.all(
    tables.map(({ name }) => server.sql(`SELECT * FROM ${schema}.${name}`)),
  )
  return JSON.stringify(Object.fromEntries(tables.map(({ name }, i) => [name, rows[i]])))
}

function textsOf(secret: string | Buffer): readonly string[] {
  const bytes = Buffer.from(secret)
  const encoded = (['hex', 'base64', 'base64url'] as const).map((one) => bytes.toString(one))
  // Without the end, which depends on what follows.
  return typeof secret === 'string' ? [secret, ...encoded] : encoded.map((one) => one.slice(0, 40))
}

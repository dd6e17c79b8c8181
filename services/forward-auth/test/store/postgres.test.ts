import { openPostgres, parsePostgresUrl } from '@gatehouse/store'
import t from 'tap'
import { type PostgresServer, startPostgres } from '../../../../scripts/test/postgres.ts'
import { AssertionKeys } from '../../src/session/assertion-keys.ts'
import type { StoredAuditRow } from '../../src/store/store.ts'
import { MIGRATIONS } from '../../src/store/tables.ts'
import { OLD_SECRET } from '../session/kit.ts'
import { HOUR, NEW_KEYS, OLD_KEYS, onPostgres, revocation, SECOND, until } from './kit.ts'

/** Both keys, the new one first. */
const ROTATED = { first: NEW_KEYS.first, all: [...NEW_KEYS.all, ...OLD_KEYS.all] }
const DOWN = { code: 'FWA_STORE_UNAVAILABLE', retryAfter: Number }

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
    accept: (table) => `SELECT pg_terminate_backend(pid) FROM pg_locks
      WHERE mode = 'ShareLock' AND granted AND relation = '${table}'::regclass`,
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
const HELD = `SELECT 1 FROM pg_locks WHERE mode = 'ShareLock' AND granted AND relation IS NOT NULL`

t.test('with one server', async (t) => {
  const server = await startPostgres(t)

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
      await tx.all(`INSERT INTO revoked (sid, person, first, last, generation, until, due)
        VALUES ('late', 'ada', 1, 1, 0, 1, 1)`)
      hasWritten()
      await new Promise<void>((resolve) => {
        commit = resolve
      })
    })
    await written
    const there = await open()
    for (let i = 0; i < 3; i++) {
      await there.store.revoke({ add: [revocation(`early${i}`)], remove: [] })
      await here.store.catchUp()
      t.ok(here.learned.has(`early${i}`))
    }
    t.notOk(here.learned.has('late'), 'it has not committed')
    commit()
    await late
    await here.store.catchUp()
    t.ok(here.learned.has('late'))
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
    t.notOk(dump.includes(made.digest('')), 'nor what is made of it')
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
    t.test(`a database that refuses writes: ${way}`, async (t) => {
      const schema = `refusing_${way.replaceAll(' ', '_')}`
      const { store, learned, log } = await onPostgres(t, server, schema)()
      await store.revoke({ add: [revocation('before')], remove: [] })
      t.strictSame(store.health(), { degraded: [] })
      const refusing = server.sql(refuse(`${schema}.revoked`))
      const refused = lasts ? refusing.catch(() => {}) : refusing
      if (lasts) await until(async () => (await server.sql(HELD)).length > 0)
      else await refused
      const add = [revocation('later')]
      await t.rejects(store.revoke({ add, remove: [] }), DOWN)
      t.strictSame(store.health(), { degraded: ['store'] })
      t.match(log, ['the store cannot be used: writing fails'])
      t.equal(await store.completeLogin('login', Date.now() + HOUR), true, 'the rest goes on')
      t.strictSame(store.health(), { degraded: ['store'] }, 'and does not hide it')
      await server.sql(accept(`${schema}.revoked`))
      await refused
      await until(() => store.health().degraded?.length === 0)
      await store.revoke({ add, remove: [] })
      await until(() => learned.has('later'))
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
  const refusing = await open({ revocationStaleness: 3 * SECOND })
  const allowing = await open({ revocationStaleness: 3 * SECOND, whenStale: 'allow' })
  const { store } = refusing
  await store.revoke({ add: [revocation('before')], remove: [] })
  await allowing.store.catchUp()
  t.strictSame(store.health(), { degraded: [] })
  t.equal(store.staleness?.(), undefined)
  // The time until it is stale begins here, also where the kill takes long.
  await store.catchUp()
  await server.kill()

  const failed = Promise.all([
    t.rejects(store.revoke({ add: [revocation('lost')], remove: [] }), DOWN),
    t.rejects(store.completeLogin('login', Date.now() + HOUR), DOWN),
    t.rejects(store.hasCompleted('login'), DOWN),
    t.rejects(store.audit.append([]), DOWN),
    store.catchUp(),
  ])
  await until(() => store.health().degraded?.length !== 0)
  t.strictSame(store.health(), { degraded: ['store'] }, 'it goes on from memory')
  t.equal(store.staleness?.(), undefined)
  await until(() => store.staleness?.() !== undefined)
  await failed
  t.match(store.staleness?.(), { code: 'FWA_STORE_STALE', retryAfter: 5 })
  t.strictSame(store.health(), { unready: 'store' })
  await until(() => allowing.store.health().degraded?.length === 1)
  t.equal(allowing.store.staleness, undefined, 'allow: it goes on')

  await server.start()
  await until(() => store.health().degraded?.length === 0)
  t.equal(store.staleness?.(), undefined, 'it comes back by itself')
  await store.revoke({ add: [revocation('after')], remove: [] })
  await until(() => allowing.learned.has('after'))
  t.strictSame(store.health(), { degraded: [] })
})

t.test('a database that went back gets what the instances know', async (t) => {
  const server = await startPostgres(t)
  const open = onPostgres(t, server, 'restored')
  const [one, two] = [await open(), await open()]
  const rows = [revocation('a'), revocation('b'), revocation('~ada', { first: 1, last: 9 })]
  await one.store.revoke({ add: rows, remove: [] })
  await one.store.revoke({ add: [revocation('over', { until: 0, due: 0 })], remove: [] })
  await until(() => two.learned.size === 4)
  await server.sql(`DELETE FROM restored.revoked WHERE sid IN ('a', 'over')`)
  await server.sql(`UPDATE restored.revoked SET last = 5 WHERE sid = '~ada'`)
  await server.kill()
  await server.start()
  const read = () => server.sql('SELECT sid, last::int FROM restored.revoked ORDER BY sid')
  await until(async () => (await read()).length === 3)
  await until(async () => JSON.stringify(await read()).includes('"last":9'))
  t.match(await read(), [{ sid: 'a' }, { sid: 'b' }, { sid: '~ada', last: 9 }])
  const told = [...one.log, ...two.log]
  t.ok(told.includes('ended sessions that the database lacks are written again'))
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

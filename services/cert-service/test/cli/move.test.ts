import { once } from 'node:events'
import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { isDeepStrictEqual } from 'node:util'
import type { Store } from '@gatehouse/cert-store/port'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { openPostgresStore } from '../../../../packages/cert-store/src/engines/postgres.ts'
import {
  openSqliteStore,
  requireStore,
} from '../../../../packages/cert-store/src/engines/sqlite.ts'
import {
  copyStore,
  type Source,
  type Target,
} from '../../../../packages/cert-store/src/move/copy.ts'
import {
  openPostgresSource,
  openPostgresTarget,
} from '../../../../packages/cert-store/src/move/postgres.ts'
import {
  openSqliteSource,
  openSqliteTarget,
} from '../../../../packages/cert-store/src/move/sqlite.ts'
import {
  newSchema,
  openReplica,
  testServer,
  until,
} from '../../../../packages/cert-store/test/helpers/engines.ts'
import { fill } from '../../../../packages/cert-store/test/helpers/filled-store.ts'
import { newAudit, newCertificate } from '../../../../packages/cert-store/test/helpers/store.ts'
import { move } from '../../src/cli/move.ts'
import { configure, DAY, leapClock, NOW, type Running, start } from '../helpers/app.ts'
import { createHome, spawnMain } from '../helpers/service.ts'

/** Less than there is of most tables. */
const BATCH = 3
/** Certificates of which the command copies several batches. */
const COUNT = 1_200
/** Tables of PostgreSQL that are not moved: what ends with a process, and what only it needs. */
const OWN = [
  'changes',
  'confirmations',
  'leases',
  'replicas',
  'reservations',
  'schema_versions',
  'writes',
]

const server = await testServer()

interface Places {
  readonly folder: string
  readonly schema: string
  /** Where the store may go back to. */
  readonly back: string
}

function placesOf(t: Test): Places {
  const base = testFolder(t)
  return { folder: join(base, 'data'), back: join(base, 'back'), schema: newSchema() }
}

/** A store in a folder with all that there can be, closed. */
async function filledFolder(folder: string): Promise<void> {
  let passed = 0
  await using store = await openSqliteStore({ folder, elapsed: () => passed })
  passed = 7_000
  await fill(store)
}

const inFolder = (path: string, schema = 'none') => ({ path, schema })
const inDatabase = (schema: string) => ({ path: 'unused', url: server.url, schema })

async function moved(...[storage, to]: Parameters<typeof move>): Promise<string> {
  let lines = ''
  for await (const line of move(storage, to)) lines += line
  return lines
}

type Rows = Readonly<Record<string, readonly unknown[]>>

/** Everything in a folder, with the ids that are next, read without the code that moves it. */
function dumpFolder(folder: string): Rows {
  using sqlite = new DatabaseSync(join(folder, 'store.db'), { readOnly: true })
  const all = (sql: string) => sqlite.prepare(sql).all()
  const tables = all(`SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name`)
  const dump = tables.map(({ name }) => {
    const rows = new Map(all(`SELECT * FROM ${name}`).map((row) => [JSON.stringify(row), row]))
    return [name, [...rows].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row)]
  })
  return Object.fromEntries(dump)
}

/** The same of a schema. */
async function dumpSchema(schema: string): Promise<Rows> {
  const names = await server.sql<{ name: string; kind: string }>(
    `SELECT relname AS name, relkind::text AS kind FROM pg_class
     WHERE relnamespace = '${schema}'::regnamespace AND relkind IN ('r', 'S') ORDER BY relname`,
  )
  const dump: [string, readonly unknown[]][] = []
  for (const { name, kind } of names) {
    if (OWN.some((own) => name.startsWith(own))) continue
    const columns = kind === 'S' ? 'last_value, is_called' : '*'
    const order = kind === 'S' ? '' : 'ORDER BY 1'
    dump.push([name, await server.sql(`SELECT ${columns} FROM ${schema}.${name} ${order}`)])
  }
  return Object.fromEntries(dump)
}

t.test('from a folder to a database and back: the same rows', async (t) => {
  const { folder, back, schema } = placesOf(t)
  await filledFolder(folder)
  const before = dumpFolder(folder)
  for (const [table, rows] of Object.entries(before)) {
    const [row = {}] = rows
    t.ok(rows.length > 0, `${table} has rows`)
    for (const column of Object.keys(Object(row)))
      t.ok(
        rows.some((one) => ![null, 0].includes(Object(one)[column])),
        `${table}.${column} has a value that could be lost`,
      )
  }

  const there = await moved(inFolder(folder, schema), server.url)
  t.match(
    there,
    /^chains: 3\ncertificates: 9\ncertificate_names: \d+\ntransitions: \d+\ncompromised_keys: 1\n(\w+: [1-9]\d*\n)+The store is now in the schema certs_/,
  )
  t.strictSame(dumpFolder(folder), before, 'the source is as it was')
  const stored = await dumpSchema(schema)
  t.match(await moved(inDatabase(schema), back), `The store is now in ${back}.`)
  t.strictSame(await dumpSchema(schema), stored, 'and so is the database')
  t.strictSame(dumpFolder(back), before)
  t.strictSame(readdirSync(back).sort(), ['lock.db', 'store.db'])
})

t.test(
  'from a database to a folder and back: the same rows, with all that follows from them',
  async (t) => {
    const { folder, schema } = placesOf(t)
    const store = await openReplica(t, { schema })
    await fill(store)
    await store.close()
    const before = await dumpSchema(schema)
    await moved(inDatabase(schema), folder)
    const other = newSchema()
    await moved(inFolder(folder, other), server.url)
    t.strictSame(await dumpSchema(other), before)
  },
)

interface Way {
  readonly name: string
  source(): Promise<Source>
  target(): Promise<Target>
  /** As a service does. */
  openSource(): Promise<Store>
  openTarget(): Promise<Store>
  /** What is in the target, and what should be. */
  dumps(): Promise<readonly [Rows, Rows]>
  readonly unopenable: { readonly code: string }
}

/** A filled store of each engine, and where it is to go. */
async function bothWays(t: Test): Promise<readonly Way[]> {
  const { folder, back, schema } = placesOf(t)
  await filledFolder(folder)
  await moved(inFolder(folder, schema), server.url)
  const other = newSchema()
  const replica = (schema: string) =>
    openPostgresStore({ url: server.url, schema, name: 'test', log: { info() {}, warn() {} } })
  return [
    {
      name: 'to a database',
      source: () => openSqliteSource(folder),
      target: () => openPostgresTarget({ url: server.url, schema: other }),
      openSource: () => openSqliteStore({ folder }),
      openTarget: () => replica(other),
      async dumps() {
        const expected = newSchema()
        await moved(inFolder(folder, expected), server.url)
        return [await dumpSchema(other), await dumpSchema(expected)]
      },
      unopenable: { code: 'STORE_UNFINISHED' },
    },
    {
      name: 'to a folder',
      source: () => openPostgresSource({ url: server.url, schema }),
      target: () => openSqliteTarget(back),
      openSource: () => replica(schema),
      async openTarget() {
        requireStore(back)
        return openSqliteStore({ folder: back })
      },
      async dumps() {
        const expected = join(t.testdirName, newSchema())
        await moved(inDatabase(schema), expected)
        return [dumpFolder(back), dumpFolder(expected)]
      },
      unopenable: { code: 'STORE_MISSING' },
    },
  ]
}

/** Moves until so many batches are done. Gives whether that was all. */
async function moveFor(way: Way, batches = Number.POSITIVE_INFINITY): Promise<boolean> {
  await using source = await way.source()
  return await moveFrom(source, way, batches)
}

async function moveFrom(source: Source, way: Way, batches: number): Promise<boolean> {
  await using target = await way.target()
  let done = 0
  for await (const _ of copyStore(source, target, BATCH)) if (++done === batches) return false
  return true
}

t.test('cut short after each batch, it goes on and ends right', async (t) => {
  for (const way of await bothWays(t)) {
    let times = 0
    {
      await using source = await way.source()
      while (!(await moveFrom(source, way, times + 1))) {
        times++
        if (times % 10 === 1)
          await t.rejects(way.openTarget(), way.unopenable, 'no service starts on a part')
      }
    }
    t.ok(times > 25, `${way.name}: in ${times} parts`)
    const [found, expected] = await way.dumps()
    t.strictSame(found, expected, way.name)

    t.equal(await moveFor(way), true, 'once more, it is found to be complete')
    {
      await using store = await way.openTarget()
      await t.rejects(moveFor(way), { code: 'STORE_LOCKED' }, 'a target that is in use')
      await store.addAudit([newAudit()])
    }
    await t.rejects(moveFor(way), { code: 'STORE_NOT_EMPTY' }, 'or was used')
  }
})

t.test('a store that was used after a part of it was copied is copied as it is now', async (t) => {
  for (const way of await bothWays(t)) {
    for (const batches of [2, 5, 12, 20]) {
      t.equal(await moveFor(way, batches), false)
      await using store = await way.openSource()
      const [first] = await store.list({ after: 0, limit: 1 })
      await store.revoke([first?.id ?? 0], NOW, 'superseded', newAudit({ action: 'revoke' }))
      await store.addCertificate(newCertificate({ names: [`${batches}.example`] }), newAudit())
      const all = { audit: 0, certificates: 0, orders: 0, challenges: 0 }
      if (batches > 10) t.ok((await store.prune(NOW + 400 * DAY, all)) > 0)
    }
    t.equal(await moveFor(way), true)
    const [found, expected] = await way.dumps()
    t.strictSame(found, expected, way.name)
  }
})

/** The number of the current revocation list, and the serial numbers that the store would put into it. */
async function revocations({ service: { ca, store } }: Running) {
  const { info } = ca.intermediate()
  await ca.crls.get(info.skid ?? '')
  const [row] = await store.listAuthorities()
  const list = await store.findCrl(row?.id ?? 0)
  const revoked = await store.listRevoked(row?.certificate ?? Buffer.of(), NOW)
  return { number: list?.number, serials: revoked.map(({ serialNumber }) => serialNumber) }
}

/** Keeps moves from their end, at a table of the schema that comes late. Gives what lets them go on. */
async function hold(table: string, mode: string): Promise<() => Promise<void>> {
  const held = server
    .sql(`BEGIN; LOCK TABLE ${table} IN ${mode} MODE; SELECT pg_sleep(600)`)
    .catch(() => {})
  const pids = (isGranted: boolean) =>
    `SELECT pid FROM pg_locks WHERE relation = '${table}'::regclass AND granted >= ${isGranted}`
  await until(async () => (await server.sql(pids(true))).length > 0)
  return async () => {
    await server.sql(`SELECT pg_terminate_backend(pid) FROM (${pids(false)}) AS all_pids`)
    await held
  }
}

t.test('a move that is killed is completed by the next one', async (t) => {
  const home = createHome(join(testFolder(t), 'service'))
  const schema = newSchema()
  {
    await using store = await openSqliteStore({ folder: home.folder })
    await store.createKeyring(Buffer.alloc(32))
    const names = Array.from({ length: COUNT }, (_, i) => [`${i}.example`, `www.${i}.example`])
    await Promise.all(
      names.map((names) => store.addCertificate(newCertificate({ names }), newAudit({ names }))),
    )
  }
  const before = dumpFolder(home.folder)
  const rest = `server: { port: 0, tls: off }\nauth: { psk: { key: ${'k'.repeat(30)} } }\n`
  await (await openPostgresTarget({ url: server.url, schema }))[Symbol.asyncDispose]()
  const places: [storage: object, to: string, name: string, held: [table: string, mode: string]][] =
    [
      [{ path: 'data' }, server.url, `in the schema ${schema}`, ['master_key', 'SHARE']],
      [{ url: server.url }, join(home.base, 'back'), 'in ', ['sign_ins', 'ACCESS EXCLUSIVE']],
    ]
  for (const [storage, to, end, [table, mode]] of places) {
    const config = { masterKeyFile: 'keys/master.key', schema, ...storage }
    writeFileSync(join(home.base, 'config.yaml'), `${rest}storage: ${JSON.stringify(config)}\n`)
    const release = await hold(`${schema}.${table}`, mode)
    // Before it begins, in the midst of the certificates, of the audit trail, and in the end.
    for (const last of ['', 'chains: 1\n', 'crls: 0\n', undefined]) {
      if (last === undefined) await release()
      const child = spawnMain(t, home, ['move', '--to', to])
      const exited = once(child, 'close')
      let output = ''
      child.stdout?.on('data', (lines) => {
        output += lines
        if (last !== undefined && output.includes(last)) child.kill('SIGKILL')
      })
      if (last === '') setTimeout(() => child.kill('SIGKILL'), 300)
      const [code, signal] = await exited
      if (last === undefined) t.match(output, `certificates: ${COUNT}\n`)
      t.strictSame([code, signal], last === undefined ? [0, null] : [null, 'SIGKILL'])
      if (last === undefined) t.match(output, `The store is now ${end}`)
    }
  }
  // tap would write down thousands of rows to compare them.
  t.ok(isDeepStrictEqual(dumpFolder(home.folder), before), 'the source is as it was')
  t.ok(isDeepStrictEqual(dumpFolder(join(home.base, 'back')), before))
})

t.test('a service that starts on the target goes on where the other one ended', async (t) => {
  const { schema } = placesOf(t)
  const clock = leapClock(NOW)
  const base = t.testdirName
  const domain = 'app.example'
  const first = await start(t, {}, { folder: base, clock })
  let held = (await first.call('POST', '/api/certificate', { domain })).body
  const bad = (await first.call('POST', '/api/certificate', { domain: 'bad.example' })).body
  await first.call('POST', '/api/certificate/revoke', { domain: 'bad.example' })
  const root = first.service.ca.root()
  let { number = 0n } = await revocations(first)
  await first.close()

  const places: [from: Parameters<typeof move>[0], to: string, storage: object][] = [
    [inFolder(join(base, 'data'), schema), server.url, { url: server.url, schema }],
    [inDatabase(schema), join(base, 'back'), { path: 'back' }],
  ]
  for (const [from, to, where] of places) {
    await moved(from, to)
    const storage = { masterKeyFile: 'keys/master.key', ...where }
    const running = await start(t, { storage }, { folder: base, clock })
    t.same(running.service.ca.root(), root)
    t.strictSame(await revocations(running), { number, serials: [bad.serialNumber] })
    const again = await running.call('POST', '/api/certificate', { domain })
    t.strictSame(again.body, { ...held, cached: true }, 'the same certificate with its key')
    await clock.advance(4 * DAY)
    const renewed = await running.call('POST', '/api/certificate/renew', { domain })
    t.match(renewed, { status: 200, body: { cached: false } })
    held = renewed.body
    number = BigInt(clock.now() / 1000)
    t.strictSame((await revocations(running)).number, number)
    await running.close()
  }
})

t.test('what is refused', async (t) => {
  const { folder, back, schema } = placesOf(t)
  await filledFolder(folder)
  const other = join(t.testdirName, 'other')
  await filledFolder(other)
  await moved(inFolder(folder, schema), server.url)
  const caFile = 'database-ca.pem'
  const { storage } = await configure(t.testdirName, { storage: { path: 'data', caFile } })
  t.match(storage.caFile, caFile, 'a folder may be configured with the CA of a database')
  const untouched = [dumpFolder(folder), dumpFolder(other), await dumpSchema(schema)]
  const half = newSchema()
  const file = join(t.testdirName, 'url')
  writeFileSync(file, `${server.url}\n`)
  const begin = async (from: string, to: Target) => {
    await using source = await openSqliteSource(from)
    await using target = to
    for await (const _ of copyStore(source, target, 1)) break
  }
  await begin(folder, await openPostgresTarget({ url: server.url, schema: half }))
  const cases: [why: string, code: string, from: Parameters<typeof move>[0], to: string][] = [
    ['no store', 'STORE_MISSING', inFolder(back, schema), server.url],
    ['no schema', 'STORE_MISSING', inDatabase('absent'), back],
    ['another store in the target', 'STORE_NOT_EMPTY', inFolder(other, schema), server.url],
    ['half of another store', 'STORE_NOT_EMPTY', inFolder(other, half), file],
    ['another store in the folder', 'STORE_NOT_EMPTY', inDatabase(schema), other],
    ['a file in the folder', 'STORE_NOT_EMPTY', inDatabase(schema), t.testdirName],
    ['half of a store', 'STORE_UNFINISHED', inDatabase(half), back],
    ['a URL that is none', 'STORE_URL_INVALID', inFolder(folder), 'postgres://secret@'],
    ['no CA', 'CONFIG_FILE_UNUSABLE', { ...inFolder(folder), caFile: back }, server.url],
    ['no file with a URL', 'CONFIG_FILE_UNUSABLE', inFolder(folder), back],
  ]
  for (const [why, code, from, to] of cases) {
    const error = await moved(from, to).catch((thrown) => thrown)
    t.match(error, { code }, why)
    t.notMatch(error.message, /secret|test-only/)
  }
  await t.rejects(moved(inFolder(folder), undefined), { message: /needs --to/ })
  await t.rejects(moved(inDatabase(schema), server.url), { message: /--to names a folder/ })
  const foreign = newSchema()
  await (await openPostgresTarget({ url: server.url, schema: foreign }))[Symbol.asyncDispose]()
  await server.sql(`INSERT INTO ${foreign}.told VALUES ('key', 1, 1)`)
  t.match(await moved(inFolder(folder, foreign), server.url).catch((thrown) => thrown), {
    code: 'STORE_NOT_EMPTY',
    message: /told/,
  })
  t.strictSame([dumpFolder(folder), dumpFolder(other), await dumpSchema(schema)], untouched)
  t.notOk(existsSync(back))
})

t.test('a store that is in use, or of an older version, is not moved', async (t) => {
  const { folder, back, schema } = placesOf(t)
  await filledFolder(folder)
  await moved(inFolder(folder, schema), server.url)
  {
    await using _ = await openSqliteStore({ folder })
    await t.rejects(moved(inFolder(folder, newSchema()), server.url), { code: 'STORE_LOCKED' })
  }
  await openReplica(t, { schema, name: 'this-one:7401' })
  const live = { code: 'STORE_LOCKED', message: /this-one:7401/ }
  await t.rejects(moved(inDatabase(schema), back), live)

  const other = newSchema()
  await moved(inFolder(folder, other), server.url)
  const source = await openPostgresSource({ url: server.url, schema: other })
  await server.sql(`INSERT INTO ${other}.writes VALUES (gen_random_uuid())`)
  await t.rejects(source.assertUnused(), { code: 'STORE_LOCKED', message: /during the move/ })
  await source[Symbol.asyncDispose]()

  await server.sql(`DELETE FROM ${other}.schema_versions`)
  await t.rejects(moved(inDatabase(other), back), { code: 'STORE_MISSING' })
  const sqlite = new DatabaseSync(join(folder, 'store.db'))
  t.teardown(() => sqlite.close())
  sqlite.exec('DELETE FROM schema_versions')
  await t.rejects(moved(inFolder(folder, newSchema()), server.url), { code: 'STORE_MISSING' })
  // Such as versions made that were never released.
  sqlite.exec('DROP TABLE schema_versions')
  const unreleased = { code: 'STORE_UNRELEASED' }
  await t.rejects(moved(inFolder(folder, newSchema()), server.url), unreleased)
  await server.sql(`ALTER TABLE ${other}.schema_versions RENAME TO migrations`)
  await t.rejects(moved(inDatabase(other), back), unreleased)
})

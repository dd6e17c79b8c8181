import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import t, { type Test } from 'tap'
import { type Migration, migrateSqlite, requireMigratedSqlite } from '../src/index.ts'
import { failureOf, newSchema, open, testServer } from './kit.ts'

const steps: readonly Migration[] = [
  () => 'CREATE TABLE steps (step int); INSERT INTO steps VALUES (1)',
  () => 'INSERT INTO steps VALUES (2)',
  () => 'INSERT INTO steps VALUES (3)',
]
/** `@` stands for the schema. */
const STEPS = 'SELECT step FROM @steps ORDER BY step'

/** Where a store is. */
interface Place {
  readonly path: string
  /** As a service starts. */
  migrate(migrations: readonly Migration[]): Promise<void>
  /** As a command opens a store of a service. */
  requireMigrated(migrations: readonly Migration[]): Promise<void>
  fiveAtOnce(): Promise<unknown>
  sql(text: string): Promise<readonly object[]>
}

async function file(t: Test): Promise<Place> {
  const path = join(t.testdir({}), 'test.db')
  const on = async <T>(job: (sqlite: DatabaseSync) => T): Promise<T> => {
    using sqlite = new DatabaseSync(path)
    return job(sqlite)
  }
  return {
    path,
    migrate: (migrations) => on((sqlite) => migrateSqlite(sqlite, migrations)),
    requireMigrated: (migrations) => on((sqlite) => requireMigratedSqlite(sqlite, migrations)),
    fiveAtOnce: async () => startOf(path, 5),
    sql: (text) =>
      on((sqlite) =>
        sqlite
          .prepare(text.replaceAll('@', ''))
          .all()
          .map((row) => ({ ...row })),
      ),
  }
}

/** A connection whose transactions begin late. */
class Late extends DatabaseSync {
  readonly #meanwhile: () => void

  constructor(path: string, meanwhile: () => void) {
    super(path)
    this.#meanwhile = meanwhile
  }

  override exec(sql: string): void {
    if (sql === 'BEGIN IMMEDIATE') this.#meanwhile()
    super.exec(sql)
  }
}

/** Each has seen that nothing is there, and begins after all who came later are done. */
function startOf(path: string, processes: number): void {
  if (processes === 0) return
  using sqlite = new Late(path, () => startOf(path, processes - 1))
  migrateSqlite(sqlite, steps)
}

async function schema(t: Test): Promise<Place> {
  const server = await testServer()
  const path = newSchema()
  const start = async (migrations: readonly Migration[], existing = false) => {
    const db = await open(t, server, { schema: path, migrations, existing })
    await db.close()
  }
  return {
    path,
    migrate: start,
    requireMigrated: (migrations) => start(migrations, true),
    fiveAtOnce: () => Promise.all(Array.from({ length: 5 }, () => start(steps))),
    sql: (text) => server.sql(text.replaceAll('@', `${path}.`)),
  }
}

const places: [engine: string, place: (t: Test) => Promise<Place>][] = [
  ['SQLite', file],
  ['PostgreSQL', schema],
]

/** What a start could have changed. */
const whole = (place: Place) =>
  place.sql('SELECT version, digest, ms FROM @schema_versions, @run_time ORDER BY version')

/** A test that holds for both. */
function onBoth(name: string, test: (t: Test, place: Place) => Promise<void>): void {
  for (const [engine, placeOf] of places)
    t.test(`${name}: ${engine}`, async (t) => test(t, await placeOf(t)))
}

onBoth('a newer version runs what is new, and an older one refuses to start', async (t, place) => {
  await place.migrate(steps.slice(0, 1))
  for (let start = 0; start < 3; start++) await place.migrate(steps)
  t.strictSame(await place.sql(STEPS), [{ step: 1 }, { step: 2 }, { step: 3 }])
  const before = await whole(place)
  t.match(await failureOf(place.migrate(steps.slice(0, 2))), {
    code: 'STORE_NEWER',
    message: 'The store has schema 3, and this version knows up to 2.',
  })
  t.strictSame(await whole(place), before, 'nothing is changed')
})

onBoth('five that start at once run each migration once', async (t, place) => {
  await place.fiveAtOnce()
  t.strictSame(await place.sql(STEPS), [{ step: 1 }, { step: 2 }, { step: 3 }])
})

onBoth('an existing store is opened as it is, or refused', async (t, place) => {
  await place.migrate(steps.slice(0, 2))
  const before = await whole(place)
  const versions: [steps: readonly Migration[], code: string | undefined][] = [
    [steps, 'STORE_MISSING'],
    [steps.slice(0, 2), undefined],
    [steps.slice(0, 1), 'STORE_NEWER'],
    [[steps[0] as Migration, () => 'SELECT 2'], 'STORE_UNRELEASED'],
  ]
  for (const [migrations, code] of versions) {
    const opening = place.requireMigrated(migrations)
    if (code === undefined) await opening
    else t.match(await failureOf(opening), { code }, code)
  }
  t.strictSame(await whole(place), before, 'nothing is changed')
})

onBoth('an empty place is no store yet', async (t, place) => {
  t.match(await failureOf(place.requireMigrated(steps)), { code: 'STORE_MISSING' })
  await place.migrate([])
  t.strictSame(await whole(place), [], 'a store without migrations has what each has')
  await place.requireMigrated([])
  await place.migrate(steps)
  t.equal((await place.sql(STEPS)).length, 3)
})

onBoth('a store that had other migrations is refused, whatever comes after', async (t, place) => {
  await place.migrate(steps.slice(0, 2))
  const before = await whole(place)
  const [first, second, third] = steps as [Migration, Migration, Migration]
  const others = [
    [() => `${first('sqlite')} `, second],
    [second, first, third],
    [first, () => 'SELECT 2', third],
  ]
  for (const migrations of others)
    t.match(await failureOf(place.migrate(migrations)), {
      code: 'STORE_UNRELEASED',
      message: 'The store was made by a version that was never released.',
    })
  t.strictSame(await whole(place), before, 'nothing is changed')
})

onBoth('a migration that fails leaves nothing of itself', async (t, place) => {
  await place.migrate(steps.slice(0, 2))
  const before = await whole(place)
  const bad = [...steps.slice(0, 2), () => 'INSERT INTO steps VALUES (9); SELECT nonsense']
  t.match((await failureOf(place.migrate(bad))).message, 'nonsense')
  t.strictSame(await place.sql(STEPS), [{ step: 1 }, { step: 2 }])
  t.strictSame(await whole(place), before)
  await place.migrate(steps)
  t.equal((await place.sql(STEPS)).length, 3)
})

t.test('a new store in SQLite comes whole, and in PostgreSQL as far as it works', async (t) => {
  const bad = [...steps.slice(0, 1), () => 'SELECT nonsense']
  const [inFile, inSchema] = [await file(t), await schema(t)]
  await t.rejects(inFile.migrate(bad))
  t.strictSame(await inFile.sql('SELECT name FROM sqlite_schema'), [])
  using sqlite = new DatabaseSync(inFile.path)
  t.throws(() => migrateSqlite(sqlite, bad))
  t.equal(sqlite.isTransaction, false, 'others may write')
  await t.rejects(inSchema.migrate(bad))
  t.strictSame(await inSchema.sql(STEPS), [{ step: 1 }])
})

t.test('a store of a version before the first release is refused', async (t) => {
  const [inFile, inSchema] = [await file(t), await schema(t)]
  using sqlite = new DatabaseSync(inFile.path)
  sqlite.exec('CREATE TABLE certificates (id INTEGER PRIMARY KEY)')
  const server = await testServer()
  await server.sql(`CREATE SCHEMA ${inSchema.path} AUTHORIZATION gatehouse`)
  await server.sql(`CREATE TABLE ${inSchema.path}.migrations (version int)`)
  for (const place of [inFile, inSchema])
    for (const opened of [place.migrate, place.requireMigrated])
      t.match(await failureOf(opened(steps)), { code: 'STORE_UNRELEASED' })
})

import { execFile } from 'node:child_process'
import diagnostics from 'node:diagnostics_channel'
import { existsSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { promisify } from 'node:util'
import type { Worker } from 'node:worker_threads'
import t, { type Test } from 'tap'
import { SharedSqlite } from '../../src/sqlite/sqlite.ts'
import { MIGRATIONS, ROWS } from './rows.ts'

const UNAVAILABLE = { code: 'STORE_UNAVAILABLE', retryAfter: 5 }

/** Every thread that was started. */
const threads: Worker[] = []
diagnostics.subscribe('worker_threads', (message) => {
  threads.push((message as { worker: Worker }).worker)
})

/** A store of a file, and what tests do with it. */
function openOn(t: Test, path = join(t.testdir(), 'shared.db'), elapsed?: () => number) {
  const store = new SharedSqlite(path, MIGRATIONS, { elapsed })
  t.teardown(() => store.close())
  const add = (name: string) => store.transaction((tx) => ROWS.add(tx, { name, size: 1 }))
  const names = async () => (await ROWS.list(store, 'ORDER BY id')).map(({ name }) => name)
  return { store, path, add, names }
}

/** Another program that uses the file. */
function another(t: Test, path: string): DatabaseSync {
  const sqlite = new DatabaseSync(path, { timeout: 5_000 })
  t.teardown(() => sqlite.isOpen && sqlite.close())
  return sqlite
}

/** How often a file was committed: the counter in its header. */
const commitsOf = (path: string) => readFileSync(path).readUInt32BE(24)

t.test('statements of a transaction', async (t) => {
  const { store, path, names } = openOn(t)
  t.equal(statSync(path).mode & 0o777, 0o600)
  const result = await store.transaction(async (tx) => {
    const added = ['a', 'b'].map((name) => ROWS.add(tx, { name, size: 2 }))
    t.strictSame(await Promise.all(added), [1, 1])
    const changed = await tx.run('UPDATE kept SET size = greatest(size, $1::bigint)', 7n)
    return [
      changed,
      await tx.get('SELECT sum(size) AS size FROM kept'),
      await tx.all('SELECT 1 AS one'),
    ]
  })
  t.strictSame(result, [2, { size: 14 }, [{ one: 1 }]])
  t.strictSame(await names(), ['a', 'b'])
  await store.check()
  t.equal(store.failure(), undefined)
})

t.test('writes that come together share a commit, and each fails alone', async (t) => {
  const { path, add, names } = openOn(t)
  await add('a')
  const before = commitsOf(path)
  await Promise.all(Array.from({ length: 100 }, (_, i) => add(`name ${i}`)))
  t.equal(commitsOf(path), before + 1)
  const outcomes = await Promise.allSettled(['b', 'a', 'c'].map(add))
  t.match(outcomes, [
    { value: 1 },
    {
      reason: { code: 'STORE_STATEMENT_FAILED', constraint: 'UNIQUE constraint failed: kept.name' },
    },
    { value: 1 },
  ])
  t.strictSame((await names()).slice(-2), ['b', 'c'])
})

t.test('several processes write one file', async (t) => {
  const { path, names } = openOn(t)
  const program = join(import.meta.dirname, 'adds-rows.ts')
  const run = (prefix: string) =>
    promisify(execFile)(process.execPath, [
      '--conditions=@gatehouse/source',
      program,
      path,
      prefix,
      '20',
    ])
  await Promise.all(['a', 'b', 'c'].map(run))
  const expected = ['a', 'b', 'c'].flatMap((prefix) =>
    Array.from({ length: 20 }, (_, i) => `${prefix}${i}`),
  )
  t.strictSame((await names()).toSorted(), expected.toSorted())
})

t.test('who writes or reads waits for the commit of another process', async (t) => {
  const { path, add, names } = openOn(t)
  await add('a')
  const other = another(t, path)
  other.exec(`BEGIN EXCLUSIVE; INSERT INTO kept (name, size) VALUES ('b', 1)`)
  const waiting = Promise.all([names(), add('c')])
  // The event loop goes on.
  for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate)
  other.exec('COMMIT')
  const [read] = await waiting
  t.strictSame(read, ['a', 'b'])
  t.strictSame(await names(), ['a', 'b', 'c'])
})

t.test('who reads a file that is there anew does not hold up this thread', async (t) => {
  const { store, path, names } = openOn(t)
  rmSync(path)
  t.equal(store.renew(), true)
  const other = another(t, path)
  other.exec('BEGIN EXCLUSIVE')
  const start = performance.now()
  const reading = names()
  t.ok(performance.now() - start < 2_500, 'of the 5 s that a start waits')
  other.exec('ROLLBACK')
  t.strictSame(await reading, [])
})

t.test('a write that fails unawaited fails its transaction', async (t) => {
  const { store, add, names } = openOn(t)
  await add('a')
  const failing = store.transaction(async (tx) => {
    await ROWS.add(tx, { name: 'b', size: 1 })
    ROWS.add(tx, { name: 'a', size: 1 }).catch(() => {})
  })
  await t.rejects(failing, { code: 'STORE_STATEMENT_FAILED' })
  t.strictSame(await names(), ['a'])
})

t.test('a lock that stays is a failure, until it is gone', async (t) => {
  const { store, path, add, names } = openOn(t)
  const other = another(t, path)
  other.exec('BEGIN EXCLUSIVE')
  await Promise.all([t.rejects(add('a'), UNAVAILABLE), t.rejects(names(), UNAVAILABLE)])
  t.match(store.failure(), {
    message: 'The store cannot be used: it is locked by another program.',
  })
  other.exec('ROLLBACK; BEGIN; SELECT * FROM kept')
  t.strictSame(await names(), [])
  await t.rejects(store.check(), UNAVAILABLE, 'who reads keeps others from writing')
  other.close()
  await store.check()
  t.equal(store.failure(), undefined)
  t.equal(await add('a'), 1)
})

t.test('a file that is gone is not made again by a write', async (t) => {
  const time = { passed: 5 }
  const { store, path, add, names } = openOn(t, undefined, () => time.passed)
  await add('a')
  time.passed = 1_005
  t.equal(store.renew(), false)
  rmSync(path)
  await t.rejects(add('b'), { ...UNAVAILABLE, message: /its files cannot be opened/ })
  t.notOk(existsSync(path))
  t.equal(store.renew(), true)
  t.equal(store.renew(), false)
  t.match(store.failure(), UNAVAILABLE, 'until something is written')
  t.equal(store.runTime(), 1_000, 'it goes on')
  await add('c')
  t.equal(store.failure(), undefined)
  t.strictSame(await names(), ['c'])

  const { store: other, path: backup } = openOn(t, `${path}.backup`)
  await other.transaction((tx) => ROWS.add(tx, { name: 'z', size: 1 }))
  await other.close()
  renameSync(backup, path)
  t.equal(store.renew(), true)
  await add('d')
  t.strictSame(await names(), ['z', 'd'], 'its replacement')
})

t.test('a thread is there only while something is written', async (t) => {
  const before = threads.length
  const time = { passed: 0 }
  const { store, path, add, names } = openOn(t, undefined, () => time.passed)
  await names()
  store.renew()
  time.passed = 5_000
  await store.close()
  t.equal(threads.length, before)
  const again = openOn(t, path)
  t.equal(again.store.runTime(), 5_000, 'the run time is saved all the same')
  await again.add('a')
  await again.add('b')
  t.equal(threads.length, before + 1)
  const thread = threads.at(-1)
  await again.store.close()
  t.equal(thread?.threadId, -1, 'it has ended')
  const late: readonly Promise<unknown>[] = [add('c'), again.add('c'), names()]
  for (const closed of late) await t.rejects(closed, { ...UNAVAILABLE, message: /it is closed/ })
  t.equal(threads.length, before + 1)
})

t.test('a thread that fails takes nothing else with it', async (t) => {
  const { store, add, names } = openOn(t)
  await add('a')
  const failing = store.transaction(async (tx) => {
    await ROWS.add(tx, { name: 'b', size: 1 })
    threads.at(-1)?.postMessage('nothing that it knows')
    await ROWS.add(tx, { name: 'c', size: 1 })
  })
  await t.rejects(failing, TypeError)
  t.equal(await add('d'), 1, 'another one takes its place')
  t.strictSame(await names(), ['a', 'd'])
})

import { closeSync, fsyncSync, mkdtempSync, openSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as pause } from 'node:timers/promises'
import { openSqliteStore, storeFile } from '../packages/cert-store/src/engines/sqlite.ts'
import { listAll } from '../packages/cert-store/src/port/listing.ts'
import type { Store } from '../packages/cert-store/src/port/store.ts'
import { newAudit, newCertificate } from '../packages/cert-store/test/helpers/store.ts'
import { SqliteStore, STATE_FILE } from '../services/forward-auth/src/store/sqlite/sqlite-store.ts'
import { session } from '../services/forward-auth/test/store/kit.ts'
import { type Effort, median } from './harness/compare.ts'
import { atMost, type Row } from './harness/rows.ts'

/** Rows of each large table. The figures for 10^6 in the README are of `GROWTH_ROWS=1000000`. */
const ROWS = Number(process.env.GROWTH_ROWS ?? 100_000)
const DAY = 86_400_000
/** How long a store has run before: longer than anything is kept. */
const elapsed = () => 400 * DAY + performance.now()
const of = ROWS.toLocaleString('en-GB')
const log = { error: console.error, warn: console.warn, info() {} }

/** What large stores cost those who wait, in ms: of a read the time, of other work how long it holds up the process. */
export async function* growth({ rounds, noise, wants }: Effort): AsyncGenerator<Row> {
  const figures = async function* (measure: typeof ofSessions) {
    const all: Record<string, number>[] = []
    for (let n = 0; n < rounds; n++) all.push(await measure())
    for (const what of Object.keys(all[0] ?? {})) {
      const [name, allowed = ''] = what.split(' ≤ ')
      const [value, baseline] = [median(all.map((each) => each[what] ?? 0)), Number(allowed)]
      const compared = { value, unit: 'ms', baseline, ratio: value / baseline, target: 1, noise }
      yield atMost({ name: `growth: ${name} / allowed`, ...compared })
    }
  }
  if (wants('growth: sessions')) yield* figures(ofSessions)
  if (wants('growth: certificates')) yield* figures(ofCertificates)
}

async function ofSessions(): Promise<Record<string, number>> {
  const folder = mkdtempSync(join(tmpdir(), 'growth-'))
  const open = () => new SqliteStore(folder, { log, monotonic: elapsed })
  const now = Date.now()
  const first = open()
  await first.beginSession(session('first', { begun: now, ends: now + DAY }))
  await first.close()
  fill(join(folder, STATE_FILE), 'sessions', {
    ...{ sid: `hex(randomblob(16))`, person: `'person' || n`, mail: `'mail' || n` },
    ...{ subject: `'subject' || n`, provider_sid: `'sid' || n`, idle: DAY },
    ends: `${now} + CASE WHEN n % 100 = 0 THEN -1 ELSE ${DAY} END`,
  })
  const store = open()
  const begun = performance.now()
  await store.follow({ learn() {}, ended: () => [] })
  const start = performance.now() - begun
  const asked = performance.now()
  await store.listSessions({ person: 'person7' }, 51)
  const listed = performance.now() - asked
  const waits: number[] = []
  let isOver = false
  const pruning = store.prune().finally(() => {
    isOver = true
  })
  while (!isOver) {
    const at = performance.now()
    await store.findSession('first')
    waits.push(performance.now() - at)
    await pause(5)
  }
  await pruning
  await store.close()
  rmSync(folder, { recursive: true })
  waits.sort((a, b) => a - b)
  return {
    [`sessions of a person among ${of} ≤ 5`]: listed,
    [`sessions: first read of events of ${of} ≤ 50`]: start,
    [`sessions: a read beside a prune of ${of}, 95 of 100 ≤ 50`]:
      waits[Math.floor(waits.length * 0.95)] ?? 0,
  }
}

async function ofCertificates(): Promise<Record<string, number>> {
  const folder = mkdtempSync(join(tmpdir(), 'growth-'))
  const now = Date.now()
  const first = await openSqliteStore({ folder, elapsed })
  const certificate = newCertificate({ names: ['first.example.com'] })
  await first.addCertificate(certificate, newAudit({ at: now }))
  await first.close()
  fill(storeFile(folder), 'certificates', {
    ...{ id: 'NULL', request_key: `'key' || n`, domain: `n || '.example.com'` },
    ...{ names: `'["' || n || '.example.com"]'`, searched: `'["' || n || '.example.com"]'` },
    ...{ serial_number: 'hex(randomblob(16))', fingerprint: 'hex(randomblob(32))' },
    not_before: `${now} - n % 60 * ${DAY}`,
    not_after: `${now} + CASE WHEN n % 100 = 0 THEN -${300 * DAY} ELSE (90 - n % 60) * ${DAY} + n END`,
    renew_at: `CASE WHEN n % 20 = 0 THEN NULL ELSE ${now} + (60 - n % 60) * ${DAY} - n END`,
    ...{
      check_at: 'NULL',
      probe_at: now,
      made_at: now,
      made_ran: 0,
      fetched_at: now,
      fetched_ran: 0,
    },
  })
  const store = await openSqliteStore({ folder, elapsed })
  const found: Record<string, number> = {}
  for (const [what, work] of Object.entries(worksOf(store, now)))
    found[`certificates: ${what} of ${of}`.replace(/( ≤ \d+)(.*)/, '$2$1')] = await heldUpBy(work)
  await store.close()
  rmSync(folder, { recursive: true })
  return found
}

function worksOf(store: Store, now: number): Record<string, () => Promise<unknown>> {
  const starts = Array.from({ length: 14 }, (_, i) => now + i * DAY)
  const page = (state?: 'unrenewed') => listAll(store, { order: 'next', state, now }, { limit: 50 })
  const kept = { audit: DAY, certificates: DAY, orders: DAY, challenges: DAY }
  return {
    'the inventory ≤ 50': () => Promise.all([page(), store.tally(now, starts)]),
    'its page of what is not renewed ≤ 50': () => page('unrenewed'),
    'a scrape ≤ 50': async () => {
      await Promise.all([store.listEnding(now, 1_000), store.countCovered(now)])
    },
    'a search for part of a name ≤ 50': () =>
      listAll(store, { order: 'name', search: { part: 'nowhere' }, now }, { limit: 50 }),
    'renewals that a clock put off ≤ 50': () => store.bringForward(now),
    'a step of a prune ≤ 50': () => store.prune(now, kept),
  }
}

/** For how many ms a work has this process do nothing else, at most. */
async function heldUpBy(work: () => Promise<unknown>): Promise<number> {
  const delay = monitorEventLoopDelay({ resolution: 1 })
  delay.enable()
  await pause(10)
  delay.reset()
  await work()
  await pause(5)
  delay.disable()
  return delay.max / 1e6
}

/** Makes many rows of the one that there is. @param sqlOf - by column, SQL in which `n` is the row */
function fill(file: string, table: string, sqlOf: Readonly<Record<string, string | number>>): void {
  const sqlite = new DatabaseSync(file)
  const columns = sqlite.prepare(`SELECT name FROM pragma_table_info('${table}')`).all()
  const names = columns.map(({ name }) => String(name))
  sqlite.exec(`PRAGMA synchronous = OFF;
    INSERT INTO ${table} (${names})
    WITH RECURSIVE rows (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM rows WHERE n < ${ROWS})
    SELECT ${names.map((name) => sqlOf[name] ?? name)} FROM rows, (SELECT * FROM ${table} LIMIT 1)`)
  sqlite.close()
  // Or the first commit would write all of it.
  const handle = openSync(file, 'r+')
  fsyncSync(handle)
  closeSync(handle)
}

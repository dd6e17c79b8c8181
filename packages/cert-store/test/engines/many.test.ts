import { setImmediate } from 'node:timers/promises'
import { type Opened, onBothEngines, until } from '../helpers/engines.ts'
import { NOW, newAudit, newCertificate } from '../helpers/store.ts'

const DAY = 86_400_000
const MANY = 25_000
/** Rows that one transaction may change: it holds up whoever wants them, or all of SQLite. */
const AT_ONCE = 250
/** What the clock showed that was ahead. */
const AHEAD = NOW + 300 * DAY

/** Adds a certificate, and as many like it as there are to be. Gives its request key. */
async function addMany({ store, sql }: Opened): Promise<string> {
  const times = { notBefore: AHEAD, notAfter: AHEAD + 90 * DAY, renewAt: AHEAD + 60 * DAY }
  const certificate = newCertificate({ ...times, checkAt: AHEAD + DAY })
  const { requestKey } = await store.addCertificate(certificate, newAudit({ at: AHEAD }))
  const same = `is_current, issuer, name_count, key_type, certificate, chain, sealed_key, not_before,
    not_after, renew_at, fetched_at, fetched_ran, check_at, made_at, made_ran`
  await sql(`
    INSERT INTO @certificates
      (request_key, domain, names, searched, serial_number, fingerprint, ${same})
    WITH RECURSIVE numbers (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${MANY})
    SELECT 'l' || n, n || '.example', '["' || n || '.example"]', '["' || n || '.example"]',
      's' || n, 'f' || n, ${same}
    FROM @certificates CROSS JOIN numbers`)
  return requestKey
}

/** The most rows of which one transaction sets a column to now, while `work` runs. */
async function largestOf(
  { store, sql }: Opened,
  column: 'renew_at' | 'check_at',
  work: () => Promise<unknown>,
): Promise<number> {
  const count = async (text: string) => Number((await sql<{ n: number }>(text))[0]?.n)
  if (store.isShared) {
    await work()
    // Each row tells which transaction was the last to change it.
    return count(`SELECT max(n) AS n FROM (
      SELECT count(*) AS n FROM @certificates GROUP BY xmin::text) AS transactions`)
  }
  let isOver = false
  const working = work().finally(() => {
    isOver = true
  })
  let [largest, before] = [0, 0]
  // At most one is committed in each turn of the event loop.
  while (!isOver) {
    const all = await count(`
      SELECT count(*) AS n FROM certificates WHERE is_current AND ${column} = ${NOW}`)
    largest = Math.max(largest, all - before)
    before = all
    await setImmediate()
  }
  await working
  return largest
}

onBothEngines('many that a clock misdated', async (t, opened) => {
  const { store, sql, pass } = opened
  const requestKey = await addMany(opened)
  const keptFor = { audit: DAY, certificates: DAY, orders: DAY, challenges: DAY }
  const old = () => newAudit({ at: NOW - 2 * DAY })
  await store.addAudit(Array.from({ length: 3 * AT_ONCE }, old))
  pass(2 * DAY)

  let repaired: readonly string[] = []
  for (const [column, repair] of [
    [
      'renew_at',
      async () => {
        repaired = await store.makeFutureDue(NOW)
      },
    ],
    ['check_at', () => store.bringForward(NOW)],
  ] as const)
    await t.test(`${column} is set a bounded number at a time, and others go on`, async (t) => {
      let isOver = false
      let pruned = 0
      let meanwhile = 0
      const largest = largestOf(opened, column, () =>
        repair().finally(() => {
          isOver = true
        }),
      )
      while (!isOver && meanwhile < 50) {
        await store.addAudit([newAudit()])
        await store.findCurrent(requestKey)
        pruned += await store.prune(NOW, keptFor)
        if (!isOver) meanwhile += 1
      }
      t.equal(await largest, AT_ONCE)
      t.ok(meanwhile > 10, `${meanwhile} times`)
      t.equal(pruned, column === 'renew_at' ? 3 * AT_ONCE + 1 : 0)
      t.ok(store.isLeader())
      const left = await sql(`SELECT id FROM @certificates WHERE ${column} <> ${NOW} LIMIT 9`)
      t.strictSame(left, [], 'none is left wrong')
    })
  t.equal(new Set(repaired).size, MANY, 'each is told')
  t.equal(repaired.length, MANY, 'once')

  if (!store.isShared) return
  await store.close()
  // Connections tell what they have read when they end.
  const read = await until(async () => {
    const [row] = await sql<{ rows: number }>(`
      SELECT idx_tup_fetch::int AS rows FROM pg_stat_user_indexes
      WHERE indexrelid = '@certificates_begin'::regclass`)
    const rows = row?.rows ?? 0
    return rows < MANY ? 0 : rows
  })
  t.ok(read < 2 * MANY, `each is looked at once: ${read}`)
})

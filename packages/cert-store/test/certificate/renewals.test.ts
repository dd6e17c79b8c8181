import { setImmediate } from 'node:timers/promises'
import { type CertificateRecord, NAME_PAGE } from '../../src/port/store.ts'
import { type Opened, onBothEngines, until } from '../helpers/engines.ts'
import { CHAIN, NOW, newAudit, newCertificate } from '../helpers/store.ts'

const DAY = 86_400_000
const MANY = 25_000
/** Rows that one transaction may change: it holds up whoever wants them, or all of SQLite. */
const AT_ONCE = 250
/** What the clock showed that was ahead. */
const AHEAD = NOW + 300 * DAY
const domains = (records: readonly CertificateRecord[]) => records.map(({ names }) => names[0])

onBothEngines(
  'what begins in the future is due once, if a clock dated it that was ahead',
  async (t, { store }) => {
    const HOUR = DAY / 24
    const add = (name: string, begins: number, madeAt: number, overrides = {}) =>
      store.addCertificate(
        newCertificate({
          names: [name],
          notBefore: begins,
          notAfter: begins + 7 * DAY,
          renewAt: begins + 3 * DAY,
          ...overrides,
        }),
        newAudit({ at: madeAt }),
      )
    await add('right.example', NOW - 60_000, NOW)
    await add('renewed.example', NOW + 5 * DAY, NOW + 5 * DAY)
    await add('renewed.example', NOW, NOW)
    await add('not-renewed.example', NOW + 5 * DAY, NOW + 5 * DAY, { renewAt: null })
    t.equal(await store.hasFuture(NOW), false)
    await add('ahead.example', NOW + 5 * DAY, NOW + 5 * DAY)
    await add('ca-ahead.example', NOW + 5 * DAY, NOW)
    t.equal(await store.hasFuture(NOW), true)
    t.same(await store.makeFutureDue(NOW), ['ca|server|p256|ahead.example'])
    t.same(domains(await store.claimDue(NOW, 9)), ['ahead.example'])
    t.same(await store.makeFutureDue(NOW), [], 'once')
    await add('twice.example', NOW + 45 * DAY, NOW + 45 * DAY, { renewAt: NOW + 5 * DAY })
    t.same(
      await store.makeFutureDue(NOW),
      ['ca|server|p256|twice.example'],
      'also where a clock made it due that was ahead by less',
    )
    t.same(await store.makeFutureDue(NOW + DAY), ['ca|server|p256|ca-ahead.example'], 'later again')
    t.equal(await store.hasFuture(NOW + 45 * DAY - HOUR), true)
    t.equal(await store.hasFuture(NOW + 45 * DAY), false)
  },
)

onBothEngines('windows of renewal, as far as there is a renewal', async (t, { store }) => {
  const { id } = await store.addCertificate(newCertificate({ checkAt: NOW }), newAudit())
  await store.addCertificate(newCertificate({ requestKey: 'none', names: ['b.test'] }), newAudit())
  const until = NOW + 9 * DAY
  const claim = (now: number) => store.claimUnchecked(now, 9, until)
  const ids = async (now: number) => (await claim(now)).map((one) => one.id)
  t.same(await ids(NOW - 1), [])
  t.same(await ids(NOW), [id])
  const window = {
    checkAt: NOW + DAY,
    windowStart: NOW + 1,
    windowEnd: NOW + 3,
    explanationUrl: 'https://ca.test/why',
  }
  await store.setRenewalWindow(id, { ...window, renewAt: NOW + 2 })
  t.same(await ids(NOW), [])
  t.match(await claim(NOW + DAY), [{ ...window, renewAt: NOW + 2 }])
  await store.setRenewAt(id, null)
  t.same(await ids(until), [])
  await store.setRenewalWindow(id, { ...window, renewAt: NOW + 2 })
  t.match(await store.list({ after: 0, limit: 1 }), [{ renewAt: null }], 'it stays let go')
})

onBothEngines(
  'what is planned later than anything is planned is brought forward',
  async (t, { store }) => {
    const window = { windowStart: NOW, windowEnd: NOW + 80 * DAY, explanationUrl: null }
    for (const [what, days, checkDays, windows, brought] of [
      ['two thirds of its life', 60, 0.5, undefined, [60, 0.5]],
      ['later', 61, 2, undefined, [0, 0]],
      ['later, as its window says', 80, 1, window, [80, 1]],
      ['later than its window', 81, 1, window, [0, 1]],
      ['let go', null, null, undefined, [null, null]],
    ] as const)
      await t.test(what, async (t) => {
        const at = (one: number | null) => (one === null ? null : NOW + one * DAY)
        const { id } = await store.addCertificate(
          newCertificate({ notAfter: NOW + 90 * DAY, renewAt: at(days), checkAt: at(checkDays) }),
          newAudit(),
        )
        if (windows)
          await store.setRenewalWindow(id, {
            ...windows,
            checkAt: at(checkDays),
            renewAt: NOW + days * DAY,
          })
        await store.bringForward(NOW)
        const [record] = await store.findByDomain('app.example.com')
        t.same([record?.renewAt, record?.checkAt ?? null], brought.map(at))
      })

    const late = newCertificate({ notAfter: NOW + 90 * DAY, renewAt: NOW + 89.5 * DAY })
    await store.addCertificate(late, newAudit())
    await store.bringForward(NOW + 89 * DAY)
    t.match(await store.findByDomain('app.example.com'), [{ renewAt: late.renewAt }], 'or by a day')
  },
)

/** Adds a certificate, and as many like it as there are to be. Gives its request key. */
async function addMany({ store, sql }: Opened): Promise<string> {
  const times = { notBefore: AHEAD, notAfter: AHEAD + 90 * DAY, renewAt: AHEAD + 60 * DAY }
  const certificate = newCertificate({ ...times, checkAt: AHEAD + DAY })
  const { requestKey } = await store.addCertificate(certificate, newAudit({ at: AHEAD }))
  const same = `is_current, issuer, name_count, key_type, certificate, chain, sealed_key, not_before,
    not_after, renew_at, fetched_at, fetched_ran, check_at, made_at, made_ran, probe_at`
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

onBothEngines('what is in service of a scope, page by page', async (t, { store }) => {
  const [signer = Buffer.from('one'), other] = [CHAIN[0], Buffer.from('two')]
  const add = (name: string, overrides = {}, at = NOW) =>
    store.addCertificate(newCertificate({ names: [name], ...overrides }), newAudit({ at }))
  await add('a', { askedBy: 'psk:web', notAfter: NOW + 9 * DAY })
  await add('b', { issuer: 'other', chain: [other, signer] })
  await add('c', { keyType: 'rsa2048', askedBy: 'psk:web', account: 'a', notAfter: NOW - DAY })
  await add('d', {}, NOW + DAY)
  const { id } = await add('e')
  await store.remove([id], newAudit())
  await add('b', { issuer: 'other', chain: [other, signer], notAfter: NOW + 8 * DAY })
  for (const [scope, expected] of [
    [{}, ['c', 'd', 'b', 'a']],
    [{ askedBy: 'psk:web' }, ['c', 'a']],
    [{ askedBy: 'psk:we' }, []],
    [{ askedBy: undefined, domain: 'b' }, ['b']],
    [{ issuer: 'ca' }, ['c', 'd', 'a']],
    [{ keyType: 'rsa2048' }, ['c']],
    [{ signers: [signer] }, ['c', 'd', 'a']],
    [{ signers: [other] }, ['b']],
    [{ signers: [signer, other] }, ['c', 'd', 'b', 'a']],
    [{ signers: [] }, []],
    [{ madeBefore: NOW }, []],
    [{ madeBefore: NOW + 1 }, ['c', 'b', 'a']],
    [{ issuer: 'ca', keyType: 'p256', madeBefore: NOW + 1, signers: [signer] }, ['a']],
    [{ askedBy: 'psk:web', domain: 'a', issuer: 'ca', keyType: 'rsa2048' }, []],
  ] as const)
    t.same(domains(await store.listInService(scope)), expected, JSON.stringify(scope))
  for (let n = 0; n < NAME_PAGE; n += 1) await add(`n${n}`, { keyType: 'rsa2048' })
  const first = await store.listInService({ keyType: 'rsa2048' })
  t.equal(first.length, NAME_PAGE)
  const rest = await store.listInService({ keyType: 'rsa2048' }, first.at(-1))
  t.same(domains(rest), [`n${NAME_PAGE - 1}`], 'of those with the same end, too')
})

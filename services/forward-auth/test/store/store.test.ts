import { manualClock } from '@gatehouse/service-kit/testing'
import t from 'tap'
import type { StoredAuditRow } from '../../src/store/store.ts'
import { ENGINES, HOUR, NEW_KEYS, OLD_KEYS } from './kit.ts'

const DAY = 24 * HOUR

for (const [engine, prepare] of Object.entries(ENGINES)) {
  t.test(`on ${engine}`, async (t) => {
    const newStore = await prepare(t)
    t.test('a login completes once, wherever it is tried', async (t) => {
      const open = newStore(t)
      const all = [await open(), await open(), await open()]
      const expiresAt = Date.now() + HOUR
      const logins = Array.from({ length: 40 }, (_, i) => `login${i}`)
      const [first = all[0]!] = all
      t.equal(await first.store.hasCompleted('login0'), false)
      // Each instance tries each of them twice.
      const tries = await Promise.all(
        logins.map((login) =>
          Promise.all([...all, ...all].map(({ store }) => store.completeLogin(login, expiresAt))),
        ),
      )
      for (const [i, results] of tries.entries())
        t.equal(results.filter(Boolean).length, 1, `login${i}`)
      for (const { store } of [...all, await open()]) {
        t.equal(await store.hasCompleted('login39'), true)
        t.equal(await store.completeLogin('login39', expiresAt), false)
        t.equal(await store.hasCompleted('another'), false)
      }
    })

    t.test('the running time goes on where it was, and never back', async (t) => {
      const open = newStore(t)
      const first = await open({ monotonic: () => 0 })
      t.equal(first.store.age().running, 0)
      let passed = 1_000_000
      const second = await open({ monotonic: () => passed })
      passed += 5 * HOUR
      t.equal(second.store.age().running, 5 * HOUR)
      await second.close()
      await first.close()
      const third = await open({ monotonic: () => -9 })
      t.equal(third.store.age().running, 5 * HOUR)
    })

    t.test('instances that start at once have the same secret', async (t) => {
      const open = newStore(t)
      const all = await Promise.all(Array.from({ length: 5 }, () => open()))
      const secrets = await Promise.all(all.map(({ store }) => store.secret('assertion', OLD_KEYS)))
      t.equal(new Set(secrets).size, 1)
      t.match(secrets[0], /^[\w-]{43}$/)
      t.equal(await (await open()).store.secret('assertion', NEW_KEYS_AND_OLD), secrets[0])
    })

    t.test('the audit trail has the rows of all instances', async (t) => {
      const open = newStore(t)
      const clock = manualClock(Date.UTC(2030, 0, 10))
      const time = { passed: 0 }
      const monotonic = () => time.passed
      const [one, two] = [await open({ clock, monotonic }), await open({ clock, monotonic })]
      const rowAt = (at: number, changes: Partial<StoredAuditRow> = {}): StoredAuditRow => ({
        ...{ time: new Date(at).toISOString(), event: 'sign-in', portal: 'main', requestId: 'a-1' },
        ...{ ran: 0, ...changes },
      })
      const now = clock.now()
      const details = {
        ...{ provider: 'corp', person: 'corp:ada', name: 'Ada', host: 'app.example.com' },
        ...{ clientAddress: '192.0.2.7', code: 'FWA_FORBIDDEN' },
      }
      const rows = [
        rowAt(now - 3 * DAY),
        rowAt(now, details),
        rowAt(now, { event: 'program-passed', client: 'c', tool: 'delete_repo', count: 12 }),
        rowAt(now + 1, { ran: DAY }),
      ]
      await two.store.audit.append(rows.slice(0, 3))
      await one.store.audit.append(rows.slice(3))
      const list = async (since = 0) => {
        const listed: StoredAuditRow[] = []
        for await (const row of one.store.audit.rows(since)) listed.push(row)
        return listed
      }
      t.strictSame(await list(), rows)
      t.strictSame(await list(now), rows.slice(1))
      t.strictSame(await list(now + 1), rows.slice(3))
      t.strictSame(await list(now + 2), [])

      const prune = () => Promise.all([one, two].map(({ store }) => store.audit.prune(2 * DAY)))
      await prune()
      t.strictSame(await list(), rows, 'kept by the running time')
      time.passed = 2 * DAY
      await prune()
      t.strictSame(await list(), rows.slice(1))
    })

    t.test('more rows of the audit trail than one page', async (t) => {
      const open = newStore(t)
      const { store } = await open()
      const rows = Array.from(
        { length: 2_500 },
        (_, i): StoredAuditRow => ({
          ...{ time: new Date(5_000 + Math.floor(i / 100)).toISOString(), event: 'sign-in' },
          ...{ portal: 'main', requestId: `request-${i}`, ran: i },
        }),
      )
      await store.audit.append(rows)
      const listed: string[] = []
      for await (const { requestId } of store.audit.rows(0)) listed.push(requestId)
      t.strictSame(
        listed,
        rows.map(({ requestId }) => requestId),
      )
    })
  })
}

const NEW_KEYS_AND_OLD = { first: NEW_KEYS.first, keys: [...NEW_KEYS.keys, ...OLD_KEYS.keys] }

import type { NewEvent } from '@gatehouse/service-kit/events'
import { openPostgres, parsePostgresUrl } from '@gatehouse/store'
import t from 'tap'
import { eventsOn } from '../src/events.ts'
import { MIGRATIONS } from '../src/schema/tables.ts'
import { newSchema, onBothEngines, testServer } from './helpers/engines.ts'
import { NOW } from './helpers/store.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR

onBothEngines('events wait for their turn, and are told once', async (t, { store }) => {
  const event = (body: string, at: number, once?: NewEvent['once']) =>
    store.addEvent({ body, at, receivers: ['phone'], ...(once && { once }) })
  const claim = (now: number, limit = 9) => store.claimDueEvents('phone', now, limit, now)
  const bodies = async (now: number, limit?: number) =>
    (await claim(now, limit)).map(({ body }) => body)
  const waiting = async () => (await store.countEvents()).phone ?? 0
  await event('later', NOW + 1)
  await event('earlier', NOW)
  const both = await claim(NOW + 1)
  t.same(
    both.map(({ body }) => body),
    ['earlier', 'later'],
  )
  for (const { id } of both) await store.deleteEvent(id)

  await event('first', NOW)
  await event('second', NOW + 1)
  const once = { key: 'k', until: NOW + DAY }
  await event('once', NOW + 2, once)
  await event('again', NOW + 3, once)
  t.equal(await waiting(), 3)
  t.same(await bodies(NOW - 1), [])
  t.same(await bodies(NOW, 1), ['first'])
  t.same(await bodies(NOW + 2), ['first', 'second', 'once'])
  const [due] = await claim(NOW + 2, 1)
  t.match(due, { body: 'first', at: NOW, tries: 0 })
  await store.delayEvent(due!.id, NOW + DAY / 2)
  t.same(await bodies(NOW + DAY / 2 - 1), ['second', 'once'])
  t.match(await claim(NOW + DAY / 2), new Set([{ body: 'first', tries: 1 }]))
  await store.delayEvent(due!.id, NOW + DAY / 2)
  await store.hastenEvents('phone', NOW + 2, NOW + DAY / 2)
  t.same(await bodies(NOW + 2), [], 'another replica may be sending them')
  await store.hastenEvents('phone', NOW + 2, NOW + DAY / 2 - 1)
  t.same(await bodies(NOW + 2), ['first', 'second', 'once'])
  await store.deleteEvent(due!.id)
  t.equal(await waiting(), 2)
  await event('always', NOW + 3, { ...once, always: true })
  t.equal(await waiting(), 3)
  await event('later', NOW + DAY, once)
  t.equal(await waiting(), 4, 'its time is over')
  await store.pruneEvents(NOW + DAY, { receivers: ['phone'], olderThan: NOW + DAY })
  await event('anew', NOW, { key: 'k', until: NOW + 1 })
  t.equal(await waiting(), 5)
})

onBothEngines(
  'what a clock wrote that was ahead delays and suppresses nothing',
  async (t, { store }) => {
    const event = { body: 'b', receivers: ['phone'] }
    const claim = (now: number) => store.claimDueEvents('phone', now, 9, now)
    await store.addEvent({ ...event, at: NOW + 2 * DAY + 1 })
    t.equal((await claim(NOW + DAY + 1)).length, 0, 'a day ahead')
    t.equal((await claim(NOW + DAY)).length, 1, 'more than a day ahead')

    const tell = (at: number) =>
      store.addEvent({ ...event, at, once: { key: 'k', until: at + 9 * DAY } })
    await tell(NOW + 2 * DAY)
    const counts: (number | undefined)[] = []
    for (const at of [NOW + DAY, NOW + DAY - 1]) {
      await tell(at)
      counts.push((await store.countEvents()).phone)
    }
    t.strictSame(counts, [2, 3])
  },
)

onBothEngines(
  'of more than 10,000 events for a receiver the oldest are dropped',
  async (t, opened) => {
    const { store, sql } = opened
    await sql(`
    INSERT INTO @events (receiver, body, at, tries, next_at)
    WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 10000)
    SELECT 'phone', n, ${NOW}, 0, ${NOW} FROM n`)
    await store.addEvent({ body: 'last', at: NOW, receivers: ['phone', 'mail'] })
    t.strictSame({ ...(await store.countEvents()) }, { phone: 10_000, mail: 1 })
    t.match(await store.claimDueEvents('phone', NOW, 1, NOW + DAY), [{ body: '2' }])
  },
)

onBothEngines('each receiver has events of its own', async (t, { store }) => {
  const due = async (receiver: string) =>
    (await store.claimDueEvents(receiver, NOW + DAY, 9, NOW + DAY)).map(({ body }) => body)
  const once = { key: 'k', until: NOW + DAY }
  await store.addEvent({ body: 'both', at: NOW, receivers: ['mail', 'phone'], once })
  await store.addEvent({ body: 'again', at: NOW, receivers: ['mail', 'phone'], once })
  await store.addEvent({ body: 'one', at: NOW + 1, receivers: ['phone'] })
  t.same(await store.countEvents(), { mail: 1, phone: 2 })
  t.same(await due('mail'), ['both'])
  t.same(await due('phone'), ['both', 'one'])
  t.same(await due('webhook'), [])
  const [mail] = await store.claimDueEvents('mail', NOW + DAY, 1, NOW + DAY)
  await store.deleteEvent(mail!.id)
  t.same(await store.countEvents(), { phone: 2 }, 'what one accepted waits for the other')

  await store.addEvent({ body: 'kept', at: NOW, receivers: ['mail'] })
  await store.pruneEvents(NOW, { receivers: ['mail'], olderThan: NOW })
  t.same(await store.countEvents(), { mail: 1, phone: 1 }, 'for nobody, and old')
  await store.pruneEvents(NOW, { receivers: [], olderThan: NOW + 1 })
  t.same(await store.countEvents(), {})
})

t.test('a claim passes over what is being claimed, and does not wait for it', async (t) => {
  const url = parsePostgresUrl((await testServer()).url)
  const log = { info() {}, warn() {} }
  const schema = newSchema()
  const open = async (name: string) => {
    const engine = await openPostgres({ url, schema, name, migrations: MIGRATIONS, log })
    t.teardown(() => engine.close())
    return { engine, events: eventsOn(engine) }
  }
  const [a, b] = [await open('a'), await open('b')]
  const receivers = ['webhook']
  for (const body of ['first', 'second', 'third'])
    await a.events.addEvent({ body, at: NOW, receivers })
  const claim = async (limit: number) =>
    (await b.events.claimDueEvents('webhook', NOW, limit, NOW + HOUR)).map(({ body }) => body)

  const claimed = await a.engine.transaction(async (tx) => {
    await tx.all('SELECT 1 FROM events WHERE body = $1 FOR UPDATE', 'first')
    return claim(1)
  })
  t.same(claimed, ['second'])
  t.same(await claim(9), ['first', 'third'], 'what was let go is claimed by the next')
  t.same(await claim(9), [])
})

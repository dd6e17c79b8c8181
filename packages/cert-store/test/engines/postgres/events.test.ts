import { openPostgres, parsePostgresUrl } from '@gatehouse/store'
import t from 'tap'
import { startPostgres } from '../../../../../scripts/test/postgres.ts'
import { eventsOn } from '../../../src/events.ts'
import { MIGRATIONS } from '../../../src/schema/tables.ts'

const NOW = Date.UTC(2030, 0, 1)
const HOUR = 3_600_000

t.test('a claim passes over what is being claimed, and does not wait for it', async (t) => {
  const url = parsePostgresUrl((await startPostgres(t)).url)
  const log = { info() {}, warn() {} }
  const open = async (name: string) => {
    const engine = await openPostgres({ url, schema: 'certs', name, migrations: MIGRATIONS, log })
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

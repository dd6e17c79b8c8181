import { join } from 'node:path'
import { systemClock } from '@gatehouse/service-kit/clock'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { dump, formsOf, restore, useDumpPrograms } from '../../../../scripts/test/dump.ts'
import { startPostgres } from '../../../../scripts/test/postgres.ts'
import { OLD_SECRET } from '../session/kit.ts'
import { HOUR, OLD_KEYS, onPostgres, session, until } from '../store/kit.ts'

const SCHEMA = 'gatehouse_auth'

const skip = useDumpPrograms() ? false : 'needs pg_dump'

t.test('a dump restores sessions and what ended, and tells no key', { skip }, async (t) => {
  const server = await startPostgres(t)
  const first = await onPostgres(t, server, SCHEMA)()
  const secret = await first.store.secret('assertion', OLD_KEYS)
  // The other server will not have come as far.
  await server.sql(
    'DO $$ BEGIN FOR n IN 1..3000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$',
  )
  for (const sid of ['ended', 'alive', 'later'])
    t.equal(await first.store.beginSession(session(sid)), true)
  t.match(await first.store.endSessions({ sid: 'ended' }), [{ sid: 'ended' }])
  // By the provider, while somebody is about to sign in.
  await first.store.endSessions({ subject: 'subject of late', issuedUntil: 200 })
  t.equal(await first.store.completeLogin('login', systemClock.now() + HOUR), true)
  const file = join(testFolder(t), 'gatehouse.dump')
  const text = await dump(server, SCHEMA, file)
  const holds = (text: string, secret: string) =>
    [secret, ...formsOf(Buffer.from(secret))].some((form) => text.includes(form))
  t.ok(text.includes('person of alive'))
  t.notOk(text.includes('person of ended'))
  for (const one of [secret, OLD_SECRET]) t.notOk(holds(text, one))
  t.notOk(formsOf(Buffer.from(secret, 'base64url')).some((form) => text.includes(form)))
  await first.close()

  const other = await startPostgres(t)
  await restore(other, file)
  const [row] = await other.sql(`
    SELECT max(xid::text::bigint) > pg_current_xact_id()::text::bigint AS "isAhead"
    FROM ${SCHEMA}.events`)
  t.strictSame(row, { isAhead: true }, 'its rows are of transactions that are still to come')
  const open = onPostgres(t, other, SCHEMA)
  const [one, two] = [await open(), await open()]
  for (const { store, learned } of [one, two]) {
    t.strictSame(learned('ended'), ['ended'])
    t.equal(await store.findSession('ended'), undefined)
    t.match(await store.findSession('alive'), { person: 'person of alive' })
    t.equal(await store.beginSession(session('late')), false, 'the provider has ended it')
    t.equal(await store.secret('assertion', OLD_KEYS), secret)
    t.equal(await store.completeLogin('login', systemClock.now() + HOUR), false, 'not once more')
  }
  await one.store.endSessions({ sid: 'later' })
  await until(() => two.learned('ended').includes('later'))
  t.equal(await two.store.findSession('later'), undefined)
})

import t from 'tap'
import {
  assertKnown,
  costlyInPostgres,
  fillPostgres,
  neverRun,
  recordPostgres,
} from '../../../store/test/plans.ts'
import { driveAll, KNOWN, KNOWN_BY, LARGE, SOURCES, sqlOf } from '../helpers/drive.ts'
import { newSchema, openReplica, testServer, until } from '../helpers/engines.ts'

t.test('no statement reads many rows of a database', async (t) => {
  const texts = recordPostgres(t)
  const [server, schema] = [await testServer(), newSchema()]
  const store = await openReplica(t, { schema })
  // It confirms what the first one writes.
  const other = await openReplica(t, { schema })
  const sql = (text: string) => server.sql(text.replaceAll('@', `${schema}.`)) as Promise<never[]>
  // It is renewed while it is held.
  const lease = await store.takeLease({ requestKey: 'z', domain: 'z', names: 1 })
  await driveAll({ store, sql, pass() {} })
  await store.awaitReplicas()
  await until(async () => [...texts].some((text) => text.startsWith('UPDATE leases SET until')))
  await store.releaseLease(lease!)
  await other.close()
  await store.close()
  const unknown = [...SOURCES.both, ...SOURCES.postgres].flatMap((file) =>
    neverRun(new URL(`../../src/${file}`, import.meta.url), texts),
  )
  t.strictSame(unknown, [], 'each statement is run')
  await fillPostgres(server, schema, LARGE, sqlOf)
  const costly = await costlyInPostgres(server, schema, LARGE, texts)
  assertKnown(t, costly, { ...KNOWN, ...KNOWN_BY.postgres })
})

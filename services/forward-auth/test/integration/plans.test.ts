import t from 'tap'
import {
  assertKnown,
  costlyInPostgres,
  fillPostgres,
  neverRun,
  recordPostgres,
} from '../../../../packages/store/test/plans.ts'
import { startPostgres } from '../../../../scripts/test/postgres.ts'
import { openPostgresStore } from '../../src/store/postgres/postgres-store.ts'
import { driveAll, KNOWN, KNOWN_BY, LARGE, LOG, SOURCES, sqlOf } from '../store/drive.ts'
import { NEW_KEYS, OLD_KEYS } from '../store/kit.ts'

t.test('no statement reads many rows of a database', async (t) => {
  const texts = recordPostgres(t)
  const server = await startPostgres(t)
  const schema = 'planned'
  const config = { url: server.url, schema, revocationStaleness: 60_000 }
  const store = await openPostgresStore({ ...config, whenStale: 'refuse' }, { log: LOG })
  await driveAll(store)
  await store.secret('session', OLD_KEYS)
  const keys = { first: NEW_KEYS.first, keys: [...NEW_KEYS.keys, ...OLD_KEYS.keys] }
  await store.secret('session', keys)
  await store.close()
  const sources = [...SOURCES.both, ...SOURCES.postgres]
  const unknown = sources.flatMap((file) =>
    neverRun(new URL(`../../src/store/${file}`, import.meta.url), texts),
  )
  t.strictSame(unknown, [], 'each statement is run')
  const large = [...LARGE, 'audit']
  await fillPostgres(server, schema, large, sqlOf)
  const costly = await costlyInPostgres(server, schema, large, texts)
  assertKnown(t, costly, { ...KNOWN, ...KNOWN_BY.postgres })
})

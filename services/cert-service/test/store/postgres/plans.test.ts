import t from 'tap'
import type { PostgresServer } from '../../../../../scripts/test/postgres.ts'
import { listAll } from '../../../src/store/listing.ts'
import type { CertificateState, ListOrder, Store } from '../../../src/store/store.ts'
import { newSchema, openReplica, testServer, until } from '../../helpers/engines.ts'
import { NOW, newAudit, newCertificate } from '../../helpers/store.ts'

const MANY = 20_000

/** What issuance asks of the store for one certificate. */
async function issueOne(store: Store, domain: string): Promise<void> {
  const certificate = newCertificate({ names: [domain] })
  const { lineage } = certificate
  await store.findCurrent(lineage)
  const work = { lineage, domain, names: 1, askedBy: 'psk:a' }
  const lease = (await store.takeLease(work))!
  await store.findOrderByLineage(lineage)
  await store.countInUse(domain, NOW)
  await store.addCertificate(certificate, newAudit(), { lease })
}

/** What the page of a certificate asks of the store. */
async function showOne(store: Store, domain: string): Promise<void> {
  const [newest] = await store.listHistory(domain)
  await store.findBySerial(domain, newest?.serialNumber ?? '')
}

t.test(
  'a new certificate, or the page of one, does not make the database read the others',
  async (t) => {
    const server = await testServer()
    const schema = newSchema()
    const store = await openReplica(t, { schema, name: schema })
    // The database plans its statements while there are few.
    for (let n = 0; n < 30; n += 1) await issueOne(store, `early-${n}.example.com`)
    await addMany(server, schema)
    for (let n = 0; n < 30; n += 1) {
      await issueOne(store, `late-${n}.example.com`)
      await showOne(store, `late-${n}.example.com`)
      await showOne(store, 'early-1.example.com')
    }

    await store.close()
    for (const { by, rows } of await readSoFar(server, schema))
      t.ok(Number(rows) < MANY / 2, `${rows} rows by ${by}`)
  },
)

t.test('a page of the inventory does not make the database read the others', async (t) => {
  const server = await testServer()
  const schema = newSchema()
  const store = await openReplica(t, { schema, name: schema })
  for (let n = 0; n < 30; n += 1) await issueOne(store, `early-${n}.example.com`)
  await addMany(server, schema)
  await server.sql(`VACUUM ANALYZE ${schema}.certificates`)
  await store.close()
  const before = await readSoFar(server, schema)
  const reader = await openReplica(t, { schema, name: schema })
  const orders: readonly ListOrder[] = ['next', 'expiry', 'name', 'newest']
  const states: readonly (CertificateState | undefined)[] = [undefined, 'due', 'failing', 'ended']
  for (const order of orders)
    for (const state of states)
      for (const isBackwards of [false, true])
        await listAll(reader, { order, state, now: NOW }, { isBackwards, limit: 50 })
  await reader.close()
  const after = await readSoFar(server, schema)
  for (const [i, { by, rows }] of after.entries()) {
    const read = Number(rows) - Number(before[i]?.rows)
    t.ok(read < MANY / 2, `${read} rows by ${by}`)
  }
})

async function addMany(server: PostgresServer, schema: string): Promise<void> {
  const columns = `long_lineage, is_current, issuer, name_count, key_type, certificate, chain, sealed_key,
    not_before, not_after, renew_at, fetched_at, fetched_ran, made_at, made_ran`
  await server.sql(`
    INSERT INTO ${schema}.certificates (lineage, domain, names, searched, serial_number, ${columns})
    SELECT lineage || n, n || domain, ARRAY[n || domain], n || domain, md5(n::text), ${columns}
    FROM ${schema}.certificates, generate_series(1, ${MANY}) AS n
    WHERE domain = 'early-0.example.com'`)
}

/** How many rows were read by tables and by indexes, once all connections that told so have ended. */
async function readSoFar(server: PostgresServer, schema: string) {
  // Connections tell what they have read when they end.
  await until(async () => {
    const left = await server.sql(
      `SELECT FROM pg_stat_activity WHERE application_name LIKE '%${schema}%'`,
    )
    return left.length === 0
  })
  return server.sql(`
    SELECT 'table' AS by, sum(seq_tup_read)::int AS rows FROM pg_stat_user_tables
    WHERE schemaname = '${schema}'
    UNION ALL
    SELECT 'index', sum(idx_tup_read)::int FROM pg_stat_user_indexes WHERE schemaname = '${schema}'`)
}

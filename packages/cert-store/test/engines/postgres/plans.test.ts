import t from 'tap'
import type { PostgresServer } from '../../../../../scripts/test/postgres.ts'
import { listAll } from '../../../src/port/listing.ts'
import type { CertificateState, ListOrder, Store } from '../../../src/port/store.ts'
import { newSchema, openReplica, testServer, until } from '../../helpers/engines.ts'
import { NOW, newAudit, newCertificate } from '../../helpers/store.ts'

const MANY = 20_000

/** What issuance asks of the store for one certificate. */
async function issueOne(store: Store, domain: string): Promise<void> {
  const certificate = newCertificate({ names: [domain] })
  const { requestKey } = certificate
  await store.findCurrent(requestKey)
  const work = { requestKey, domain, names: 1, askedBy: 'psk:a' }
  const lease = (await store.takeLease(work))!
  await store.findOrderByRequestKey(requestKey)
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
  await vacuum(server, schema)
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

t.test('a search of the inventory reads an index alone', async (t) => {
  const server = await testServer()
  const schema = newSchema()
  const store = await openReplica(t, { schema, name: schema })
  await issueOne(store, 'early-0.example.com')
  await addMany(server, schema)
  await vacuum(server, schema)
  await store.close()
  await readSoFar(server, schema)
  const fetched = async () => {
    const [row] = await server.sql<{ rows: number }>(`
      SELECT sum(seq_tup_read + idx_tup_fetch)::int AS rows FROM pg_stat_user_tables
      WHERE schemaname = '${schema}'`)
    return row?.rows ?? 0
  }
  const before = await fetched()
  const reader = await openReplica(t, { schema, name: schema })
  const orders: readonly ListOrder[] = ['next', 'expiry', 'name', 'newest']
  for (const order of orders)
    for (const part of ['early', 'nowhere', '77'])
      for (const isBackwards of [false, true]) {
        const search = { part, wildcard: `*.${part}`, serialNumber: 'beef' }
        await listAll(reader, { order, search, now: NOW }, { isBackwards, limit: 50 })
      }
  const found = await reader.findIssued('0'.repeat(64))
  t.equal(found, undefined)
  await reader.close()
  await readSoFar(server, schema)
  const read = (await fetched()) - before
  t.ok(read < MANY / 2, `${read} rows`)
})

/** Makes all rows visible to whoever reads an index alone, which a transaction of another test may put off. */
async function vacuum(server: PostgresServer, schema: string): Promise<void> {
  await until(async () => {
    await server.sql(`VACUUM ANALYZE ${schema}.certificates`)
    const [table] = await server.sql<{ isVisible: boolean }>(`
      SELECT relallvisible >= relpages AS "isVisible" FROM pg_class
      WHERE oid = '${schema}.certificates'::regclass`)
    return table?.isVisible
  })
}

async function addMany(server: PostgresServer, schema: string): Promise<void> {
  const columns = `is_current, issuer, name_count, key_type, certificate, chain, sealed_key,
    not_before, not_after, renew_at, fetched_at, fetched_ran, made_at, made_ran, probe_at`
  await server.sql(`
    INSERT INTO ${schema}.certificates 
      (request_key, domain, names, searched, serial_number, fingerprint, ${columns})
    SELECT request_key || n, n || domain, '["' || n || domain || '"]', '["' || n || domain || '"]',
      md5(n::text), md5(n::text), ${columns}
    FROM ${schema}.certificates, generate_series(1, ${MANY}) AS n
    WHERE domain = 'early-0.example.com'`)
}

/**
 * How many rows were read by tables and by indexes, once all connections that told so have ended. Not those of
 * chains: each certificate that is added looks up its own.
 */
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
    WHERE schemaname = '${schema}' AND relname <> 'chains'
    UNION ALL
    SELECT 'index', sum(idx_tup_read)::int FROM pg_stat_user_indexes
    WHERE schemaname = '${schema}' AND relname <> 'chains'`)
}

import t from 'tap'
import type { Store } from '../../../src/store/store.ts'
import { newSchema, openReplica, testServer, until } from '../../helpers/engines.ts'
import { NOW, newAudit, newCertificate } from '../../helpers/store.ts'

const MANY = 20_000

/** What issuance asks of the store for one certificate. */
async function issueOne(store: Store, domain: string): Promise<void> {
  const certificate = newCertificate({ names: [domain] })
  const { lineage } = certificate
  await store.findCurrent(lineage)
  const work = { lineage, domain, names: 1, isHeld: true, askedBy: 'psk:a' }
  const lease = (await store.takeLease(work))!
  await store.findOrderByLineage(lineage)
  await store.countKeysHeld(domain, NOW)
  await store.addCertificate(certificate, newAudit(), { perName: 10, lease })
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
    const columns = `long_lineage, is_current, issuer, name_count, key_type, certificate, chain, sealed_key,
    not_before, not_after, renew_at, fetched_at, fetched_ran, made_at, made_ran`
    await server.sql(`
    INSERT INTO ${schema}.certificates (lineage, domain, names, searched, serial_number, ${columns})
    SELECT lineage || n, n || domain, ARRAY[n || domain], n || domain, md5(n::text), ${columns}
    FROM ${schema}.certificates, generate_series(1, ${MANY}) AS n
    WHERE domain = 'early-0.example.com'`)
    for (let n = 0; n < 30; n += 1) {
      await issueOne(store, `late-${n}.example.com`)
      await showOne(store, `late-${n}.example.com`)
      await showOne(store, 'early-1.example.com')
    }

    // Connections tell what they have read when they end.
    await store.close()
    await until(async () => {
      const left = await server.sql(
        `SELECT FROM pg_stat_activity WHERE application_name LIKE '%${schema}%'`,
      )
      return left.length === 0
    })
    const read = await server.sql(`
    SELECT 'table' AS by, sum(seq_tup_read)::int AS rows FROM pg_stat_user_tables
    WHERE schemaname = '${schema}'
    UNION ALL
    SELECT 'index', sum(idx_tup_read)::int FROM pg_stat_user_indexes WHERE schemaname = '${schema}'`)
    for (const { by, rows } of read) t.ok(Number(rows) < MANY / 2, `${rows} rows by ${by}`)
  },
)

import { createPrivateKey } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { dataKeyLabel, MasterKey } from '../../../../packages/cert-store/src/sealing/keyring.ts'
import { until } from '../../../../packages/cert-store/test/helpers/engines.ts'
import { dump, formsOf, restore, useDumpPrograms } from '../../../../scripts/test/dump.ts'
import { type PostgresServer, startPostgres } from '../../../../scripts/test/postgres.ts'
import { type Answer, type Running, start } from '../helpers/app.ts'

const SCHEMA = 'gatehouse_certs'
const MASTER_KEY = 'keys/master.key'
const MASTER = Buffer.alloc(32, 'the master key')

const skip = useDumpPrograms() ? false : 'needs pg_dump'

/** A replica in a process of all, on a server of its choice, with the master key of all. */
async function startReplica(t: Test, { url }: PostgresServer, name: string): Promise<Running> {
  const folder = join(t.testdirName, name)
  const file = join(folder, MASTER_KEY)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, `${MASTER.toString('base64')}\n`, { mode: 0o600 })
  const port = 7401 + Number(name.at(-1))
  const storage = { url, masterKeyFile: MASTER_KEY }
  return start(t, { server: { port }, storage }, { folder })
}

async function issue({ call }: Running, domain: string): Promise<Answer['body']> {
  const { status, body } = await call('POST', '/api/certificate', { domain })
  if (status !== 200) throw new Error(`${domain}: ${status} ${JSON.stringify(body)}`)
  return body
}

async function numberOf({ service: { ca, store } }: Running): Promise<bigint> {
  await ca.crls.get(ca.intermediate().info.skid ?? '')
  const [row] = await store.listAuthorities()
  return (await store.findCrl(row?.id ?? 0))?.number ?? 0n
}

/** What is in the store, and what no dump may hold: master key, data keys, and private keys of CA and certificates. */
async function contentsOf({ app: { store, keyring } }: Running) {
  const { dataKeys = [] } = (await store.loadKeyring()) ?? {}
  const records = [
    ...(await store.list({ after: 0, limit: 9 })),
    ...(await store.listAuthorities()),
  ]
  const master = new MasterKey(MASTER)
  const wrapped = dataKeys.map((key) => master.unwrap(key.wrapped, dataKeyLabel(key)))
  const scalars = records.map(({ sealedKey, certificate }) => {
    const key = keyring.open(sealedKey ?? Buffer.of(), certificate)
    const { d = '' } = createPrivateKey({ key, format: 'der', type: 'pkcs8' }).export({
      format: 'jwk',
    })
    return Buffer.from(d, 'base64url')
  })
  const stored = records.flatMap(({ certificate, sealedKey }) => [certificate, sealedKey])
  return {
    stored: [...stored, ...dataKeys.map(({ wrapped }) => wrapped)].filter(
      (bytes) => bytes !== null,
    ),
    secrets: [MASTER, ...wrapped, ...scalars],
  }
}

const TITLE = 'a dump of a schema in use restores all of it on another server, and tells no key'
t.test(TITLE, { skip }, async (t) => {
  const server = await startPostgres(t)
  testFolder(t)
  const first = await startReplica(t, server, 'replica-1')
  const held = new Map<string, Answer['body']>()
  for (const domain of ['a.example', 'b.example', 'c.example'])
    held.set(domain, await issue(first, domain))
  const gone = await issue(first, 'gone.example')
  await first.call('POST', '/api/certificate/revoke', { domain: 'gone.example' })
  const number = await numberOf(first)
  // The other server will not have come as far.
  await server.sql(
    'DO $$ BEGIN FOR n IN 1..3000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$',
  )
  const { stored, secrets } = await contentsOf(first)

  let isOver = false
  const busy = (async () => {
    for (let n = 0; !isOver; n++) await issue(first, `${n}.busy.example`)
  })()
  await until(() => first.service.store.findByDomain('1.busy.example').then(([one]) => one))
  const file = join(t.testdirName, 'gatehouse.dump')
  const text = await dump(server, SCHEMA, file)
  isOver = true
  await busy
  const holds = (bytes: Uint8Array) => formsOf(bytes).some((form) => text.includes(form))
  t.ok(stored.length > 12 && stored.every(holds), 'what is stored is found in it')
  t.ok(secrets.length > 8 && !secrets.some(holds), 'no secret is')
  t.notMatch(text, 'PRIVATE KEY')
  await first.close()

  const other = await startPostgres(t)
  await restore(other, file)
  const [row] = await other.sql(`
    SELECT max(xid::text::bigint) > pg_current_xact_id()::text::bigint AS "isAhead"
    FROM ${SCHEMA}.changes`)
  t.strictSame(row, { isAhead: true }, 'its changes are of transactions that are still to come')
  const one = await startReplica(t, other, 'replica-1')
  const two = await startReplica(t, other, 'replica-2')
  t.same(one.service.ca.root(), first.service.ca.root())
  for (const [domain, body] of held)
    t.strictSame(await issue(one, domain), { ...body, cached: true }, `${domain} with its key`)
  t.ok((await issue(two, '0.busy.example')).cached)
  t.equal(await numberOf(one), number)

  // The replica of the dump is missed until it has shown no life for some seconds.
  await until(async () => (await other.sql(`SELECT FROM ${SCHEMA}.replicas`)).length === 2)
  const before = await issue(two, 'a.example')
  const revoked = await one.call('POST', '/api/certificate/revoke', { domain: 'a.example' })
  t.strictSame(revoked.body.unconfirmed, undefined, 'the other replica has followed')
  t.not((await issue(two, 'a.example')).serialNumber, before.serialNumber)
  t.ok((await numberOf(two)) > number, 'the revocation list goes on')
  const [issuer] = await two.service.store.listAuthorities()
  const list = await two.service.store.listRevoked(
    issuer?.certificate ?? Buffer.of(),
    two.clock.now(),
  )
  const serials = list.map(({ serialNumber }) => serialNumber)
  t.strictSame(serials.sort(), [gone.serialNumber, before.serialNumber].sort())
})

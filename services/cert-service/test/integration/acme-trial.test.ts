import { X509Certificate } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { stripVTControlCharacters } from 'node:util'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { startPebbleServer } from '../../../../packages/acme/test/integration/pebble.ts'
import { until } from '../../../../scripts/test/until.ts'
import type { AcmeClient, Outcome, Session } from '../helpers/acme-clients/client.ts'
import { CLIENTS } from '../helpers/acme-clients/index.ts'
import { type Gatehouse, startGatehouse } from '../helpers/acme-clients/server.ts'
import { type Column, type Row, tableOf } from '../helpers/acme-clients/table.ts'

/** Validates nothing: it is the client of cert-service that is tried elsewhere. */
const pebble = await startPebbleServer(t, {
  dns: '127.0.0.1:1',
  env: { PEBBLE_VA_ALWAYS_VALID: '1' },
})
const publicRoot = await pebble.root(0)
const folder = testFolder(t)
const gatehouse = await startGatehouse(t, CLIENTS, { pebble, folder: join(folder, 'service') })
/** Seconds until a caller may have another certificate. */
const WAIT = 60
const perCaller = { issuancesPerMinute: 60 / WAIT, burst: 1 }
const slow = await startGatehouse(t, CLIENTS, {
  pebble,
  folder: join(folder, 'limited'),
  limits: { perCaller },
})

const rows = new Map<string, Row>()
/** Who was held back. */
const held: {
  readonly client: AcmeClient
  readonly name: string
  readonly session: Session
  readonly asked: Promise<Outcome>
}[] = []

async function startClient(client: AcmeClient, at: Gatehouse): Promise<Session> {
  const { folder, ...account } = await at.accountOf(client)
  return client.start(account, folder)
}

/** What the server says, which people see through each client. */
const REFUSED = /is not granted for/
const LIMITED = /too many certificates at once/

const serialOf = ({ serialNumber }: X509Certificate) => serialNumber.toLowerCase()

const nameOf = ({ title }: AcmeClient) => title.toLowerCase().replace(/[^a-z0-9]+/g, '-')

/** Gives the certificate after it was verified. */
function verify(t: Test, { chain, said }: Outcome, name: string, root: string): X509Certificate {
  if (chain === undefined) throw new Error(`no certificate: ${said}`)
  const [leaf, ...more] = chain
    .split(/(?<=-----END CERTIFICATE-----)\s*/)
    .filter((pem) => pem !== '')
    .map((pem) => new X509Certificate(pem))
  if (!leaf) throw new Error('no certificate')
  t.equal(leaf.checkHost(name), name)
  const path = [...more, new X509Certificate(root)]
  let child = leaf
  for (const issuer of path) {
    t.ok(child.checkIssued(issuer) && child.verify(issuer.publicKey), 'the chain leads to the root')
    child = issuer
  }
  return leaf
}

for (const client of CLIENTS) {
  if (client.isExtra && client.lacks) continue
  t.test(client.title, { skip: client.lacks }, async (t) => {
    const own = nameOf(client)
    const row: Row = new Map()
    rows.set(client.title, row)
    const note = (column: Column, result: string, words?: string) =>
      row.set(column, { result, ...(words && { words }) })
    const session = await startClient(client, gatehouse)
    const [inside, outside] = [`${own}.example.com`, `${own}.example.org`]
    const serialNow = async () => (await gatehouse.find(inside))?.serialNumber

    await t.test('an account by EAB, and a certificate of the private CA', async (t) => {
      const leaf = verify(t, await session.issue(inside), inside, gatehouse.root)
      const expected = { serialNumber: serialOf(leaf), issuer: 'ca' }
      t.match(await gatehouse.find(inside), expected)
      t.match(await gatehouse.findProgram(client), client.product)
      note('private CA', 'yes')
    })

    await t.test('one of a public CA', async (t) => {
      verify(t, await session.issue(outside), outside, publicRoot)
      t.match(await gatehouse.find(outside), { issuer: 'public' })
      note('public CA', 'yes')
    })

    const { wake, revoke } = session
    if (wake)
      await t.test('another one when the server wishes so', async (t) => {
        const before = await serialNow()
        await gatehouse.revoke(inside)
        const leaf = verify(t, await wake(inside), inside, gatehouse.root)
        t.not(serialOf(leaf), before)
        note('ARI window', 'renews')
      })

    await t.test('renewal', async (t) => {
      const before = await serialNow()
      if (client.keepsKey) {
        const same = verify(t, await session.renew(inside), inside, gatehouse.root)
        t.equal(serialOf(same), before, 'the same one for the same key, before it is due')
        await gatehouse.revoke(inside)
      }
      const leaf = verify(t, await session.renew(inside), inside, gatehouse.root)
      t.not(serialOf(leaf), before)
      note('renewal', client.keepsKey ? 'when due' : 'yes')
    })

    if (revoke)
      await t.test('revocation', async (t) => {
        const before = await serialNow()
        await revoke(inside)
        t.ok((await gatehouse.revokedSerials()).includes(String(before)))
        note('revocation', 'yes')
      })

    await t.test('a name that no rule gives', async (t) => {
      const { chain, said } = await session.issue(`${own}.example.net`)
      t.equal(chain, undefined)
      t.match(said, REFUSED)
      note('name not given', 'refused', wordsIn(said, REFUSED))
    })

    await t.test('a rate limit', async (t) => {
      const session = await startClient(client, slow)
      verify(t, await session.issue(`first.${inside}`), `first.${inside}`, slow.root)
      await slow.spend(client, `second.${inside}`)
      const before = slow.countLimited()
      const asked = session.issue(inside)
      await until(() => slow.countLimited() > before)
      held.push({ client, name: inside, session, asked })
      if (client.atLimit === 'waits') return
      const { chain, said } = await asked
      t.equal(chain, undefined)
      t.match(said, LIMITED)
      note('rate limit', 'ends', wordsIn(said, LIMITED))
    })
  })
}

t.test('those that were held back have a certificate later', async (t) => {
  if (held.some(({ client }) => client.atLimit === 'ends')) await pause(WAIT * 1_000)
  for (const { client, name, session, asked } of held)
    await t.test(client.title, async (t) => {
      const outcome = client.atLimit === 'ends' ? await session.issue(name) : await asked
      verify(t, outcome, name, slow.root)
      if (client.atLimit === 'waits') rows.get(client.title)?.set('rate limit', { result: 'waits' })
    })
})

/** The first line in which a client tells of an error. */
function wordsIn(text: string, about: RegExp): string {
  const line = stripVTControlCharacters(text)
    .split('\n')
    .find((line) => about.test(line))
  return (line ?? '').trim().slice(0, 600)
}

t.teardown(() => {
  const file = process.env.ACME_CLIENTS_TABLE
  if (file !== undefined) writeFileSync(file, tableOf(rows))
})

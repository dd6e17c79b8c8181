import { createPrivateKey, X509Certificate } from 'node:crypto'
import { buildCsr, fromPem, generateP256, type KeyPair, parseName } from '@gatehouse/pki'
import { systemClock } from '@gatehouse/service-kit/clock'
import t from 'tap'
import {
  changeKey,
  createOrder,
  createTransport,
  fetchRenewalInfo,
  newAccount,
  type OrderIo,
  renewalId,
  revokeCertificate,
} from '../../src/index.ts'
import { run } from '../helpers.ts'
import { CURRENT_PEBBLE, NO_CURRENT_PEBBLE, type Pebble, startPebble } from './pebble.ts'
import { untilAnswered } from './processes.ts'

async function enrol({ directoryUrl, fetch, dns01, http01 }: Pebble, request: object = {}) {
  const transport = createTransport({ directoryUrl, fetch, clock: systemClock })
  const { privateKey: key } = generateP256()
  const agreed = { termsOfServiceAgreed: true, ...request }
  const { url: accountUrl } = await transport.send(newAccount(key, agreed), { key })
  const warnings: unknown[] = []
  const io: OrderIo = {
    transport,
    account: { accountUrl, key },
    solversFor: ({ type }) => (type === 'ip' ? [http01] : [dns01]),
    clock: systemClock,
    warn: (error) => warnings.push(error),
  }
  return { io, transport, warnings }
}

async function obtain(io: OrderIo, names: string[], options: object = {}) {
  const key = generateP256()
  const csr = buildCsr(key, names.map(parseName))
  const state = (await run(await createOrder({ csr, ...options }), io)).at(-1)
  if (state?.step !== 'downloaded') throw new Error(JSON.stringify(state))
  const chain = fromPem(state.chain)
  return { key, chain, leaf: new X509Certificate(chain[0] as Buffer) }
}

/** Whether the chain leads from the leaf to that root. */
function verifies(chain: readonly Buffer[], root: string): boolean {
  const path = [...chain.map((der) => new X509Certificate(der)), new X509Certificate(root)]
  return path.slice(0, -1).every((one, i) => one.verify((path[i + 1] as X509Certificate).publicKey))
}

const holds = ({ pkcs8 }: KeyPair, leaf: X509Certificate) =>
  leaf.checkPrivateKey(createPrivateKey({ key: pkcs8, format: 'der', type: 'pkcs8' }))

t.test('orders at a Pebble that refuses nonces and has alternate chains', async (t) => {
  const env = { PEBBLE_WFE_NONCEREJECT: '15', PEBBLE_ALTERNATE_ROOTS: '2', PEBBLE_AUTHZREUSE: '50' }
  const pebble = await startPebble(t, env)
  const { io, transport, warnings } = await enrol(pebble)
  const roots = await Promise.all([0, 1, 2].map(pebble.root))

  const rows: [what: string, names: string[]][] = [
    ['a name', ['app.gatehouse.test']],
    ['a name and its wildcard', ['gatehouse.test', '*.gatehouse.test']],
    ['twenty names', Array.from({ length: 20 }, (_, i) => `n${i}.gatehouse.test`)],
    ['an address', ['127.0.0.1']],
    ['the same name again', ['app.gatehouse.test']],
  ]
  for (const [what, names] of rows) {
    const { key, chain, leaf } = await obtain(io, names)
    t.ok(verifies(chain, roots[0] as string), `${what}: the chain verifies`)
    t.ok(holds(key, leaf), `${what}: for our key`)
    const sans = leaf.subjectAltName?.split(', ').map((name) => name.replace(/^[^:]+:/, ''))
    t.strictSame(sans?.toSorted(), names.toSorted(), `${what}: the names`)
  }
  t.strictSame(warnings, [])

  for (const root of roots) {
    const [, commonName = ''] = /CN=(.*)/.exec(new X509Certificate(root).subject) ?? []
    const { chain } = await obtain(io, ['app.gatehouse.test'], { preferredChain: commonName })
    t.ok(verifies(chain, root), `the chain to ${commonName.replace(/ [0-9a-f]+$/, '')}`)
  }

  const mine = await obtain(io, ['app.gatehouse.test'])
  const own = { key: mine.key.privateKey }
  await transport.send(revokeCertificate(mine.leaf.raw), own)
  await t.rejects(transport.send(revokeCertificate(mine.leaf.raw), io.account), {
    code: 'ACME_ALREADY_REVOKED',
  })
  const other = await obtain(io, ['app.gatehouse.test'])
  await transport.send(revokeCertificate(other.leaf.raw, 'superseded'), io.account)

  const { privateKey: next } = generateP256()
  await transport.send(changeKey(io.account.accountUrl, io.account.key, next), io.account)
  const account = { ...io.account, key: next }
  t.ok(await obtain({ ...io, account }, ['rolled.gatehouse.test']), 'ordered with the new key')
})

t.test('reports refusals of Pebble', async (t) => {
  const config = { domainBlocklist: ['blocked.test'] }
  const { io } = await enrol(await startPebble(t, {}, config))
  const csr = (name: string) => buildCsr(generateP256(), [parseName(name)])
  const blocked = (await run(await createOrder({ csr: csr('blocked.test') }), io)).at(-1)
  t.match(blocked, { step: 'failed', error: { code: 'ACME_REJECTED_IDENTIFIER' } })
  const [solver] = io.solversFor({ type: 'dns', value: 'x' })
  const idle = { ...solver, present: async () => {} } as NonNullable<typeof solver>
  const wrong = await run(await createOrder({ csr: csr('app.test') }), {
    ...io,
    solversFor: () => [idle],
  })
  t.match(wrong.at(-1), {
    step: 'failed',
    error: { code: 'ACME_UNAUTHORIZED', message: /^app\.test: / },
  })
})

t.test('an external account', async (t) => {
  const hmacKey = 'zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W'
  const pebble = await startPebble(
    t,
    {},
    {
      externalAccountBindingRequired: true,
      externalAccountMACKeys: { 'kid-1': hmacKey },
    },
  )
  await t.rejects(enrol(pebble), { code: 'ACME_EXTERNAL_ACCOUNT_REQUIRED' })
  const { io } = await enrol(pebble, { externalAccount: { kid: 'kid-1', hmacKey } })
  t.ok(await obtain(io, ['app.gatehouse.test']))
})

t.test('renewal information and profiles', { skip: NO_CURRENT_PEBBLE }, async (t) => {
  const profiles = { short: { description: 'six days', validityPeriod: 518_400 } }
  const pebble = await startPebble(t, {}, { profiles }, CURRENT_PEBBLE)
  const { io, transport } = await enrol(pebble)
  const { leaf } = await obtain(io, ['app.gatehouse.test'], { profile: 'short' })
  t.equal(Math.round((leaf.validToDate.getTime() - leaf.validFromDate.getTime()) / 86_400_000), 6)
  const id = renewalId(leaf.raw) as string
  const info = await fetchRenewalInfo(transport, id)
  t.ok(info && info.start < info.end && info.end <= leaf.validToDate.getTime())
  const replace = () => obtain(io, ['app.gatehouse.test'], { profile: 'short', replaces: id })
  // Pebble gives a certificate out a moment before it can tell from which order it is.
  await untilAnswered(async () => {
    try {
      t.ok(await replace(), 'replaced')
    } catch (error) {
      t.match(error, { message: /could not find an order/ })
      throw error
    }
  })
  t.ok(await replace(), 'and again')
})

import { generateKeyPairSync, X509Certificate } from 'node:crypto'
import { buildCsr, generateKeyPair, parseName, toPem } from '@gatehouse/pki'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { expectWarnings } from '../../../../../scripts/test/quiet.ts'
import type { Exchange, Kind, Reply } from '../../../../acme/test/scripted-ca/index.ts'
import { failedOrders } from '../../../../cert-store/test/helpers/store.ts'
import { briskClock, issuerAt, openAcmeStage, problem, startCa, WAIT } from '../../helpers/acme.ts'
import { makeCsr } from '../../helpers/csr.ts'
import { obtain } from '../../helpers/stage.ts'
import { settle } from '../../leap-clock.ts'

const payloads = (ca: { exchanges: readonly Exchange[] }, kind: Kind) =>
  ca.exchanges.filter((exchange) => exchange.kind === kind).map(({ payload }) => payload)

t.test('a certificate of an ACME CA, and then again from the store', async (t) => {
  const { ca, stage } = await openAcmeStage(t)
  const body = await obtain(stage)
  t.match(body, { issuer: 'acme', names: ['a.test'], cached: false })
  const leaf = new X509Certificate(body.certificate)
  t.ok(leaf.checkIssued(new X509Certificate(body.issuerCert)))
  t.match(await obtain(stage), { cached: true, serialNumber: body.serialNumber })
  t.equal(ca.count('newOrder'), 1)
  const { issuer, keyType } = (await stage.store.findByDomain('a.test'))[0]!
  t.same([issuer, keyType], ['acme', 'p256'])
})

t.test('what the configuration says of an issuer reaches the CA', async (t) => {
  const externalAccount = { kid: 'kid-1', hmacKey: Buffer.alloc(32, 7).toString('base64url') }
  const { ca, stage } = await openAcmeStage(
    t,
    {
      externalAccount,
      termsOfService: 'https://ca.test/terms',
      profiles: { shortlived: '6 days' },
      roots: ['Old Root', 'New Root'],
    },
    {
      changes: {
        email: 'ops@example.com',
        agreeToTerms: true,
        externalAccount,
        profile: 'shortlived',
        preferredChain: 'New Root',
        keyType: 'p384',
      },
    },
  )
  const body = await obtain(stage)
  t.match(payloads(ca, 'newAccount'), [
    { contact: ['mailto:ops@example.com'], termsOfServiceAgreed: true },
  ])
  t.match(payloads(ca, 'newOrder'), [{ profile: 'shortlived' }])
  t.match(new X509Certificate(body.issuerCert).issuer, /New Root/)
  t.equal(
    new X509Certificate(body.certificate).publicKey.asymmetricKeyDetails?.namedCurve,
    'secp384r1',
  )
  t.notOk(stage.logged.some((line) => line.includes(externalAccount.hmacKey)))
})

t.test(
  'names are routed to the first issuer that holds them all, else to the embedded CA',
  async (t) => {
    const clock = briskClock()
    const [one, two] = [await startCa(t, clock), await startCa(t, clock)]
    const { stage } = await openAcmeStage(
      t,
      {},
      {
        clock,
        acme: one,
        issuers: [
          issuerAt(one, { name: 'one', names: ['*.one.test', 'one.test'] }),
          issuerAt(two, { name: 'two', names: ['*.test', '192.0.2.0/24'] }),
        ],
        ca: { permitted: ['*.corp.example', 'localhost'] },
      },
    )
    const rows: [names: string[], issuer: string | undefined][] = [
      [['app.one.test'], 'one'],
      [['one.test', 'app.one.test'], 'one'],
      [['app.one.test', 'app.two.test'], 'two'],
      [['192.0.2.1'], 'two'],
      [['app.corp.example'], 'ca'],
      [['app.one.test', 'app.corp.example'], undefined],
      [['app.example.com'], undefined],
    ]
    for (const [[domain = '', ...names], issuer] of rows) {
      t.match(
        await obtain(stage, { domain, names }),
        issuer ? { issuer } : { code: 'CERT_NOT_PERMITTED' },
        [domain, ...names].join(),
      )
    }
  },
)

t.test('what no challenge can prove is refused before an order is made', async (t) => {
  const { ca, stage } = await openAcmeStage(t)
  const csr = makeCsr({ names: ['a.example.com'] })
  for (const [domain, more, pointer] of [
    ['*.example.com', {}, '/domain'],
    ['b.example.com', { csr }, '/csr'],
  ] as const)
    t.match(await obtain(stage, { domain, ...more }), {
      code: 'CERT_NOT_PERMITTED',
      errors: [{ pointer }],
    })
  t.equal(ca.exchanges.length, 0)
})

t.test(
  'a kind of key that the CA does not certify is refused before an order is made',
  async (t) => {
    const { ca, stage } = await openAcmeStage(t)
    const asked = buildCsr(await generateKeyPair('ed25519'), [parseName('a.example.com')])
    const csr = toPem('CERTIFICATE REQUEST', asked)
    for (const [more, pointer] of [
      [{ keyType: 'ed25519' }, '/keyType'],
      [{ csr }, '/csr'],
    ] as const)
      t.match(
        await obtain(stage, {
          domain: 'a.example.com',
          ...more,
        }),
        { code: 'CERT_KEY_TYPE_REFUSED', detail: /p256/, errors: [{ pointer }] },
      )
    t.equal(ca.exchanges.length, 0)
  },
)

t.test('the key of a CSR stays with its caller', async (t) => {
  const { stage } = await openAcmeStage(t)
  const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const csr = makeCsr({ pair, names: ['a.test'] })
  const body = await obtain(stage, { domain: 'a.test', csr })
  t.notOk('privateKey' in body)
  t.ok(new X509Certificate(body.certificate).checkPrivateKey(pair.privateKey))
  const [record] = await stage.store.findByDomain('a.test')
  t.equal(record?.sealedKey, null)
})

t.test('terms of service are agreed to by the operator, not by us', async (t) => {
  expectWarnings(t, 'CERT_TERMS_NOT_AGREED')
  const { ca, stage } = await openAcmeStage(t, { termsOfService: 'https://ca.test/terms' })
  t.match(await obtain(stage), { code: 'CERT_TERMS_NOT_AGREED' })
  t.equal(ca.count('newAccount'), 0)
  const order = await stage.store.findOrderByRequestKey(
    (await failedOrders(stage.store))[0]!.requestKey,
  )
  t.match(order?.lastError, { code: 'CERT_TERMS_NOT_AGREED', detail: /https:\/\/ca.test\/terms/ })
})

t.test('longer than the wait: an order that tells what it does', async (t) => {
  const { ca, stage, clock } = await openAcmeStage(t)
  ca.answer('challenge', 'hang')
  const answer = obtain(stage)
  await settle(() => ca.count('challenge') === 1)
  await clock.advance(WAIT)
  t.match(await answer, { order: { status: 'pending', step: 'validating' } })
})

t.test('the account', async (t) => {
  const { stage, ca, clock } = await openAcmeStage(t, {}, { folder: testFolder(t) })
  t.ok((await obtain(stage, { domain: 'a.example.com' })).certificate)
  const { folder } = stage
  await stage.close()

  const again = await openAcmeStage(
    t,
    {},
    { folder, acme: ca, clock, changes: { email: 'a@b.test' } },
  )
  t.ok((await obtain(again.stage, { domain: 'b.example.com' })).certificate)
  t.equal(ca.count('newAccount'), 1, 'is registered once')
  t.match(payloads(ca, 'account'), [{ contact: ['mailto:a@b.test'] }], 'its contact is kept up')

  ca.answer('newOrder', problem(400, 'accountDoesNotExist', 'who?'))
  t.ok((await obtain(again.stage, { domain: 'c.example.com' })).certificate)
  t.equal(ca.count('newAccount'), 2, 'is registered again when the CA has forgotten it')
})

t.test('issuers of one CA share an account, unless one names its own', async (t) => {
  const clock = briskClock()
  const ca = await startCa(t, clock)
  const issuers = [
    issuerAt(ca, { name: 'one', names: ['one.test'] }),
    issuerAt(ca, { name: 'two', names: ['two.test'] }),
    issuerAt(ca, { name: 'own', names: ['own.test'], account: 'own', email: 'own@b.test' }),
  ]
  const { stage } = await openAcmeStage(t, {}, { clock, acme: ca, issuers })
  for (const domain of ['one.test', 'two.test', 'own.test'])
    t.ok((await obtain(stage, { domain })).certificate, domain)
  const accounts = ca.exchanges
    .filter(({ kind }) => kind === 'newOrder')
    .map(({ header }) => header.kid)
  t.equal(accounts[0], accounts[1])
  t.not(accounts[0], accounts[2])
  t.match(payloads(ca, 'newAccount').at(-1), { contact: ['mailto:own@b.test'] })
})

const lost: Reply = 'reset'

for (const kind of [
  'newNonce',
  'newAccount',
  'newOrder',
  'order',
  'authorization',
  'challenge',
  'finalize',
  'certificate',
] as const)
  t.test(
    `where a request to ${kind} is lost, the next try goes on with the same order`,
    async (t) => {
      const { ca, stage, clock } = await openAcmeStage(t, { reuseOrders: true })
      // Polling puts up with a few.
      ca.answer(kind, ...Array.from({ length: 3 }, () => lost))
      for (let tries = 0; !(await obtain(stage)).certificate && tries < 4; tries++)
        await clock.advance(600_000)
      t.match(await obtain(stage), { cached: true })
      const orders = new Set(
        ca.exchanges.filter((one) => one.kind === 'finalize').map(({ path }) => path),
      )
      t.equal(orders.size, 1, 'one order')
      t.ok(ca.count('newOrder') <= 4)
    },
  )

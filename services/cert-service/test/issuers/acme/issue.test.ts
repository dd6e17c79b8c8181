import { generateKeyPairSync, X509Certificate } from 'node:crypto'
import { request } from 'node:http'
import { listenForChallenges } from '@gatehouse/issuance/issuers'
import { buildCsr, generateKeyPair, parseName, toPem } from '@gatehouse/pki'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import type { Exchange, Kind, Reply } from '../../../../../packages/acme/test/scripted-ca/index.ts'
import { failedOrders } from '../../../../../packages/cert-store/test/helpers/store.ts'
import { freePort } from '../../../../../scripts/free-ports.ts'
import { expectWarnings } from '../../../../../scripts/test/quiet.ts'
import { buildPlainApp } from '../../../src/app.ts'
import {
  briskClock,
  issuerAt,
  post,
  problem,
  startAcme,
  startCa,
  WAIT,
} from '../../helpers/acme.ts'
import { settle } from '../../helpers/app.ts'
import { makeCsr } from '../../../../../packages/issuance/test/helpers/csr.ts'

const payloads = (ca: { exchanges: readonly Exchange[] }, kind: Kind) =>
  ca.exchanges.filter((exchange) => exchange.kind === kind).map(({ payload }) => payload)

t.test('a certificate of an ACME CA, and then again from the store', async (t) => {
  const { ca, running } = await startAcme(t)
  const { status, body, text } = await post(running)
  t.equal(status, 200, text)
  t.match(body, { issuer: 'acme', names: ['app.example.com'], cached: false })
  const leaf = new X509Certificate(body.certificate)
  t.ok(leaf.checkIssued(new X509Certificate(body.issuerCert)))
  t.match((await post(running)).body, { cached: true, serialNumber: body.serialNumber })
  t.equal(ca.count('newOrder'), 1)
  const { certificates } = (await running.call('GET', '/api/certificates')).body
  t.match(certificates, [{ issuer: 'acme', domain: 'app.example.com' }])
  const { issuer, keyType } = (await running.service.store.findByDomain('app.example.com'))[0]!
  t.same([issuer, keyType], ['acme', 'p256'])
})

t.test('what the configuration says of an issuer reaches the CA', async (t) => {
  const externalAccount = { kid: 'kid-1', hmacKey: Buffer.alloc(32, 7).toString('base64url') }
  const { ca, running } = await startAcme(
    t,
    {
      externalAccount,
      termsOfService: 'https://ca.test/terms',
      profiles: { shortlived: '6 days' },
      roots: ['Old Root', 'New Root'],
    },
    {
      issuerOptions: {
        email: 'ops@example.com',
        agreeToTerms: true,
        externalAccount,
        profile: 'shortlived',
        preferredChain: 'New Root',
        keyType: 'p384',
      },
    },
  )
  const { status, body, text } = await post(running)
  t.equal(status, 200, text)
  t.match(payloads(ca, 'newAccount'), [
    { contact: ['mailto:ops@example.com'], termsOfServiceAgreed: true },
  ])
  t.match(payloads(ca, 'newOrder'), [{ profile: 'shortlived' }])
  t.match(new X509Certificate(body.issuerCert).issuer, /New Root/)
  t.equal(
    new X509Certificate(body.certificate).publicKey.asymmetricKeyDetails?.namedCurve,
    'secp384r1',
  )
  t.notOk(running.logged.some((line) => line.includes(externalAccount.hmacKey)))
})

t.test(
  'names are routed to the first issuer that holds them all, else to the embedded CA',
  async (t) => {
    const clock = briskClock()
    const [one, two] = [await startCa(t, clock), await startCa(t, clock)]
    const { running } = await startAcme(
      t,
      {},
      {
        clock,
        ca: one,
        config: {
          issuers: [
            issuerAt(one, { name: 'one', names: ['*.one.test', 'one.test'] }),
            issuerAt(two, { name: 'two', names: ['*.test', '192.0.2.0/24'] }),
          ],
          ca: { permitted: ['*.corp.example', 'localhost'] },
        },
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
      const { status, body } = await post(running, domain, { names })
      t.match(
        { status, issuer: body.issuer, code: body.code },
        issuer ? { status: 200, issuer } : { status: 422, code: 'CERT_NOT_PERMITTED' },
        [domain, ...names].join(),
      )
    }
  },
)

t.test('what no challenge can prove is refused before an order is made', async (t) => {
  const { ca, running } = await startAcme(t)
  const csr = makeCsr({ names: ['a.example.com'] })
  for (const [domain, more, pointer] of [
    ['*.example.com', {}, '/domain'],
    ['b.example.com', { csr }, '/csr'],
  ] as const)
    t.match(await post(running, domain, more), {
      status: 422,
      body: { code: 'CERT_NOT_PERMITTED', errors: [{ pointer }] },
    })
  t.equal(ca.exchanges.length, 0)
})

t.test(
  'a kind of key that the CA does not certify is refused before an order is made',
  async (t) => {
    const { ca, running } = await startAcme(t)
    const asked = buildCsr(await generateKeyPair('ed25519'), [parseName('a.example.com')])
    const csr = toPem('CERTIFICATE REQUEST', asked)
    for (const [more, pointer] of [
      [{ keyType: 'ed25519' }, '/keyType'],
      [{ csr }, '/csr'],
    ] as const)
      for (const query of ['', '?dryRun=true'])
        t.match(
          await running.call('POST', `/api/certificate${query}`, {
            domain: 'a.example.com',
            ...more,
          }),
          {
            status: 422,
            body: { code: 'CERT_KEY_TYPE_REFUSED', detail: /p256/, errors: [{ pointer }] },
          },
        )
    t.equal(ca.exchanges.length, 0)
  },
)

t.test('the key of a CSR stays with its caller', async (t) => {
  const { running } = await startAcme(t)
  const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const csr = makeCsr({ pair, names: ['app.example.com'] })
  const { status, body, text } = await post(running, 'app.example.com', { csr })
  t.equal(status, 200, text)
  t.notOk('privateKey' in body)
  t.ok(new X509Certificate(body.certificate).checkPrivateKey(pair.privateKey))
  const [record] = await running.service.store.findByDomain('app.example.com')
  t.equal(record?.sealedKey, null)
})

t.test('terms of service are agreed to by the operator, not by us', async (t) => {
  expectWarnings(t, 'CERT_TERMS_NOT_AGREED')
  const { ca, running } = await startAcme(t, { termsOfService: 'https://ca.test/terms' })
  t.match(await post(running), { status: 503, body: { code: 'CERT_TERMS_NOT_AGREED' } })
  t.equal(ca.count('newAccount'), 0)
  const order = await running.service.store.findOrderByRequestKey(
    (await failedOrders(running.service.store))[0]!.requestKey,
  )
  t.match(order?.lastError, { code: 'CERT_TERMS_NOT_AGREED', detail: /https:\/\/ca.test\/terms/ })
})

t.test('longer than the wait: an order that tells what it does', async (t) => {
  const { ca, running, clock } = await startAcme(t)
  ca.answer('challenge', 'hang')
  const answer = post(running)
  await settle(() => ca.count('challenge') === 1)
  await clock.advance(WAIT)
  const { status, headers, body } = await answer
  t.equal(status, 202)
  t.equal(headers.location, `/api/orders/${body.id}`)
  t.match(body, { status: 'pending', step: 'validating' })
})

t.test(
  'an answer to http-01 is given by the plain listener, and by a listener of its own',
  async (t) => {
    const seen: (string | undefined)[] = []
    const { running } = await startAcme(t, {
      validate: async ({ token, keyAuthorization }) => {
        const path = `/.well-known/acme-challenge/${token}`
        const { payload, statusCode, headers } = await plain.inject(path)
        t.match(headers['content-type'], /octet-stream/)
        seen.push(statusCode === 200 ? payload : undefined, await read(path), keyAuthorization)
        return undefined
      },
    })
    const { service } = running
    const plain = await buildPlainApp(running.app, { log: running.app.log as never })
    t.teardown(() => plain.close())
    const port = await freePort()
    const listener = await listenForChallenges(
      [{ challenges: [{ type: 'http-01', listen: { host: '127.0.0.1', port } }] }],
      service.challenges,
      running.clock,
    )
    t.teardown(() => listener.close())
    const read = (path: string) =>
      new Promise<string>((resolve) => {
        request({ port, path, host: '127.0.0.1' }, async (response) =>
          resolve(Buffer.concat(await response.toArray()).toString()),
        ).end()
      })

    t.equal((await post(running)).status, 200)
    t.equal(seen.length, 3)
    t.equal(new Set(seen).size, 1, 'both say what the CA wants to see')
    t.equal(
      (await plain.inject('/.well-known/acme-challenge/abcdefghijklmnopqrstuv')).statusCode,
      404,
    )
    t.equal((await plain.inject('/api/certificates')).statusCode, 404)
  },
)

t.test('the account', async (t) => {
  const { running, ca, clock } = await startAcme(t, {}, { folder: testFolder(t) })
  t.equal((await post(running, 'a.example.com')).status, 200)
  const { folder } = running
  await running.close()

  const again = await startAcme(t, {}, { folder, ca, clock, issuerOptions: { email: 'a@b.test' } })
  t.equal((await post(again.running, 'b.example.com')).status, 200)
  t.equal(ca.count('newAccount'), 1, 'is registered once')
  t.match(payloads(ca, 'account'), [{ contact: ['mailto:a@b.test'] }], 'its contact is kept up')

  ca.answer('newOrder', problem(400, 'accountDoesNotExist', 'who?'))
  const { status, text } = await post(again.running, 'c.example.com')
  t.equal(status, 200, text)
  t.equal(ca.count('newAccount'), 2, 'is registered again when the CA has forgotten it')
})

t.test('the account URL is in the log, and in the dry run once it is registered', async (t) => {
  const folder = testFolder(t)
  const { running, ca, clock } = await startAcme(t, {}, { folder })
  const lookAhead = async ({ call }: typeof running) =>
    (await call('POST', '/api/certificate?dryRun=true', { domain: 'b.example.com' })).body
  t.notOk('accountUrl' in (await lookAhead(running)))
  await post(running)
  const { accountUrl } = await lookAhead(running)
  t.match(accountUrl, new RegExp(`^${ca.directoryUrl.origin}/account/`))
  t.equal(accountUrl, ca.exchanges.find(({ kind }) => kind === 'newOrder')?.header.kid)
  const tells = (lines: readonly string[]) =>
    lines.some((line) => JSON.parse(line).accountUrl === accountUrl)
  t.ok(tells(running.logged))
  await running.close()
  const again = await startAcme(t, {}, { folder, ca, clock })
  await post(again.running, 'b.example.com')
  t.ok(tells(again.running.logged), 'after a restart as well')
})

t.test('issuers of one CA share an account, unless one names its own', async (t) => {
  const clock = briskClock()
  const ca = await startCa(t, clock)
  const issuers = [
    issuerAt(ca, { name: 'one', names: ['one.test'] }),
    issuerAt(ca, { name: 'two', names: ['two.test'] }),
    issuerAt(ca, { name: 'own', names: ['own.test'], account: 'own', email: 'own@b.test' }),
  ]
  const { running } = await startAcme(t, {}, { clock, ca, config: { issuers } })
  for (const domain of ['one.test', 'two.test', 'own.test'])
    t.equal((await post(running, domain)).status, 200, domain)
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
      const { ca, running, clock } = await startAcme(t, { reuseOrders: true })
      // Polling puts up with a few.
      ca.answer(kind, ...Array.from({ length: 3 }, () => lost))
      for (let tries = 0; (await post(running)).status !== 200 && tries < 4; tries++)
        await clock.advance(600_000)
      t.match(await post(running), { status: 200, body: { cached: true } })
      const orders = new Set(
        ca.exchanges.filter((one) => one.kind === 'finalize').map(({ path }) => path),
      )
      t.equal(orders.size, 1, 'one order')
      t.ok(ca.count('newOrder') <= 4)
    },
  )

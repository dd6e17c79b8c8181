import { hash } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { generateP256, parseName } from '@gatehouse/pki'
import t from 'tap'
import { DAY, NOW, rest, start } from '../helpers/app.ts'
import { readChain, startProbing } from '../helpers/probing.ts'

const HOUR = 3_600_000
const NAME = 'app.example.com'

t.test('each state of a place', async (t) => {
  const probing = await startProbing(t)
  const { servers, dns, pass, states, issue, call, service, looks } = probing
  service.start()
  dns.set(NAME, ['10.0.0.1'])
  const first = await issue(NAME)
  const place = '10.0.0.1:443'
  const otherFolder = join(probing.folder, 'other')
  mkdirSync(otherFolder)
  const other = await start(t, {}, { folder: otherFolder })
  const foreign = async (domain: string) =>
    readChain((await other.call('POST', '/api/certificate', { domain })).body.certificate)

  await pass(20_000)
  t.same(await states(NAME), ['unreachable'])
  const root = Buffer.from(service.ca.root()!)
  for (const [state, served] of [
    ['newest', first],
    ['newest', [...first, root]],
    ['incomplete', first.slice(0, 1)],
    ['incomplete', [first[0]!, ...(await foreign('a.test')).slice(1)]],
    ['other', await foreign(NAME)],
    ['other', await foreign('*.example.com')],
    ['wrongName', await foreign('another.example.com')],
    ['wrongName', await issue('another.example.com')],
    ['newest', first],
  ] as const) {
    servers.set(place, served)
    await pass()
    t.same(await states(NAME), [state])
  }
  t.match(looks[0], { address: '10.0.0.1', port: 443, protocol: 'tls', serverName: NAME })
  servers.set(place, await foreign(NAME))
  await pass()
  t.match(await service.store.listProbes([NAME]), [
    { issuer: /^(CN|O)=Gatehouse/, notAfter: NOW + 7 * DAY, sha256: /^[0-9a-f]{64}$/ },
  ])
  servers.set(place, first)
  await pass(5 * DAY)
  t.same(await states(NAME), ['newest'], 'nobody has the one that it was renewed by')
  await call('GET', `/api/certificate/${NAME}`)
  await pass()
  const [older] = await service.store.listProbes([NAME])
  t.match(older, { state: 'older', host: NAME, address: '10.0.0.1', reporter: '', keyType: '' })
  await pass(2 * DAY)
  t.same(await states(NAME), ['ended'])
  const second = await issue(NAME)
  servers.set(place, second)
  await pass()
  t.same(await states(NAME), ['newest'])
  await call('POST', '/api/certificate/revoke', { domain: NAME })
  await pass()
  t.same(await states(NAME), ['revoked'], 'also with nothing in service')
  await issue(NAME)
  await pass()
  t.same(await states(NAME), ['revoked'])
  servers.delete(place)
  await pass()
  await pass()
  t.same(await states(NAME), ['revoked'], 'two failures say nothing of the certificate')
  await pass()
  t.same(await states(NAME), ['unreachable'])
})

t.test('what is older counts after an hour, and then at once with its time', async (t) => {
  const { servers, dns, pass, issue, call, service, events, clock } = await startProbing(t)
  service.start()
  dns.set(NAME, ['10.0.0.1'])
  servers.set('10.0.0.1:443', await issue(NAME))
  await pass(5 * DAY)
  await call('GET', `/api/certificate/${NAME}`)
  const fetched = clock.now()
  await pass(70_000)
  await pass(50 * 60_000)
  const notServed = () => service.store.listNotServed(clock.now(), 9)
  const [early] = await service.store.listProbes([NAME])
  t.equal(early?.state, 'older')
  t.ok(early!.since >= fetched && early!.since < fetched + HOUR)
  t.same([await notServed(), events.filter(({ type }) => type === 'not-served')], [[], []])
  await pass()
  t.same(await notServed(), [{ name: NAME, port: 443, since: early!.since }])
  await pass()
  t.match(
    events.filter(({ type }) => type === 'not-served'),
    [{ issuer: 'ca', probe: { name: NAME, state: 'older', since: early!.since } }],
    'it is told once',
  )
  servers.set('10.0.0.1:443', await issue(NAME))
  await pass()
  t.match(events.at(-1), { type: 'served-again', probe: { state: 'newest' } })
  t.same(await notServed(), [])
})

t.test('one of two addresses, of two ports and of two kinds of keys is old', async (t) => {
  const targets = [{ names: [NAME], ports: [':443', ':8443', ':25'] }]
  const probing = await startProbing(t, { probe: { networks: ['10.0.0.0/8'], targets } })
  const { servers, dns, pass, issue, service, looks, clock } = probing
  service.start()
  dns.set(NAME, ['10.0.0.2', '10.0.0.1'])
  const old = await issue(NAME)
  const oldRsa = await issue(NAME, { keyType: 'rsa2048' })
  await pass(5 * DAY)
  await rest(clock, service.issuance)
  const ec = await issue(NAME)
  const rsa = await issue(NAME, { keyType: 'rsa2048' })
  for (const address of ['10.0.0.1', '10.0.0.2'])
    for (const port of [443, 8443, 25]) servers.set(`${address}:${port}`, { ec, rsa })
  servers.set('10.0.0.2:443', { ec: old })
  servers.set('10.0.0.1:8443', { ec, rsa: oldRsa })
  servers.set('10.0.0.1:25', { rsa: oldRsa })
  await pass()
  await pass()
  const rows = await service.store.listProbes([NAME])
  const wrong = rows.flatMap(({ state, address, port, keyType }) =>
    state === 'newest' ? [] : `${address}:${port} ${keyType} ${state}`,
  )
  t.same(wrong.toSorted(), ['10.0.0.1:25  older', '10.0.0.1:8443 rsa older', '10.0.0.2:443  older'])
  t.ok(looks.some(({ port, protocol }) => port === 25 && protocol === 'smtp'))
})

t.test('a machine of a fleet that is forgotten is found', async (t) => {
  const { servers, dns, pass, issue, service, clock } = await startProbing(t)
  service.start()
  const { store, ca } = service
  dns.set(NAME, ['10.0.0.1', '10.0.0.2'])
  const key = generateP256()
  const signed = ca.issue({ names: [parseName(NAME)], keyType: 'p256', spki: key.spki })
  // One that an ACME client has, which stops, and one that goes on.
  await store.addCertificate(
    {
      ...signed,
      ...{ requestKey: 'of a client', issuer: 'ca', names: [NAME], keyType: 'p256' },
      ...{ sealedKey: null, csr: null, renewAt: NOW + 4 * DAY, fetchedAt: NOW },
      ...{ way: 'acme', account: 'a', askedBy: 'psk:web' },
    },
    { at: clock.now(), action: 'issue', actor: 'psk:web', names: [NAME] },
  )
  servers.set('10.0.0.1:443', [Buffer.from(signed.certificate), ...signed.chain.map(Buffer.from)])
  servers.set('10.0.0.2:443', await issue(NAME))
  const states = async () => (await store.listProbes([NAME])).map(({ state }) => state)
  await pass()
  t.same(await states(), ['newest', 'newest'], 'the newest of two lineages')
  await pass(4 * DAY)
  servers.set('10.0.0.2:443', await issue(NAME))
  await pass()
  t.same(await states(), ['newest', 'newest'], 'it is due, but not late')
  await pass(2 * DAY)
  t.same(await states(), ['older', 'newest'])
  await pass()
  t.match(await store.listNotServed(clock.now(), 9), [{ name: NAME }])
})

t.test('targets say where', async (t) => {
  const targets = [
    { names: ['=*.apps.test'], hosts: ['edge.test', '10.0.0.9'] },
    { names: ['lab.test'], ports: [] },
    { names: ['*.mail.test', '10.0.0.0/8'], ports: [':465', ':143'] },
  ]
  const probing = await startProbing(t, {
    probe: { networks: ['10.0.0.0/8'], targets },
  })
  const { dns, pass, issue, service, looks, servers } = probing
  service.start()
  dns.set('edge.test', ['10.0.0.8'])
  for (const name of ['lab.test', 'in.mail.test', 'web.test']) dns.set(name, ['10.0.0.7'])
  const wildcard = await issue('*.apps.test')
  servers.set('10.0.0.8:443', wildcard)
  for (const name of ['*.other.test', 'lab.test', 'in.mail.test', 'web.test', '10.0.0.5'])
    await issue(name)
  await pass()
  const seen = looks.map(({ address, port, protocol, serverName }) =>
    [serverName, address, port, protocol].join(' '),
  )
  t.same([...new Set(seen)].toSorted(), [
    '10.0.0.5 10.0.0.5 143 imap',
    '10.0.0.5 10.0.0.5 465 tls',
    'gatehouse.apps.test 10.0.0.8 443 tls',
    'gatehouse.apps.test 10.0.0.9 443 tls',
    'in.mail.test 10.0.0.7 143 imap',
    'in.mail.test 10.0.0.7 465 tls',
    'web.test 10.0.0.7 443 tls',
  ])
  t.match(await service.store.listProbes(['*.apps.test']), [
    { host: 'edge.test', state: 'newest' },
    { host: '10.0.0.9', state: 'unreachable' },
  ])
})

t.test('names that lead inside are connected to in the networks only', async (t) => {
  const probing = await startProbing(t, { probe: { networks: ['0.0.0.0/0', '::/0'] } })
  const { dns, pass, issue, service, looks } = probing
  service.start()
  const inside = [
    ...['127.0.0.1', '127.8.9.1', '169.254.169.254', '0.0.0.0', '224.0.0.1', '255.255.255.255'],
    ...['::1', '::', 'fe80::1', 'ff02::1', '::ffff:127.0.0.1', '::ffff:169.254.1.1'],
    ...['::127.0.0.1', '64:ff9b::7f00:1', '2002:7f00:1::', 'not an address', ''],
  ]
  for (const [n, address] of inside.entries()) {
    dns.set(`n${n}.test`, [address])
    await issue(`n${n}.test`)
  }
  await pass()
  t.same(looks, [])
  const rows = await service.store.listProbes(inside.map((_, n) => `n${n}.test`))
  t.same(rows.length, inside.length)
  t.same(new Set(rows.map(({ state }) => state)), new Set(['outside', 'unreachable']))
})

for (const [what, probe, expected] of [
  ['without the option nothing is connected to', undefined, []],
  [
    'with the option nothing outside of its networks is connected to',
    { networks: ['10.9.0.0/16', 'fd00:9::/32'] },
    ['10.9.0.1', 'fd00:9::1'],
  ],
] as const)
  t.test(what, async (t) => {
    const { dns, pass, issue, service, looks, states } = await startProbing(t, { probe })
    service.start()
    dns.set(NAME, ['10.0.0.1', '10.9.0.1', '11.0.0.1', 'fd00:9::1', 'fd00:8::1', '1.1.1.1'])
    await issue(NAME)
    await pass()
    t.same([...new Set(looks.map(({ address }) => address))], expected)
    const outside = ['outside', 'outside', 'outside', 'outside']
    t.same(await states(NAME), probe ? ['unreachable', 'unreachable', ...outside] : [])
  })

t.test('the address that was looked up is the one that is connected to', async (t) => {
  const { dns, pass, issue, service, looks } = await startProbing(t)
  service.start()
  let lookups = 0
  // A name server that leads elsewhere as soon as it was asked.
  dns.get = () => [lookups++ === 0 ? '10.0.0.1' : '127.0.0.1']
  await issue(NAME)
  await pass(20_000)
  t.match(looks, [{ address: '10.0.0.1', serverName: NAME }])
  await pass()
  await pass()
  t.equal(looks.length, 1, 'it is no host that is connected to')
})

t.test('of 50 addresses, the same 8 are looked at', async (t) => {
  const { dns, pass, issue, service, looks } = await startProbing(t)
  service.start()
  const all = Array.from({ length: 50 }, (_, n) => `10.0.0.${n + 1}`)
  dns.get = () => all.toSorted(() => Math.random() - 0.5)
  await issue(NAME)
  await pass()
  await pass()
  t.equal(new Set(looks.map(({ address }) => address)).size, 8)
  t.ok(looks.length >= 16)
})

t.test('a silent server is looked at less often, and what has gone is forgotten', async (t) => {
  const { dns, pass, issue, service, looks, states, clock } = await startProbing(t)
  service.start()
  dns.set(NAME, ['10.0.0.1'])
  await issue(NAME)
  const times: number[] = []
  for (let hour = 0; hour < 48; hour += 1) {
    const before = looks.length
    await pass(HOUR)
    if (looks.length > before) times.push(clock.now() - NOW)
  }
  const pauses = times.map((time, i) => time - (times[i - 1] ?? 0))
  t.ok(
    pauses.slice(3).every((pause) => pause >= 6 * HOUR),
    'six hours after three failures',
  )
  t.ok(looks.length < 15)
  dns.set(NAME, ['10.0.0.2'])
  await pass()
  t.same(await states(NAME), ['unreachable', 'unreachable'])
})

t.test('an address that a name has left is forgotten after three rounds', async (t) => {
  const { dns, servers, pass, issue, service, states } = await startProbing(t)
  service.start()
  dns.set(NAME, ['10.0.0.1'])
  const chain = await issue(NAME)
  for (const address of ['10.0.0.1', '10.0.0.2']) servers.set(`${address}:443`, chain)
  await pass()
  dns.set(NAME, ['10.0.0.2'])
  await pass()
  t.same(await states(NAME), ['newest', 'newest'])
  for (let n = 0; n < 3; n += 1) await pass()
  t.same(
    (await service.store.listProbes([NAME])).map(({ address }) => address),
    ['10.0.0.2'],
  )
})

t.test('a digest is that of the whole leaf', async (t) => {
  const { dns, servers, pass, issue, service } = await startProbing(t)
  service.start()
  dns.set(NAME, ['fd00::1'])
  const chain = await issue(NAME)
  servers.set('fd00::1:443', chain)
  await pass()
  t.match(await service.store.listProbes([NAME]), [{ sha256: hash('sha256', chain[0]!) }])
})

t.end()

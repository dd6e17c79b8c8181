import { renewalId } from '@gatehouse/acme/server'
import { generateP256, type KeyPair, parseCertificate } from '@gatehouse/pki'
import t, { type Test } from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { AcmeClient } from '../helpers/acme-client.ts'
import { startAcme } from '../helpers/acme-service.ts'
import { NOW } from '../helpers/app.ts'

const DAY = 86_400_000
const NAMES = ['app.example.com']
const LIMITS = {
  limits: {
    perName: { certificates: 2_000 },
    perCaller: { burst: 1_000, issuancesPerMinute: 1_000 },
  },
}

/** How machines of a fleet renew. */
interface Ways {
  readonly accounts: 'one' | 'each'
  readonly addresses: 'one' | 'each'
  readonly replaces: boolean
  readonly keys: 'same' | 'new'
}

/** A machine, with the certificate that it has. */
class Machine {
  readonly client: AcmeClient
  readonly ways: Pick<Ways, 'replaces' | 'keys'>
  readonly #key = generateP256()
  held: Buffer | undefined

  constructor(client: AcmeClient, ways: Pick<Ways, 'replaces' | 'keys'>) {
    this.client = client
    this.ways = ways
  }

  async renew(names: readonly string[] = NAMES): Promise<Buffer> {
    const replaces = this.ways.replaces && this.held ? { replaces: renewalId(this.held) } : {}
    const key = this.ways.keys === 'same' ? this.#key : generateP256()
    const [leaf] = await this.client.obtain(names, replaces, key)
    this.held = leaf as Buffer
    return this.held
  }
}

async function setup(t: Test, config: Readonly<Record<string, unknown>> = LIMITS) {
  const running = await startAcme(t, config)
  const { service, clock, clientOf } = running
  const { store } = service
  return {
    ...running,
    store,
    /** The heads of all lineages, as hexadecimal serial numbers. */
    heads: async () =>
      (await store.list({ after: 0, limit: 1_000 })).map((one) => one.serialNumber),
    /** The names that the alerts are about after so many days. */
    late: async (days: number, isCovered = false) =>
      (await store.listLate(clock.now() + days * DAY, 100, isCovered)).map(({ names }) => names[0]),
    machine: async (
      ip: string,
      ways: Partial<Machine['ways']> = {},
      client?: AcmeClient,
    ): Promise<Machine> =>
      new Machine(client ?? (await clientOf('web', { ip })), {
        replaces: true,
        keys: 'new',
        ...ways,
      }),
  }
}

const serialOf = (der: Buffer | undefined) => parseCertificate(der as Buffer).serialNumber
const finalized = async (client: AcmeClient, members: object, key?: KeyPair) =>
  client.finalize(await client.order(NAMES, members), NAMES, key)

t.test('a fleet has as many lineages as machines', async (t) => {
  const cases: Ways[] = (['one', 'each'] as const).flatMap((accounts) =>
    (['one', 'each'] as const).flatMap((addresses) =>
      [true, false].flatMap((replaces) =>
        (['same', 'new'] as const).map((keys) => ({ accounts, addresses, replaces, keys })),
      ),
    ),
  )
  for (const ways of cases) {
    const { app, clientOf, machine, heads, late, clock } = await setup(t)
    const title = JSON.stringify(ways)
    const shared = await clientOf('web')
    const machines: Machine[] = []
    for (let n = 0; n < 4; n += 1) {
      const ip = ways.addresses === 'one' ? '10.0.0.9' : `10.0.0.${n}`
      const own = new AcmeClient(app, { key: shared.key, ip })
      own.url = shared.url
      machines.push(await machine(ip, ways, ways.accounts === 'one' ? own : undefined))
    }
    for (let round = 0; round < 3; round += 1) {
      for (const one of machines) {
        await one.renew()
        await clock.advance(1_000)
      }
      t.equal((await heads()).length, 4, title)
      await clock.advance(4 * DAY)
    }
    t.same(await late(0), [], `${title}: no alert`)
  }
})

t.test(
  'a machine that stops is seen, and is no alert while another one has its names',
  async (t) => {
    const { machine, heads, late, clock, store } = await setup(t)
    const machines = [await machine('10.0.0.1'), await machine('10.0.0.2')]
    for (const one of machines) await one.renew()
    const [first, last] = machines as [Machine, Machine]
    const stopped = last.held
    await clock.advance(4 * DAY)
    await first.renew()
    await clock.advance(2 * DAY)
    t.same((await heads()).length, 2, 'both are counted')
    t.same(await late(0), [], 'covered')
    t.same(await store.countCovered(clock.now()), { caller: 1, other: 0 })
    const { id } = (await store.listBySerial(serialOf(stopped)))[0]!
    t.equal(await store.findCoverage(id), 'caller')
    await clock.advance(4 * DAY)
    t.same(await late(0), NAMES, 'when the last one stops, the name is late, once')
  },
)

t.test('what an order continues', async (t) => {
  const cases: readonly [
    story: string,
    run: (at: Awaited<ReturnType<typeof setup>>) => Promise<unknown>,
    expected: unknown,
  ][] = [
    [
      'a machine that is built anew in its window takes the lineage of its address',
      async ({ machine, heads, clock }) => {
        await (await machine('10.0.0.1')).renew()
        const other = await (await machine('10.0.0.2')).renew()
        await clock.advance(4 * DAY)
        const anew = await (await machine('10.0.0.2')).renew()
        const left = await heads()
        return [left.length, left.includes(serialOf(other)), left.includes(serialOf(anew))]
      },
      [2, false, true],
    ],
    [
      'one that is built anew at another time begins a lineage',
      async ({ machine, heads, late, clock }) => {
        await (await machine('10.0.0.2')).renew()
        await clock.advance(DAY)
        await (await machine('10.0.0.2')).renew()
        return [(await heads()).length, await late(4)]
      },
      [2, []],
    ],
    [
      'a client that renews each day has one, by its account and address',
      async ({ machine, heads, clock }) => {
        const one = await machine('10.0.0.2', { replaces: false })
        for (let day = 0; day < 5; day += 1) {
          await one.renew()
          await clock.advance(DAY)
        }
        return (await heads()).length
      },
      1,
    ],
    [
      'accounts that end hand their lineages on, with `replaces`',
      async ({ machine, heads, call, clock }) => {
        const machines = [await machine('10.0.0.1'), await machine('10.0.0.2')]
        for (const one of machines) await one.renew()
        await call('POST', '/api/acme/key', { caller: 'web', renew: true })
        await clock.advance(DAY)
        for (const { held, client } of machines) {
          const next = await machine(client.ip as string)
          next.held = held
          await next.renew()
        }
        return (await heads()).length
      },
      2,
    ],
    [
      'and without',
      async ({ machine, heads, call, clock }) => {
        for (const ip of ['10.0.0.1', '10.0.0.2']) await (await machine(ip)).renew()
        await call('POST', '/api/acme/key', { caller: 'web', renew: true })
        await clock.advance(DAY)
        for (const ip of ['10.0.0.2', '10.0.0.1']) await (await machine(ip)).renew()
        return (await heads()).length
      },
      2,
    ],
    [
      'what was deleted comes back when its client renews',
      async ({ machine, heads, call, clock, store }) => {
        const one = await machine('10.0.0.1')
        const before = serialOf(await one.renew())
        await call('DELETE', '/api/certificate/app.example.com')
        const deleted = (await heads()).length
        await clock.advance(1_000)
        await one.renew()
        const { id } = (await store.listBySerial(before))[0]!
        const actions = (await store.listTransitions(id)).map(({ action }) => action)
        return [deleted, (await heads()).length, actions]
      },
      [0, 1, ['replace', 'delete']],
    ],
    [
      'an answer to finalize that was lost: what it had is replaced',
      async ({ machine, heads }) => {
        const one = await machine('10.0.0.1')
        const replaces = renewalId(await one.renew())
        await finalized(one.client, { replaces })
        await one.client.obtain(NAMES, { replaces })
        return (await heads()).length
      },
      1,
    ],
    [
      'two open orders, both finalized and downloaded: two holders',
      async ({ machine, heads, store }) => {
        const one = await machine('10.0.0.1')
        const replaces = renewalId(await one.renew())
        const first = await finalized(one.client, { replaces })
        await one.client.obtain(NAMES, { replaces })
        const lost = (await heads()).length
        await one.client.post(first.body.certificate)
        const { id } = (await store.findIssued(first.body.certificate.split('/').at(-1)))!
        return [lost, (await heads()).length, (await store.listTransitions(id)).length]
      },
      [1, 2, 2],
    ],
    [
      'a cloned machine forks at its first renewal',
      async ({ machine, heads }) => {
        const one = await machine('10.0.0.1')
        const clone = await machine('10.0.0.2', {}, one.client)
        clone.held = await one.renew()
        for (const each of [one, clone, one, clone]) await each.renew()
        return (await heads()).length
      },
      2,
    ],
    [
      'a revoked one is renewed, with another key',
      async ({ machine, heads, call }) => {
        const one = await machine('10.0.0.1', { keys: 'same' })
        const replaces = renewalId(await one.renew())
        const about = { domain: NAMES[0], reason: 'keyCompromise' }
        await call('POST', '/api/certificate/revoke', about)
        const again = await one
          .renew()
          .catch(({ message }) => /revoked as compromised/.test(message))
        await one.client.obtain(NAMES, { replaces })
        return [again, (await heads()).length]
      },
      [true, 1],
    ],
    [
      'a name more: by `replaces` the same lineage, else a new one that covers the old one',
      async ({ machine, heads, late, clock }) => {
        const wider = [...NAMES, 'www.example.com']
        const one = await machine('10.0.0.1')
        await one.renew()
        await one.renew(wider)
        const named = (await heads()).length
        const other = await machine('10.0.0.2', { replaces: false })
        await other.renew()
        await clock.advance(DAY)
        await other.renew(wider)
        return [named, (await heads()).length, await late(5)]
      },
      [1, 3, ['app.example.com']],
    ],
    [
      'an unknown certificate, or one of another caller, is recorded and counts as new',
      async ({ machine, heads, clientOf }) => {
        const one = await machine('10.0.0.1')
        const operator = await clientOf('operator')
        const replaces = renewalId(await one.renew()) as string
        await operator.obtain(NAMES, { replaces })
        const unknown = { replaces: `${replaces.split('.')[0]}.BBBB` }
        const { status, body } = await one.client.order(NAMES, unknown)
        return [(await heads()).length, status, body.replaces === unknown.replaces]
      },
      [2, 201, true],
    ],
    [
      'an end that the client asked for is in the same lineage, by the key',
      async ({ machine, heads, clock }) => {
        const { client } = await machine('10.0.0.1')
        const key = generateP256()
        await client.obtain(NAMES, {}, key)
        const notAfter = new Date(clock.now() + 2 * DAY).toISOString()
        await client.obtain(NAMES, { notAfter }, key)
        return (await heads()).length
      },
      1,
    ],
    [
      'what programs get by the API stays in service',
      async ({ machine, heads, call, clock }) => {
        await call('POST', '/api/certificate', { domain: NAMES[0] })
        await clock.advance(4 * DAY)
        await (await machine('10.0.0.1')).renew()
        return (await heads()).length
      },
      2,
    ],
  ]
  for (const [story, run, expected] of cases)
    await t.test(story, async (t) => {
      t.strictSame(await run(await setup(t)), expected)
    })
})

t.test('a name that moves to another caller leaves a warning and not silence', async (t) => {
  const { machine, clientOf, late, clock, store } = await setup(t)
  await (await machine('10.0.0.1')).renew()
  await clock.advance(4 * DAY)
  await (await clientOf('operator', { ip: '10.0.0.2' })).obtain(NAMES)
  t.same(await late(2), [], 'the name has a certificate')
  t.same(await late(2, true), NAMES, 'of another caller')
  t.same(await store.countCovered(clock.now() + 2 * DAY), { caller: 0, other: 1 })
})

t.test('nobody is told to restart a machine that was built anew', async (t) => {
  const { machine, heads, call, clock } = await setup(t)
  await (await machine('10.0.0.1')).renew()
  await clock.advance(2 * DAY)
  await (await machine('10.0.0.2')).renew()
  await clock.advance(2 * DAY)
  t.equal((await heads()).length, 2)
  const { body } = await call('POST', '/api/certificates/renew', { caller: 'web', dryRun: true })
  t.equal(body.asked, 2)
  t.strictSame(
    body.neverAsking.map(({ address }: { address: string }) => address),
    ['10.0.0.2'],
  )
})

t.test('an operator asks ACME clients to renew, and signs nothing that nobody has', async (t) => {
  const { machine, heads, call, clock, client, store, app } = await setup(t)
  const one = await machine('10.0.0.1')
  const leaf = await one.renew()
  await call('POST', '/api/certificate', { domain: NAMES[0], keyType: 'p384' })
  await clock.advance(2 * DAY)
  const window = async () => {
    const { body } = await client.get(client.at(`/acme/renewal-info/${renewalId(leaf)}`))
    return Date.parse(body.suggestedWindow.start)
  }
  t.ok((await window()) > clock.now(), 'not due')
  const ask = (body: object) => call('POST', '/api/certificates/renew', body)
  const all = { caller: 'web', spread: '4h' }
  t.match(await ask({ ...all, dryRun: true }), {
    status: 200,
    body: { renewing: 0, asked: 1, neverAsking: [{ domain: NAMES[0], address: '10.0.0.1' }] },
  })
  t.ok((await window()) > clock.now(), 'a dry run changes nothing')
  t.match(await ask(all), { status: 200, body: { asked: 1 } })
  const start = await window()
  t.ok(start >= clock.now() && start <= clock.now() + DAY / 6, 'within the time')
  t.equal((await heads()).length, 2, 'nothing is signed')
  const [known] = await store.listBySerial(serialOf(leaf))
  t.match(await store.listTransitions(known!.id), [
    { action: 'request-renewal', actor: 'psk:operator' },
  ])
  t.match(
    await ask({ domain: NAMES[0] }),
    { body: { renewing: 1, asked: 1 } },
    'by name, of both kinds',
  )
  await app.acme.flush()
  t.strictSame(
    (await ask({ domain: NAMES[0], dryRun: true })).body.neverAsking,
    [],
    'it has asked since',
  )
  await clock.advance(DAY / 6)
  await one.renew()
  t.equal((await heads()).length, 2, 'the client has renewed it')
  t.notOk((await heads()).includes(serialOf(leaf)))

  const refused: [body: object, status: number, by?: string][] = [
    [{}, 400],
    [{ domain: 'none.example.com' }, 404],
    [{ caller: 'psk:nobody' }, 404],
    [{ domain: NAMES[0], spread: '0h' }, 400],
    [{ caller: 'web' }, 403, 'a-key-of-the-web-servers'],
  ]
  for (const [body, status, key] of refused) {
    const headers = key ? { authorization: `APIKey ${key}` } : {}
    const answer = await call('POST', '/api/certificates/renew', body, headers)
    t.equal(answer.status, status, JSON.stringify(body))
  }
})

t.test(
  'what an operator has renewed is in the audit trail, and what has ended is renewed too',
  async (t) => {
    const { machine, call, clock, store } = await setup(t)
    await (await machine('10.0.0.1')).renew()
    const ask = (body: object) => call('POST', '/api/certificates/renew', body)
    const requested = async () =>
      (await store.listAudit({ limit: 100 })).filter(({ action }) => action === 'request-renewal')
    for (const domain of ['a.example.com', 'b.example.com'])
      await call('POST', '/api/certificate', { domain })
    await ask({ caller: 'operator', dryRun: true })
    t.strictSame(await requested(), [])
    t.match(await ask({ caller: 'operator' }), { body: { renewing: 2, asked: 0 } })
    t.match(await requested(), [
      { actor: 'psk:operator', names: ['a.example.com', 'b.example.com'] },
    ])
    await clock.advance(10 * DAY)
    t.match(await ask({ caller: 'operator' }), { body: { renewing: 2, asked: 0 } })
    t.match(await ask({ caller: 'web' }), { body: { renewing: 0, asked: 1 } })
    const one = await call('POST', '/api/certificate/renew', { domain: NAMES[0] })
    t.match(one, { status: 202, body: { asked: 1, neverAsking: [{ address: '10.0.0.1' }] } })
  },
)

t.test('a client whose account has ended is not said to be asked', async (t) => {
  const { machine, call } = await setup(t)
  const [kept, ended] = [await machine('10.0.0.1'), await machine('10.0.0.2')]
  await kept.renew()
  await ended.renew(['ended.example.com'])
  await call('DELETE', `/api/acme/accounts/${ended.client.url.split('/').at(-1)}`)
  const domain = 'ended.example.com'
  const client = { domain, address: '10.0.0.2', isEnded: true }
  t.match(await call('POST', '/api/certificates/renew', { caller: 'web' }), {
    status: 200,
    body: { asked: 1, neverAsking: [client] },
  })
  t.match(await call('POST', '/api/certificates/renew', { domain }), {
    status: 200,
    body: { asked: 0, neverAsking: [client] },
  })
  t.match(await call('POST', '/api/certificate/renew', { domain }), {
    status: 202,
    body: { asked: 0, neverAsking: [client] },
  })
})

t.test('what is in service again counts, within the limits', async (t) => {
  expectWarnings(t, 'nearly `limits.perName.certificates` certificates')
  const limits = { perName: { certificates: 3 }, perCaller: { burst: 100 } }
  const { client, heads, store } = await setup(t, { limits })
  const [first] = await client.obtain(NAMES)
  const replaces = renewalId(first as Buffer)
  const links: string[] = []
  for (let n = 0; n < 8; n += 1)
    links.push((await finalized(client, { replaces })).body.certificate)
  t.equal((await heads()).length, 1, 'nobody has fetched the others')
  for (const link of links) t.equal((await client.post(link)).status, 200)
  t.equal((await heads()).length, 3, 'no more than may be in use')
  t.equal((await store.countNames('psk:web', NOW)).count, 3)
})

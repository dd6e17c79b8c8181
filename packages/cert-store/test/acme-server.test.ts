import t from 'tap'
import type { ServedOrder } from '../src/port/store.ts'
import { newSchema, onBothEngines, openReplica } from './helpers/engines.ts'
import { NOW, newAudit, newCertificate, newOrder } from './helpers/store.ts'

const DAY = 86_400_000

const order: ServedOrder = {
  id: 'order-1',
  account: 'account-1',
  wanted: 'a',
  names: ['app.example.com'],
  profile: 'server',
  profileName: null,
  replaces: null,
  notAfter: null,
  status: 'ready',
  proofs: null,
  csr: null,
  fingerprint: null,
  error: null,
  at: NOW,
  expiresAt: NOW + 1_000,
}

onBothEngines('a certificate ends the order of its ACME client, once', async (t, { store }) => {
  await store.acme.addOrder(order)
  t.equal(await store.acme.claimOrder('order-1', Buffer.from('csr')), true)
  t.equal(await store.acme.claimOrder('order-1', Buffer.from('other')), false)
  const ours = { way: 'acme', account: 'account-1', servedOrder: 'order-1' } as const
  await store.addCertificate(newCertificate(ours), newAudit())
  const ended = await store.acme.findOrder('order-1')
  t.match(ended, { status: 'valid', fingerprint: /^[0-9a-f]{64}$/ })
  await t.rejects(store.addCertificate(newCertificate(ours), newAudit()), {
    code: 'CERT_ORDER_ENDED',
  })
  t.equal((await store.listHistory('app.example.com')).length, 1)
  t.equal(await store.acme.endOrder('order-1', { error: {} }), false)
  t.strictSame(await store.acme.findOrder('order-1'), ended)
})

onBothEngines('an order that has expired makes room and is kept', async (t, { store }) => {
  await store.acme.addOrder(order)
  const again = { ...order, id: 'order-2', at: NOW + 999 }
  t.equal((await store.acme.addOrder(again))?.id, 'order-1')
  t.equal((await store.acme.addOrder({ ...again, at: NOW + 1_000 }))?.id, 'order-2')
  t.match(await store.acme.findOrder('order-1'), { status: 'invalid' })
})

const account = {
  id: 'account-1',
  caller: 'web',
  boundBy: null,
  thumbprint: 'first',
  jwk: '{}',
  status: 'valid',
  contact: [],
  client: null,
  remoteAddress: null,
  createdAt: NOW,
  usedAt: NOW,
} as const

onBothEngines('an account that nobody needs makes room for another one', async (t, opened) => {
  const { store } = opened
  const { acme } = store
  for (const caller of ['web', null]) {
    const name = `${caller}`
    const of = caller === null ? 'NULL' : `'${caller}'`
    await opened.sql(`
      WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
      INSERT INTO @served_accounts (id, caller, thumbprint, jwk, status, contact, created_at, used_at, kept_at, kept_ran)
      SELECT '${name}-' || i, ${of}, '${name}-' || i, '{}', 'valid', '[]', 0, i, i, 0 FROM n`)
    const add = (id: string) =>
      acme.addAccount(
        { ...account, caller, id, thumbprint: id, remoteAddress: '192.0.2.1' },
        newAudit(),
      )
    // The longest unused one has a certificate, and so has one that has ended.
    for (const n of [1, 3]) {
      const of = {
        account: `${name}-${n}`,
        requestKey: `${name} ${n}`,
        serialNumber: `${name}${n}`,
      }
      await store.addCertificate(newCertificate({ ...of, way: 'acme' }), newAudit())
    }
    await acme.endAccount(`${name}-3`, 'deactivated', newAudit())
    const added = ['a', 'b', 'c'].map((letter) => `${letter}-${name}`)
    for (const id of added) t.match(await add(id), { id })
    const kept = ['1', '2', '3', '4', '5'].map((n) => acme.findAccount(`${name}-${n}`))
    const isKept = (await Promise.all(kept)).map((one) => one !== undefined)
    t.strictSame(isKept, [true, false, false, false, true])
    // A stranger ends none of others that were used today, and no more of them than it has.
    await opened.sql(`UPDATE @served_accounts SET used_at = ${account.createdAt}`)
    const addAt = (id: string, remoteAddress: string) =>
      acme.addAccount({ ...account, caller, id, thumbprint: id, remoteAddress }, newAudit())
    t.equal(await addAt(`d-${name}`, '192.0.2.9'), undefined)
    t.match(await addAt(`e-${name}`, '192.0.2.1'), { id: `e-${name}` })
    const own = await Promise.all(added.map((id) => acme.findAccount(id)))
    t.equal(own.filter(Boolean).length, 2)
  }
})

t.test('of requests that give a key to accounts at the same time, one does', async (t) => {
  const schema = newSchema()
  const one = await openReplica(t, { schema })
  const other = await openReplica(t, { schema, name: 'other' })
  for (let n = 0; n < 30; n += 1) {
    for (const id of [`a-${n}`, `b-${n}`])
      await one.acme.addAccount({ ...account, id, thumbprint: id }, newAudit())
    const key = { thumbprint: `${n}`, jwk: '{}' }
    const taken = await Promise.all([
      one.acme.changeKey(`a-${n}`, `a-${n}`, key, newAudit()),
      other.acme.changeKey(`b-${n}`, `b-${n}`, key, newAudit()),
    ])
    const holder = await one.acme.findAccountByKey(key.thumbprint)
    t.strictSame(taken.toSorted(), [holder?.id, undefined])
  }
})

t.test(
  'of requests that register a key at the same time, both are told of one account',
  async (t) => {
    const schema = newSchema()
    const one = await openReplica(t, { schema })
    const other = await openReplica(t, { schema, name: 'other' })
    for (let n = 0; n < 100; n += 1) {
      const thumbprint = `${n}`
      // Now and then, another caller had it.
      if (n % 2 === 1) {
        await one.acme.addAccount(
          { ...account, id: `old-${n}`, caller: 'edge', thumbprint },
          newAudit(),
        )
        await one.acme.endAccount(`old-${n}`, 'revoked', newAudit())
      }
      const told = await Promise.all([
        one.acme.addAccount({ ...account, id: `a-${n}`, thumbprint }, newAudit()),
        other.acme.addAccount({ ...account, id: `b-${n}`, thumbprint }, newAudit()),
      ])
      const holder = await one.acme.findAccountByKey(thumbprint)
      t.strictSame(
        told.map((one) => one?.id),
        [holder?.id, holder?.id],
      )
    }
  },
)

onBothEngines('a key that another caller had begins an account anew', async (t, { store }) => {
  const { acme } = store
  await acme.addAccount(account, newAudit())
  await acme.endAccount('account-1', 'deactivated', newAudit())
  const again = await acme.addAccount({ ...account, id: 'account-2' }, newAudit())
  t.equal(again?.id, 'account-1', 'the same caller has its orders and certificates again')
  await acme.endAccount('account-1', 'deactivated', newAudit())
  const other = await acme.addAccount({ ...account, id: 'account-3', caller: 'edge' }, newAudit())
  t.match(other, { id: 'account-3', caller: 'edge' })
  t.equal(await acme.findAccount('account-1'), undefined)
})

onBothEngines(
  'an order that has ended stays as it is, and one in progress may stay',
  async (t, { store }) => {
    const { acme } = store
    await acme.addOrder(order)
    await acme.changeOrder('order-1', () => undefined)
    t.match(await acme.findOrder('order-1'), { status: 'ready' }, 'not changed')
    t.equal(await acme.endOrder('order-1', { error: { detail: 'first' } }), true)
    t.equal(await acme.endOrder('order-1', { error: { detail: 'second' } }), false)
    t.match(await acme.findOrder('order-1'), { status: 'invalid', error: { detail: 'first' } })
  },
)

onBothEngines('a key is changed from the one that it is', async (t, { store }) => {
  await store.acme.addAccount(account, newAudit())
  const { changeKey } = store.acme
  t.equal(
    await changeKey('account-1', 'first', { thumbprint: 'second', jwk: '{}' }, newAudit()),
    undefined,
  )
  t.equal(
    await changeKey('account-1', 'first', { thumbprint: 'third', jwk: '{}' }, newAudit()),
    'account-1',
  )
  await store.acme.endAccount('account-1', 'deactivated', newAudit())
  const ended = changeKey('account-1', 'second', { thumbprint: 'fourth', jwk: '{}' }, newAudit())
  t.equal(await ended, 'account-1', 'nor of one that has ended')
  t.equal(await store.acme.findAccountByKey('fourth'), undefined)
})

t.test('an order is placed while another replica finalizes the one before', async (t) => {
  const schema = newSchema()
  const one = await openReplica(t, { schema })
  const other = await openReplica(t, { schema, name: 'other' })
  const orderFor = (id: string, wanted: string) => ({ ...order, id, wanted })
  for (let n = 0; n < 100; n += 1) {
    await one.acme.addOrder(orderFor(`first-${n}`, `${n}`))
    const [placed] = await Promise.all([
      other.acme.addOrder(orderFor(`second-${n}`, `${n}`)),
      one.acme.claimOrder(`first-${n}`, Buffer.from('csr')),
    ])
    if (!placed) t.fail(`none of ${n}`)
  }
})

onBothEngines('what a client renews is due, and not for the service', async (t, { store }) => {
  const due = { renewAt: NOW - 1, sealedKey: null }
  await store.addCertificate(
    newCertificate({ ...due, names: ['a.example'], account: 'a-1' }),
    newAudit(),
  )
  await store.addCertificate(newCertificate({ ...due, names: ['b.example'] }), newAudit())
  const claimed = await store.claimDue(NOW, 10)
  t.strictSame(
    claimed.map(({ names }) => names),
    [['b.example']],
  )
  t.equal((await store.tally(NOW, [NOW])).counts.due, 2)
})

onBothEngines('an account has a bounded number of orders', async (t, { store, sql }) => {
  const at = (n: number) => ({ ...order, id: `order-${n}`, wanted: `${n}` })
  const addMany = (account: string, status: string, count: number) =>
    sql(`
      INSERT INTO @served_orders (id, account, wanted, names, profile, status, at, expires_at, ran)
      WITH RECURSIVE n (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < ${count - 1})
      SELECT '${status}-' || n, '${account}', n, '[]', 'server', '${status}', ${NOW}, ${NOW + 1_000}, 0 FROM n`)
  await addMany('account-1', 'ready', 999)
  t.ok(await store.acme.addOrder(at(999)))
  t.equal(await store.acme.addOrder(at(1_000)), undefined, 'open ones')
  t.equal((await store.acme.addOrder(at(7)))?.id, 'ready-7', 'one that is open is given again')
  await addMany('account-3', 'invalid', 19_999)
  const ofThird = (n: number) => ({ ...at(n), account: 'account-3' })
  t.ok(await store.acme.addOrder(ofThird(1)))
  t.equal(await store.acme.addOrder(ofThird(2)), undefined, 'of all, open or not')
  t.ok(await store.acme.addOrder({ ...at(1_000), account: 'account-2' }))
})

onBothEngines('an account lives as long as what it has got, and 90 days', async (t, opened) => {
  const { acme, ...store } = opened.store
  const add = (id: string) => acme.addAccount({ ...account, id, thumbprint: id }, newAudit())
  for (const id of ['silent', 'holder', 'renewed', 'ended']) await add(id)
  const lives = 180 * DAY
  for (const [of, days] of [
    ['holder', 180],
    ['renewed', 180],
    ['renewed', 7],
    ['ended', 180],
  ] as const)
    await opened.store.addCertificate(
      newCertificate({
        ...{ way: 'acme', account: of, requestKey: of, serialNumber: `${of}${days}` },
        ...{ notBefore: NOW, notAfter: NOW + days * DAY },
      }),
      newAudit(),
    )
  // One that ends and is bound again keeps what it has got.
  await acme.endAccount('ended', 'deactivated', newAudit())
  await add('ended')
  await acme.touchAccounts(
    new Map([['holder', { usedAt: NOW + 1, client: null, remoteAddress: null }]]),
  )
  const left = async () => {
    const all = await acme.listAccounts('web', 10)
    return all.map(({ id }) => id).toSorted()
  }
  const kept = { audit: DAY, certificates: DAY, orders: DAY, challenges: DAY }
  const rows: readonly (readonly [string, number, number, readonly string[]])[] = [
    ['story 19: silent for 120 days', 120 * DAY, 120 * DAY, ['ended', 'holder', 'renewed']],
    [
      'while the last one counts',
      lives + 89 * DAY,
      lives + 89 * DAY,
      ['ended', 'holder', 'renewed'],
    ],
    ['by the clock alone', lives + 91 * DAY, lives + 89 * DAY, ['ended', 'holder', 'renewed']],
    ['by the run time alone', lives + 89 * DAY, lives + 91 * DAY, ['ended', 'holder', 'renewed']],
    ['90 days later', lives + 91 * DAY, lives + 91 * DAY, []],
  ]
  for (const [what, at, ran, expected] of rows) {
    await opened.sql(`UPDATE @served_accounts SET kept_ran = kept_ran - ${ran}`)
    await store.prune(NOW + at, kept)
    await opened.sql(`UPDATE @served_accounts SET kept_ran = kept_ran + ${ran}`)
    t.strictSame(await left(), expected, what)
  }
})

onBothEngines(
  '10,000 accounts are adopted, renamed and ended in a write each',
  async (t, opened) => {
    const { acme, listAudit } = opened.store
    await opened.sql(`
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
    INSERT INTO @served_accounts
      (id, caller, bound_by, thumbprint, jwk, status, contact, created_at, used_at, kept_at, kept_ran)
    SELECT 'n' || i, 'web', 'old', 'n' || i, '{}', 'valid', '[]', 0, i, i, 0 FROM n`)
    const other = { caller: 'other', boundBy: 'old', id: 'other', thumbprint: 'other' }
    await acme.addAccount({ ...account, ...other }, newAudit())
    const bindings = async () =>
      (await acme.listBindings()).toSorted((a, b) => a.accounts - b.accounts).map((b) => ({ ...b }))
    const [of, web] = await bindings()
    t.strictSame(
      [of, web],
      [
        { caller: 'other', boundBy: 'old', accounts: 1 },
        { caller: 'web', boundBy: 'old', accounts: 10_000 },
      ],
    )
    const ends = async () =>
      (await listAudit({ limit: 100 })).flatMap(({ action, count }) =>
        action === 'acme-account-end' ? [count] : [],
      )

    const adopt = newAudit({ action: 'acme-account-adopt', names: [] })
    const toNew = { caller: 'web', boundBy: 'new' }
    t.equal(await acme.adoptAccounts({ ...toNew, ids: ['n1', 'n2', 'other'] }, adopt), 2)
    t.equal(await acme.adoptAccounts({ ...toNew, ids: ['n1'] }, adopt), 0, 'as it is')
    t.equal(await acme.adoptAccounts(toNew, adopt), 9_998)
    t.equal(await acme.adoptAccounts(toNew, adopt), 0)
    const adopted = (await listAudit({ limit: 3 })).map(({ count, account }) => ({
      count,
      account,
    }))
    t.match(adopted, [{ count: 9_998 }, { account: /^n[12]$/ }, { account: /^n[12]$/ }])
    t.match(await bindings(), [of, { ...toNew, accounts: 10_000 }])

    for (const _ of ['once', 'again']) {
      await acme.renameCaller('web', 'edge', (caller) => `psk:${caller}`)
      t.match(await bindings(), [of, { caller: 'edge', boundBy: 'new', accounts: 10_000 }])
    }
    const kept = { names: ['edge', 'web'], digests: ['new'], kept: ['n7'] }
    t.equal(await acme.renewExternalAccount(kept, newAudit()), 2)
    t.strictSame(await ends(), [9_999], 'one row')
    t.equal((await acme.findAccount('n7'))?.status, 'valid')
    t.equal((await acme.findAccount('other'))?.status, 'valid', 'of another caller')
  },
)

onBothEngines(
  'what is being issued for a caller goes along with its name',
  async (t, { store }) => {
    for (const [id, status] of Object.entries({ p: 'pending', f: 'failed' } as const))
      await store.saveOrder(newOrder({ id, requestKey: id, status, askedBy: 'psk:web' }))
    await store.saveOrder(newOrder({ id: 'other', requestKey: 'other', askedBy: 'psk:webs' }))
    await store.acme.renameCaller('web', 'edge', (caller) => `psk:${caller}`)
    for (const [id, askedBy] of Object.entries({ p: 'psk:edge', f: 'psk:edge', other: 'psk:webs' }))
      t.match(await store.findOrder(id), { askedBy }, id)
  },
)

t.test('of renewals of a key at the same time, each has its own number', async (t) => {
  const schema = newSchema()
  const one = await openReplica(t, { schema })
  const other = await openReplica(t, { schema, name: 'other' })
  const numbers: number[] = []
  for (let n = 0; n < 20; n += 1) {
    const renewed = [one, other].map(({ acme }) =>
      acme.renewExternalAccount({ names: ['web'], digests: [], kept: [] }, newAudit()),
    )
    numbers.push(...(await Promise.all(renewed)))
  }
  t.strictSame(
    numbers.toSorted((a, b) => a - b),
    Array.from({ length: 40 }, (_, n) => n + 2),
  )
})

onBothEngines('the number of a key never goes back, by whichever name', async (t, { store }) => {
  const { acme } = store
  const renew = (...names: string[]) =>
    acme.renewExternalAccount({ names, digests: [], kept: [] }, newAudit())
  const rename = (from: string, to: string) => acme.renameCaller(from, to, (name) => name)
  t.equal(await acme.counterOf(['web']), 1)
  t.strictSame([await renew('web'), await renew('web')], [2, 3])
  t.equal(await acme.counterOf(['edge', 'web']), 3)
  t.equal(await renew('edge', 'web'), 4)
  await rename('web', 'edge')
  t.equal(await acme.counterOf(['edge']), 4, 'the larger one')
  await rename('edge', 'far')
  t.equal(await acme.counterOf(['far']), 4)
  t.equal(await acme.counterOf(['web']), 3, 'a replica that is not told yet has its own')
})

onBothEngines(
  'the unrevoked certificates of an account are listed by their end',
  async (t, opened) => {
    const { store } = opened
    const add = (n: number, more: object = {}) =>
      store.addCertificate(
        newCertificate({ account: 'a', way: 'acme', serialNumber: `${n}`, ...more }),
        newAudit(),
      )
    for (let n = 1; n <= 250; n += 1) await add(n, { notAfter: NOW + 5_000 + (n % 7) })
    await add(251, { account: 'b', requestKey: 'b' })
    const listed: string[] = []
    for (let after: { notAfter: number; id: number } | undefined; ; ) {
      const page = await store.listIssuedTo('a', { now: NOW, after })
      t.ok(page.length <= 100)
      if (page.length === 0) break
      listed.push(...page.map(({ serialNumber }) => serialNumber))
      after = page.at(-1)
    }
    t.equal(new Set(listed).size, 250, 'replaced or not')
    t.equal(listed.length, 250)
  },
)

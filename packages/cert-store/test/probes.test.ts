import t from 'tap'
import { isNotServed, type ProbeState } from '../src/port/store.ts'
import { onBothEngines } from './helpers/engines.ts'
import { NOW, newAudit, newCertificate, newProbe } from './helpers/store.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR

onBothEngines('what was seen at a place last, and since when', async (t, { store }) => {
  await store.saveProbe(newProbe())
  await store.saveProbe(newProbe({ state: 'older', since: NOW - HOUR, seenAt: NOW + 1 }))
  await store.saveProbe(newProbe({ address: '10.0.0.2', keyType: 'rsa', issuer: null }))
  await store.saveProbe(newProbe({ name: 'other.example.com' }))
  t.match(
    await store.listProbes(['app.example.com', 'none.example.com']),
    [
      { ...newProbe({ state: 'older', since: NOW - HOUR, seenAt: NOW + 1 }), id: 1 },
      { address: '10.0.0.2', keyType: 'rsa', issuer: null },
    ],
    'each place once',
  )
  t.same(await store.countProbes(), { newest: 2, older: 1 })
})

onBothEngines(
  'what is not served is told alike by the store and of a row',
  async (t, { store }) => {
    const states: readonly ProbeState[] = [
      ...(['newest', 'older', 'other', 'revoked', 'ended', 'incomplete'] as const),
      ...(['wrongName', 'unreachable', 'outside'] as const),
    ]
    const rows = states.flatMap((state) =>
      [0, HOUR - 1, HOUR, DAY].map((age) => {
        return newProbe({ name: `${state}.${age}.test`, state, since: NOW - age })
      }),
    )
    for (const row of rows) await store.saveProbe(row)
    const told = rows.filter((row) => isNotServed(row, NOW)).map(({ name }) => name)
    t.same(told.toSorted(), [
      ...['ended.0.test', 'ended.3599999.test', 'ended.3600000.test', 'ended.86400000.test'],
      ...['older.3600000.test', 'older.86400000.test'],
      ...['other.0.test', 'other.3599999.test', 'other.3600000.test', 'other.86400000.test'],
      ...[
        'revoked.0.test',
        'revoked.3599999.test',
        'revoked.3600000.test',
        'revoked.86400000.test',
      ],
    ])
    const listed = await store.listNotServed(NOW, 100)
    t.same(listed.map(({ name }) => name).toSorted(), told.toSorted())
    t.same(
      (await store.listNotServed(NOW, 4)).map(({ since }) => NOW - since),
      [DAY, DAY, DAY, DAY],
      'the longest first',
    )
  },
)

onBothEngines('the inventory lists certificates that are not served', async (t, { store }) => {
  for (const names of [['a.test', 'b.test'], ['c.test'], ['d.test']])
    await store.addCertificate(newCertificate({ names }), newAudit())
  const ofClient = newCertificate({ names: ['c.test'], issuer: 'ca-client', requestKey: 'client' })
  await store.addCertificate(ofClient, newAudit())
  await store.saveProbe(newProbe({ name: 'b.test', state: 'other' }))
  await store.saveProbe(newProbe({ name: 'c.test', state: 'ended' }))
  await store.saveProbe(newProbe({ name: 'd.test', state: 'older' }))
  const listing = { order: 'name', state: 'unserved', now: NOW } as const
  const listed = await store.listCertificates(listing, { limit: 9 })
  t.same(
    listed.map(({ names, issuer }) => [names[0], issuer]),
    [
      ['a.test', 'ca'],
      ['c.test', 'ca'],
    ],
  )
})

onBothEngines('certificates are claimed for a look, each until its time', async (t, { store }) => {
  const add = (names: string[], changes = {}) =>
    store.addCertificate(newCertificate({ names, ...changes }), newAudit())
  await add(['ours.test'])
  await add(['client.test'], { issuer: 'ca-client' })
  await add(['replaced.test'])
  await add(['replaced.test'])
  const revoked = await add(['revoked.test'])
  await store.revoke([revoked.id], NOW, 'superseded', newAudit({ action: 'revoke' }))
  const gone = await add(['gone.test'])
  await store.remove([gone.id], newAudit({ action: 'delete' }))
  const claim = async (now: number, until: number, limit = 9) =>
    (await store.claimUnprobed(now, limit, until)).map(({ names }) => names[0])
  t.same(await claim(NOW - 1, NOW), [], 'none before it is there')
  t.same(await claim(NOW, NOW + HOUR, 1), ['ours.test'], 'the one that waits longest')
  t.same(await claim(NOW, NOW + DAY), ['replaced.test', 'revoked.test'])
  t.same(await claim(NOW + HOUR, NOW + 9 * DAY), ['ours.test'])
  await store.bringForward(NOW + 2 * DAY)
  t.same(await claim(NOW + 2 * DAY, NOW + 3 * DAY), ['replaced.test', 'revoked.test', 'ours.test'])
})

onBothEngines(
  'what is not seen any more goes, and what a clock wrote too',
  async (t, { store }) => {
    const rows = {
      'seen.test': newProbe({ seenAt: NOW - HOUR }),
      'left.test': newProbe({ seenAt: NOW - HOUR - 1 }),
      'silent.test': newProbe({ seenAt: NOW - 7 * DAY, state: 'unreachable' }),
      'gone.test': newProbe({ seenAt: NOW - 7 * DAY - 1, state: 'unreachable' }),
      'told.test': newProbe({ seenAt: NOW - 7 * DAY, reporter: 'psk:web' }),
      'old.test': newProbe({ seenAt: NOW - 7 * DAY - 1, reporter: 'psk:web' }),
      'ahead.test': newProbe({ seenAt: NOW + DAY + 1 }),
    }
    for (const [name, row] of Object.entries(rows)) await store.saveProbe({ ...row, name })
    await store.pruneProbes(NOW, NOW - HOUR)
    const left = await store.listProbes(Object.keys(rows))
    t.same(
      left.map(({ name }) => name),
      ['seen.test', 'silent.test', 'told.test'],
    )
  },
)

onBothEngines('at most 10,000 places are known, and none that is goes', async (t, opened) => {
  const { store, sql } = opened
  await store.saveProbe(newProbe({ reporter: 'psk:web' }))
  await sql(`
    INSERT INTO @probes
      (name, host, address, port, protocol, key_type, reporter, state, since, seen_at, failures)
    WITH RECURSIVE n (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM n WHERE n < 10000)
    SELECT n || '.test', '', '', 443, 'tls', '', '', 'newest', 0, 0, 0 FROM n`)
  const names = ['app.example.com', '2.test', '10000.test', 'new.test', 'newer.test']
  const known = async () => (await store.listProbes(names)).map(({ name }) => name)
  t.same(await known(), ['10000.test', '2.test', 'app.example.com'])
  await store.saveProbe(newProbe({ name: 'new.test' }))
  t.same(await known(), ['10000.test', '2.test', 'new.test'], 'what a caller says makes room')
  await store.saveProbe(newProbe({ name: 'newer.test' }))
  await store.saveProbe(newProbe({ reporter: 'psk:web' }))
  t.same(await known(), ['10000.test', '2.test', 'new.test'], 'there is no room')
  t.same(await store.countProbes(), { newest: 10_000 })
})

onBothEngines('callers say at most 20 things of a name', async (t, { store }) => {
  await store.saveProbe(newProbe())
  for (let port = 1; port <= 25; port += 1)
    await store.saveProbe(newProbe({ port, reporter: 'psk:web', seenAt: NOW + port }))
  const ports = (await store.listProbes(['app.example.com'])).map(({ port }) => port)
  t.same(ports, [443, ...Array.from({ length: 20 }, (_, i) => i + 6)], 'the latest')
})

t.end()

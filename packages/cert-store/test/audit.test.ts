import { AUDIT_LOOKED_AT } from '../src/port/store.ts'
import { onBothEngines } from './helpers/engines.ts'
import { NOW, newAudit } from './helpers/store.ts'

onBothEngines(
  'audit rows come newest first, and grow where they share a key',
  async (t, { store }) => {
    const full = newAudit({
      serialNumber: 'ab',
      remoteAddress: '192.0.2.1',
      requestId: 'r1',
      detail: 'CERT_X',
    })
    await store.addAudit([newAudit(), full])
    await store.addAudit([newAudit({ key: 'k', requestId: 'first' })])
    await store.addAudit([newAudit({ key: 'k', requestId: 'later', count: 5 })])
    const rows = await store.listAudit({ limit: 9 })
    t.same(rows, [
      { ...newAudit(), id: 3, requestId: 'first', count: 6 },
      { ...full, id: 2, count: 1 },
      { ...newAudit(), id: 1, count: 1 },
    ])
    t.same(await store.listAudit({ before: 3, limit: 1 }), [rows[1]])
  },
)

onBothEngines('rows of one key that are written at once are one row', async (t, { store }) => {
  const entry = (n: number, key?: string) => newAudit({ requestId: String(n), ...(key && { key }) })
  await Promise.all([
    store.addAudit([entry(1), entry(2, 'b'), entry(3, 'a')]),
    store.addAudit([entry(4, 'b'), entry(5)]),
    store.addAudit([]),
  ])
  const rows = await store.listAudit({ limit: 9 })
  // On PostgreSQL, either of the two may be first.
  const told = rows.map(({ requestId, count }) => `${requestId} ${count}`).sort()
  t.match(told.join(), /^1 1,(2 2,3 1|3 1,4 2),5 1$/)
})

onBothEngines('what happened to a name lately', async (t, { store, sql }) => {
  const names = ['a.example', '*.a.example']
  await store.addAudit([
    newAudit({ names, at: NOW }),
    newAudit({ names: ['b.example'], at: NOW + 1 }),
    newAudit({ names: ['xa.example', 'a.example.com'], at: NOW + 2 }),
    newAudit({ names: ['b.example', 'a.example'], at: NOW + 3, action: 'revoke', detail: 'why' }),
  ])
  const of = async (name: string, limit = 10) =>
    (await store.listAuditOf(name, limit)).map(({ at }) => at - NOW)
  t.strictSame(await of('a.example'), [3, 0])
  t.strictSame(await of('a.example', 1), [3])
  t.strictSame(await of('*.a.example'), [0])
  t.strictSame(await of('example'), [], 'no part of a name')
  t.match(await store.listAuditOf('a.example', 1), [
    { action: 'revoke', detail: 'why', names: ['b.example', 'a.example'] },
  ])
  const others = (count: number) =>
    sql(`
      INSERT INTO @audit (at, action, actor, names, count, ran)
      WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ${count})
      SELECT ${NOW}, 'issue', 'psk:test', '["c.example"]', 1, 0 FROM n`)
  await others(AUDIT_LOOKED_AT - 1)
  t.strictSame(await of('a.example'), [3])
  await others(1)
  t.strictSame(await of('a.example'), [], 'of all, not too many are looked at')
})

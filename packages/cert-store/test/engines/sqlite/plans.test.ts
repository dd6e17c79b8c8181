import { DatabaseSync } from 'node:sqlite'
import t from 'tap'
import { storeFile } from '../../../src/engines/sqlite.ts'
import type { ListOrder } from '../../../src/port/store.ts'
import { NOW, newAudit, newCertificate, testStore } from '../../helpers/store.ts'

t.test('a page of the inventory is found by indexes alone, and not sorted', async (t) => {
  const { store, folder } = await testStore(t)
  await store.addCertificate(newCertificate(), newAudit())
  const said: string[] = []
  const { prepare } = DatabaseSync.prototype
  t.teardown(() => Object.assign(DatabaseSync.prototype, { prepare }))
  Object.assign(DatabaseSync.prototype, {
    prepare(this: DatabaseSync, sql: string) {
      said.push(sql)
      return prepare.call(this, sql)
    },
  })
  const orders: readonly ListOrder[] = ['next', 'expiry', 'name', 'newest']
  for (const order of orders)
    for (const isBackwards of [false, true])
      for (const search of [undefined, { part: 'a', wildcard: 'a', serialNumber: 'a' }])
        await store.listCertificates({ order, search, now: NOW }, { isBackwards, limit: 50 })
  await store.findIssued('a')
  Object.assign(DatabaseSync.prototype, { prepare })
  using sqlite = new DatabaseSync(storeFile(folder), { readOnly: true })
  const planOf = (sql: string) => {
    const values = [...new Set(sql.match(/\?\d/g))].map(() => 1)
    const plan = sqlite.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...values)
    return plan.map(({ detail }) => String(detail))
  }
  const listed = said.filter((sql) => sql.includes('ORDER BY'))
  t.equal(listed.length, 16)
  for (const sql of listed) {
    const isSearch = sql.includes('instr(')
    const [all, few, ...others] = planOf(sql).filter((step) => step.startsWith('SCAN certificates'))
    const isByAge = sql.includes('ORDER BY id') && !isSearch
    t.match(all, isByAge ? /^SCAN certificates$/ : 'USING COVERING INDEX', sql)
    // Of those whose names are too long for an index, the rows are read.
    t.match(few ?? '', isSearch ? 'USING INDEX certificates_unsearched' : /^$/, sql)
    t.strictSame(others, [], sql)
  }
  const [byFingerprint = ''] = said.filter((sql) => sql.includes('fingerprint = '))
  t.strictSame(planOf(byFingerprint), [
    'SEARCH certificates USING INDEX certificates_fingerprint (fingerprint=?)',
  ])
})

import { DatabaseSync } from 'node:sqlite'
import t from 'tap'
import { storeFile } from '../../../src/store/sqlite/open.ts'
import type { ListOrder } from '../../../src/store/store.ts'
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
      for (const search of [undefined, { part: 'a', serialNumber: 'a' }])
        await store.listCertificates({ order, search, now: NOW }, { isBackwards, limit: 50 })
  Object.assign(DatabaseSync.prototype, { prepare })
  const listed = said.filter((sql) => sql.includes('LIMIT'))
  t.equal(listed.length, 16)
  using sqlite = new DatabaseSync(storeFile(folder), { readOnly: true })
  for (const sql of listed) {
    const values = [...new Set(sql.match(/\?\d/g))].map(() => 1)
    const plan = sqlite
      .prepare(`EXPLAIN QUERY PLAN ${sql}`)
      .all(...values)
      .map(({ detail }) => String(detail))
    const scans = plan.filter((step) => step.startsWith('SCAN certificates'))
    t.equal(scans.length, 1, sql)
    const isByAge = sql.includes('ORDER BY id') && !sql.includes('INDEXED BY')
    t.match(scans[0], isByAge ? /^SCAN certificates$/ : 'USING COVERING INDEX', sql)
  }
})

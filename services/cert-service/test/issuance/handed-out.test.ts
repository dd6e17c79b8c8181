import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { HandedOut } from '../../src/issuance/handed-out.ts'
import type { CertificateRecord } from '../../src/store/store.ts'
import { NOW, newCertificate } from '../helpers/store.ts'

const HOUR = 3_600_000
const EMPTY = { findCurrent: async () => undefined }

/** A local copy, and the records that the store would have. */
async function setup(t: Test, folder = testFolder(t)) {
  const clock = { at: NOW, now: () => clock.at }
  const current = new Map<string, CertificateRecord>()
  const store = { findCurrent: async (lineage: string) => current.get(lineage) }
  const open = () => {
    const copy = new HandedOut({ folder, clock })
    t.teardown(() => copy.close())
    return copy
  }
  const copy = open()
  await copy.verify(store)
  const add = (id: number, name: string) => {
    const { askedBy: _, ...certificate } = newCertificate({ names: [name] })
    const record = { ...certificate, id }
    current.set(record.lineage, record)
    copy.save(record)
    return record
  }
  return { copy, open, add, clock, store, current, folder }
}

t.test('what was delivered is found by lineage and by name, as it was', async (t) => {
  const { copy, add } = await setup(t)
  const record = add(1, 'a.example')
  add(2, 'b.example')
  t.same(copy.find(record.lineage), record)
  t.same(copy.findByDomain('a.example'), [record])
  t.strictSame(copy.findByDomain('c.example'), [])
})

t.test('it is kept for a day since the last delivery', async (t) => {
  const { copy, add, clock } = await setup(t)
  const record = add(1, 'a.example')
  clock.at += 20 * HOUR
  copy.save(record)
  clock.at += 23 * HOUR
  t.ok(copy.find(record.lineage))
  clock.at += 2 * HOUR
  t.notOk(copy.find(record.lineage))
})

t.test('what was changed is forgotten, and a slow reader does not bring it back', async (t) => {
  const { copy, add } = await setup(t)
  const [revoked, other] = [add(1, 'a.example'), add(2, 'b.example')]
  copy.forget([revoked.lineage])
  copy.save(revoked)
  t.notOk(copy.find(revoked.lineage))
  t.ok(copy.find(other.lineage))
  copy.forget('all')
  t.notOk(copy.find(other.lineage))
})

t.test('after a restart nothing is answered before it is compared with the store', async (t) => {
  const { open, add, current, store } = await setup(t)
  const [kept, revoked, renewed] = [add(1, 'a.example'), add(2, 'b.example'), add(3, 'c.example')]
  current.delete(revoked.lineage)
  current.set(renewed.lineage, { ...renewed, id: 4 })
  const again = open()
  t.notOk(again.find(kept.lineage))
  await t.rejects(again.verify({ findCurrent: () => Promise.reject(new Error('away')) }))
  t.notOk(again.find(kept.lineage))
  await again.verify(store)
  t.ok(again.find(kept.lineage))
  t.notOk(again.find(revoked.lineage), 'revoked meanwhile')
  t.notOk(again.find(renewed.lineage), 'replaced meanwhile')
})

t.test('a broken file is begun anew', async (t) => {
  const folder = testFolder(t)
  writeFileSync(join(folder, 'handed-out.db'), 'this is no database, but long enough'.repeat(200))
  const copy = new HandedOut({ folder, clock: { now: () => NOW } })
  t.teardown(() => copy.close())
  await copy.verify(EMPTY)
  t.strictSame(copy.findByDomain('a.example'), [])
})

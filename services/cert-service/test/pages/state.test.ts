import type { CertificateState, OrderRecord } from '@gatehouse/cert-store/port'
import t from 'tap'
import { memoryStore } from '../../../../packages/cert-store/test/helpers/memory-store.ts'
import {
  NOW,
  newAudit,
  newCertificate,
  newOrder,
} from '../../../../packages/cert-store/test/helpers/store.ts'
import { stateOf } from '../../src/pages/state.ts'

const CASES: readonly [
  state: CertificateState,
  renewAt: number | null,
  notAfter: number,
  status?: OrderRecord['status'],
][] = [
  ['renews', NOW + 1, NOW + 2],
  ['renews', NOW + 1, NOW + 2, 'pending'],
  ['due', NOW, NOW + 1],
  ['unrenewed', null, NOW + 1],
  ['ended', null, NOW],
  ['ended', NOW - 1, NOW],
  ['failing', NOW + 1, NOW + 2, 'failed'],
  ['failing', NOW - 1, NOW, 'failed'],
]

t.test('a certificate is in the state that a filter finds it by', async (t) => {
  await using store = memoryStore()
  for (const [index, [expected, renewAt, notAfter, status]] of CASES.entries()) {
    const name = `${index}.example`
    const names = [name]
    const added = await store.addCertificate(
      newCertificate({ names, renewAt, notAfter }),
      newAudit(),
    )
    const { requestKey, id } = added
    if (status) await store.saveOrder(newOrder({ id: `${index}`, requestKey, names, status }))
    const order = await store.findOrderByRequestKey(requestKey)
    t.equal(stateOf(added, order, NOW), expected, name)
    for (const state of ['renews', 'due', 'unrenewed', 'failing', 'ended'] as const) {
      const listed = await store.listCertificates({ order: 'name', state, now: NOW }, { limit: 99 })
      t.equal(
        listed.some((certificate) => certificate.id === id),
        state === expected,
        `${name}: ${state}`,
      )
    }
  }
})

import t from 'tap'
import { onBothEngines } from '../helpers/engines.ts'
import { newAudit, newCertificate } from '../helpers/store.ts'

const DAY = 86_400_000

const CASES: readonly [
  own: readonly string[],
  others: readonly (readonly string[])[],
  is: boolean,
][] = [
  [['a.test'], [['a.test']], true],
  [['a.test'], [['b.test', 'a.test']], true],
  [['a.test', 'b.test'], [['a.test'], ['b.test']], true],
  [['a.test', 'b.test'], [['a.test']], false],
  [
    ['a.test', 'b.test', 'c.test'],
    [
      ['c.test', 'b.test'],
      ['x.test', 'a.test'],
    ],
    true,
  ],
  [['x.a.test'], [['*.a.test']], false],
]

for (const [own, others, is] of CASES)
  onBothEngines(`${own} by ${others.join(' and ')}: ${is}`, async (t, { store }) => {
    let added = 0
    const add = (names: readonly string[], notAfter: number, more: object = {}) => {
      added += 1
      const dates = { notAfter, notBefore: 0, renewAt: 1, requestKey: String(added) }
      return store.addCertificate(newCertificate({ names, ...dates, ...more }), newAudit())
    }
    const { id } = await add(own, 10 * DAY, { askedBy: 'psk:web' })
    for (const names of others) await add(names, 10 * DAY)
    t.equal(await store.findCoverage(id), undefined, 'by one that ends at the same time')
    for (const names of others) await add(names, 20 * DAY, { issuer: 'ca-client' })
    t.equal(await store.findCoverage(id), undefined, 'by one of clients')
    for (const names of others) await add(names, 20 * DAY, { renewAt: null })
    t.equal(await store.findCoverage(id), undefined, 'by one that nobody renews')
    for (const names of others) await add(names, 20 * DAY, { askedBy: 'psk:other' })
    t.equal(await store.findCoverage(id), is ? 'other' : undefined, 'by another caller')
    for (const names of others) await add(names, 21 * DAY, { askedBy: 'psk:web' })
    t.equal(await store.findCoverage(id), is ? 'caller' : undefined)
    const ids = async (isCovered: boolean) =>
      (await store.listLate(9 * DAY, 100, isCovered)).map((one) => one.id)
    t.equal((await ids(false)).includes(id), !is, 'what is covered is not late')
    t.notOk((await ids(true)).includes(id))
    const { soonest } = await store.listEnding(9 * DAY, 100)
    const isMeasured = soonest.some(
      ({ domain, notAfter }) => domain === own[0] && notAfter === 10 * DAY,
    )
    t.equal(isMeasured, !is, 'a gauge')
    const listing = { order: 'next', state: 'covered', now: 9 * DAY } as const
    const listed = (await store.listCertificates(listing, { limit: 100 })).map((one) => one.id)
    t.equal(listed.includes(id), is, 'a filter of the inventory')
  })

t.end()

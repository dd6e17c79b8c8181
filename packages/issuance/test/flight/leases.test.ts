import type { Lease, ReplicaChange } from '@gatehouse/cert-store/port'
import { generateP256, PkiError, parseName } from '@gatehouse/pki'
import t, { type Test } from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { failedOrders, newAudit, newOrder } from '../../../cert-store/test/helpers/store.ts'
import { slowIssuer } from '../helpers/slow-issuer.ts'
import { DAY, NOW, obtain, openStage, type Stage, WAIT } from '../helpers/stage.ts'
import { settle } from '../leap-clock.ts'

const domain = 'a.test'

/** An issuer that answers when told to, and another replica that works on what this one works on. */
async function withRival(t: Test) {
  const { requests, issuer } = slowIssuer()
  const stage = await openStage(t, { issuer })
  const answer = obtain(stage)
  await settle(() => requests.length === 1)
  const [requestKey = ''] = stage.issuance.flights.keys()

  /** Takes the request key over, and issues. */
  const takeOver = async () => {
    const lease = (await stage.store.takeLease({ requestKey, domain, names: 1 }))!
    return () => issueElsewhere(stage, requestKey, { lease })
  }
  return { ...stage, requests, answer, requestKey, takeOver }
}

/** What another replica does that issues for a request key. Gives the serial number. */
async function issueElsewhere(
  { ca, keyring, store }: Stage,
  requestKey: string,
  options: { readonly lease?: Lease } = {},
): Promise<string> {
  const { spki, pkcs8 } = generateP256()
  const issued = ca.issue({ names: [parseName(domain)], keyType: 'p256', spki })
  const sealedKey = keyring.seal('leaf', pkcs8, issued.certificate)
  await store.addCertificate(
    {
      ...{ ...issued, requestKey, issuer: 'ca', names: [domain], keyType: 'p256', csr: null },
      ...{ sealedKey, renewAt: NOW + DAY, fetchedAt: NOW },
    },
    newAudit(),
    options,
  )
  return issued.serialNumber
}

/** A caller that waits, as another replica has the lease. */
async function withLeaseElsewhere(t: Test) {
  const listeners: ((change: ReplicaChange) => void)[] = []
  const tell = (change: ReplicaChange) => {
    for (const listener of listeners) listener(change)
  }
  const rival = { hasLease: true, leases: 0, tell }
  const stage = await openStage(t, {
    withStore: (store) => ({
      ...store,
      async takeLease(work) {
        rival.leases += 1
        return rival.hasLease ? undefined : store.takeLease(work)
      },
      onChange(listener) {
        listeners.push(listener)
      },
    }),
  })
  const answer = obtain(stage)
  await settle(() => rival.leases === 1)
  const [requestKey = ''] = stage.issuance.flights.keys()
  return { stage, rival, answer, requestKey }
}

t.test('while another replica has the lease, its certificate is waited for', async (t) => {
  for (const how of ['told', 'found'])
    await t.test(how, async (t) => {
      const { stage, rival, answer, requestKey } = await withLeaseElsewhere(t)
      await stage.clock.advance(1_000)
      await settle(() => rival.leases === 2)
      const serialNumber = await issueElsewhere(stage, requestKey)
      if (how === 'told') rival.tell({ requestKeys: [requestKey], isUrgent: false })
      else await stage.clock.advance(1_000)
      t.match(await answer, { serialNumber, cached: false })
      t.strictSame(stage.deliveries, ['psk:operator'], 'it is handed out here')
    })
})

t.test('the lease of a replica that has ended is taken, and the work done here', async (t) => {
  const { stage, rival, answer } = await withLeaseElsewhere(t)
  rival.hasLease = false
  await stage.clock.advance(1_000)
  t.match(await answer, { cached: false })
  t.equal((await stage.store.findByDomain(domain)).length, 1)
  t.strictSame(stage.deliveries, [], 'the row of the issuance covers who asked first')
})

t.test('a caller that has waited long gets the order of the other replica', async (t) => {
  const { stage, answer, requestKey, rival } = await withLeaseElsewhere(t)
  const { store, clock, issuance } = stage
  const order = newOrder({ id: 'theirs', requestKey, names: [domain], step: 'validating' })
  await store.saveOrder(order)
  await clock.advance(WAIT)
  t.match(await answer, { order: { id: 'theirs', status: 'pending' } })
  t.match(await store.findOrderByRequestKey(requestKey), order, 'which is as it was')
  rival.hasLease = false
  await clock.advance(1_000)
  await settle(() => issuance.flights.size === 0)
  t.match(await store.findOrderByRequestKey(requestKey), { id: 'theirs', status: 'done' })
})

t.test('a lost lease stores nothing: what the other replica issued is answered', async (t) => {
  const { requests, answer, takeOver, ...stage } = await withRival(t)
  const serialNumber = await (await takeOver())()
  requests[0]!.end()
  t.match(await answer, { serialNumber, privateKey: /PRIVATE KEY/ })
  t.equal(requests.length, 1)
  t.strictSame(stage.deliveries, ['psk:operator'])
  t.strictSame(
    (await stage.store.findByDomain(domain)).map((record) => record.serialNumber),
    [serialNumber],
  )
})

t.test('a failure under a lost lease is not stored: the other replica issues', async (t) => {
  expectWarnings(t, 'PKI_KEY_INVALID')
  const { requests, answer, takeOver, store } = await withRival(t)
  const serialNumber = await (await takeOver())()
  requests[0]!.fail(new PkiError('PKI_KEY_INVALID', 'no'))
  t.match(await answer, { serialNumber })
  t.equal((await failedOrders(store)).length, 0)
})

t.test('an expired certificate does not stand in the way of the next one', async (t) => {
  const stage = await openStage(t)
  const first = await obtain(stage)
  await stage.clock.advance(8 * DAY)
  const second = await obtain(stage)
  t.match(second, { cached: false })
  t.not(second.serialNumber, first.serialNumber)
  t.strictSame(
    (await stage.store.findByDomain(domain)).map(({ serialNumber }) => serialNumber),
    [second.serialNumber],
  )
})

t.test(
  'an order that a waiting replica has filed keeps the id that it told its caller',
  async (t) => {
    const { store, issuance, clock, answer, requests, requestKey } = await withRival(t)
    await store.fileOrder(newOrder({ id: 'told-by-another', requestKey, names: [domain] }))
    await clock.advance(WAIT)
    t.match(await answer, { order: { id: 'told-by-another' } })
    requests[0]?.end()
    await settle(() => issuance.flights.size === 0)
    t.match(await store.findOrder('told-by-another'), { status: 'done' })
  },
)

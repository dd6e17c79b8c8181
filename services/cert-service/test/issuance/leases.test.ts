import type { Change, Lease } from '@gatehouse/cert-store/port'
import type { Ca, Issuer } from '@gatehouse/issuance/issuers'
import { generateP256, PkiError, parseName } from '@gatehouse/pki'
import t, { type Test } from 'tap'
import { openStore } from '../../../../packages/cert-store/src/open.ts'
import {
  failedOrders,
  newAudit,
  newOrder,
} from '../../../../packages/cert-store/test/helpers/store.ts'
import type { IssuerRequest } from '../../../../packages/issuance/src/issuers/issuer.ts'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { DAY, NOW, type Running, settle, start } from '../helpers/app.ts'

const domain = 'a.test'

/** A service whose issuer answers when told to, and another replica that works on what it works on. */
async function withRival(t: Test) {
  const asked: { request: IssuerRequest; end(): void; fail(error: Error): void }[] = []
  let ca: Ca
  const issuer: Issuer = {
    name: 'slow',
    permits: () => true,
    issue: (request) =>
      new Promise((resolve, reject) => {
        asked.push({ request, end: () => resolve(ca.issue(request)), fail: reject })
      }),
  }
  const running = await start(
    t,
    {},
    {
      issuer(own: Ca) {
        ca = own
        return issuer
      },
    },
  )
  const { service, call } = running
  const answer = call('POST', '/api/certificate', { domain })
  await settle(() => asked.length === 1)
  const [requestKey = ''] = service.issuance.flights.keys()

  /** Takes the request key over, and issues. */
  const takeOver = async () => {
    const work = { requestKey, domain, names: 1 }
    const lease = (await service.store.takeLease(work))!
    return () => issueElsewhere(running, requestKey, { lease })
  }
  return { ...running, asked, answer, takeOver }
}

/** What another replica does that issues for a request key. Gives the serial number. */
async function issueElsewhere(
  { app, service }: Running,
  requestKey: string,
  options: { readonly lease?: Lease } = {},
): Promise<string> {
  const { spki, pkcs8 } = generateP256()
  const issued = service.ca.issue({ names: [parseName(domain)], keyType: 'p256', spki })
  const sealedKey = app.keyring.seal('leaf', pkcs8, issued.certificate)
  await service.store.addCertificate(
    {
      ...{ ...issued, requestKey, issuer: 'ca', names: [domain], keyType: 'p256', csr: null },
      ...{ sealedKey, renewAt: NOW + DAY, fetchedAt: NOW },
    },
    newAudit(),
    options,
  )
  return issued.serialNumber
}

/** A service whose caller waits, as another replica has the lease. */
async function withLeaseElsewhere(t: Test) {
  const listeners: ((change: Change) => void)[] = []
  const tell = (change: Change) => {
    for (const listener of listeners) listener(change)
  }
  const rival = { hasLease: true, leases: 0, tell }
  const running = await start(
    t,
    {},
    {
      async openStore(options) {
        const store = await openStore(options)
        return {
          ...store,
          async takeLease(work) {
            rival.leases += 1
            return rival.hasLease ? undefined : store.takeLease(work)
          },
          onChange(listener) {
            listeners.push(listener)
          },
        }
      },
    },
  )
  const answer = running.call('POST', '/api/certificate', { domain })
  await settle(() => rival.leases === 1)
  const [requestKey = ''] = running.service.issuance.flights.keys()
  return { ...running, running, rival, answer, requestKey }
}

t.test('while another replica has the lease, its certificate is waited for', async (t) => {
  for (const how of ['told', 'found'])
    await t.test(how, async (t) => {
      const at = await withLeaseElsewhere(t)
      await at.clock.advance(1_000)
      await settle(() => at.rival.leases === 2)
      const serialNumber = await issueElsewhere(at.running, at.requestKey)
      if (how === 'told') at.rival.tell({ requestKeys: [at.requestKey], isUrgent: false })
      else await at.clock.advance(1_000)
      const { status, body } = await at.answer
      t.strictSame([status, body.serialNumber, body.cached], [200, serialNumber, false])
      const rows = await at.service.store.listAudit({ limit: 9 })
      t.match(
        rows.map(({ action, actor }) => `${action} ${actor}`),
        ['hand-out psk:default', 'issue psk:test'],
      )
    })
})

t.test('the lease of a replica that has ended is taken, and the work done here', async (t) => {
  const { rival, clock, answer, service } = await withLeaseElsewhere(t)
  rival.hasLease = false
  await clock.advance(1_000)
  t.match(await answer, { status: 200, body: { cached: false } })
  t.equal((await service.store.findByDomain(domain)).length, 1)
})

t.test('a caller that has waited long gets the order of the other replica', async (t) => {
  const { clock, answer, service, requestKey, call, rival } = await withLeaseElsewhere(t)
  const order = newOrder({ id: 'theirs', requestKey, names: [domain], step: 'validating' })
  await service.store.saveOrder(order)
  await clock.advance(20_000)
  t.match(await answer, { status: 202, headers: { location: '/api/orders/theirs' } })
  t.match(await service.store.findOrderByRequestKey(requestKey), order, 'which is as it was')
  t.match((await call('GET', '/api/orders/theirs')).body, { status: 'pending' })
  rival.hasLease = false
  await clock.advance(1_000)
  await settle(() => service.issuance.flights.size === 0)
  t.match(await service.store.findOrderByRequestKey(requestKey), { id: 'theirs', status: 'done' })
})

t.test('a lost lease stores nothing: what the other replica issued is answered', async (t) => {
  const { asked, answer, takeOver, service } = await withRival(t)
  const issue = await takeOver()
  const serialNumber = await issue()
  asked[0]!.end()
  t.match(await answer, { status: 200, body: { serialNumber, privateKey: /PRIVATE KEY/ } })
  t.equal(asked.length, 1)
  t.match(await service.store.listAudit({ limit: 1 }), [
    { action: 'hand-out', actor: 'psk:default' },
  ])
  t.strictSame(
    (await service.store.findByDomain(domain)).map((record) => record.serialNumber),
    [serialNumber],
  )
})

t.test('a failure under a lost lease is not stored: the other replica issues', async (t) => {
  expectWarnings(t, 'PKI_KEY_INVALID')
  const { asked, answer, takeOver, service } = await withRival(t)
  const issue = await takeOver()
  const serialNumber = await issue()
  asked[0]!.fail(new PkiError('PKI_KEY_INVALID', 'no'))
  t.match(await answer, { status: 200, body: { serialNumber } })
  t.equal((await failedOrders(service.store)).length, 0)
})

t.test('an expired certificate does not stand in the way of the next one', async (t) => {
  const { call, clock, service } = await start(t)
  const first = await call('POST', '/api/certificate', { domain })
  await clock.advance(8 * DAY)
  const second = await call('POST', '/api/certificate', { domain })
  t.match(second, { status: 200, body: { cached: false } })
  t.not(second.body.serialNumber, first.body.serialNumber)
  t.strictSame(
    (await service.store.findByDomain(domain)).map(({ serialNumber }) => serialNumber),
    [second.body.serialNumber],
  )
})

t.test(
  'an order that a waiting replica has filed keeps the id that it told its caller',
  async (t) => {
    const { service, answer, clock, asked } = await withRival(t)
    const [requestKey = ''] = service.issuance.flights.keys()
    await service.store.fileOrder(newOrder({ id: 'told-by-another', requestKey, names: [domain] }))
    await clock.advance(20_000)
    t.match(await answer, { status: 202, headers: { location: '/api/orders/told-by-another' } })
    asked[0]?.end()
    await settle(() => service.issuance.flights.size === 0)
    t.match(await service.store.findOrder('told-by-another'), { status: 'done' })
  },
)

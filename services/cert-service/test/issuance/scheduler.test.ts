import type { Ca } from '@gatehouse/issuance/issuers'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { DAY, type Running, start } from '../helpers/app.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'CERT_ISSUE_FAILED', 'a certificate could not be issued')

const HOUR = DAY / 24
const STEP = 6 * HOUR

/** Lets time pass in steps, so that each finds what is due. */
async function pass({ clock }: Running, days: number, step = STEP) {
  for (let at = 0; at < days * DAY; at += step) await clock.advance(step)
}
const currentOf = async ({ service }: Running, domain = 'a.test') =>
  (await service.store.findByDomain(domain))[0]

t.test('certificates that are due are renewed with a new key', async (t) => {
  const running = await start(t)
  running.service.start()
  await running.call('POST', '/api/certificate', { domain: 'a.test' })
  const first = await currentOf(running)
  await pass(running, 3)
  t.equal((await currentOf(running))?.id, first?.id)
  await pass(running, 1)
  const second = await currentOf(running)
  t.not(second?.id, first?.id)
  t.notSame(second?.sealedKey, first?.sealedKey)
  t.equal(second?.fetchedAt, first?.fetchedAt, 'nobody has fetched it')
  t.match((await running.call('POST', '/api/certificate', { domain: 'a.test' })).body, {
    cached: true,
    serialNumber: second?.serialNumber,
  })
  const [row] = (await running.service.store.listAudit({ limit: 10 })).filter(
    ({ action }) => action === 'renew',
  )
  t.equal(row?.actor, 'system')
})

t.test(
  'certificates that nobody fetches for two lifetimes are no longer renewed, until they are fetched',
  async (t) => {
    const running = await start(t)
    running.service.start()
    await running.call('POST', '/api/certificate', { domain: 'a.test' })
    await pass(running, 18, DAY)
    const last = await currentOf(running)
    t.equal(last?.renewAt, null)
    const { body } = await running.call('POST', '/api/certificate', { domain: 'a.test' })
    t.match(body, { cached: true, serialNumber: last?.serialNumber })
    await pass(running, 4, DAY)
    t.not((await currentOf(running))?.id, last?.id, 'it is renewed again')
    await pass(running, 30, DAY)
    t.match(await running.call('GET', '/api/certificate/a.test'), { status: 404 })
  },
)

t.test('a 304 keeps a certificate in use', async (t) => {
  const running = await start(t)
  running.service.start()
  await running.call('POST', '/api/certificate', { domain: 'a.test' })
  for (let n = 0; n < 10; n += 1) {
    await pass(running, 3, DAY)
    const etag = (await running.call('GET', '/api/certificate/a.test')).headers.etag
    const same = await running.call('GET', '/api/certificate/a.test', undefined, {
      'if-none-match': etag,
    })
    t.equal(same.status, 304)
  }
})

t.test('configured certificates are issued at start and renewed, fetched or not', async (t) => {
  const running = await start(t, {
    certificates: [{ names: ['a.test', 'b.test'] }, { names: ['c.test'], keyType: 'p384' }],
  })
  running.service.start()
  await pass(running, 1)
  t.match(await currentOf(running, 'a.test'), { names: ['a.test', 'b.test'], keyType: 'p256' })
  t.match(await currentOf(running, 'c.test'), { keyType: 'p384' })
  await pass(running, 30, DAY)
  for (const domain of ['a.test', 'c.test'])
    t.ok(Number((await currentOf(running, domain))?.notAfter) > running.clock.now())
  t.equal((await running.service.store.list({ after: 0, limit: 10 })).length, 2)
})

t.test('certificates that expired while the service was down are renewed at start', async (t) => {
  const folder = testFolder(t)
  const first = await start(t, {}, { folder })
  await first.call('POST', '/api/certificate', { domain: 'a.test' })
  await first.close()
  await first.clock.advance(10 * DAY)
  const second = await start(t, {}, { folder, clock: first.clock })
  second.service.start()
  await pass(second, 0.25)
  t.equal((await second.call('GET', '/api/certificate/a.test')).status, 200)
})

t.test(
  'after the clock is set back, certificates that begin in the future are replaced once',
  async (t) => {
    const running = await start(t)
    running.service.start()
    await pass(running, 2)
    await running.call('POST', '/api/certificate', { domain: 'a.test' })
    const first = await currentOf(running)
    running.clock.shift(-DAY)
    await pass(running, 0.25)
    const second = await currentOf(running)
    t.not(second?.id, first?.id)
    t.ok(Number(second?.notBefore) < running.clock.now())
    await pass(running, 0.5)
    t.equal((await currentOf(running))?.id, second?.id)
  },
)

t.test('after the clock is set forward, due certificates are renewed', async (t) => {
  const running = await start(t)
  running.service.start()
  await running.call('POST', '/api/certificate', { domain: 'a.test' })
  const first = await currentOf(running)
  running.clock.shift(5 * DAY)
  await pass(running, 0.25)
  t.not((await currentOf(running))?.id, first?.id)
})

t.test(
  'a renewal that fails is tried again with growing pauses while the old one is answered',
  async (t) => {
    let isDown = false
    let tries = 0
    const running = await start(
      t,
      {},
      {
        issuer: (ca: Ca) => ({
          name: 'ca',
          permits: () => true,
          issue(request) {
            tries += 1
            if (isDown) throw new Error('down')
            return ca.issue(request)
          },
        }),
      },
    )
    running.service.start()
    const { body } = await running.call('POST', '/api/certificate', { domain: 'a.test' })
    isDown = true
    await pass(running, 6)
    t.equal(tries - 1, 5, 'four times in steps of 6 hours, then a day later')
    t.match((await running.call('POST', '/api/certificate', { domain: 'a.test' })).body, {
      cached: true,
      serialNumber: body.serialNumber,
    })
    const [entry] = (await running.call('GET', '/api/certificates')).body.certificates
    t.equal(entry.lastFailure.code, 'INTERNAL')
    isDown = false
    await pass(running, 1)
    t.not((await currentOf(running))?.serialNumber, body.serialNumber)
  },
)

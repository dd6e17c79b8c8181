import { X509Certificate } from 'node:crypto'
import { createRoot } from '@gatehouse/pki'
import { testFolder } from '@gatehouse/service-kit/testing'
import t from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { DAY, NOW, settle, start } from '../helpers/app.ts'
import { ENDS } from '../helpers/ca-ends.ts'
import { writeAuthority } from '../helpers/ca-walk.ts'

const HOUR = DAY / 24
const DAY_AND_STORED: Readonly<Record<keyof typeof ENDS, readonly (readonly unknown[])[]>> = {
  // The first year's intermediate, and one for each year after it.
  'made here': [
    [0, 3, ''],
    [335, 4, ''],
    [365, 4, 'ca-root'],
    [670, 5, 'ca-root'],
  ],
  'made here, with leaves of 180 days': [
    [0, 3, ''],
    [170, 4, ''],
    [340, 5, ''],
    [365, 5, 'ca-root'],
    [511, 6, 'ca-root'],
  ],
  'a root that was brought': [
    [0, 2, ''],
    [335, 3, ''],
    [365, 3, 'ca-root'],
    [670, 4, 'ca-root'],
  ],
  'an intermediate that was brought, with its root': [
    [0, 1, ''],
    [365, 1, 'ca-root'],
    [700, 1, 'ca-root,ca-intermediate'],
  ],
}

for (const [what, walk] of Object.entries(ENDS))
  t.test(`the last two years, day by day: ${what}`, async (t) => {
    const { running, root, changes, seen } = await walk(t)
    t.strictSame(
      changes.map(([day, stored, , degraded]) => [day, stored, degraded]),
      DAY_AND_STORED[what as keyof typeof ENDS],
      'how many authorities there are, and what is warned of',
    )
    const end = root.validToDate.getTime()
    const { leafLifetime } = running.config.ca
    const wrong = seen.filter(
      ({ at, leaf }) => leaf.validToDate.getTime() !== Math.min(at + leafLifetime, end),
    )
    t.strictSame(wrong, [], 'a leaf gets its whole lifetime, or what is left of the root')
  })

t.test(
  'a start in the last month of a root makes no intermediate, and an offline key neither',
  async (t) => {
    const folder = testFolder(t)
    const mine = await createRoot({ commonName: 'Mine', now: NOW, lifetimeMs: 20 * DAY })
    const root = await writeAuthority(folder, 'root', mine)
    const first = await start(t, { ca: { root } }, { folder })
    const { certificate } = first.service.ca.intermediate()
    await first.close()
    for (const [what, ca] of [
      ['again', { root }],
      ['without the key', { root: { certFile: root.certFile } }],
    ] as const) {
      first.clock.shift(9 * DAY)
      const { service, close } = await start(t, { ca }, { folder, clock: first.clock })
      await service.ca.upkeep()
      t.ok(service.ca.intermediate().certificate.equals(certificate), what)
      t.equal((await service.store.listAuthorities()).length, 2, what)
      t.strictSame(service.ca.degraded(), ['ca-root'], 'another intermediate would not help')
      await close()
    }
  },
)

t.test('the last day of a root: a shorter leaf, then a refusal with its own code', async (t) => {
  expectWarnings(t, 'PKI_CA_EXPIRED')
  const running = await start(t)
  const { clock, service, call } = running
  clock.shift(3650 * DAY - 2 * HOUR)
  await service.ca.upkeep()
  const { body } = await call('POST', '/api/certificate', { domain: 'a.test' })
  t.equal(Date.parse(body.notAfter), NOW + 3650 * DAY, 'ends with the root')

  clock.shift(1.5 * HOUR)
  await service.ca.upkeep()
  const refused = await call('POST', '/api/certificate', { domain: 'b.test' })
  t.match(refused, { status: 503, body: { code: 'PKI_CA_EXPIRED', action: /Replace the root/ } })
  t.match(refused.body.detail, /ends at 2039-12-30T00:00:00/)
  t.equal(Number(refused.headers['retry-after']), 60)
  const held = await call('GET', '/api/certificate/a.test')
  t.equal(held.body.serialNumber, body.serialNumber, 'what is held is answered')
  t.match((await call('GET', '/readyz')).body, { status: 'ready', degraded: ['ca-root'] })
})

t.test('the end of the root is logged once a day, and measured', async (t) => {
  expectWarnings(t, 'the CA needs its operator')
  const running = await start(t)
  const { clock, service, logged } = running
  const lines = () => logged.filter((line) => line.includes('the CA needs its operator'))
  service.start()
  await settle()
  t.strictSame(lines(), [], 'not ten years before')
  clock.shift(3650 * DAY - 364 * DAY)
  await service.ca.upkeep()
  for (let hour = 0; hour < 72; hour += 1) await clock.advance(HOUR)
  t.equal(lines().length, 3)
  t.match(JSON.parse(lines()[0]!), { degraded: 'ca-root', rootEnds: NOW + 3650 * DAY })
})

t.test('a root by ca.root takes the place of the one made here', async (t) => {
  const folder = testFolder(t)
  const first = await start(t, {}, { folder })
  const rootOf = ({ service }: typeof first) => new X509Certificate(service.ca.root()!)
  const held = await first.call('POST', '/api/certificate', { domain: 'a.test' })
  await first.close()
  const mine = await createRoot({ commonName: 'Second', now: NOW })
  const root = await writeAuthority(folder, 'root', mine)
  const { certFile } = root
  for (const ca of [{ root }, { root: { certFile } }]) {
    const second = await start(t, { ca }, { folder, clock: first.clock })
    t.equal(second.service.ca.root()?.toString(), mine.certificate.toString())
    const chainOf = ({ body }: typeof held) => body.certificate.split(/(?<=END CERTIFICATE-----\n)/)
    const verifies = (answer: typeof held, by: X509Certificate) =>
      new X509Certificate(chainOf(answer)[1]).verify(by.publicKey)
    const same = await second.call('POST', '/api/certificate', { domain: 'a.test' })
    t.equal(same.body.serialNumber, held.body.serialNumber, 'what is held stays')
    const other = await second.call('POST', '/api/certificate', { domain: 'b.test' })
    t.ok(verifies(other, rootOf(second)), 'what is new is under it')
    await second.close()
  }
  first.clock.shift(6 * DAY)
  const later = await start(t, { ca: { root } }, { folder, clock: first.clock })
  const renewed = await later.call('POST', '/api/certificate/renew', { domain: 'a.test' })
  t.ok(
    new X509Certificate(renewed.body.certificate.split(/(?<=END CERTIFICATE-----\n)/)[1]).verify(
      rootOf(later).publicKey,
    ),
  )
})

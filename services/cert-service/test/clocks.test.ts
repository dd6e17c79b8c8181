import { X509Certificate } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Ca } from '@gatehouse/issuance/issuers'
import { createIntermediate, createRoot, toPem } from '@gatehouse/pki'
import type { Logger } from '@gatehouse/service-kit/telemetry'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { expectWarnings } from '../../../scripts/test/quiet.ts'
import type { AppDeps } from '../src/app.ts'
import { openOwnTls } from '../src/lifecycle/own-tls.ts'
import { DAY, leapClock, NOW, type Running, rest, settle, start } from './helpers/app.ts'

// What is wrong in these tests, and said.
expectWarnings(
  t,
  'PKI_CA_EXPIRED',
  'the CA needs its operator',
  'this CA begins in the future: is the clock behind?',
)

const HOUR = DAY / 24
const MINUTE = 60_000

const post = async ({ call }: Running, domain: string) =>
  (await call('POST', '/api/certificate', { domain })).body
const isValid = ({ clock }: Running, { notBefore, notAfter }: Record<string, string>) =>
  Date.parse(notBefore!) <= clock.now() && Date.parse(notAfter!) > clock.now()

/** Lets the loops of a service have their turns. */
async function pass(running: Running, ms: number, step = MINUTE / 2): Promise<void> {
  for (let at = 0; at < ms; at += step) {
    await running.clock.advance(step)
    await rest(running.clock, running.service.issuance)
    await settle()
  }
}

/** A service that issued and renewed while its clock was ahead, and whose clock is right again. */
async function afterClockAhead(
  t: Test,
  ms: number,
  changes: object = {},
  deps: Pick<AppDeps, 'issuer'> = {},
) {
  const running = await start(t, changes, deps)
  running.service.start()
  await settle()
  const before = await post(running, 'before.test')
  running.clock.shift(ms)
  await pass(running, 40_000)
  const ahead = await post(running, 'ahead.test')
  running.clock.shift(-ms)
  return { running, before, ahead }
}

t.test(
  'what was issued by a clock 5 days ahead is made anew when the clock is right',
  async (t) => {
    const { running, ahead } = await afterClockAhead(t, 5 * DAY)
    t.notOk(isValid(running, ahead))

    t.test('at a renewal that a caller asks for, which is not refused as too soon', async (t) => {
      const renewed = await running.call('POST', '/api/certificate/renew', {
        domain: 'before.test',
      })
      t.equal(renewed.status, 200)
      t.ok(isValid(running, renewed.body))
    })

    t.test('at the next POST, while nothing has been renewed yet', async (t) => {
      const again = await post(running, 'ahead.test')
      t.not(again.serialNumber, ahead.serialNumber)
      t.ok(isValid(running, again))
    })
  },
)

t.test('within a minute all of it is renewed, and readyz says so meanwhile', async (t) => {
  expectWarnings(t, 'CERT_ISSUE_FAILED', 'a certificate could not be issued')
  let isDown = false
  const issuer = (ca: Ca) => ({
    ...ca.servers,
    issue(request: Parameters<Ca['issue']>[0]) {
      if (isDown) throw new Error('down')
      return ca.issue(request)
    },
  })
  const { running, ahead } = await afterClockAhead(t, 5 * DAY, {}, { issuer })
  const degraded = async () => (await running.call('GET', '/readyz')).body.degraded
  isDown = true
  await pass(running, MINUTE)
  t.same(await degraded(), ['clock'])
  t.equal((await post(running, 'ahead.test')).serialNumber, ahead.serialNumber, 'still answered')
  isDown = false
  await pass(running, 15 * MINUTE, MINUTE)
  t.same(await degraded(), [])
  const { body } = await running.call('GET', '/api/certificate/ahead.test')
  t.ok(isValid(running, body))
})

t.test('a certificate from the future is not answered where another one holds', async (t) => {
  const running = await start(t)
  const { clock, call } = running
  const own = await post(running, 'a.test')
  clock.shift(3 * DAY)
  const later = (await call('POST', '/api/certificate', { domain: 'a.test', names: ['b.test'] }))
    .body
  clock.shift(-3 * DAY)
  const { body } = await call('GET', '/api/certificate/a.test')
  t.equal(body.serialNumber, own.serialNumber)
  t.not(body.serialNumber, later.serialNumber)
})

t.test('a start 45 days ahead deletes nothing, and the revocation list stays whole', async (t) => {
  const folder = testFolder(t)
  const storage = { path: 'data', masterKeyFile: 'keys/master.key', retention: '1h' }
  const first = await start(t, { storage, audit: { retention: '1d' } }, { folder })
  await post(first, 'held.test')
  const revoked = await post(first, 'revoked.test')
  await first.call('POST', '/api/certificate/revoke', { domain: 'revoked.test' })
  await first.close()

  first.clock.shift(45 * DAY)
  const ahead = await start(t, { storage }, { folder, clock: first.clock })
  ahead.service.start()
  await pass(ahead, 2 * HOUR, HOUR / 2)
  await ahead.close()

  first.clock.shift(-45 * DAY)
  const right = await start(t, { storage }, { folder, clock: first.clock })
  const { crls, intermediate } = right.service.ca
  const list = Buffer.from(await crls.get(intermediate().info.skid!))
  t.ok(list.includes(Buffer.from(revoked.serialNumber, 'hex')))
  t.ok(isValid(right, await post(right, 'held.test')))
  const actions = (await right.service.store.listAudit({ limit: 99 })).map(({ action }) => action)
  t.ok(actions.includes('revoke'), 'nor is the trail of it gone')
})

t.test('a start 340 days ahead leaves a CA that works when the clock is right', async (t) => {
  expectWarnings(t, 'this CA begins in the future and is skipped')
  const folder = testFolder(t)
  const first = await start(t, {}, { folder })
  const old = first.service.ca.intermediate().certificate
  const leaf = await post(first, 'a.test')
  await first.close()

  first.clock.shift(340 * DAY)
  const ahead = await start(t, {}, { folder, clock: first.clock })
  const future = ahead.service.ca.intermediate()
  t.notOk(future.certificate.equals(old))
  await post(ahead, 'b.test')
  await ahead.close()

  first.clock.shift(-340 * DAY)
  const right = await start(t, {}, { folder, clock: first.clock })
  t.ok(right.service.ca.intermediate().certificate.equals(old))
  t.ok(
    right.logged.some((line) => /begins in the future and is skipped/.test(line)),
    'the log says so',
  )
  t.same(right.service.ca.degraded(), [])
  t.equal((await post(right, 'a.test')).serialNumber, leaf.serialNumber)
  t.ok(isValid(right, await post(right, 'b.test')))
  await right.service.ca.upkeep()
  const root = (await right.service.store.listAuthorities()).find(({ role }) => role === 'root')!
  const list = await right.service.store.findCrl(root.id)
  t.ok(Number(list?.thisUpdate) <= right.clock.now(), 'the list of the root is of today')
  t.equal((await right.app.inject(`/ca/crl.der?issuer=${future.info.skid}`)).statusCode, 200)
})

t.test('while running, an intermediate from the future is passed over at once', async (t) => {
  const running = await start(t)
  running.service.start()
  await settle()
  const old = running.service.ca.intermediate().certificate
  running.clock.shift(340 * DAY)
  await pass(running, 40_000)
  t.notOk(running.service.ca.intermediate().certificate.equals(old))
  running.clock.shift(-340 * DAY)
  const { certificate } = await post(running, 'new.test')
  const [leaf, issuer] = certificate.split(/(?<=-----END CERTIFICATE-----\n)/)
  t.ok(new X509Certificate(issuer).raw.equals(old))
  t.ok(Date.parse(new X509Certificate(leaf).validFrom) <= running.clock.now())
})

t.test('a clock 2 hours behind ends no start, and what it makes is valid by both', async (t) => {
  const folder = testFolder(t)
  const first = await start(t, {}, { folder })
  const held = await post(first, 'held.test')
  await first.close()
  first.clock.shift(-2 * HOUR)
  const behind = await start(t, {}, { folder, clock: first.clock })
  behind.service.start()
  await settle()
  t.match((await behind.call('GET', '/readyz')).body, { status: 'ready', degraded: ['clock'] })
  t.ok(behind.logged.some((line) => /is the clock behind/.test(line)))
  t.equal((await behind.call('GET', '/api/certificate/held.test')).status, 200)
  const made = await post(behind, 'new.test')
  await behind.close()
  first.clock.shift(2 * HOUR)
  const right = await start(t, {}, { folder, clock: first.clock })
  t.ok(isValid(right, made))
  t.ok(isValid(right, held))
  t.equal((await post(right, 'new.test')).serialNumber, made.serialNumber)
  t.same(right.service.ca.degraded(), [])
})

t.test(
  'a clock years behind ends no start either, and nothing is made that is never valid',
  async (t) => {
    const folder = testFolder(t)
    const first = await start(t, {}, { folder })
    const held = await post(first, 'held.test')
    await first.close()
    const clock = leapClock(NOW - 3000 * DAY)
    const behind = await start(t, { server: { tls: 'off' } }, { folder, clock })
    t.match((await post(behind, 'new.test')).code, 'PKI_CA_EXPIRED')
    t.equal((await post(behind, 'held.test')).serialNumber, held.serialNumber, 'held is answered')
  },
)

t.test(
  'a clock beyond the end of the CA ends no start, and what is held is answered once it is right',
  async (t) => {
    const folder = testFolder(t)
    const clock = leapClock(NOW)
    const write = async (name: string, { chain, key }: Awaited<ReturnType<typeof createRoot>>) => {
      const files = { certFile: join(folder, `${name}.pem`), keyFile: join(folder, `${name}.key`) }
      await writeFile(files.certFile, chain.map((der) => toPem('CERTIFICATE', der)).join(''))
      await writeFile(files.keyFile, key!.export({ format: 'pem', type: 'pkcs8' }))
      return files
    }
    const made = await createRoot({ commonName: 'Mine', now: NOW })
    const root = await write('root', made)
    const intermediate = await write(
      'intermediate',
      await createIntermediate({ root: made, commonName: 'Ours', now: NOW }),
    )
    for (const [what, ca] of [
      ['made here', {}],
      ['root', { root }],
      ['intermediate', { intermediate }],
    ] as const) {
      const storage = { path: what, masterKeyFile: `keys of ${what}` }
      const first = await start(t, { storage, ca }, { folder, clock })
      const held = await post(first, 'held.test')
      await first.close()
      for (const shift of [4_000 * DAY, -3_000 * DAY]) {
        clock.shift(shift)
        const wrong = await start(t, { storage, ca }, { folder, clock })
        const log = { error: t.fail } as unknown as Logger
        const tls = await openOwnTls({ ...wrong.service, log }, wrong.config.server, () => {})
        const own = new X509Certificate(tls.current().cert)
        const { info } = wrong.service.ca.intermediate()
        t.ok(own.validFromDate.getTime() >= info.notBefore, 'its own TLS certificate is of the CA')
        t.ok(own.validToDate.getTime() <= info.notAfter)
        tls.close()
        t.match(await post(wrong, 'new.test'), {
          code: 'PKI_CA_EXPIRED',
          detail: /Intermed|Ours/,
        })
        const { status, body } = await wrong.call('GET', '/api/certificate/held.test')
        if (shift > 0) t.match({ status, body }, { status: 404, body: { detail: /has expired/ } })
        else t.equal(body.serialNumber, held.serialNumber, `${what}: ${shift / DAY} days`)
        if (shift > 0) {
          const ended =
            what === 'intermediate' ? ['ca-intermediate'] : ['ca-root', 'ca-intermediate']
          t.strictSame((await wrong.call('GET', '/readyz')).body.degraded, ended)
          const isSaid = () => wrong.logged.some((line) => /its operator: set the clock/.test(line))
          wrong.service.start()
          await settle(isSaid)
          t.ok(isSaid(), 'and the log says what to do')
        }
        await wrong.service.ca.upkeep()
        await wrong.close()
        clock.shift(-shift)
      }
      const right = await start(t, { storage, ca }, { folder, clock })
      t.same(right.service.ca.degraded(), [])
      t.equal((await post(right, 'held.test')).serialNumber, held.serialNumber)
      t.ok(isValid(right, await post(right, 'new.test')), `${what}: and it issues again`)
      await right.close()
    }
  },
)

t.test('a revocation list of a clock that was ahead is made anew', async (t) => {
  const running = await start(t)
  const { crls, intermediate } = running.service.ca
  const { skid = '' } = intermediate().info
  running.clock.shift(5 * DAY)
  await post(running, 'a.test')
  await running.call('POST', '/api/certificate/revoke', { domain: 'a.test' })
  const ahead = await crls.get(skid)
  running.clock.shift(-5 * DAY)
  const right = Buffer.from(await crls.get(skid))
  t.notOk(right.equals(ahead))
  const dated = (at: number) => new Date(at).toISOString().replace(/\D/g, '').slice(2, 8)
  t.notOk(right.includes(dated(NOW + 5 * DAY)), 'nor is a revocation dated in the future')
})

t.test('a clock far ahead stops no renewal of what is in use', async (t) => {
  const { running } = await afterClockAhead(t, 340 * DAY)
  await pass(running, MINUTE)
  for (const domain of ['before.test', 'ahead.test']) {
    const [record] = await running.service.store.findByDomain(domain)
    t.ok(record?.renewAt, domain)
    t.ok(Number(record?.notBefore) <= running.clock.now(), domain)
  }
})

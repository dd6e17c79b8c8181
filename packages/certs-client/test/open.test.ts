import { writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { buildChainPem, createIntermediate, createRoot, parseNameRule, toPem } from '@gatehouse/pki'
import { systemClock } from '@gatehouse/service-kit/clock'
import t, { type Test } from 'tap'
import { DAY, KEY, start } from '../../../services/cert-service/test/helpers/app.ts'
import { issue } from '../../pki/test/helpers.ts'
import { openService } from '../src/open.ts'
import { type ConnectionOptions, readConnection } from '../src/settings.ts'

/** A service behind TLS, whose clock is that of the machine, as a client finds it. */
async function serve(t: Test, behind = 0) {
  const clock = {
    ...systemClock,
    now: () => Date.now() + behind,
    advance: async () => {},
    shift() {},
    elapsed: () => performance.now(),
    waiting: () => 0,
  }
  const { app, service, folder } = await start(t, {}, { tls: true, clock })
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as AddressInfo
  const ca = join(folder, 'root.pem')
  writeFileSync(ca, toPem('CERTIFICATE', service.ca.root() as Uint8Array))
  const keyFile = join(folder, 'api.key')
  writeFileSync(keyFile, KEY, { mode: 0o600 })
  const warned: object[] = []
  const log = { warn: (fields: object) => void warned.push(fields) }
  const open = (options: ConnectionOptions) => {
    const connection = readConnection({ url: `https://localhost:${port}`, keyFile, ...options }, {})
    const opened = openService(connection, { clock: systemClock, log, actionFor: () => undefined })
    t.teardown(() => opened[Symbol.asyncDispose]())
    return opened
  }
  return { open, ca, folder, port, warned }
}

t.test('TLS is pinned to the root that is named', async (t) => {
  const { open, ca, folder, port } = await serve(t)
  t.ok('issued' in (await open({ ca }).obtain({ domain: 'a.test' })))

  const foreign = await createRoot({ commonName: 'Another', now: Date.now() })
  const other = join(folder, 'other.pem')
  writeFileSync(other, toPem('CERTIFICATE', foreign.certificate))
  const untrusted = { code: 'CERT_CLIENT_UNTRUSTED' }
  await t.rejects(open({ ca: other }).obtain({ domain: 'a.test' }), untrusted, 'another root')
  await t.rejects(open({}).obtain({ domain: 'a.test' }), untrusted, 'the roots of the system')
  const byAddress = open({ ca, url: `https://127.0.0.2:${port}` })
  await t.rejects(byAddress.obtain({ domain: 'a.test' }), { name: 'ClientError' }, 'another name')
  for (const file of [join(folder, 'absent.pem'), join(folder, 'api.key')])
    t.throws(() => open({ ca: file }), untrusted)
})

t.test('an authority that does not permit the name of the service', async (t) => {
  const { open, folder } = await serve(t)
  const now = Date.now()
  const root = await createRoot({ commonName: 'Limited', now })
  const permitted = [parseNameRule('a.test')]
  const intermediate = await createIntermediate({ root, commonName: 'Below', now, permitted })
  const { der, key } = issue(intermediate, ['localhost'], { now })
  const cert = buildChainPem(der, intermediate.chain)
  const server = createServer({ cert, key: toPem('PRIVATE KEY', key.pkcs8) })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => void server.close())
  const ca = join(folder, 'limited.pem')
  writeFileSync(ca, toPem('CERTIFICATE', root.certificate))
  const url = `https://localhost:${(server.address() as AddressInfo).port}`
  await t.rejects(open({ ca, url }).order('7'), { code: 'CERT_CLIENT_UNTRUSTED' })
})

t.test('a service that is not there', async (t) => {
  const { open, ca } = await serve(t)
  const away = open({ ca, url: 'https://localhost:1' })
  await t.rejects(away.order('7'), { code: 'CERT_CLIENT_UNREACHABLE' })
})

t.test('a key that everybody can read is warned of', async (t) => {
  const { open, folder, warned } = await serve(t)
  const keyFile = join(folder, 'open.key')
  writeFileSync(keyFile, KEY, { mode: 0o644 })
  open({ keyFile })
  t.same(warned, [{ file: keyFile }])
})

t.test('what the commands ask for', async (t) => {
  const { open, ca } = await serve(t)
  const service = open({ ca })
  for (let n = 0; n < 120; n += 1) await service.obtain({ domain: `n${n}.test` })
  const listed = []
  for await (const one of service.list()) listed.push(one)
  t.equal(listed.length, 120, 'page by page')
  const shown = await service.show('n7.test')
  t.match(shown, { domain: 'n7.test', certificate: /BEGIN/ })
  t.notMatch(JSON.stringify(shown), /PRIVATE KEY/)
  await t.rejects(service.renew('n7.test'), { code: 'CERT_RENEW_TOO_SOON' })
  t.match(await service.revoke('n7.test', 'superseded'), { serialNumbers: [/^[0-9a-f]+$/] })
  t.same(await service.remove('n8.test'), {})
  for (const gone of ['n7.test', 'n8.test'])
    await t.rejects(service.show(gone), { code: 'CERT_NOT_FOUND' })
  await t.rejects(service.order('7'), { code: 'CERT_ORDER_NOT_FOUND' })
  await t.rejects(service.revoke('n9.test', 'boredom'), { name: 'ClientError' })
})

for (const [behind, how] of [
  [40 * DAY, 'is not valid yet'],
  [-40 * DAY, 'has expired'],
] as const)
  t.test(`a clock that is wrong is named, and not the root, which ${how}`, async (t) => {
    const { open, ca } = await serve(t, behind)
    const error = await open({ ca })
      .order('7')
      .catch((thrown) => thrown)
    const year = new Date().getFullYear()
    t.equal(error.code, 'CERT_CLIENT_UNTRUSTED')
    t.match(error.action, new RegExp(`^By the clock of this machine, ${year}-.*Z, .* ${how}\\.`))
    t.notMatch(error.action, /--ca/)
  })

import { once } from 'node:events'
import { rmSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { createServer, type Server } from 'node:tls'
import t, { type Test } from 'tap'
import { until } from '../../../scripts/test/until.ts'
import { type Running, start } from '../../../services/cert-service/test/helpers/app.ts'
import type { Placed } from '../src/certificate.ts'
import { getOnce, keepGetting } from '../src/keep.ts'
import { clientOf, injected, lookAt } from './helpers/client.ts'

type Pair = Pick<Placed, 'privateKey' | 'fullChain'>
const secure = ({ privateKey, fullChain }: Pair) => ({ key: privateKey, cert: fullChain })

/** A server of this machine that serves what it read last, as any does until it is reloaded. */
async function serve(t: Test, pair: Pair, host = '127.0.0.1') {
  const server: Server = createServer(secure(pair)).listen(0, host)
  await once(server, 'listening')
  t.teardown(() => void server.close())
  const { port } = server.address() as AddressInfo
  return { server, port: { host: '', port, protocol: 'tls' } as const }
}

/** Lets time pass until a promise is settled. */
async function settled({ clock }: Running, work: Promise<unknown>): Promise<unknown> {
  let outcome: { readonly result: unknown } | undefined
  work.then(
    (result) => (outcome = { result }),
    (result: unknown) => (outcome = { result }),
  )
  await until(async () => {
    await clock.advance(1_000)
    return outcome !== undefined
  })
  return outcome?.result
}

/** A fetch that notes what the service is told of servers, and answers so. */
function listening(running: Running, status: number) {
  const fetch = injected(running)
  const told: unknown[] = []
  const spy: typeof fetch = Object.assign(
    async (url: URL | string, init = {}) => {
      if (!String(url).endsWith('/api/certificate/probe')) return fetch(url, init)
      told.push(JSON.parse(String(Object(init).body)))
      const problem = { code: 'CERT_NAME_NOT_ALLOWED', detail: 'no' }
      return { status, headers: {}, body: Buffer.from(JSON.stringify(problem)) }
    },
    { log: fetch.log, close: fetch.close },
  )
  return { fetch: spy, told }
}

async function stage(t: Test, status = 200) {
  const running = await start(t)
  const { get, dir } = clientOf(running)
  await getOnce(get)
  const old = lookAt(dir, 'a.test')
  const server = await serve(t, old)
  const service = listening(running, status)
  const client = (options = {}) =>
    clientOf(running, { fetch: service.fetch, ports: [server.port], ...options })
  /** Has the next run find another certificate. */
  const revoke = () => running.call('POST', '/api/certificate/revoke', { domain: 'a.test' })
  return { running, dir, old, ...server, ...service, client, revoke }
}

t.test('a run in which nothing is new looks, too, and tells the service', async (t) => {
  const { client, told, old, port } = await stage(t)
  const { get, logged } = client()
  await getOnce(get)
  const { host: _, ...rest } = port
  t.strictSame(told, [{ domain: 'a.test', ...rest, sha256: old.fingerprint256 }])
  t.strictSame(logged, [])
})

t.test('a server that was not reloaded is found within a minute, and each time', async (t) => {
  const { running, client, dir, told, old, port, revoke } = await stage(t)
  await revoke()
  const { get } = client()
  const begin = running.clock.now()
  for (const what of ['when it is new', 'a day later']) {
    t.match(
      await settled(running, getOnce(get)),
      {
        code: 'CERT_CLIENT_NOT_SERVED',
        message: new RegExp(
          `^:${port.port} serves another certificate than the one in place, with serial number ${old.serialNumber}, ` +
            'which is valid since 20\\d\\d-\\d\\d-\\d\\dT[\\d:]+Z$',
        ),
        action: /^Reload the server/,
      },
      what,
    )
  }
  t.ok(running.clock.now() - begin <= 4 * 60_000)
  t.not(lookAt(dir, 'a.test').fingerprint256, old.fingerprint256)
  t.match(told, [{ sha256: old.fingerprint256 }, { sha256: old.fingerprint256 }])
})

t.test('a server may take some seconds to serve what is new', async (t) => {
  const { running, client, dir, told, server, revoke } = await stage(t)
  await revoke()
  let connections = 0
  server.on('secureConnection', () => {
    connections += 1
    if (connections === 3) server.setSecureContext(secure(lookAt(dir, 'a.test')))
  })
  t.equal(await settled(running, getOnce(client().get)), undefined)
  t.equal(connections, 4)
  t.match(told, [{ sha256: lookAt(dir, 'a.test').fingerprint256 }], 'told once, of the end')
})

t.test('a port where nothing listens, or no TLS, is named', async (t) => {
  const { running, client, server, port, told } = await stage(t)
  server.close()
  t.match(await settled(running, getOnce(client().get)), {
    code: 'CERT_CLIENT_NOT_SERVED',
    message: `127.0.0.1:${port.port} cannot be reached (ECONNREFUSED), [::1]:${port.port} cannot be reached (ECONNREFUSED)`,
  })
  const nameless = client({ ports: [{ ...port, host: 'nowhere.invalid' }] })
  t.match(await settled(running, getOnce(nameless.get)), {
    message: /^nowhere\.invalid has no address here/,
    action: /^Check the name/,
  })
  t.strictSame(told, [], 'there is nothing to tell')
})

t.test('each port has to serve it, also of other hosts', async (t) => {
  const { running, client, old, port, revoke, dir } = await stage(t)
  const second = await serve(t, old)
  await revoke()
  const ports = [port, { ...second.port, host: 'localhost' }]
  const { get } = client({ ports })
  const error = await settled(running, getOnce(get))
  t.match(error, {
    message: new RegExp(`^:${port.port} serves .*; localhost:${second.port.port} serves`),
  })
  second.server.setSecureContext(secure(lookAt(dir, 'a.test')))
  const fewer = await settled(running, getOnce(get))
  t.match(fewer, { message: new RegExp(`^:${port.port} serves [^;]*$`) })
})

t.test('the kind of key that is in place is asked for', async (t) => {
  const { running, client, old } = await stage(t)
  const rsa = client({ keyType: 'rsa2048', folder: { dir: `${running.folder}/rsa` }, ports: [] })
  await getOnce(rsa.get)
  const pair = lookAt(rsa.dir, 'a.test')
  const key = [old.privateKey, pair.privateKey]
  const server = createServer({ key, cert: [old.fullChain, pair.fullChain] }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => void server.close())
  const { port } = server.address() as AddressInfo
  const ports = [{ host: '', port, protocol: 'tls' }] as const
  await getOnce({ ...rsa.get, ports })
  const elsewhere = await serve(t, old)
  t.match(
    await settled(running, getOnce({ ...rsa.get, ports: [elsewhere.port] })),
    {
      message: new RegExp(`number ${old.serialNumber}`),
    },
    'and if there is none, what is there is named',
  )
})

t.test('a service that does not listen is no fault of the server', async (t) => {
  for (const [status, warnings] of [
    [200, 0],
    [404, 0],
    [403, 1],
  ] as const) {
    const { client, told } = await stage(t, status)
    const { get, logged } = client()
    await getOnce(get)
    t.equal(told.length, 1)
    t.equal(logged.length, warnings, `${status}`)
    if (warnings > 0)
      t.match(logged, [{ level: 'warn', code: 'CERT_NAME_NOT_ALLOWED', message: /was not told/ }])
  }
})

t.test('while the service is away, the machine is looked at all the same', async (t) => {
  const { running, client, dir, told, revoke, server } = await stage(t)
  await revoke()
  await settled(running, getOnce(client().get))
  told.length = 0
  await running.app.close()
  const { get, messages } = client({
    fetch: Object.assign(
      async () => {
        const { NetError } = await import('@gatehouse/net')
        throw new NetError('NET_FETCH_FAILED', 'away')
      },
      { close: async () => {} },
    ),
  })
  t.match(await settled(running, getOnce(get)), { code: 'CERT_CLIENT_NOT_SERVED' })
  server.setSecureContext(secure(lookAt(dir, 'a.test')))
  t.equal(await settled(running, getOnce(get)), undefined)
  t.notOk(messages().some((text) => text.includes('was not told')))
  t.strictSame(told, [])
})

t.test('with --watch it says so, and goes on', async (t) => {
  const { running, client, dir, revoke, server } = await stage(t)
  await revoke()
  const controller = new AbortController()
  const { get, logged } = client({ signal: controller.signal })
  const watching = keepGetting({ ...get, signal: controller.signal })
  const errors = () => logged.filter(({ level }) => level === 'error')
  await until(async () => {
    await running.clock.advance(60_000)
    return errors().length > 1
  })
  t.match(errors(), [
    { code: 'CERT_CLIENT_NOT_SERVED', message: 'the certificate is not served' },
    {},
  ])
  server.setSecureContext(secure(lookAt(dir, 'a.test')))
  controller.abort()
  await settled(running, watching)
  rmSync(dir, { recursive: true })
})

t.test('whether a certificate is the newest is answered without delivering it', async (t) => {
  const { running, client, old, revoke } = await stage(t)
  const fetch = injected(running)
  const { service } = client({ fetch, ports: [] }).get
  const ask = () => service.isNewest('a.test', old.fingerprint256)
  t.equal(await ask(), true)
  await revoke()
  t.equal(await ask(), undefined)
  await getOnce(client({ ports: [] }).get)
  t.equal(await ask(), false)
  t.strictSame(
    fetch.log.map(({ status }) => status),
    [304, 404, 200],
  )
})

t.test('the service keeps what the machine says of itself', async (t) => {
  const { running, client, dir, revoke, server, port } = await stage(t)
  const { get, logged } = client({ fetch: injected(running) })
  const state = async () => {
    const probes = await running.service.store.listProbes(['a.test'])
    t.match(probes, [{ port: port.port, protocol: 'tls', reporter: /^psk:/ }])
    return probes[0]?.state
  }
  await getOnce(get)
  t.equal(await state(), 'newest')
  await revoke()
  t.match(await settled(running, getOnce(get)), { code: 'CERT_CLIENT_NOT_SERVED' })
  t.equal(await state(), 'revoked')
  server.setSecureContext(secure(lookAt(dir, 'a.test')))
  await getOnce(get)
  t.equal(await state(), 'newest')
  t.notOk(logged.some(({ message }) => message.includes('was not told')))
})

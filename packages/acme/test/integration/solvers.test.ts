import { once } from 'node:events'
import type { AddressInfo, Server } from 'node:net'
import { buildCsr, generateP256, parseName } from '@gatehouse/pki'
import { systemClock } from '@gatehouse/service-kit/clock'
import t, { type Test } from 'tap'
import {
  createHttp01,
  createHttp01Server,
  createOrder,
  createTlsAlpn01,
  createTlsAlpn01Server,
  createTransport,
  newAccount,
  type Solver,
} from '../../src/index.ts'
import { run } from '../helpers.ts'
import { createMemoryStore } from '../memory-store.ts'
import { startPebble } from './pebble.ts'

const store = createMemoryStore()

async function portOf(t: Test, server: Server): Promise<number> {
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => server.close())
  return (server.address() as AddressInfo).port
}

t.test('Pebble believes our listeners, for names and for addresses', async (t) => {
  const { directoryUrl, fetch } = await startPebble(
    t,
    { PEBBLE_WFE_NONCEREJECT: '0', PEBBLE_AUTHZREUSE: '0' },
    {
      httpPort: await portOf(t, createHttp01Server(store)),
      tlsPort: await portOf(t, createTlsAlpn01Server(store, systemClock)),
    },
  )
  const transport = createTransport({ directoryUrl, fetch, clock: systemClock })
  const { privateKey: key } = generateP256()
  const request = newAccount(key, { termsOfServiceAgreed: true })
  const { url: accountUrl } = await transport.send(request, { key })

  const order = async (solver: Solver, names: string[]) => {
    const warn = (error: unknown) => t.fail(error as Error)
    const io = {
      transport,
      account: { accountUrl, key },
      solversFor: () => [solver],
      clock: systemClock,
      warn,
    }
    return (
      await run(await createOrder({ csr: buildCsr(generateP256(), names.map(parseName)) }), io)
    ).at(-1)
  }
  for (const solver of [createHttp01(store), createTlsAlpn01(store)]) {
    t.match(
      await order(solver, ['a.gatehouse.test', 'b.gatehouse.test']),
      { step: 'downloaded' },
      solver.type,
    )
    t.match(
      await order(solver, ['127.0.0.1']),
      { step: 'downloaded' },
      `${solver.type} for an address`,
    )
  }
  const silent: Solver = { type: 'tls-alpn-01', present: async () => {}, cleanUp: async () => {} }
  t.match(await order(silent, ['c.gatehouse.test']), { step: 'failed' }, 'and nobody else')
})

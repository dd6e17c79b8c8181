import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import t from 'tap'
import { expectWarnings } from '../../../scripts/test/quiet.ts'
import { ask } from '../../../scripts/test/running.ts'
import { until } from '../../../scripts/test/until.ts'
import { untrusted } from '../src/check/check.ts'
import { DOMAINS, SESSION_KEY, startApp } from './app.ts'

t.test('nobody is told to trust a connection without an address', async (t) => {
  const { message } = untrusted({ remoteAddress: '192.0.2.1' })
  t.match(message, 'add "192.0.2.1" or its host name to server.trustedProxies')
  t.notMatch(untrusted({}).message, 'trustedProxies')
})

t.test(
  'a service that stops ends what waits for a provider before it has to end itself',
  async (t) => {
    expectWarnings(t, 'FWA_PROVIDER_UNREACHABLE')
    const sockets: Socket[] = []
    const silent = createServer((socket) => void sockets.push(socket)).listen(0, '127.0.0.1')
    await once(silent, 'listening')
    t.teardown(() => {
      for (const socket of sockets) socket.destroy()
      silent.close()
    })
    const { port } = silent.address() as AddressInfo
    const provider = `{ type: openIDConnect, name: corp, issuerUrl: "http://localhost:${port}", clientId: a, clientSecret: b, timeout: 2m }`
    const yaml = `${DOMAINS}\n${SESSION_KEY}\nportals:\n  - { name: main, providers: [${provider}] }\n`
    const { app, clock } = await startApp(t, yaml)
    const url = await app.listen({ port: 0 })
    let received = 0
    app.server.on('request', () => {
      received += 1
    })
    const headers = {
      host: 'auth.example.com',
      'x-forwarded-proto': 'https',
      accept: 'text/html',
      'sec-fetch-mode': 'navigate',
    }
    const path = '/portals/main/signin?rd=https://app.example.com/'
    const answers = Array.from({ length: 5 }, () => ask(`${url}${path}`, { headers }))
    await until(() => received === answers.length)
    const closed = app.close()
    await until(() => !app.readiness().ready)
    await clock.advance(5_000)
    for (const { status } of await Promise.all(answers)) t.equal(status, 503)
    await closed
  },
)

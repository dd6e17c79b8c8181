import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { connect } from 'node:tls'
import { ACME_TLS, createTlsAlpn01 } from '@gatehouse/acme'
import { systemClock } from '@gatehouse/service-kit/clock'
import t, { type Test } from 'tap'
import { createMemoryStore } from '../../../../acme/test/memory-store.ts'
import { listenForChallenges } from '../../../src/issuers/acme/challenges.ts'
import type { ChallengeConfig } from '../../../src/options/issuers.ts'

const host = '127.0.0.1'

/** A port that nobody listens on, or that somebody does. */
async function portOf(t: Test, taken: boolean) {
  const server = createServer().listen(0, host)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  if (taken) t.teardown(() => server.close())
  else await new Promise((resolve) => server.close(resolve))
  return port
}

const withChallenges = (...challenges: ChallengeConfig[]) => [{ challenges }]

t.test('tls-alpn-01 is answered by its listener, which several issuers may name', async (t) => {
  const challenges = createMemoryStore()
  const port = await portOf(t, false)
  const challenge: ChallengeConfig = { type: 'tls-alpn-01', listen: { host, port } }
  const issuers = [...withChallenges(challenge), ...withChallenges(challenge)]
  const listener = await listenForChallenges(issuers, challenges, systemClock)
  t.teardown(() => listener.close())
  const identifier = { type: 'dns', value: 'app.example.com' } as const
  const task = { identifier, wildcard: false, token: 'a'.repeat(22), keyAuthorization: 'a.b' }
  await createTlsAlpn01(challenges).present(task, AbortSignal.timeout(5_000))

  const options = { rejectUnauthorized: false, ALPNProtocols: [ACME_TLS] }
  const socket = connect({ host, port, servername: identifier.value, ...options })
  await once(socket, 'secureConnect')
  t.equal(socket.alpnProtocol, ACME_TLS)
  t.equal(socket.getPeerCertificate().subjectaltname, 'DNS:app.example.com')
  socket.destroy()
})

t.test('a port that is taken is an error, and leaves no listener behind', async (t) => {
  const [free, taken] = [await portOf(t, false), await portOf(t, true)]
  const listen = (port: number): ChallengeConfig => ({ type: 'http-01', listen: { host, port } })
  const issuers = withChallenges(listen(free), listen(taken))
  const start = listenForChallenges(issuers, createMemoryStore(), systemClock)
  await t.rejects(start, { code: 'CONFIG_LISTEN_FAILED' })
  const again = await listenForChallenges(
    withChallenges(listen(free)),
    createMemoryStore(),
    systemClock,
  )
  again.close()
})

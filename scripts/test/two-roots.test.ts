import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { systemClock } from '@gatehouse/service-kit/clock'
import { testFolder } from '@gatehouse/service-kit/testing'
import fastify from 'fastify'
import t, { type Test } from 'tap'
import { JwksClient } from '../../packages/auth-core/src/oidc/jwks-client.ts'
import { shakeHands } from '../../packages/certs-client/src/acme/check.ts'
import { openAcmeServer } from '../../packages/issuance/src/issuers/acme/server.ts'
import { createReceiver, type Sender } from '../../packages/service-kit/src/events/receiver.ts'
import { startMailServer } from '../../packages/service-kit/test/events/mail-server.ts'
import { createClient } from '../../services/forward-auth/src/doctor/client.ts'
import { upstreams } from '../../services/forward-auth/src/mcp-proxy/upstreams.ts'
import { createTestCa, type TestCa } from './certificates.ts'

/** A server below one of the roots, and a file of roots. */
interface Case {
  readonly ca: TestCa
  readonly caFile: string
  readonly url: string
}

const SENDER: Sender = {
  name: 'cert-service',
  version: '0',
  textOf: () => ({
    ...{ title: 'a test', what: 'A test.', action: 'Nothing.', details: [], severity: 'info' },
  }),
}
/** What fastify-plugin gives a plugin. */
const SKIP = Symbol.for('skip-override')
const META = Symbol.for('plugin-meta')
const { signal } = new AbortController()
const EVENT = JSON.stringify({ id: '1', type: 'test', at: '2030-01-01T00:00:00Z' })

/** What connects to a server by a file of roots that somebody has configured. */
const CLIENTS: Readonly<Record<string, (t: Test, given: Case) => Promise<unknown>>> = {
  'a CA of ACME': async (t, { caFile, url }) => {
    const config = { name: 'internal', directory: url, caFile }
    const server = openAcmeServer(config as never, { clock: systemClock } as never)
    t.teardown(() => server.close())
    await server.transport.directory()
  },
  'a receiver of events': async (t, { caFile, url }) => {
    const config = {
      type: 'webhook',
      name: 'hook',
      events: [],
      secret: 'of the tests',
      url,
      caFile,
    } as const
    const receiver = createReceiver(config as never, SENDER)
    t.teardown(() => receiver.close())
    await receiver.send(EVENT, { now: Date.now(), signal })
  },
  'a receiver of e-mail': async (t, { ca, caFile }) => {
    const { config, mails } = await startMailServer(t, ca.certificateFor('localhost'))
    const receiver = createReceiver({ ...config, caFile } as never, SENDER)
    await receiver.send(EVENT, { now: Date.now(), signal })
    if (mails.length === 0) throw new Error('there is no mail')
  },
  'an issuer of tokens': async (t, { caFile, url }) => {
    const ca = readFileSync(caFile, 'utf8')
    const client = new JwksClient({ issuerUrl: url, jwksUrl: url, ca } as never)
    t.teardown(() => client.close())
    await client.read({ kid: 'a', alg: 'ES256' } as never)
  },
  'an MCP server': async (t, { caFile, url }) => {
    const app = fastify()
    t.teardown(() => app.close())
    app.decorate('onReload', () => {})
    for (const name of ['forward-auth/portals', 'service-kit/reload'])
      app.register(Object.assign(async () => {}, { [SKIP]: true, [META]: { name } }))
    await app.register(upstreams)
    const resource = { url, upstream: { url, caFile } }
    const request = { method: 'GET', headers: {}, identity: {}, signal }
    const { body } = await app.upstreams.send(resource as never, request as never)
    await body.dump()
  },
  'what doctor looks at': async (_, { caFile, url }) => {
    await createClient({ ca: readFileSync(caFile, 'utf8') })(new URL(url), { headers: {} })
  },
  'what acme-check looks at': async (_, { caFile, url }) => {
    const { refused } = await shakeHands(new URL(url), readFileSync(caFile, 'utf8'))
    if (refused !== undefined) throw new Error(refused)
  },
}

const cas = [await createTestCa(), await createTestCa()] as [TestCa, TestCa]
const [first, second] = cas.map(({ root }) => root) as [string, string]
const FILES: readonly (readonly [
  what: string,
  pem: string,
  trusts: readonly [boolean, boolean],
])[] = [
  ['the first root', first, [true, false]],
  ['the second root', second, [false, true]],
  ['both', first + second, [true, true]],
  ['both, the other way round', second + first, [true, true]],
]

async function serve(t: Test, ca: TestCa) {
  let requests = 0
  const server = createServer(ca.certificateFor('localhost'), (_, response) => {
    requests += 1
    response.setHeader('content-type', 'application/json')
    response.end('{}')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => void server.close())
  const { port } = server.address() as AddressInfo
  return { url: `https://localhost:${port}/`, requests: () => requests }
}

for (const [what, ask] of Object.entries(CLIENTS))
  t.test(`${what} is verified by each root of a file`, async (t) => {
    for (const [roots, pem, trusts] of FILES)
      for (const [index, ca] of cas.entries()) {
        const caFile = join(testFolder(t), 'roots.pem')
        writeFileSync(caFile, pem)
        const { url, requests } = await serve(t, ca)
        const failure = await ask(t, { ca, caFile, url }).then(
          () => undefined,
          (error: Error) => error.message,
        )
        // Some find more wrong with the answer, but only after it came.
        const isTrusted = failure === undefined || requests() > 0
        t.equal(isTrusted, trusts[index], `${roots}: server ${index + 1} (${failure})`)
      }
  })

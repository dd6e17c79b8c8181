import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { fileURLToPath } from 'node:url'
import { type ChannelCredentials, Client, credentials } from '@grpc/grpc-js'
import type { ServiceDefinition } from '@grpc/proto-loader'
import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { expectWarnings } from '../../../../scripts/test/quiet.ts'
import { type CheckResponse, EXT_AUTHZ, HEALTH, SERVING } from '../../src/grpc/messages.ts'
import { portalOf, startApp, yamlOf } from '../app.ts'
import { freePort } from '../helpers/process.ts'
import { BROWSER, type RequestHeaders } from '../shapes.ts'

// What is wrong in these tests, and said.
expectWarnings(t, 'check refused', 'gRPC check failed')

const fixture = (name: string) => fileURLToPath(import.meta.resolve(`../fixtures/${name}.pem`))
const pem = (name: string) => readFileSync(fixture(name))
const MAIN = portalOf(
  'main',
  `policies: { admins: 'Group("admins")' }, assertion: { hosts: ["*.example.com"] }`,
)
const SERVER_TLS = `certFile: ${fixture('server.cert')}, keyFile: ${fixture('server.key')}`
const PLAIN = credentials.createInsecure()

/** What Envoy asks. */
interface Asked {
  readonly extensions?: Readonly<Record<string, string>>
  readonly headers?: RequestHeaders
  readonly http?: object
  readonly source?: object | null
}

function toMessage({ extensions = {}, headers = {}, http = {}, source }: Asked) {
  const path = '/a/b?q=1'
  const pseudo = { ':method': 'GET', ':path': path, ':authority': 'app.example.com' }
  return {
    attributes: {
      source: { address: { socketAddress: { address: '203.0.113.7' } } },
      ...(source !== undefined && { source }),
      request: {
        http: {
          method: 'GET',
          path,
          host: 'app.example.com',
          scheme: 'https',
          headers: { ...pseudo, ...headers },
          ...http,
        },
      },
      contextExtensions: extensions,
    },
  }
}

function createCaller(t: Test, port: number, given: ChannelCredentials) {
  const client = new Client(`localhost:${port}`, given)
  t.teardown(() => client.close())
  return <Answer>(service: ServiceDefinition, message: object) => {
    const { Check } = service as never as {
      Check: { path: string; requestSerialize: never; responseDeserialize: never }
    }
    return new Promise<Answer>((resolve, reject) => {
      const deadline = Date.now() + 60_000
      const done = (error: Error | null, answer: unknown) =>
        error ? reject(error) : resolve(answer as Answer)
      const { path, requestSerialize, responseDeserialize } = Check
      client.makeUnaryRequest(
        path,
        requestSerialize,
        responseDeserialize,
        message,
        { deadline },
        done,
      )
    })
  }
}

interface Options {
  readonly portals?: string
  readonly server?: string
  readonly change?: (app: FastifyInstance) => void
}

async function start(t: Test, { portals = MAIN, server = '', change }: Options = {}) {
  const port = await freePort()
  const listener = `server: { grpc: { port: ${port} }${server && `, ${server}`} }`
  const gatehouse = await startApp(t, yamlOf(portals, listener), change)
  await gatehouse.app.ready()
  const call = createCaller(t, port, PLAIN)
  const check = async (asked: Asked, by = call) =>
    read(await by<CheckResponse>(EXT_AUTHZ, toMessage(asked)))
  return { ...gatehouse, port, check, call }
}

/** The members that Envoy acts on: headers by name, with '' for those that it removes. */
function read({ status, okResponse, deniedResponse }: CheckResponse) {
  const { headers = [] } = okResponse ?? deniedResponse ?? {}
  const removed = okResponse?.headersToRemove ?? []
  return {
    passes: status.code === 0 && okResponse !== null && deniedResponse === null,
    status: deniedResponse?.status.code ?? 200,
    cookies: headers.flatMap(({ header: { key, value } }) => (key === 'set-cookie' ? value : [])),
    headers: Object.fromEntries([
      ...headers.map(({ header: { key, value } }) => [key, value] as const),
      ...removed.map((key) => [key, ''] as const),
    ]) as Record<string, string>,
    replaces: headers.every(({ appendAction }) => appendAction === 2),
    body: deniedResponse?.body ?? '',
  }
}

t.test('a check over gRPC', async (t) => {
  const { check, signIn, call } = await start(t)
  const cookie = await signIn('main', { name: 'Ada' })
  const boss = await signIn('main', { sub: 'grace', groups: ['admins'] })
  const program = { accept: 'application/json' }
  const admins = { policy: 'admins' }
  const navigation = Object.fromEntries(
    Object.entries(BROWSER).map(([name, value]) => [name.toLowerCase(), value]),
  )

  await t.test('nobody signed in: sent to the sign-in page, and back', async (t) => {
    const { passes, status, headers, cookies } = await check({ headers: navigation })
    t.match({ passes, status }, { passes: false, status: 302 })
    const { origin, pathname, searchParams } = new URL(headers.location ?? '')
    t.equal(`${origin}${pathname}`, 'https://auth.example.com/portals/main/signin')
    t.equal(searchParams.get('rd'), 'https://app.example.com/a/b?q=1')
    t.match(cookies, [/^__Host-gatehouse-hop\.main\./, /^__Secure-gatehouse-binding\.main\./])
  })

  await t.test('nobody signed in: a program gets the problem and its challenge', async (t) => {
    const { passes, status, headers, body } = await check({ headers: program })
    t.match({ passes, status }, { passes: false, status: 401 })
    t.equal(headers['www-authenticate'], 'Cookie realm="main"')
    t.match(JSON.parse(body), { code: 'FWA_NO_SESSION' })
  })

  await t.test(
    'signed in: identity replaces that of the client, and the session is hidden',
    async (t) => {
      const forged = { 'x-forwarded-user': 'eve', 'x-gatehouse-assertion': 'eve' }
      const headers = { ...forged, cookie: `own=1; ${cookie}; too=2` }
      const answer = await check({ headers })
      t.match(answer, { passes: true, replaces: true, status: 200 })
      t.strictSame(Object.keys(answer.headers).sort(), [
        'cookie',
        'x-authenticated-user',
        'x-forwarded-displayname',
        'x-forwarded-user',
        'x-gatehouse-assertion',
      ])
      t.match(answer.headers, {
        'x-forwarded-user': 'ada',
        'x-forwarded-displayname': 'Ada',
        cookie: 'own=1; too=2',
      })
      t.equal((await check({ headers: { cookie } })).headers.cookie, '', 'a header that is removed')
    },
  )

  await t.test('a person without a value: the header of the client is removed', async (t) => {
    const headers = { cookie: boss, 'x-forwarded-displayname': 'eve' }
    t.match(await check({ headers }), { passes: true, headers: { 'x-forwarded-displayname': '' } })
  })

  await t.test('policies come from the filter alone', async (t) => {
    const forged = { 'x-forward-auth-if': 'true', ...program }
    const query = { http: { path: '/?policy=any&if=true' } }
    for (const headers of [
      { cookie, ...forged },
      { cookie, ...program },
    ])
      t.match(await check({ extensions: admins, headers, ...query }), {
        passes: false,
        status: 403,
      })
    const headers = { cookie: boss }
    t.match(await check({ extensions: admins, headers }), { passes: true })
    const wrong: [extensions: Record<string, string>, status: number, code: string][] = [
      [{ policy: 'admin' }, 403, 'FWA_POLICY_UNKNOWN'],
      [{ Policy: 'admins' }, 400, 'FWA_PARAMETER_UNKNOWN'],
      [{ portal: 'other' }, 404, 'FWA_NOT_FOUND'],
      [{ portal: '..' }, 404, 'NOT_FOUND'],
      [{ portal: '../healthz' }, 404, 'FWA_NOT_FOUND'],
    ]
    for (const [extensions, status, code] of wrong) {
      const answer = await check({ extensions, headers: { ...headers, ...program } })
      t.match({ ...answer, ...JSON.parse(answer.body) }, { passes: false, status, code })
    }
  })

  await t.test('forwarded headers of the client count for nothing', async (t) => {
    const headers = {
      ...navigation,
      'x-forwarded-host': 'evil.example',
      'x-forwarded-method': 'POST',
      'x-forwarded-proto': 'http',
      'x-forwarded-uri': '/evil',
      'x-original-url': 'https://evil.example/',
      host: 'evil.example',
    }
    const rd = new URLSearchParams({ rd: 'https://app.example.com/a/b?q=1' })
    t.match(await check({ headers }), {
      status: 302,
      headers: { location: `https://auth.example.com/portals/main/signin?${rd}` },
    })
    const alias = { cookie, x_forwarded_user: 'eve', ...program }
    t.match(await check({ headers: alias }), { passes: false, status: 400 })
  })

  await t.test(
    'the client has the address that Envoy states, whatever it says itself',
    async (t) => {
      const from = portalOf('main', 'rules: [{ from: [10.0.0.0/8], require: anyone }]')
      const { check } = await start(t, { portals: from })
      const source = (address: string) => ({ address: { socketAddress: { address } } })
      const rows: readonly (readonly [source: object | null, chain: string, passes: boolean])[] = [
        [source('10.1.2.3'), '203.0.113.7', true],
        [source('203.0.113.7'), '10.1.2.3', false],
        // A proxy of ours, and so the first to believe a header of.
        [source('127.0.0.1'), '10.1.2.3', false],
        [null, '10.1.2.3', false],
        [{}, '10.1.2.3', false],
      ]
      for (const [source, chain, passes] of rows) {
        const headers = { ...program, 'x-forwarded-for': chain }
        t.equal((await check({ source, headers })).passes, passes, JSON.stringify(source))
      }
    },
  )

  await t.test('paths arrive as they were sent', async (t) => {
    for (const path of ['/a/../b', '/a%2f..%2fb', '/portals/main/../x']) {
      const { headers } = await check({ headers: navigation, http: { path } })
      const rd = new URL(headers.location ?? '').searchParams.get('rd')
      t.equal(rd, new URL(path, 'https://app.example.com').href)
    }
    const { headers } = await check({ headers: navigation, http: { path: '//evil.example/' } })
    const rd = new URL(headers.location ?? '').searchParams.get('rd')
    t.equal(rd, 'https://app.example.com//evil.example/', 'a path, and no other host')
    for (const path of ['/\\evil.example', 'https://evil.example/', '*', ''])
      t.match(await check({ headers: { cookie }, http: { path } }), { passes: false, status: 400 })
  })

  await t.test('what cannot be read is denied, and is no error of gRPC', async (t) => {
    for (const message of [{}, { attributes: {} }, { attributes: { request: {} } }])
      t.match(read(await call<CheckResponse>(EXT_AUTHZ, message)), {
        passes: false,
        status: 403,
      })
  })

  await t.test('a message that is too large is refused', async (t) => {
    const headers = { cookie, 'x-filler': 'x'.repeat(98_304) }
    await t.rejects(check({ headers }), { code: 8 })
  })

  await t.test('health', async (t) => {
    t.match(await call(HEALTH, {}), { status: SERVING })
  })
})

t.test('a portal that sends UTF-8', async (t) => {
  const { check, signIn } = await start(t, { portals: portalOf('main', 'headerEncoding: utf-8') })
  const headers = { cookie: await signIn('main', { name: 'Zoë' }) }
  t.match(await check({ headers }), { passes: true, headers: { 'x-forwarded-displayname': 'Zoë' } })
})

t.test('with several portals the filter names one', async (t) => {
  const { check, signIn } = await start(t, { portals: MAIN + portalOf('other') })
  const headers = { cookie: await signIn('other'), accept: 'application/json' }
  t.match(await check({ extensions: { portal: 'other' }, headers }), { passes: true })
  t.match(await check({ headers }), { passes: false, status: 404 })
  t.match(await check({ extensions: { portal: 'main' }, headers }), { status: 401 })
})

t.test('a reload counts at once', async (t) => {
  const { check, signIn, reload, port } = await start(t)
  const headers = { cookie: await signIn('main'), accept: 'application/json' }
  const extensions = { policy: 'late' }
  t.match(await check({ extensions, headers }), { passes: false })
  const listener = `server: { grpc: { port: ${port} } }`
  await reload(yamlOf(portalOf('main', `policies: { late: 'true' }`), listener))
  t.match(await check({ extensions, headers }), { passes: true })
})

t.test('a peer that is no trusted proxy', async (t) => {
  const { check, signIn } = await start(t, { server: 'trustedProxies: [192.0.2.1]' })
  const headers = { cookie: await signIn('main'), accept: 'application/json' }
  const answer = await check({ headers })
  t.match(answer, { passes: false, status: 403 })
  t.match(JSON.parse(answer.body), { code: 'FWA_PEER_UNTRUSTED', detail: /^127\.0\.0\.1 is not/ })
})

t.test('mutual TLS: a certificate of the CA makes a trusted proxy', async (t) => {
  const tls = `trustedProxies: [], tls: { ${SERVER_TLS}, clientCaFile: ${fixture('client-ca.cert')} }`
  const { signIn, check, port } = await start(t, { server: tls })
  const asked = { headers: { cookie: await signIn('main') } }
  const as = (name?: string) => {
    const root = pem('server.cert')
    const given = name
      ? credentials.createSsl(root, pem(`${name}.key`), pem(`${name}.cert`))
      : credentials.createSsl(root)
    return createCaller(t, port, given)
  }
  t.match(await check(asked, as('proxy')), { passes: true })
  await t.rejects(check(asked, as('stranger')), { code: 14 })
  await t.rejects(check(asked, as()), { code: 14 })
  await t.rejects(check(asked), { code: 14 }, 'without TLS')
})

t.test('a port that is taken prevents the start', async (t) => {
  const other = createServer().listen(0, '127.0.0.1')
  await once(other, 'listening')
  t.teardown(() => other.close())
  const { port } = other.address() as { port: number }
  const { app } = await startApp(t, yamlOf(MAIN, `server: { grpc: { port: ${port} } }`))
  await t.rejects(async () => app.ready(), {
    code: 'CONFIG_LISTEN_FAILED',
    message: `127.0.0.1:${port}`,
  })
})

t.test('open calls are answered before the app closes', async (t) => {
  const entered = Promise.withResolvers<void>()
  const left = Promise.withResolvers<void>()
  const { app, check, signIn } = await start(t, {
    change: (app) =>
      app.addHook('onRequest', async () => {
        entered.resolve()
        await left.promise
      }),
  })
  const answer = check({ headers: { cookie: await signIn('main') } })
  await entered.promise
  const closed = app.close()
  left.resolve()
  t.match(await answer, { passes: true })
  await closed
  await t.rejects(check({}), { code: 14 })
})

import { execFileSync } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { chmodSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { createFetch } from '@gatehouse/net'
import { testFolder } from '@gatehouse/service-kit/testing'
import { Provider } from 'oidc-provider'
import t, { type Test } from 'tap'
import {
  createIdp,
  leapClock,
  NOW,
  start,
} from '../../../services/cert-service/test/helpers/app.ts'
import { isExposed, openCredentials, type Source } from '../src/credentials.ts'
import { getOnce } from '../src/keep.ts'
import { connect } from '../src/service.ts'
import { clientOf, injected, lookAt } from './helpers/client.ts'

/** A server on loopback; gives its URL and what it was asked. */
async function listen(t: Test, answer: (asked: Asked) => object | number | undefined) {
  const asked: Asked[] = []
  const listener: RequestListener = async (request, response) => {
    const { method = '', url = '', headers } = request
    const one = { method, url, headers, body: await text(request) }
    asked.push(one)
    const body = answer(one)
    response.statusCode = typeof body === 'number' ? body : 200
    if (response.statusCode === 302) response.setHeader('location', '/elsewhere')
    response.setHeader('content-type', 'application/json')
    response.end(typeof body === 'object' ? JSON.stringify(body) : '{}')
  }
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => void server.close())
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked }
}

type Asked = Pick<IncomingMessage, 'headers'> & Readonly<Record<'method' | 'url' | 'body', string>>

function open(t: Test, source: Source, now = () => NOW) {
  const fetch = createFetch()
  t.teardown(fetch.close)
  return openCredentials(source, { fetch, now })
}

t.test('a key or token file is read for each request', async (t) => {
  const file = join(testFolder(t), 'token')
  const token = open(t, { kind: 'token', token: { file } })
  const key = open(t, { kind: 'key', key: { file } })
  for (const value of ['one', 'two']) {
    writeFileSync(file, ` ${value}\n`)
    t.equal(await token.authorization(), `Bearer ${value}`)
    t.equal(await key.authorization(), `APIKey ${value}`)
  }
})

t.test('a file that holds no secret is refused, without its content', async (t) => {
  const dir = testFolder(t, {
    empty: ' \n',
    two: 'one\ntwo-secret',
    large: 'x'.repeat(70_000),
    folder: {},
  })
  execFileSync('mkfifo', [join(dir, 'pipe')])
  for (const [name, why] of [
    ['pipe', /pipe is a pipe, and it is read for each request/],
    ['empty', /empty is empty/],
    ['two', /two holds something else than one key, token or secret$/],
    ['large', /large is too large/],
    ['folder', /folder cannot be read \(EISDIR\)/],
    ['absent', /absent cannot be read \(ENOENT\)/],
  ] as const) {
    const credentials = open(t, { kind: 'key', key: { file: join(dir, name) } })
    await t.rejects(credentials.authorization(), { code: 'CERT_CLIENT_CREDENTIALS', message: why })
  }
  const file = join(dir, 'two')
  for (const [mode, exposed] of [
    [0o600, false],
    [0o640, false],
    [0o644, true],
  ] as const) {
    chmodSync(file, mode)
    t.equal(isExposed(file), exposed)
  }
})

t.test('a job of GitHub Actions asks for a token with the audience', async (t) => {
  const payload = (exp: number) => Buffer.from(JSON.stringify({ exp })).toString('base64url')
  const { url, asked } = await listen(t, () => ({ value: `h.${payload(NOW / 1_000 + 300)}.s` }))
  let now = NOW
  const source = { kind: 'github', url: `${url}/token?v=2`, token: 'rt', audience: 'a&b' } as const
  const credentials = open(t, source, () => now)
  t.match(await credentials.authorization(), /^Bearer h\./)
  t.match(asked, [{ url: '/token?v=2&audience=a%26b', headers: { authorization: 'Bearer rt' } }])
  now += 200_000
  await credentials.authorization()
  t.equal(asked.length, 1, 'it is used until shortly before its end')
  now += 60_000
  await credentials.authorization()
  t.equal(asked.length, 2)
})

t.test(
  'client credentials: a token of the issuer is used until shortly before its end',
  async (t) => {
    let now = NOW
    for (const [methods, how] of [
      [undefined, { headers: { authorization: `Basic ${btoa('me:s%3Fcret')}` } }],
      [['client_secret_post'], { body: /client_secret=s%3Fcret/ }],
    ] as const) {
      const { url, asked } = await listen(t, ({ url: path }) =>
        path === '/.well-known/openid-configuration'
          ? {
              issuer: url,
              token_endpoint: `${url}/token`,
              token_endpoint_auth_methods_supported: methods,
            }
          : { access_token: 'at', token_type: 'bearer', expires_in: 300 },
      )
      const secret = { text: 's?cret' }
      const client = {
        clientId: 'me',
        clientSecret: secret,
        issuer: url,
        scope: 'certs',
        audience: 'a',
      }
      const credentials = open(t, { kind: 'client', ...client }, () => now)
      for (const later of [0, 200_000]) {
        now += later
        t.equal(await credentials.authorization(), 'Bearer at')
      }
      t.match(
        asked.map(({ url: path }) => path),
        ['/.well-known/openid-configuration', '/token'],
      )
      t.match(asked[1], how)
      t.match(asked[1]?.body, /grant_type=client_credentials/)
      t.match(asked[1]?.body, /scope=certs/)
      t.match(asked[1]?.body, /audience=a/)
      now += 60_000
      await credentials.authorization()
      t.equal(asked.filter(({ url: path }) => path === '/token').length, 2)
    }
  },
)

t.test('an issuer that gives no token is told without its answer', async (t) => {
  for (const [answer, code] of [
    [{ access_token: 5 }, 'CERT_CLIENT_UNREACHABLE'],
    [302, 'CERT_CLIENT_UNREACHABLE'],
    [500, 'CERT_CLIENT_UNREACHABLE'],
  ] as const) {
    const { url } = await listen(t, () => answer)
    const client = {
      clientId: 'me',
      clientSecret: { text: 'the-secret' },
      tokenUrl: `${url}/token`,
    }
    const error = await open(t, { kind: 'client', ...client })
      .authorization()
      .catch((cause) => cause)
    t.match(error, { name: 'ClientError', code })
    t.notMatch(JSON.stringify([error, error.message, error.cause]), /the-secret/)
  }
  const { url } = await listen(t, () => ({
    issuer: 'https://other.test',
    token_endpoint: `${url}/token`,
  }))
  const wrong = { clientId: 'me', clientSecret: { text: 'x' }, issuer: url }
  await t.rejects(open(t, { kind: 'client', ...wrong }).authorization(), { name: 'ClientError' })
})

t.test('a token that is refused is asked for once more', async (t) => {
  const { url, asked } = await listen(t, () => ({
    access_token: `at-${asked.length}`,
    token_type: 'bearer',
  }))
  const client = { clientId: 'me', clientSecret: { text: 'x' }, tokenUrl: `${url}/token` }
  const credentials = open(t, { kind: 'client', ...client })
  const seen: unknown[] = []
  const service = connect({
    url: new URL('http://certs.test/base'),
    credentials,
    now: () => NOW,
    actionFor: () => undefined,
    fetch: Object.assign(
      async (to: URL | string, init?: { headers?: Record<string, string> }) => {
        seen.push([String(to), init?.headers?.authorization])
        const body = Buffer.from('{"code":"AUTH_TOKEN_EXPIRED"}')
        return { status: 401, headers: {}, body }
      },
      { close: async () => {} },
    ),
  })
  await t.rejects(service.order('7'), { code: 'AUTH_TOKEN_EXPIRED' })
  const order = 'http://certs.test/base/api/orders/7'
  t.same(seen, [
    [order, 'Bearer at-1'],
    [order, 'Bearer at-2'],
  ])
})

t.test('the service takes the tokens', async (t) => {
  const idp = await createIdp(t, () => NOW)
  const running = await start(t, {
    auth: { jwt: { issuerUrl: idp.issuerUrl, audience: 'certs' } },
    rules: [{ subject: 'web', names: ['a.test'] }],
  })
  const file = join(running.folder, 'token')
  writeFileSync(file, idp.token({ sub: 'web' }))
  const fetch = injected(running)
  const { get, dir } = clientOf(running, { fetch })
  const credentials = open(t, { kind: 'token', token: { file } })
  const url = new URL('http://certs.test/')
  const service = connect({ url, credentials, fetch, now: () => NOW, actionFor: () => undefined })
  await getOnce({ ...get, service })
  t.ok(lookAt(dir, 'a.test'))
  writeFileSync(file, idp.token({ sub: 'other' }))
  await t.rejects(getOnce({ ...get, service }), { code: 'CERT_NAME_NOT_ALLOWED' })
})

/** A real authorization server, whose client `web` may get tokens for cert-service. */
async function startIssuer(t: Test): Promise<string> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => void server.close())
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const key = { ...privateKey.export({ format: 'jwk' }), kid: 'one', alg: 'ES256', use: 'sig' }
  const provider = new Provider(issuer, {
    jwks: { keys: [key] },
    clients: [
      {
        ...{ client_id: 'web', client_secret: 'the/secret of web', redirect_uris: [] },
        ...{ grant_types: ['client_credentials'], response_types: [] },
        id_token_signed_response_alg: 'ES256',
      },
    ],
    scopes: ['certs:issue'],
    ttl: { ClientCredentials: 300 },
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_context: unknown, audience: string) => ({
          ...{ scope: 'certs:issue', audience, accessTokenFormat: 'jwt' },
          jwt: { sign: { alg: 'ES256' } },
        }),
      },
    },
  })
  server.on('request', provider.callback())
  return issuer
}

t.test('client credentials of a real issuer get a certificate', async (t) => {
  const issuer = await startIssuer(t)
  const running = await start(
    t,
    {
      auth: {
        jwt: { issuerUrl: issuer, audience: 'urn:certs', requiredScopes: ['certs:issue'] },
      },
      rules: [{ subject: 'web', names: ['a.test'] }],
    },
    { clock: leapClock(Date.now()) },
  )
  const { get, dir } = clientOf(running)
  const fetch = injected(running)
  const serviceFor = (more: object) => {
    const client = { clientId: 'web', clientSecret: { text: 'the/secret of web' }, issuer, ...more }
    const credentials = open(t, { kind: 'client', ...client }, Date.now)
    return connect({
      url: new URL('http://certs.test/'),
      credentials,
      fetch,
      now: Date.now,
      actionFor: () => undefined,
    })
  }
  const asked = { resource: 'urn:certs', scope: 'certs:issue' }
  await getOnce({ ...get, service: serviceFor(asked) })
  t.ok(lookAt(dir, 'a.test'))
  const refused = async (more: object, error: { code: string; message?: string }) =>
    t.rejects(serviceFor({ ...asked, ...more }).order('7'), error)
  await refused({ resource: 'urn:other' }, { code: 'AUTH_TOKEN_AUDIENCE' })
  await refused({ scope: undefined }, { code: 'AUTH_SCOPE_MISSING' })
  await refused(
    { clientSecret: { text: 'wrong' } },
    {
      code: 'CERT_CLIENT_CREDENTIALS',
      message: 'the issuer sent no token: invalid_client',
    },
  )
})

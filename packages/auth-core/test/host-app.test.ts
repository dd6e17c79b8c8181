import cookie from '@fastify/cookie'
import fastifyJwt from '@fastify/jwt'
import Fastify, { type FastifyInstance } from 'fastify'
import t from 'tap'
import auth from '../src/index.ts'
import { AUDIENCE, fakeIssuer, frozenClock, ISSUER, issue, signingKey } from './kit.ts'

const rs = signingKey('RS256', 'rs')
const key = 'correct-horse-battery-staple'

async function registerAuth(app: FastifyInstance) {
  const issuer = fakeIssuer({ keys: [rs.jwk] })
  const clock = frozenClock()
  await app.register(auth, {
    psk: { key },
    jwt: { issuerUrl: ISSUER, audience: AUDIENCE },
    now: clock.now,
    elapsed: clock.elapsed,
    dispatcher: issuer.dispatcher,
  })
  app.get('/ours', { onRequest: app.requireCaller({ scopes: ['a'] }) }, ({ caller }) => caller)
  return { issuer, clock }
}

async function registerHost(app: FastifyInstance) {
  await app.register(cookie)
  await app.register(fastifyJwt, {
    secret: 'a secret of the host application',
    cookie: { cookieName: 'session', signed: false },
  })
  app.get('/theirs', { onRequest: (request) => request.jwtVerify() }, ({ user }) => user)
}

for (const [order, steps] of [
  ['before', [registerHost, registerAuth]],
  ['after', [registerAuth, registerHost]],
] as const)
  t.test(`beside @fastify/jwt and @fastify/cookie of the host, registered ${order}`, async (t) => {
    const app = Fastify()
    t.teardown(() => app.close())
    for (const step of steps) await step(app)
    const session = app.jwt.sign({ sub: 'person' })
    const ours = (authorization: string) => app.inject({ url: '/ours', headers: { authorization } })
    const theirs = (headers: object) => app.inject({ url: '/theirs', headers: { ...headers } })

    t.match((await ours(`Bearer ${issue(rs)}`)).json(), { subject: 'machine-1' })
    t.match((await ours(`APIKey ${key}`)).json(), { subject: 'default' })
    t.match((await theirs({ cookie: `session=${session}` })).json(), { sub: 'person' })
    t.match((await theirs({ authorization: `Bearer ${session}` })).json(), { sub: 'person' })
    t.equal((await ours(`Bearer ${session}`)).statusCode, 401, 'their token is not ours')
    t.not(
      (await theirs({ authorization: `Bearer ${issue(rs)}` })).statusCode,
      200,
      'nor ours theirs',
    )
  })

const handlers: [name: string, install: (app: FastifyInstance) => void][] = [
  ['the default error handler', () => {}],
  [
    'an error handler that replies with what the error says',
    (app) =>
      app.setErrorHandler((error: { statusCode?: number; code?: string }, _request, reply) => {
        void reply.code(error.statusCode ?? 500).send({ code: error.code })
      }),
  ],
  [
    'an error handler that sends the error',
    (app) => app.setErrorHandler((error, _request, reply) => void reply.send(error)),
  ],
  [
    'an error handler that throws it again',
    (app) =>
      app.setErrorHandler((error) => {
        throw error
      }),
  ],
]
for (const [name, install] of handlers)
  t.test(`status and challenge are right under ${name}`, async (t) => {
    const app = Fastify()
    t.teardown(() => app.close())
    install(app)
    const { issuer, clock } = await registerAuth(app)
    const ask = async (authorization?: string) => {
      const headers = authorization === undefined ? {} : { authorization }
      const response = await app.inject({ url: '/ours', headers })
      const { 'www-authenticate': challenges, 'retry-after': retryAfter } = response.headers
      return { status: response.statusCode, code: response.json().code, challenges, retryAfter }
    }
    const offered = ['APIKey realm="api"', 'Bearer realm="api"']
    t.match(await ask(), { status: 401, code: 'AUTH_CREDENTIALS_MISSING', challenges: offered })
    t.match(await ask('Bearer'), {
      status: 400,
      code: 'AUTH_HEADER_INVALID',
      challenges: [offered[0], /^Bearer .*error="invalid_request"/],
    })
    issuer.isDown = true
    t.strictSame(await ask(`Bearer ${issue(rs)}`), {
      status: 503,
      code: 'AUTH_ISSUER_UNREACHABLE',
      challenges: undefined,
      retryAfter: '1',
    })
    issuer.isDown = false
    clock.pass(1_000)
    t.match(await ask(`Bearer ${issue(rs)}`), { status: 200 })
    t.match(await ask(`Bearer ${issue(rs, { exp: 0 })}`), {
      status: 401,
      code: 'AUTH_TOKEN_EXPIRED',
      challenges: [offered[0], /^Bearer .*error="invalid_token"/],
    })
    t.match(await ask(`Bearer ${issue(rs, { scope: 'b' })}`), {
      status: 403,
      code: 'AUTH_SCOPE_MISSING',
      challenges: [offered[0], /error="insufficient_scope".*scope="a"/],
    })
  })

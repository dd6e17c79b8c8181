import fastifyAuth from '@fastify/auth'
import cookie from '@fastify/cookie'
import fastifyJwt from '@fastify/jwt'
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import t, { type Test } from 'tap'
import auth from '../src/index.ts'
import { AUDIENCE, fakeIssuer, frozenClock, ISSUER, issue, signingKey } from './kit.ts'

const rs = signingKey('RS256', 'rs')
const key = 'correct-horse-battery-staple'

async function registerOurs(app: FastifyInstance) {
  await app.register(auth, {
    psk: { keys: [{ name: 'backup', key, scopes: ['read'] }] },
    jwt: { issuerUrl: ISSUER, audience: AUDIENCE },
    now: frozenClock().now,
    dispatcher: fakeIssuer({ keys: [rs.jwk] }).dispatcher,
  })
}

async function registerTheirs(app: FastifyInstance) {
  await app.register(fastifyAuth)
  await app.register(cookie)
  await app.register(fastifyJwt, {
    secret: 'a secret of the host application',
    cookie: { cookieName: 'session', signed: false },
  })
}

async function setup(t: Test, steps = [registerOurs, registerTheirs]) {
  const app = Fastify()
  t.teardown(() => app.close())
  for (const step of steps) await step(app)
  const session = { cookie: `session=${app.jwt.sign({ sub: 'person' })}` }
  const ask = (headers: Record<string, string> = {}) => app.inject({ url: '/', headers })
  return { app, ask, session }
}

const hasSession = (request: FastifyRequest) => request.jwtVerify({ onlyCookie: true })
const who = ({ optionalCaller, user }: FastifyRequest) => ({
  caller: optionalCaller?.subject ?? null,
  user: (user as { sub?: string } | null)?.sub ?? null,
})
const apiKey = { authorization: `APIKey ${key}` }
const token = { authorization: `Bearer ${issue(rs)}` }

for (const [order, steps] of [
  ['before', [registerOurs, registerTheirs]],
  ['after', [registerTheirs, registerOurs]],
] as const)
  t.test(
    `registered ${order} @fastify/auth, a route accepts any of several ways to sign in`,
    async (t) => {
      const { app, ask, session } = await setup(t, [...steps])
      app.get('/', { onRequest: app.auth([hasSession, app.requireCaller()]) }, who)
      t.strictSame((await ask(session)).json(), { caller: null, user: 'person' })
      t.strictSame((await ask(apiKey)).json(), { caller: 'backup', user: null })
      t.strictSame((await ask(token)).json(), { caller: 'machine-1', user: null }, 'keys unread')
      t.strictSame((await ask(token)).json(), { caller: 'machine-1', user: null }, 'keys at hand')
      for (const headers of [session, apiKey, token])
        t.equal((await ask(headers)).headers['www-authenticate'], undefined)
      t.match(await ask(), {
        statusCode: 401,
        headers: { 'www-authenticate': ['APIKey realm="api"', 'Bearer realm="api"'] },
      })
      t.equal((await ask({ authorization: 'APIKey a-wrong-key-a-wrong-key' })).statusCode, 401)
    },
  )

t.test('guards of one route as alternatives: each method with its own demand', async (t) => {
  const { app, ask } = await setup(t)
  const guards = [
    app.requireCaller({ methods: ['jwt'], scopes: ['a'] }),
    app.requireCaller({ methods: ['psk'] }),
  ]
  app.get('/', { onRequest: app.auth(guards, { relation: 'or' }) }, who)
  const accepted = await ask(apiKey)
  t.equal(accepted.json().caller, 'backup')
  t.equal(accepted.headers['www-authenticate'], undefined, 'none of the guard that refused')
  t.equal((await ask(token)).json().caller, 'machine-1')
  t.equal((await ask({ authorization: `Bearer ${issue(rs, { scope: 'b' })}` })).statusCode, 401)
})

t.test('a guard and a check of the application together', async (t) => {
  const { app, ask, session } = await setup(t)
  const isBackup = async ({ caller }: FastifyRequest, _reply: FastifyReply) => {
    if (caller.subject !== 'backup') throw Object.assign(new Error('not you'), { statusCode: 403 })
  }
  const relation = { relation: 'and' } as const
  app.get('/', { preHandler: app.auth([app.requireCaller(), isBackup], relation) }, who)
  t.equal((await ask(apiKey)).statusCode, 200)
  t.equal((await ask(token)).statusCode, 403)
  t.equal((await ask(session)).statusCode, 401)
})

t.test('the status of a refusal is the status of the answer', async (t) => {
  const { app, ask } = await setup(t)
  app.get('/', { onRequest: app.auth([app.requireCaller({ scopes: ['write'] })]) }, who)
  t.match(await ask(apiKey), {
    statusCode: 403,
    headers: { 'www-authenticate': [/APIKey/, /insufficient_scope/] },
  })
  t.equal((await ask({ authorization: 'Bearer' })).statusCode, 400)
})

t.test(
  'a guard that comes first leaves its challenge on the answer: it belongs last',
  async (t) => {
    const { app, ask, session } = await setup(t)
    app.get('/', { onRequest: app.auth([app.requireCaller(), hasSession]) }, who)
    const answer = await ask(session)
    t.strictSame(answer.json(), { caller: null, user: 'person' })
    t.type(answer.headers['www-authenticate'], Array)
  },
)

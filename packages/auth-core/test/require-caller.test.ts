import Fastify, { type FastifyInstance, type FastifyRequest } from 'fastify'
import t, { type Test } from 'tap'
import type { AuthOptions, CallerDemand, Method } from '../src/index.ts'
import { AUDIENCE, fakeIssuer, ISSUER, issue, signingKey, startApp } from './kit.ts'

const rs = signingKey('RS256', 'rs')
const key = 'correct-horse-battery-staple'
const APIKEY = 'APIKey realm="api"'
const BEARER = 'Bearer realm="api"'
const both: AuthOptions = { psk: { key }, jwt: { issuerUrl: ISSUER, audience: AUDIENCE } }

async function setup(t: Test, options: AuthOptions = both) {
  const issuer = fakeIssuer({ keys: [rs.jwk] })
  const { app } = await startApp(t, options, issuer)
  return { app, issuer }
}

const caller = (request: FastifyRequest) => request.caller
const get = (app: FastifyInstance, authorization?: string, url = '/') =>
  app.inject({ url, ...(authorization !== undefined && { headers: { authorization } }) })

const ways: [way: string, guard: (app: FastifyInstance, demand: CallerDemand) => void][] = [
  [
    'an onRequest hook',
    (app, demand) => app.get('/', { onRequest: app.requireCaller(demand) }, caller),
  ],
  [
    'a preHandler hook',
    (app, demand) => app.get('/', { preHandler: app.requireCaller(demand) }, caller),
  ],
  [
    'one of several hooks',
    (app, demand) => app.get('/', { preValidation: [app.requireCaller(demand)] }, caller),
  ],
  [
    'a hook of a whole scope',
    (app, demand) =>
      void app.register(async (scope) => {
        scope.addHook('onRequest', scope.requireCaller(demand))
        scope.get('/', caller)
      }),
  ],
  [
    'a function to await in a hook',
    (app, demand) => {
      const guard = app.requireCaller(demand)
      app.get('/', { onRequest: async (request, reply) => await guard(request, reply) }, caller)
    },
  ],
  [
    'a function to await in a handler',
    (app, demand) =>
      app.get('/', async (request, reply) => {
        await app.requireCaller(demand)(request, reply)
        return request.caller
      }),
  ],
]
for (const [way, guard] of ways)
  t.test(`as ${way} it admits, refuses and challenges`, async (t) => {
    const { app, issuer } = await setup(t)
    guard(app, { scopes: ['a'] })
    t.match(await get(app), { statusCode: 401, headers: { 'www-authenticate': [APIKEY, BEARER] } })
    t.match((await get(app, `Bearer ${issue(rs)}`)).json(), { subject: 'machine-1' }, 'keys unread')
    t.match(
      (await get(app, `Bearer ${issue(rs)}`)).json(),
      { subject: 'machine-1' },
      'keys at hand',
    )
    t.match((await get(app, `APIKey ${key}`)).json(), { subject: 'default' })
    t.match(await get(app, `Bearer ${issue(rs, { scope: 'b' })}`), {
      statusCode: 403,
      headers: { 'www-authenticate': [APIKEY, /insufficient_scope/] },
    })
    issuer.isDown = true
    const { json, headers } = await get(app, `Bearer ${issue({ ...rs, kid: 'new' })}`)
    t.match(json(), { code: /AUTH_(TOKEN_KEY_UNKNOWN|ISSUER_UNREACHABLE)/ })
    t.ok(headers['www-authenticate'] ?? headers['retry-after'])
  })

t.test('an optional caller', async (t) => {
  const { app } = await setup(t)
  const route = (url: string, demand: CallerDemand) =>
    app.get(url, { onRequest: app.requireCaller(demand) }, ({ optionalCaller }) => ({
      who: optionalCaller?.subject ?? null,
    }))
  route('/', { optional: true })
  route('/scoped', { optional: true, scopes: ['a'] })
  app.get('/wrong', { onRequest: app.requireCaller({ optional: true }) }, caller)
  app.get('/open', ({ optionalCaller }) => ({ who: optionalCaller }))

  t.test('may be absent', async (t) => {
    for (const url of ['/', '/scoped', '/open'])
      t.strictSame((await get(app, undefined, url)).json(), { who: null }, url)
  })
  t.test('is known if there is one', async (t) => {
    t.strictSame((await get(app, `APIKey ${key}`)).json(), { who: 'default' })
    t.strictSame((await get(app, `Bearer ${issue(rs)}`, '/scoped')).json(), { who: 'machine-1' })
  })
  t.test('with wrong credentials is refused', async (t) => {
    for (const [authorization, status] of [
      ['', 401],
      ['APIKey', 400],
      ['Basic eDp4', 401],
      ['APIKey a-wrong-key-a-wrong-key', 401],
      [`Bearer ${issue(rs, { exp: 0 })}`, 401],
      ['Bearer ', 400],
    ] as const)
      t.equal((await get(app, authorization)).statusCode, status, authorization)
    const unscoped = await get(app, `Bearer ${issue(rs, { scope: 'b' })}`, '/scoped')
    t.equal(unscoped.statusCode, 403)
  })
  t.test('does not make request.caller null', async (t) => {
    t.match((await get(app, undefined, '/wrong')).json(), {
      statusCode: 500,
      code: 'AUTH_NOT_GUARDED',
    })
    t.match((await get(app, `APIKey ${key}`, '/wrong')).json(), { subject: 'default' })
  })
})

t.test('a route that names its methods', async (t) => {
  const { app } = await setup(t)
  app.get('/', { onRequest: app.requireCaller({ methods: ['psk'] }) }, caller)
  app.get('/token', { onRequest: app.requireCaller({ methods: ['jwt'] }) }, caller)

  t.test('accepts these methods only', async (t) => {
    t.equal((await get(app, `APIKey ${key}`)).statusCode, 200)
    t.equal((await get(app, `Bearer ${issue(rs)}`, '/token')).statusCode, 200)
    for (const [authorization, url] of [
      [`Bearer ${issue(rs)}`, '/'],
      [`APIKey ${key}`, '/token'],
    ] as const)
      t.equal((await get(app, authorization, url)).json().code, 'AUTH_SCHEME_UNSUPPORTED')
  })
  t.test('offers these methods only', async (t) => {
    t.strictSame((await get(app)).headers['www-authenticate'], APIKEY)
    t.strictSame((await get(app, '', '/token')).headers['www-authenticate'], BEARER)
  })
  t.test('refuses every request until a reload configures them', async (t) => {
    const { app } = await setup(t, { jwt: both.jwt! })
    app.get('/', { onRequest: app.requireCaller({ methods: ['psk'] }) }, caller)
    const refused = await get(app, `APIKey ${key}`)
    t.match(refused, { statusCode: 401, headers: { 'www-authenticate': APIKEY } })
    t.equal((await get(app, `Bearer ${issue(rs)}`)).statusCode, 401)
    app.callers.reload({ psk: { key } })
    t.equal((await get(app, `APIKey ${key}`)).statusCode, 200)
  })
  t.test('must name at least one that exists', async (t) => {
    for (const methods of [[], ['basic'], ['psk', 'none']] as Method[][])
      t.throws(() => app.requireCaller({ methods }), { code: 'AUTH_OPTIONS_INVALID' })
  })
})

const plain = /is no plain object; without a demand write app\.require(Caller|Person)\(\)$/
const misunderstood: [guard: 'requireCaller' | 'requirePerson', demand: unknown, why: RegExp][] = [
  [
    'requireCaller',
    { scope: 'w' },
    /takes an object with scopes.*: \/scope is not a known option$/,
  ],
  ['requireCaller', { requiredScopes: ['w'] }, /\/requiredScopes is not a known option$/],
  ['requireCaller', { roles: ['w'], groups: ['g'] }, /\/roles is not .*; \/groups is not/],
  ['requireCaller', { scopes: 'w' }, /\/scopes must be array$/],
  ['requireCaller', { scopes: [1] }, /\/scopes\/0 must be string$/],
  ['requireCaller', { scopes: ['a b'] }, /\/scopes\/0 must match/],
  ['requireCaller', { methods: 'psk' }, /\/methods must be array$/],
  ['requireCaller', { methods: ['basic'] }, /of psk, jwt.*\/methods\/0 must be equal to one/],
  ['requireCaller', { methods: [] }, /\/methods must not have fewer/],
  ['requireCaller', { optional: 'false' }, /\/optional must be boolean$/],
  ['requireCaller', ['w'], plain],
  ['requireCaller', 'w', plain],
  ['requireCaller', null, /\/ must be object$/],
  ['requireCaller', new Set(['w']), plain],
  ['requireCaller', new Map([['scopes', ['w']]]), plain],
  ['requireCaller', Promise.resolve({ scopes: ['w'] }), plain],
  ['requireCaller', Object.create({ scopes: ['w'] }), plain],
  ['requireCaller', () => ({ scopes: ['w'] }), plain],
  ['requirePerson', { groups: ['admins'] }, /takes an object with optional.*: \/groups is not/],
  ['requirePerson', { scopes: ['w'] }, /\/scopes is not a known option$/],
  ['requirePerson', { optional: 1 }, /\/optional must be boolean$/],
  ['requirePerson', ['admins'], plain],
]
t.test('a demand that is not understood makes no guard', async (t) => {
  const { app } = await setup(t)
  for (const [guard, demand, message] of misunderstood)
    t.throws(() => app[guard](demand as object), { code: 'AUTH_OPTIONS_INVALID', message })
  const nothing = { scopes: undefined, methods: undefined, optional: undefined }
  for (const demand of [undefined, {}, nothing])
    t.type(app.requireCaller(demand as CallerDemand), 'function')
})

/** A guard that is not used as one, in JavaScript. */
const misused: [way: string, use: (app: FastifyInstance, guard: CallableFunction) => unknown][] = [
  ['not called', (app, guard) => app.get('/', { onRequest: guard as never }, () => 'in')],
  [
    'not called, in a list',
    (app, guard) => app.get('/', { preHandler: [guard] as never }, () => 1),
  ],
  ['not called, for a scope', (app, guard) => app.addHook('onRequest', guard as never)],
  [
    'made for each request and not called',
    (app, guard) => app.get('/', { onRequest: () => guard() }, () => 'in'),
  ],
  [
    'given back by an async hook',
    (app, guard) => app.get('/', { onRequest: async () => guard() }, () => 'in'),
  ],
  [
    'made and awaited in a handler',
    (app, guard) => app.get('/', async () => (await guard()) && 'in'),
  ],
  [
    'asked about a request without being made',
    (app, guard) => app.get('/', async (...sent) => (await guard(...sent)) && 'in'),
  ],
]
t.test('a guard that is misused lets nobody in, and answers', async (t) => {
  for (const [way, use] of misused)
    for (const guard of ['requireCaller', 'requirePerson'] as const) {
      const assertion = { issuerUrl: ISSUER, audience: 'https://app.example.com' }
      const { app } = await setup(t, { ...both, assertion })
      use(app, app[guard] as never)
      if (way.endsWith('scope')) app.get('/', () => 'in')
      for (const authorization of [undefined, `APIKey ${key}`])
        t.match((await get(app, authorization)).json(), {
          statusCode: 500,
          code: 'AUTH_OPTIONS_INVALID',
          message: /makes a guard|guard was awaited/,
        })
    }
})

t.test('a guard that is awaited where a hook is expected stops the start', async (t) => {
  const { app } = await setup(t)
  // @ts-expect-error it makes a guard and asks nobody
  await t.rejects(async () => await app.requireCaller(), { code: 'AUTH_OPTIONS_INVALID' })
})

t.test('the guard has the type of a hook of every kind of server', async (t) => {
  // Compiled, not run.
  const check = async () => {
    const secure = Fastify({ https: {} })
    secure.get('/', { onRequest: secure.requireCaller() }, ({ caller }) => caller.subject)
    const http2 = Fastify({ http2: true })
    http2.get('/', { preHandler: [http2.requireCaller()] }, ({ caller }) => caller.subject)
    const { app } = await setup(t)
    app.get<{ Params: { id: string } }>(
      '/:id',
      { onRequest: app.requireCaller(), preValidation: [app.requireCaller({ optional: true })] },
      async (request, reply) => {
        const done: Promise<void> = app.requireCaller()(request, reply)
        await done
        // @ts-expect-error it may be absent
        return request.optionalCaller.subject + request.params.id
      },
    )
    app.addHook('preHandler', app.requireCaller())
    // @ts-expect-error no such method
    app.requireCaller({ methods: ['basic'] })
    // @ts-expect-error no such demand
    app.requireCaller({ requiredScopes: ['a'] })
    // @ts-expect-error a list is no demand
    app.requireCaller(['a'])
    // @ts-expect-error it makes a guard and asks nobody
    await app.requireCaller()
    // @ts-expect-error the guard is not made
    app.addHook('onRequest', app.requireCaller)
    // @ts-expect-error the guard is not made
    app.get('/', { onRequest: app.requirePerson }, caller)
  }
  t.type(check, 'function')
})

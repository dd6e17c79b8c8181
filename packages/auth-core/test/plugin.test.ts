import { hash } from 'node:crypto'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { promisify } from 'node:util'
import Fastify, { type FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { until } from '../../../scripts/test/until.ts'
import auth, { type AuthOptions, type AuthPluginOptions } from '../src/index.ts'
import { AUDIENCE, fakeIssuer, ISSUER, issue, signingKey, startApp } from './kit.ts'

const rs = signingKey('RS256', 'rs')
const es = signingKey('ES256', 'es')
const psk = { key: 'correct-horse-battery-staple' }
const jwt = { issuerUrl: ISSUER, audience: AUDIENCE }

async function setup(t: Test, options: AuthPluginOptions = { psk, jwt }) {
  const issuer = fakeIssuer({ keys: [rs.jwk] })
  const other = fakeIssuer({ issuer: 'https://other.example', keys: [es.jwk] })
  const { app, clock, lines } = await startApp(t, options, issuer, other)
  app.get('/open', (request) => request.caller)
  app.get('/', { onRequest: app.requireCaller() }, (request) => request.caller)
  app.get('/a', { onRequest: app.requireCaller({ scopes: ['a'] }) }, (request) => request.caller)
  return { app, issuer, other, clock, lines }
}

const get = (app: FastifyInstance, authorization: string, url = '/') =>
  app.inject({ url, headers: { authorization } })

t.test('request.caller is set behind the guard only', async (t) => {
  const { app } = await setup(t)
  t.strictSame((await get(app, `APIKey ${psk.key}`)).json(), { method: 'psk', subject: 'default' })
  t.match((await get(app, `Bearer ${issue(rs)}`)).json(), {
    method: 'jwt',
    issuer: ISSUER,
    subject: 'machine-1',
    scopes: ['a', 'b'],
    claims: { aud: AUDIENCE },
  })
  const open = await get(app, `APIKey ${psk.key}`, '/open')
  t.match(open.json(), { statusCode: 500, code: 'AUTH_NOT_GUARDED' }, 'only behind the guard')
})

t.test('callers, demands and options are typed', async (t) => {
  const { app } = await setup(t)
  app.get('/types', { onRequest: app.requireCaller() }, ({ caller }) => {
    // @ts-expect-error only a token has claims
    caller.claims
    // @ts-expect-error the guard sets it
    caller.subject = 'x'
    return caller.method === 'jwt'
      ? caller.claims
      : (caller.domains satisfies readonly string[] | undefined)
  })
  // @ts-expect-error no such demand
  t.throws(() => app.requireCaller({ roles: [] }), { code: 'AUTH_OPTIONS_INVALID' })
  // @ts-expect-error no such option
  const options: AuthOptions = { psk: { keys: [], token: 1 } }
  t.ok(options)
})

t.test('a key without scopes has every scope, one with scopes has these', async (t) => {
  const keys = [
    { name: 'all', ...psk },
    { name: 'some', key: 'some-some-some-some', scopes: ['a'], domains: ['x.example'] },
    { name: 'none', key: 'none-none-none-none', scopes: [] },
  ]
  const { app } = await setup(t, { psk: { keys } })
  t.equal((await get(app, `APIKey ${psk.key}`, '/a')).statusCode, 200)
  t.equal((await get(app, 'APIKey none-none-none-none', '/')).statusCode, 200)
  t.equal((await get(app, 'APIKey none-none-none-none', '/a')).statusCode, 403)
  t.strictSame((await get(app, 'APIKey some-some-some-some', '/a')).json(), {
    method: 'psk',
    subject: 'some',
    scopes: ['a'],
    domains: ['x.example'],
  })
})

t.test('a method that is not configured is neither accepted nor offered', async (t) => {
  const keysOnly = await setup(t, { method: 'psk', psk, jwt })
  const tokensOnly = await setup(t, { method: 'jwt', psk, jwt })
  const refusedToken = await get(keysOnly.app, `Bearer ${issue(rs)}`)
  t.equal(refusedToken.json().code, 'AUTH_SCHEME_UNSUPPORTED')
  t.strictSame(refusedToken.headers['www-authenticate'], 'APIKey realm="api"')
  const refusedKey = await get(tokensOnly.app, `APIKey ${psk.key}`)
  t.equal(refusedKey.json().code, 'AUTH_SCHEME_UNSUPPORTED')
  t.strictSame(refusedKey.headers['www-authenticate'], 'Bearer realm="api"')
})

t.test('a public issuer is warned of at the start, unless the application limits it', async (t) => {
  const open = { jwt: { ...jwt, issuerUrl: 'https://login.microsoftonline.com/common' } }
  const rows: [options: Parameters<typeof setup>[1], warned: boolean][] = [
    [open, true],
    [{ jwt: { issuers: [jwt, { ...jwt, issuerUrl: 'https://gitlab.com' }] } }, true],
    [{ ...open, limitsPublicIssuers: true }, false],
    [{ jwt }, false],
    [{ method: 'psk', psk, ...open }, false],
  ]
  for (const [options, warned] of rows) {
    const { lines } = await setup(t, options)
    const found = lines.filter(
      ({ level, msg }) => level === 40 && /every account at this issuer/.test(String(msg)),
    )
    t.equal(found.length, warned ? 1 : 0, JSON.stringify(options))
  }
})

t.test('faulty options stop the start', async (t) => {
  const app = Fastify()
  app.register(auth, {})
  await t.rejects(async () => await app.ready(), { code: 'AUTH_OPTIONS_INVALID' })
})

t.test('a route cannot demand a scope that no token can grant', async (t) => {
  const { app } = await setup(t)
  for (const scope of ['', 'a b', 'a"', 'é'])
    t.throws(() => app.requireCaller({ scopes: [scope] }), { code: 'AUTH_OPTIONS_INVALID' })
})

t.test(
  'the log has one line for each refusal, with code and detail, without credentials',
  async (t) => {
    const { app, issuer, lines } = await setup(t)
    await get(app, `Bearer ${issue(rs, { aud: 'https://elsewhere.example' })}`)
    await get(app, 'APIKey a-wrong-key-a-wrong-key')
    issuer.isDown = true
    await get(app, `Bearer ${issue({ ...rs, kid: 'x' })}`)
    const refusals = lines.filter(({ msg }) => msg === 'caller refused')
    t.match(refusals, [
      { level: 30, code: 'AUTH_TOKEN_AUDIENCE', detail: 'aud is "https://elsewhere.example"' },
      { level: 30, code: 'AUTH_KEY_INVALID' },
      { level: 30, code: 'AUTH_TOKEN_KEY_UNKNOWN' },
    ])
    t.notMatch(JSON.stringify(lines), /a-wrong-key|eyJ/)
  },
)

t.test('status names the issuers that cannot be reached, and tries them again', async (t) => {
  const issuers = [jwt, { ...jwt, issuerUrl: 'https://other.example' }]
  const { app, issuer, clock, lines } = await setup(t, { jwt: { issuers } })
  issuer.isDown = true
  t.strictSame(app.callers.status(), { degraded: [] }, 'nobody was asked yet')
  await until(() => app.callers.status().degraded.length > 0)
  t.strictSame(app.callers.status(), { degraded: [ISSUER] })
  const refused = await get(app, `Bearer ${issue(rs)}`)
  t.match(refused, { statusCode: 503, headers: { 'retry-after': '1' } })
  t.equal(refused.headers['www-authenticate'], undefined)
  const refusal = lines.find(({ msg }) => msg === 'caller refused')
  t.match(refusal, { level: 40, code: 'AUTH_ISSUER_UNREACHABLE' }, 'a warning')

  issuer.isDown = false
  clock.pass(1_000)
  await until(() => app.callers.status().degraded.length === 0)
  t.equal((await get(app, `Bearer ${issue(rs)}`)).statusCode, 200)
})

const DAY = 86_400_000
for (const [how, before, after] of [
  ['set back', 0, -30 * DAY],
  ['ahead while the keys were read, then right', 45 * DAY, -45 * DAY],
  ['set ahead', 0, 45 * DAY],
] as const)
  t.test(`a clock that is ${how} changes no age and no pause`, async (t) => {
    const { app, issuer, clock } = await setup(t)
    clock.set(before)
    const fresh = (key: typeof rs) => {
      const time = clock.now() / 1_000
      return `Bearer ${issue(key, { iat: time, exp: time + 600 })}`
    }
    t.equal((await get(app, fresh(rs))).statusCode, 200)
    clock.set(after)
    t.equal((await get(app, fresh(rs))).statusCode, 200)
    t.equal(issuer.readings(), 1, 'the keys are as old as they were')

    issuer.keys = [es.jwk]
    clock.pass(1_000)
    t.equal((await get(app, fresh(es))).statusCode, 200, 'a new key is asked for')
    t.equal((await get(app, fresh(rs))).statusCode, 401, 'a withdrawn key is refused')
    issuer.keys = [rs.jwk]
    clock.pass(600_000)
    t.equal((await get(app, fresh(es))).statusCode, 401, 'also without a new one')

    issuer.isDown = true
    clock.pass(600_000)
    t.equal((await get(app, fresh({ ...rs, kid: 'new' }))).statusCode, 503)
    issuer.isDown = false
    clock.set(before - after)
    clock.pass(1_000)
    t.equal((await get(app, fresh({ ...rs, kid: 'new' }))).statusCode, 401)
    t.strictSame(app.callers.status(), { degraded: [] }, 'an issuer that is back is noticed')
  })

t.test('findKey() and methods() follow the options in effect', async (t) => {
  const { app } = await setup(t)
  const sha256 = hash('sha256', psk.key, 'buffer')
  t.match(app.callers.findKey(sha256), { method: 'psk' })
  t.equal(app.callers.findNamed('default'), app.callers.findKey(sha256), 'or by its name')
  t.equal(app.callers.findNamed('toString'), undefined)
  t.strictSame(app.callers.methods(), ['psk', 'jwt'])
  for (const other of [hash('sha256', 'x', 'buffer'), Buffer.alloc(32), Buffer.from(psk.key)])
    t.equal(app.callers.findKey(other), undefined)
  app.callers.reload({ jwt })
  t.equal(app.callers.findKey(sha256), undefined, 'nobody’s once it is gone')
  t.equal(app.callers.findNamed('default'), undefined)
  app.callers.reload({ jwt, psk, method: 'jwt' })
  t.equal(app.callers.findNamed('default'), undefined, 'nor while keys are not accepted')
  t.strictSame(app.callers.methods(), ['jwt'])
})

t.test('reload', async (t) => {
  const otherUrl = 'https://other.example'
  const { app, issuer, other } = await setup(t)
  const token = `Bearer ${issue(rs)}`
  const otherToken = `Bearer ${issue(es, { iss: otherUrl })}`
  t.equal((await get(app, token)).statusCode, 200)

  t.test('keeps the old options if the new ones are faulty', async (t) => {
    t.throws(() => app.callers.reload({ psk: { key: 'short' } }), { code: 'AUTH_OPTIONS_INVALID' })
    t.equal((await get(app, `APIKey ${psk.key}`)).statusCode, 200)
  })
  t.test('keeps the keys of an issuer that stays', async (t) => {
    issuer.isDown = true
    app.callers.reload({ jwt: { ...jwt, audience: [AUDIENCE, 'x'] } })
    t.equal((await get(app, token)).statusCode, 200)
    t.equal(issuer.readings(), 1)
  })
  t.test('forgets a key', async (t) => {
    t.equal((await get(app, `APIKey ${psk.key}`)).statusCode, 401)
  })
  t.test('forgets an issuer and its known tokens', async (t) => {
    app.callers.reload({ jwt: { ...jwt, issuerUrl: otherUrl } })
    t.equal((await get(app, token)).json().code, 'AUTH_TOKEN_ISSUER')
    t.equal((await get(app, otherToken)).statusCode, 200)
    t.equal(other.readings(), 1)
  })
  t.test('applies another audience to known tokens', async (t) => {
    app.callers.reload({ jwt: { ...jwt, issuerUrl: otherUrl, audience: 'x' } })
    t.equal((await get(app, otherToken)).json().code, 'AUTH_TOKEN_AUDIENCE')
  })
})

t.test('connections to issuers end with the application', async (t) => {
  const server = createServer((_request, response) => response.end('{"keys":[]}'))
  server.keepAliveTimeout = 600_000
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => server.close())
  const connections = promisify(server.getConnections.bind(server))
  const jwksUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  const app = Fastify()
  await app.register(auth, { jwt: { ...jwt, jwksUrl } })
  app.get('/', { onRequest: app.requireCaller() }, ({ caller }) => caller)
  await get(app, `Bearer ${issue(rs)}`)
  t.equal(await connections(), 1)
  await app.close()
  await until(async () => (await connections()) === 0)
})

t.test('prepared options', async (t) => {
  const next = { psk: { key: 'the-key-that-comes-next' } }
  const key = (app: FastifyInstance, text: string) => get(app, `APIKey ${text}`)

  t.test('change nothing before they are put into effect', async (t) => {
    const { app } = await setup(t)
    const commit = app.callers.prepare(next)
    t.equal((await key(app, next.psk.key)).statusCode, 401)
    t.strictSame(app.callers.methods(), ['psk', 'jwt'])
    commit()
    t.strictSame(app.callers.methods(), ['psk'], 'at once')
    t.equal((await key(app, next.psk.key)).statusCode, 200)
    t.equal((await key(app, psk.key)).statusCode, 401)
  })

  t.test('that are faulty change nothing', async (t) => {
    const { app } = await setup(t)
    t.throws(() => app.callers.prepare({ psk: { keyFile: '/nowhere' } }), {
      code: 'AUTH_OPTIONS_INVALID',
    })
    t.equal((await key(app, psk.key)).statusCode, 200)
  })

  t.test('read their files when they are prepared, and not again', async (t) => {
    const { app } = await setup(t)
    const dir = t.testdir({ key: next.psk.key })
    const commit = app.callers.prepare({ psk: { keyFile: `${dir}/key` } })
    rmSync(`${dir}/key`)
    commit()
    t.equal((await key(app, next.psk.key)).statusCode, 200)
  })

  t.test('that are put into effect after others use the open connections', async (t) => {
    const otherUrl = 'https://other.example'
    const { app, issuer } = await setup(t)
    t.equal((await get(app, `Bearer ${issue(rs)}`)).statusCode, 200)
    const first = app.callers.prepare({ jwt })
    const second = app.callers.prepare({ jwt: { ...jwt, issuerUrl: otherUrl } })
    second()
    first()
    t.equal((await get(app, `Bearer ${issue(rs)}`)).statusCode, 200)
    t.equal(issuer.readings(), 2, 'keys of an issuer that was gone are asked for again')
    first()
    t.equal((await get(app, `Bearer ${issue(rs)}`)).statusCode, 200, 'twice does no harm')
  })
})

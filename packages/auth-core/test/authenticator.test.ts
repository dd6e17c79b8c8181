import { hash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import fc from 'fast-check'
import Fastify from 'fastify'
import t from 'tap'
import { AuthError, Authenticator, type AuthOptions, challengesOf } from '../src/index.ts'
import { AUDIENCE, fakeIssuer, frozenClock, ISSUER, issue, signingKey, silent } from './kit.ts'

const rs = signingKey('RS256', 'rs')
const key = 'correct-horse-battery-staple'
const psk = { key }
const jwt = { issuerUrl: ISSUER, audience: AUDIENCE }

function setup(options: AuthOptions) {
  const issuer = fakeIssuer({ keys: [rs.jwk] })
  const clock = frozenClock()
  const deps = { ...clock, log: silent, dispatcher: issuer.dispatcher }
  return { issuer, clock, authenticator: new Authenticator(options, deps) }
}

type Found = object | undefined

t.test('whose credentials it finds', async (t) => {
  const good = issue(rs)
  const [byKey, byToken] = [{ subject: 'default' }, { subject: 'machine-1' }]
  const cases: [headers: string | string[], keys?: Found, tokens?: Found][] = [
    [[]],
    [''],
    [`APIKey ${key}`, byKey],
    ['apikey wrong', { code: 'AUTH_KEY_INVALID' }],
    ['APIKey', { code: 'AUTH_HEADER_INVALID' }],
    [`Bearer ${good}`, undefined, byToken],
    [`bearer   ${good}`, undefined, byToken],
    [`Bearer ${issue(rs, { exp: 1 })}`, undefined, { code: 'AUTH_TOKEN_EXPIRED' }],
    [[`Bearer ${good}`, 'Basic dTpw'], undefined, { code: 'AUTH_HEADER_INVALID' }],
    [`Bearer ${issue(rs, { iss: 'https://other.example' })}`],
    ['Bearer opaque'],
    ['Bearer'],
    ['Basic dTpw'],
    [`DPoP ${good}`],
  ]
  const [keys, tokens] = [setup({ psk }).authenticator, setup({ jwt }).authenticator]
  const both = setup({ psk, jwt }).authenticator
  for (const [headers, byKeys, byTokens] of cases) {
    const rawHeaders = [headers].flat().flatMap((value) => ['Authorization', value])
    const request = { raw: { headers: { authorization: rawHeaders[1] }, rawHeaders } } as never
    const find = async (at: Authenticator) => {
      try {
        return await at.find(request)
      } catch (error) {
        return error
      }
    }
    const holds = (found: unknown, expected: Found, what: string) =>
      expected ? t.match(found, expected, what) : t.equal(found, undefined, what)
    holds(await find(keys), byKeys, `with keys: ${headers}`)
    holds(await find(tokens), byTokens, `with an issuer: ${headers}`)
    holds(await find(both), byKeys ?? byTokens, `with both: ${headers}`)
  }
})

t.test('an application may have one for each set of callers', async (t) => {
  const [a, b] = [setup({ psk }), setup({ jwt: { ...jwt, maxTokenLifetime: 300_000 } })]
  t.teardown(() => Promise.all([a.authenticator.close(), b.authenticator.close()]))
  const app = Fastify()
  t.teardown(() => app.close())
  app.get('/:who', async (request, reply) => {
    const { authenticator } = request.url === '/a' ? a : b
    try {
      return await authenticator.authenticate(request)
    } catch (error) {
      if (!(error instanceof AuthError)) throw error
      const methods = authenticator.offered()
      return reply
        .code(error.statusCode)
        .header('www-authenticate', challengesOf(error, { methods, realm: request.url }))
        .send({ code: error.code })
    }
  })
  const get = (url: string, authorization: string) =>
    app.inject({ url, headers: { authorization } })

  t.match((await get('/a', `APIKey ${key}`)).json(), { method: 'psk', subject: 'default' })
  t.match((await get('/b', `Bearer ${issue(rs)}`)).json(), { subject: 'machine-1' })
  t.match(await get('/b', `APIKey ${key}`), {
    statusCode: 401,
    headers: { 'www-authenticate': ['Bearer realm="/b"'] },
  })
  const long = issue(rs, { exp: Math.floor(b.clock.now() / 1_000) + 301 })
  t.match(await get('/b', `Bearer ${long}`), {
    statusCode: 401,
    headers: { 'www-authenticate': [/^Bearer realm="\/b", error="invalid_token"/] },
    body: '{"code":"AUTH_TOKEN_LIFETIME"}',
  })
})

t.test('what makes the requests to an issuer is closed when it is used no longer', async (t) => {
  let closed = 0
  const close = async () => {
    closed += 1
  }
  const fetch = Object.assign(async () => Promise.reject(new Error('not asked')), { close })
  const issuers = [jwt, { ...jwt, issuerUrl: 'https://other.example' }]
  const authenticator = new Authenticator(
    { jwt: { issuers } },
    { ...frozenClock(), log: silent, fetch },
  )
  authenticator.reload({ jwt: { issuers: issuers.map((one) => ({ ...one, audience: 'x' })) } })
  t.equal(closed, 0, 'both stay')
  authenticator.reload({ jwt })
  t.equal(closed, 1, 'one is gone')
  await authenticator.close()
  t.equal(closed, 2)
})

t.test('a token that is known costs no promise', async (t) => {
  const { authenticator, issuer } = setup({ jwt })
  const authorization = `Bearer ${issue(rs)}`
  const request = { raw: { headers: { authorization }, rawHeaders: [] } } as never
  const caller = await authenticator.authenticate(request)
  t.equal(authenticator.find(request), caller)
  t.equal(authenticator.authenticate(request), caller)
  t.equal(issuer.readings(), 1)
})

t.test(
  'each value of a key is that of its caller, and what hangs on it ends with it',
  async (t) => {
    const folder = t.testdir({})
    const secret = fc.stringMatching(/^[!-~]{16,40}$/)
    const row = fc.record({
      name: fc.string({ minLength: 1, maxLength: 3 }),
      former: fc.uniqueArray(fc.string({ minLength: 1, maxLength: 3 }), { maxLength: 2 }),
      values: fc.uniqueArray(secret, { minLength: 1, maxLength: 2 }),
    })
    const areDistinct = (all: readonly string[]) => new Set(all).size === all.length
    const rows = fc
      .array(row, { minLength: 1, maxLength: 4 })
      .filter((all) => areDistinct(all.flatMap(({ name, former }) => [name, ...former])))
      .filter((all) => areDistinct(all.flatMap(({ values }) => values)))
    const digest = (value: string) => hash('sha256', value, 'hex')
    fc.assert(
      fc.property(rows, (all) => {
        const keys = all.map(({ name, former, values }, i) => ({
          name,
          formerNames: former,
          keyFiles: values.map((value, n) => {
            const file = `${folder}/${i}-${n}`
            writeFileSync(file, value)
            return file
          }),
        }))
        const { authenticator } = setup({ psk: { keys } })
        for (const { name, former, values } of all) {
          t.strictSame(authenticator.digestsOf(name), values.map(digest))
          for (const one of former) {
            t.equal(authenticator.renamed().get(one), name)
            t.equal(authenticator.findNamed(one), undefined)
            t.strictSame(authenticator.digestsOf(one), [])
          }
          for (const value of values) {
            const caller = authenticator.findKey(hash('sha256', value, 'buffer'))
            t.equal(caller?.subject, name)
            const [own, ...others] = authenticator.digestsOf(caller ?? '')
            t.equal(own, digest(value), 'the own one comes first')
            t.equal(others.length, values.length - 1)
          }
          const [newest = ''] = values
          t.equal(
            authenticator.findNamed(name),
            authenticator.findKey(hash('sha256', newest, 'buffer')),
          )
        }
        authenticator.reload({ psk })
        const [{ name, values }] = all as [(typeof all)[0]]
        t.strictSame(authenticator.digestsOf(name), name === 'default' ? [digest(key)] : [])
        t.equal(authenticator.findKey(hash('sha256', values[0] ?? '', 'buffer')), undefined)
        t.equal(authenticator.renamed().size, 0)
      }),
      { numRuns: 50 },
    )
  },
)

import fc from 'fast-check'
import Fastify, { type FastifyInstance, type FastifyRequest } from 'fastify'
import t, { type Test } from 'tap'
import auth, { AuthError, type BearerOptions, type TokenCaller } from '../src/index.ts'

const key = 'correct-horse-battery-staple'
const caller: TokenCaller = {
  method: 'jwt',
  issuer: 'https://app.example',
  subject: 'ada',
  scopes: ['read'],
  claims: { sub: 'ada' },
}

const verify: BearerOptions['verify'] = (token) => (token === 'good' ? caller : undefined)
const verifyLater: BearerOptions['verify'] = async (token, request) => verify(token, request)

async function setup(t: Test, options: object) {
  const lines: Record<string, unknown>[] = []
  const app = Fastify({
    logger: { stream: { write: (line) => void lines.push(JSON.parse(line)) } },
  })
  t.teardown(() => app.close())
  await app.register(auth, options)
  app.get('/:room', { onRequest: app.requireCaller() }, (request) => request.caller)
  return { app, lines }
}

const get = (app: FastifyInstance, authorization?: string, url = '/main') =>
  app.inject({ url, ...(authorization !== undefined && { headers: { authorization } }) })
const challenge = 'www-authenticate'

for (const [how, verifier] of [
  ['at once', verify],
  ['later', verifyLater],
] as const)
  t.test(`a verifier of the application that answers ${how}`, async (t) => {
    const realm = ({ params }: FastifyRequest) => (params as { room: string }).room
    const { app, lines } = await setup(t, { bearer: { verify: verifier, realm } })
    for (const scheme of ['Bearer', 'bearer', 'BEARER '])
      t.strictSame((await get(app, `${scheme} good`)).json(), caller, scheme)

    const refused: [authorization: string | undefined, status: number, code: string][] = [
      [undefined, 401, 'AUTH_CREDENTIALS_MISSING'],
      ['APIKey good', 401, 'AUTH_SCHEME_UNSUPPORTED'],
      ['good', 401, 'AUTH_SCHEME_UNSUPPORTED'],
      ['Bearer ', 400, 'AUTH_HEADER_INVALID'],
      ['Bearer good good', 400, 'AUTH_HEADER_INVALID'],
      ['Bearer bad', 401, 'AUTH_TOKEN_INVALID'],
    ]
    const errors: Record<string, string> = {
      AUTH_HEADER_INVALID:
        ', error="invalid_request", error_description="Authorization header is not valid"',
      AUTH_TOKEN_INVALID: ', error="invalid_token"',
    }
    for (const [authorization, status, code] of refused) {
      const answer = await get(app, authorization)
      t.match(answer.json(), { statusCode: status, code })
      t.equal(answer.headers[challenge], `Bearer realm="main"${errors[code] ?? ''}`)
    }
    t.strictSame(
      lines.filter(({ msg }) => msg === 'caller refused').map(({ code }) => code),
      refused.map(([, , code]) => code),
    )
    t.notMatch(JSON.stringify(lines), /good|bad/, 'no line holds a token')
  })

/** A query of a database library: no Promise, with members of its own, and it runs when it is awaited. */
class Query<T> implements PromiseLike<T> {
  readonly #run: () => Promise<T>
  constructor(run: () => Promise<T>) {
    this.#run = run
  }
  where = () => this
  exec = () => this.#run()
  // biome-ignore lint/suspicious/noThenProperty: as knex, mongoose and drizzle have it
  then<A = T, B = never>(
    done?: ((found: T) => A | PromiseLike<A>) | null,
    failed?: ((error: unknown) => B | PromiseLike<B>) | null,
  ) {
    return this.#run().then(done, failed)
  }
}
const queryOf = <T>(run: () => Promise<T>) => new Query(run).where()

for (const [what, verifier] of [
  ['at once', (token, request) => queryOf(async () => verify(token, request))],
  ['that gives null', (token) => queryOf(async () => (token === 'good' ? caller : null))],
  ['in a promise', async (token, request) => queryOf(async () => verify(token, request))],
  ['mapped', (token, request) => queryOf(async () => token).then(() => verify(token, request))],
] as [string, BearerOptions['verify']][])
  t.test(`a query of a database library is awaited: ${what}`, async (t) => {
    const { app } = await setup(t, { bearer: { verify: verifier } })
    app.get('/', { onRequest: app.requireCaller({ scopes: ['write'] }) }, () => 1)
    t.strictSame((await get(app, 'Bearer good')).json(), caller)
    t.equal((await get(app, 'Bearer bad')).json().code, 'AUTH_TOKEN_INVALID')
    t.equal((await get(app, 'Bearer good', '/')).statusCode, 403)
  })

t.test('the type of the verifier takes what gives a caller', async (t) => {
  const row = { token: 'good', subject: 'ada', scopes: 'read' }
  // Compiled, not run.
  const verifiers: BearerOptions['verify'][] = [
    () => queryOf(async () => caller as TokenCaller | undefined),
    () => queryOf(async () => row).then(({ subject }) => ({ ...caller, subject })),
    (token) => token === 'good' && caller,
    async (token) => (token === 'good' ? caller : null),
    // @ts-expect-error: a row is no caller
    () => queryOf(async () => row),
    // @ts-expect-error: a query that was not awaited is none
    async () => ({ ...caller, subject: queryOf(async () => 'ada') }),
    // @ts-expect-error: without scopes
    () => ({ method: 'jwt', issuer: 'https://app.example', subject: 'ada', claims: {} }),
    // @ts-expect-error: an API key
    () => ({ method: 'psk', subject: 'ada' }),
  ]
  t.type(verifiers, Array)
})

const without = (member: keyof TokenCaller) => ({ ...caller, [member]: undefined })
const noCallers: [what: string, answer: unknown, wrong: string | undefined][] = [
  ['undefined', undefined, undefined],
  ['null', null, undefined],
  ['false', false, undefined],
  ['true', true, 'method'],
  ['a number', 1, 'method'],
  ['an empty text', '', 'method'],
  ['a text', 'ada', 'method'],
  ['an empty object', {}, 'method'],
  ['a list of rows', [caller], 'method'],
  ['a function', () => caller, 'method'],
  ['a row', { token: 'good', subject: 'ada' }, 'method'],
  ['an API key, which may all', { method: 'psk', subject: 'ada' }, 'method'],
  ['a caller of another method', { ...caller, method: 'basic' }, 'method'],
  ['no issuer', without('issuer'), 'issuer'],
  ['an empty issuer', { ...caller, issuer: '' }, 'issuer'],
  ['no subject', without('subject'), 'subject'],
  ['an empty subject', { ...caller, subject: '' }, 'subject'],
  ['a number as subject', { ...caller, subject: 7 }, 'subject'],
  ['no scopes', without('scopes'), 'scopes'],
  ['scopes that are null', { ...caller, scopes: null }, 'scopes'],
  ['scopes in a text', { ...caller, scopes: 'read write' }, 'scopes'],
  ['scopes in JSON', { ...caller, scopes: '["read"]' }, 'scopes'],
  ['scopes in a set', { ...caller, scopes: new Set(['read']) }, 'scopes'],
  ['scopes that are numbers', { ...caller, scopes: [1] }, 'scopes'],
  ['an empty scope', { ...caller, scopes: [''] }, 'scopes'],
  ['no claims', without('claims'), 'claims'],
  ['claims in a list', { ...caller, claims: [] }, 'claims'],
  ['claims that are null', { ...caller, claims: null }, 'claims'],
]
t.test('an answer that is no caller admits nobody', async (t) => {
  for (const [what, answer, wrong] of noCallers)
    for (const [how, given] of [
      ['at once', () => answer],
      ['in a promise', async () => answer],
      ['in a query', () => queryOf(async () => answer)],
    ] as const) {
      const { app, lines } = await setup(t, { bearer: { verify: given } })
      app.get('/', { onRequest: app.requireCaller({ optional: true }) }, () => 1)
      const code = wrong ? 'AUTH_OPTIONS_INVALID' : 'AUTH_TOKEN_INVALID'
      for (const url of ['/main', '/'])
        t.match((await get(app, 'Bearer any', url)).json(), { code }, `${what}, ${how}`)
      const [line] = lines.filter(({ msg }) => msg === 'caller refused')
      if (wrong) t.match(line?.detail, new RegExp(`^bearer.verify must give .* ${wrong} is not`))
    }
})

t.test('no answer of a verifier admits anybody but a caller', async (t) => {
  const member = fc.oneof(
    fc.anything(),
    fc.constantFrom('jwt', 'psk', 'ada', [], ['read'], {}, undefined),
  )
  const answers = fc.oneof(
    fc.anything(),
    fc.record(
      { method: member, issuer: member, subject: member, scopes: member, claims: member },
      { requiredKeys: [] },
    ),
  )
  const text = (value: unknown) => typeof value === 'string' && value !== ''
  const isCaller = (value: Record<string, unknown>) =>
    value.method === 'jwt' &&
    [value.issuer, value.subject, ...[value.scopes].flat()].every(text) &&
    Array.isArray(value.scopes) &&
    Object.prototype.toString.call(value.claims) === '[object Object]'
  let answer: unknown
  const { app } = await setup(t, { bearer: { verify: () => answer } })
  app.get('/', { onRequest: app.requireCaller({ scopes: ['write'] }) }, () => 1)
  await fc.assert(
    fc.asyncProperty(answers, async (given) => {
      answer = given
      const { statusCode } = await get(app, 'Bearer any')
      const isAdmitted = isCaller(Object(given))
      const isOfAll = (await get(app, 'Bearer any', '/')).statusCode < 400
      return (statusCode === 200) === isAdmitted && (isAdmitted || statusCode >= 400) && !isOfAll
    }),
  )
})

t.test('an error of the verifier refuses the request', async (t) => {
  const failing = async (error: Error) =>
    (await setup(t, { bearer: { verify: () => Promise.reject(error) } })).app
  const broken = [
    () => queryOf(() => Promise.reject(new Error('down'))),
    () => Object.defineProperty({}, 'then', { get: () => JSON.parse('') }),
    () => {
      throw new Error('down')
    },
  ]
  for (const verify of broken)
    t.equal(
      (await get((await setup(t, { bearer: { verify } })).app, 'Bearer good')).statusCode,
      500,
    )
  const own = await failing(Object.assign(new Error('no such room'), { statusCode: 404 }))
  t.match(await get(own, 'Bearer good'), { statusCode: 404, headers: { [challenge]: undefined } })
  t.equal((await get(await failing(new Error('broken')), 'Bearer good')).statusCode, 500)
  const expired = await get(await failing(new AuthError('AUTH_TOKEN_EXPIRED')), 'Bearer good')
  t.equal(expired.json().code, 'AUTH_TOKEN_EXPIRED')
  t.match(expired.headers[challenge], /error="invalid_token".*expired/)
})

t.test('an error of the realm refuses the request', async (t) => {
  const realm = () => {
    throw Object.assign(new Error('no such room'), { statusCode: 404 })
  }
  for (const verifier of [verify, verifyLater]) {
    const { app } = await setup(t, { bearer: { verify: verifier, realm } })
    for (const authorization of [undefined, 'Bearer bad'])
      t.equal((await get(app, authorization)).statusCode, 404)
  }
})

t.test('the realm is quoted', async (t) => {
  const { app } = await setup(t, { bearer: { verify, realm: 'a "b" \\ c' } })
  t.equal((await get(app)).headers[challenge], 'Bearer realm="a \\"b\\" \\\\ c"')
})

t.test('API keys, scopes and methods work beside it, also after a reload', async (t) => {
  const { app } = await setup(t, { psk: { key }, bearer: { verify } })
  t.strictSame(app.callers.methods(), ['psk', 'jwt'])
  t.equal((await get(app, `APIKey ${key}`)).json().subject, 'default')
  t.strictSame((await get(app)).headers[challenge], ['APIKey realm="api"', 'Bearer realm="api"'])
  app.callers.reload({ psk: { key: `${key}-2` } })
  t.equal((await get(app, `APIKey ${key}`)).statusCode, 401)
  t.equal((await get(app, 'Bearer good')).json().subject, 'ada')
  t.throws(() => app.callers.reload({ jwt: { issuerUrl: 'https://i.example', audience: 'x' } }), {
    code: 'AUTH_OPTIONS_INVALID',
    message: /\/bearer cannot be given together with jwt/,
  })

  const other = await setup(t, { method: 'jwt', psk: { key }, bearer: { verify } })
  t.strictSame(other.app.callers.methods(), ['jwt'])
  other.app.get('/', { onRequest: other.app.requireCaller({ scopes: ['write'] }) }, () => 1)
  t.match(await get(other.app, 'Bearer good', '/'), {
    statusCode: 403,
    headers: { [challenge]: /insufficient_scope.*scope="write"/ },
  })
})

t.test('a route can answer with errors of the application', async (t) => {
  const { app } = await setup(t, { bearer: { verify } })
  app.get('/', {
    onRequest: app.requireCaller(),
    errorHandler(error, _request, reply) {
      if (!(error instanceof AuthError)) throw error
      const isMissing = error.code !== 'AUTH_TOKEN_INVALID'
      void reply.code(401).send({ code: isMissing ? 'APP_TOKEN_MISSING' : 'APP_TOKEN_INVALID' })
    },
    handler: () => 1,
  })
  t.equal((await get(app, undefined, '/')).json().code, 'APP_TOKEN_MISSING')
  const { headers, body } = await get(app, 'Bearer bad', '/')
  t.equal(body, '{"code":"APP_TOKEN_INVALID"}')
  t.equal(headers[challenge], 'Bearer realm="api", error="invalid_token"', 'with our challenge')
})

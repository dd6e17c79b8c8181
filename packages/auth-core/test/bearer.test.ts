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

t.test('an error of the verifier refuses the request', async (t) => {
  const failing = async (error: Error) =>
    (await setup(t, { bearer: { verify: () => Promise.reject(error) } })).app
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

import type { IncomingHttpHeaders } from 'node:http'
import Fastify, { type FastifyInstance, type InjectOptions } from 'fastify'
import t from 'tap'
import { Type } from 'typebox'
import { appOptions, FASTIFY_ERRORS, problems } from '../../src/http/index.ts'
import { prefersPage } from '../../src/http/navigation.ts'
import { createLogger } from '../../src/telemetry/index.ts'

class CodedError extends Error {
  constructor(code: string, message: string, extra: object = {}) {
    super(message)
    Object.assign(this, { code, ...extra })
  }
}

const SECRET = 'canary-7c1d'

const thrown: Record<string, unknown> = {
  told: new CodedError('CERT_NOT_ALLOWED', 'you may not have app.example'),
  titled: new CodedError('CERT_NOT_ALLOWED', 'no', { title: 'Not allowed' }),
  errors: new CodedError('CERT_NOT_ALLOWED', 'no', {
    errors: [{ pointer: '/names/0', detail: 'is not yours' }],
  }),
  members: new CodedError('CERT_NOT_ALLOWED', 'no', { members: { valid: false, status: 200 } }),
  silent: new CodedError('CERT_BUSY', 'x', { members: { secret: SECRET } }),
  busy: new CodedError('CERT_BUSY', `locked by ${SECRET}`, { retryAfter: 1.2 }),
  exposed: new CodedError('CERT_BUSY', 'the order goes on', { expose: true, retryAfter: 5 }),
  hidden: new CodedError('CERT_NOT_ALLOWED', SECRET, { expose: false }),
  unlisted: new CodedError('CERT_UNLISTED', SECRET, { statusCode: 400 }),
  auth: new CodedError('AUTH_SCOPE_MISSING', 'needs certs:issue', { statusCode: 403 }),
  authDown: new CodedError('AUTH_ISSUER_DOWN', SECRET, { statusCode: 503, retryAfter: 3 }),
  fastify500: new CodedError('FST_ERR_ODD', SECRET, { statusCode: 500 }),
  odd: new CodedError('FST_ERR_ODD', SECRET, { statusCode: 200 }),
  proto: new CodedError('constructor', SECRET),
  plain: new Error(SECRET),
  text: SECRET,
  nothing: undefined,
}

async function buildApp(lines: string[] = []): Promise<FastifyInstance> {
  const stream = { write: (line: string) => void lines.push(line) }
  const log = createLogger({ level: 'debug', format: 'json', name: 'test', stream })
  const app = Fastify({ ...appOptions(log), bodyLimit: 1_024 })
  await app.register(problems, {
    statusOf: { CERT_NOT_ALLOWED: 403, CERT_BUSY: 503 },
    docsUrl: 'https://docs.example/errors',
  })
  app.get<{ Params: { what: string } }>('/throw/:what', async ({ params }) => {
    throw thrown[params.what]
  })
  app.post(
    '/items',
    {
      schema: {
        body: Type.Object({
          domain: Type.String({ minLength: 1 }),
          count: Type.Optional(Type.Integer()),
          nested: Type.Optional(Type.Object({ names: Type.Array(Type.String()) })),
          labels: Type.Optional(Type.Record(Type.String(), Type.String())),
        }),
      },
    },
    async ({ body }) => ({ body }),
  )
  const Limit = Type.Optional(Type.String({ pattern: '^[0-9]{1,3}$' }))
  app.get(
    '/items/:id',
    {
      schema: {
        params: Type.Object({ id: Type.String({ maxLength: 3 }) }),
        querystring: Type.Object({ limit: Limit }),
        headers: Type.Object({ 'x-mode': Type.Optional(Type.Literal('fast')) }),
      },
    },
    async () => ({ ok: true }),
  )
  app.delete('/items/:id', async () => ({ ok: true }))
  return app
}

const answers: [what: string, status: number, body: object, retryAfter?: string][] = [
  [
    'told',
    403,
    { title: 'Forbidden', detail: 'you may not have app.example', code: 'CERT_NOT_ALLOWED' },
  ],
  ['titled', 403, { title: 'Not allowed', detail: 'no', code: 'CERT_NOT_ALLOWED' }],
  ['members', 403, { detail: 'no', valid: false, status: 403 }],
  ['silent', 503, { secret: undefined }],
  ['errors', 403, { detail: 'no', errors: [{ pointer: '/names/0', detail: 'is not yours' }] }],
  [
    'busy',
    503,
    { title: 'Service Unavailable', detail: undefined, code: 'CERT_BUSY', requestId: String },
    '2',
  ],
  ['exposed', 503, { detail: 'the order goes on', code: 'CERT_BUSY' }, '5'],
  ['hidden', 403, { detail: undefined, code: 'CERT_NOT_ALLOWED', requestId: String }],
  ['auth', 403, { detail: 'needs certs:issue', code: 'AUTH_SCOPE_MISSING', requestId: undefined }],
  ['authDown', 503, { detail: undefined, code: 'AUTH_ISSUER_DOWN' }, '3'],
  ...['unlisted', 'fastify500', 'odd', 'proto', 'plain', 'text', 'nothing'].map(
    (what): [string, number, object] => [
      what,
      500,
      { title: 'Internal error', detail: undefined, code: 'INTERNAL', requestId: String },
    ],
  ),
]

t.test('answers errors with problems', async (t) => {
  const lines: string[] = []
  const app = await buildApp(lines)
  for (const [what, status, body, retryAfter] of answers)
    t.test(what, async (t) => {
      lines.length = 0
      const response = await app.inject(`/throw/${what}`)
      t.equal(response.statusCode, status)
      t.match(response.headers, {
        'content-type': /^application\/problem\+json/,
        'cache-control': 'no-store',
        'retry-after': retryAfter,
      })
      const told = response.json()
      t.match(told, { status, ...body })
      t.equal(told.type, `https://docs.example/errors#${told.code}`)
      t.notMatch(response.body, SECRET)
      const [line] = lines.map((line) => JSON.parse(line))
      const level = status === 500 ? 50 : told.requestId ? 40 : 20
      t.match(line, { level, reqId: String })
      if (status > 500) t.equal(line.reqId, told.requestId, 'the id finds the log line')
    })
})

t.test('answers people with a page', async (t) => {
  const app = Fastify(appOptions(createLogger({ level: 'silent', format: 'json', name: 'test' })))
  await app.register(problems, {
    statusOf: { CERT_NOT_ALLOWED: 403 },
    page: ({ status, detail }, _request, reply) =>
      reply.code(status).type('text/html').send(`<p>${detail}`),
  })
  const config = { isPage: true }
  for (const [url, options] of Object.entries({ '/throw': {}, '/for-people': { config } }))
    app.get(url, options, async () => {
      throw thrown.told
    })
  const ask = (url: string, accept: string) => app.inject({ url, headers: { accept } })
  t.match(await ask('/throw', 'text/html'), {
    statusCode: 403,
    body: '<p>you may not have app.example',
  })
  t.match(await ask('/nothing', 'text/html'), { statusCode: 404, body: '<p>There is nothing' })
  t.match((await ask('/throw', '*/*')).json(), { status: 403, code: 'CERT_NOT_ALLOWED' })
  t.match((await ask('/nothing', '*/*')).json(), { status: 404, code: 'NOT_FOUND' })
  t.match((await ask('/for-people', '*/*')).body, '<p>you may not', 'a route for people')
  const posted = await app.inject({
    ...{ method: 'POST', url: '/throw' },
    headers: { 'sec-fetch-mode': 'navigate', accept: 'text/html' },
  })
  t.match(posted, { statusCode: 405, headers: { allow: 'GET, HEAD' } }, 'another method')
  t.match(posted.body, '<p>This path answers GET')
})

t.test('a page is for those who see it in a browser and prefer it to JSON', async (t) => {
  const firefox = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'
  const navigate = { 'sec-fetch-mode': 'navigate' }
  const table: [who: string, method: 'GET' | 'HEAD' | 'POST', headers: object, isPage: boolean][] =
    [
      ['a browser', 'GET', { ...navigate, accept: firefox }, true],
      ['a browser that sends a form', 'POST', { ...navigate, accept: firefox }, true],
      ['an old browser', 'GET', { accept: firefox }, true],
      ['an old browser, HEAD', 'HEAD', { accept: firefox }, true],
      ['an old browser that sends a form', 'POST', { accept: firefox }, false],
      ['a browser that says nothing else', 'GET', navigate, true],
      ['fetch', 'GET', { 'sec-fetch-mode': 'cors', accept: '*/*' }, false],
      ['fetch that asks for HTML', 'GET', { 'sec-fetch-mode': 'cors', accept: 'text/html' }, false],
      ['XMLHttpRequest', 'GET', { 'x-requested-with': 'XMLHttpRequest', accept: firefox }, false],
      ['a web socket', 'GET', { ...navigate, upgrade: 'websocket', accept: firefox }, false],
      ['curl', 'GET', { accept: '*/*' }, false],
      ['a program without Accept', 'GET', {}, false],
      ['a program', 'GET', { accept: 'application/json' }, false],
      ['JSON before HTML', 'GET', { accept: 'application/json, text/html;q=0.9' }, false],
      [
        'problem+json before HTML',
        'GET',
        { accept: 'text/html;q=0.5, application/problem+json' },
        false,
      ],
      ['HTML before JSON', 'GET', { accept: 'text/html, application/json;q=0.9' }, true],
      ['anything but HTML', 'GET', { accept: 'text/html;q=0, */*' }, false],
      ['a navigation for JSON', 'GET', { ...navigate, accept: 'application/json' }, false],
    ]
  for (const [who, method, headers, isPage] of table)
    t.equal(prefersPage({ method, headers: headers as IncomingHttpHeaders }), isPage, who)
})

t.test('answers with the problem if the page fails', async (t) => {
  for (const fault of [new Error(SECRET), SECRET, undefined]) {
    const app = Fastify(appOptions(createLogger({ level: 'silent', format: 'json', name: 'test' })))
    await app.register(problems, {
      statusOf: {},
      page() {
        throw fault
      },
    })
    app.get('/throw', async () => {
      throw thrown.told
    })
    for (const [url, status] of [
      ['/throw', 500],
      ['/nothing', 404],
    ] as const) {
      const answer = await app.inject({ url, headers: { accept: 'text/html' } })
      t.match(answer.json(), { status }, `${url}: ${fault}`)
      t.equal(answer.statusCode, status)
      t.notMatch(answer.body, SECRET)
    }
  }
})

t.test('the table of errors has every error of Fastify that a client can see', async (t) => {
  // Not of a request: what a program does wrong, and what this one never does.
  const others = [
    'FST_ERR_CTP_INSTANCE_ALREADY_STARTED',
    'FST_ERR_CTP_INVALID_HANDLER',
    'FST_ERR_INVALID_URL',
    'FST_ERR_NOT_FOUND',
    'FST_ERR_ROUTE_MISSING_CONTENT',
    'FST_ERR_ROUTE_MISSING_CONTENT_TYPE',
  ]
  const ofStaticFiles = 'FST_STATIC_FORBIDDEN_PATH'
  const ofRequests = Object.values(Fastify.errorCodes).flatMap((Coded) => {
    const { code, statusCode = 500 } = new Coded()
    return statusCode >= 400 && statusCode < 500 ? [code] : []
  })
  t.strictSame(
    [...ofRequests.filter((code) => !others.includes(code)), ofStaticFiles].toSorted(),
    Object.keys(FASTIFY_ERRORS).toSorted(),
  )
})

const json = { 'content-type': 'application/json' }
const post = (body: unknown): InjectOptions => ({
  method: 'POST',
  url: '/items',
  headers: json,
  payload: typeof body === 'string' ? body : JSON.stringify(body),
})
const invalid = (...errors: string[]) => ({
  status: 400,
  code: 'FST_ERR_VALIDATION',
  errors: errors.map((error) => ({
    pointer: error.split(' ', 1)[0],
    detail: error.slice(error.indexOf(' ') + 1),
  })),
})

const requests: [what: string, request: InjectOptions | string, problem: object][] = [
  ['an unknown member', post({ domain: 'a', foo: 1 }), invalid('/foo is not a known member')],
  [
    'two unknown members',
    post({ domain: 'a', foo: 1, bar: 2 }),
    invalid('/foo is not a known member', '/bar is not a known member'),
  ],
  [
    'an unknown member below',
    post({ domain: 'a', nested: { names: [], x: 1 } }),
    invalid('/nested/x is not a known member'),
  ],
  ['a missing member', post({}), invalid('/domain is missing')],
  [
    'a missing member below',
    post({ domain: 'a', nested: {} }),
    invalid('/nested/names is missing'),
  ],
  ['a number for a string', post({ domain: 1 }), invalid('/domain must be a text')],
  [
    'a string for a number',
    post({ domain: 'a', count: '1' }),
    invalid('/count must be a whole number'),
  ],
  ['an array for a string', post({ domain: ['a'] }), invalid('/domain must be a text')],
  ['null for a string', post({ domain: null }), invalid('/domain must be a text')],
  [
    'a wrong item',
    post({ domain: 'a', nested: { names: ['a', 1] } }),
    invalid('/nested/names/1 must be a text'),
  ],
  ['too short a string', post({ domain: '' }), invalid('/domain must not be empty')],
  ['an array as body', post([]), { status: 400, code: 'FST_ERR_VALIDATION' }],
  ['null as body', post('null'), { status: 400, code: 'FST_ERR_VALIDATION' }],
  ['no body', { method: 'POST', url: '/items' }, { status: 400, code: 'FST_ERR_VALIDATION' }],
  ['an empty body', post(''), { status: 400, code: 'FST_ERR_CTP_EMPTY_JSON_BODY' }],
  ['malformed JSON', post('{"domain":'), { status: 400, code: 'FST_ERR_CTP_INVALID_JSON_BODY' }],
  [
    'a poisoned prototype',
    post('{"__proto__":{"a":1},"domain":"a"}'),
    { status: 400, code: 'FST_ERR_CTP_INVALID_JSON_BODY' },
  ],
  [
    'a large body',
    post({ domain: 'a'.repeat(2_000) }),
    { status: 413, code: 'FST_ERR_CTP_BODY_TOO_LARGE' },
  ],
  [
    'a form',
    { ...post('domain=a'), headers: { 'content-type': 'application/x-www-form-urlencoded' } },
    {
      status: 415,
      code: 'FST_ERR_CTP_INVALID_MEDIA_TYPE',
      title: 'Content type not supported',
      detail:
        'The body is application/x-www-form-urlencoded, which this path does not take: send the header `Content-Type: application/json`.',
    },
  ],
  [
    'a misspelt member',
    post({ domian: 'a' }),
    invalid('/domain is missing', '/domian is not a known member; did you mean `domain`?'),
  ],
  [
    'a misspelt member below',
    post({ domain: 'a', nested: { names: [], nmes: [] } }),
    invalid('/nested/nmes is not a known member; did you mean `names`?'),
  ],
  [
    'several faults',
    post({ domain: '', count: 'x' }),
    { detail: '`domain` must not be empty. 1 more under `errors`.' },
  ],
  ['an array', post([]), { detail: 'The body must be an object.' }],
  ['an unknown query parameter', '/items/1?foo=1', invalid('/foo is not a known member')],
  ['a doubled query parameter', '/items/1?limit=1&limit=2', invalid('/limit must be a text')],
  [
    'a query parameter of the wrong form',
    '/items/1?limit=-1',
    { status: 400, errors: [{ pointer: '/limit' }] },
  ],
  [
    'a path parameter that is too long',
    '/items/1234',
    invalid('/id must have at most 3 characters'),
  ],
  [
    'a wrong header',
    { url: '/items/1', headers: { 'x-mode': 'slow' } },
    { status: 400, errors: [{ pointer: '/x-mode' }] },
  ],
  [
    'an unknown path',
    '/nothing',
    { status: 404, code: 'NOT_FOUND', detail: 'There is nothing at this path.' },
  ],
  [
    'an unknown path with a form',
    { method: 'POST', url: '/x', headers: { 'content-type': 'text/x' }, payload: 'x' },
    { status: 404, code: 'NOT_FOUND' },
  ],
  [
    'a wrong method',
    { method: 'PUT', url: '/items/1?a=b' },
    { status: 405, code: 'METHOD_NOT_ALLOWED', detail: 'This path answers DELETE, GET, HEAD.' },
  ],
  ['a bad path', '/items/%zz', { status: 400, code: 'FST_ERR_BAD_URL' }],
]

t.test('describes the faults of a request', async (t) => {
  const app = await buildApp()
  for (const [what, request, problem] of requests)
    t.test(what, async (t) => {
      const response = await app.inject(request)
      const told = response.json()
      t.match(told, { title: String, detail: String, ...problem })
      t.equal(response.statusCode, told.status)
      t.match(response.headers['content-type'], 'application/problem+json')
    })

  t.test('a wrong method is answered with the allowed ones', async (t) => {
    const { headers } = await app.inject({ method: 'PUT', url: '/items/1' })
    t.equal(headers.allow, 'DELETE, GET, HEAD')
  })
  t.test('a flood of unknown members gets a short answer', async (t) => {
    const body = Object.fromEntries(Array.from({ length: 90 }, (_, i) => [`k${i}`, 1]))
    t.ok((await app.inject(post(body))).json().errors.length <= 20)
  })
  t.test('open maps stay open, other headers are allowed', async (t) => {
    t.equal((await app.inject(post({ domain: 'a', labels: { any: 'thing' } }))).statusCode, 200)
    t.equal((await app.inject({ url: '/items/1', headers: { 'x-other': 'a' } })).statusCode, 200)
  })
})

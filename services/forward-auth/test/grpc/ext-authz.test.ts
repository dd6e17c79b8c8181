import t from 'tap'
import { denied, toCheck, toResponse } from '../../src/grpc/ext-authz.ts'
import type { CheckRequest } from '../../src/grpc/messages.ts'

const asking = (headers: Readonly<Record<string, string>>): CheckRequest => ({
  attributes: {
    source: { address: { socketAddress: { address: '203.0.113.7' } } },
    request: {
      http: { method: 'POST', path: '/a?b', host: 'app.example.com', scheme: 'https', headers },
    },
    contextExtensions: {},
  },
})
const OPTIONS = { basePath: '', onlyPortal: 'main' }
const answer = (statusCode: number, headers = {}) => ({ statusCode, headers, payload: 'x' })

t.test(
  'a check gets the headers of the client, but for those of a proxy, of a body and of a connection',
  async (t) => {
    const passed = {
      accept: 'text/html',
      'x-http-method-override': 'DELETE',
      'x-original-url': '/b',
    }
    const dropped = Object.fromEntries(
      [
        ...['x-forwarded-prefix', 'x-original-method', 'x-forward-auth-if', ':path', 'connection'],
        ...['content-encoding', 'content-length', 'transfer-encoding'],
      ].map((name) => [name, 'eve']),
    )
    const forged = { 'x-forwarded-for': 'eve', 'x-forwarded-host': 'eve', host: 'eve' }
    const { request } = toCheck(asking({ ...passed, ...dropped, ...forged }), OPTIONS)
    t.strictSame(request.headers, {
      'user-agent': undefined,
      ...passed,
      host: 'app.example.com',
      'x-forwarded-method': 'POST',
      'x-forwarded-proto': 'https',
      'x-forwarded-host': 'app.example.com',
      'x-forwarded-uri': '/a?b',
      'x-forwarded-for': '203.0.113.7',
    })
  },
)

t.test('nothing passes but by a 200 of a portal', async (t) => {
  const request = asking({})
  t.equal(toResponse(answer(200), ['x-forwarded-user'], request).status.code, 0)
  const rows: readonly (readonly [
    status: number,
    identity: readonly string[] | undefined,
    told: number,
  ])[] = [
    [200, undefined, 403],
    [201, ['x-forwarded-user'], 201],
    [401, ['x-forwarded-user'], 401],
    [503, undefined, 503],
  ]
  for (const [status, identity, told] of rows)
    t.match(
      toResponse(answer(status), identity, request),
      { status: { code: 7 }, okResponse: undefined, deniedResponse: { status: { code: told } } },
      `${status}`,
    )
})

t.test(
  'the app gets the credentials that the check answers, and no key of Gatehouse',
  async (t) => {
    const table: [authorization: string | undefined, set: string[], removed: string[]][] = [
      ['', [], ['authorization']],
      ['Basic YTpi', ['Basic YTpi'], []],
      [undefined, [], []],
    ]
    for (const [authorization, set, removed] of table) {
      const headers = {
        'x-forwarded-user': 'psk:reader',
        ...(authorization !== undefined && { authorization }),
      }
      const { okResponse } = toResponse(answer(200, headers), ['x-forwarded-user'], asking({}))
      const sent = okResponse?.headers.filter(({ header }) => header.key === 'authorization')
      t.strictSame(
        sent?.map(({ header, appendAction }) => [header.value, appendAction]),
        set.map((value) => [value, 2]),
      )
      t.strictSame(okResponse?.headersToRemove, removed)
    }
  },
)

t.test(
  'a refusal keeps its headers, each of several, and leaves those of the connection to Envoy',
  async (t) => {
    const framing = {
      connection: 'close',
      'content-length': 1,
      date: 'x',
      'keep-alive': 'x',
      'transfer-encoding': 'x',
    }
    const { deniedResponse } = denied(
      answer(401, { ...framing, location: '/', 'set-cookie': ['a', 'b', 'c'] }),
    )
    t.strictSame(
      deniedResponse?.headers.map(({ header: { key, value }, appendAction }) => [
        key,
        value,
        appendAction,
      ]),
      [
        ['location', '/', 2],
        ['set-cookie', 'a', 2],
        ['set-cookie', 'b', 0],
        ['set-cookie', 'c', 0],
      ],
    )
  },
)

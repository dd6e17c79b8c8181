import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import {
  type AddressInfo,
  getDefaultAutoSelectFamily,
  isIPv4,
  type LookupFunction,
  setDefaultAutoSelectFamily,
} from 'node:net'
import t from 'tap'
import {
  type BoundedFetch,
  compileNetworks,
  createDispatcher,
  createFetch,
  type FetchInit,
  NetError,
  type NetErrorCode,
} from '../src/index.ts'

const MEGABYTE = 1_048_576

const routes: Record<string, RequestListener> = {
  '/json': (_request, response) => {
    response.setHeader('content-type', 'application/json; charset=utf-8')
    response.end('{"a":1}')
  },
  '/jwks': (_request, response) => {
    response.setHeader('content-type', 'application/jwk-set+json')
    response.end('{"keys":[]}')
  },
  '/html': (_request, response) => {
    response.setHeader('content-type', 'text/html')
    response.end('<p>application/json')
  },
  '/untyped': (_request, response) => void response.end('{}'),
  '/redirect': (_request, response) => void response.writeHead(302, { location: '/json' }).end(),
  '/missing': (_request, response) => void response.writeHead(404).end('nothing'),
  '/declared-5mb': (_request, response) => {
    response.setHeader('content-length', 5 * MEGABYTE)
    response.end(Buffer.alloc(5 * MEGABYTE))
  },
  '/chunked-5mb': (_request, response) => {
    for (let i = 0; i < 80; i++) response.write(Buffer.alloc(65_536))
    response.end()
  },
  '/exactly-1mb': (_request, response) => void response.end(Buffer.alloc(MEGABYTE)),
  '/hang': () => {},
  '/hang-midway': (_request, response) => void response.write('{"a":'),
  '/drip': (_request, response) => {
    const timer = setInterval(() => response.write(' '), 10)
    response.on('close', () => clearInterval(timer))
  },
  '/cut': (_request, response) => {
    response.setHeader('content-length', 10)
    response.write('half')
    setImmediate(() => response.destroy())
  },
  '/echo': (request, response) => void request.pipe(response),
}

t.test('a bounded fetch', async (t) => {
  const asked: string[] = []
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`)
    routes[request.url?.split('?')[0] ?? '']?.(request, response)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const origin = `http://127.0.0.1:${port}`
  const fetch = createFetch({ timeoutMs: 60_000 })
  t.teardown(async () => {
    await fetch.close()
    server.closeAllConnections()
    server.close()
  })

  const accepted: [path: string, init: FetchInit, body: string][] = [
    ['/json', {}, '{"a":1}'],
    ['/json', { json: true }, '{"a":1}'],
    ['/jwks', { json: true }, '{"keys":[]}'],
    ['/missing', { status: [200, 404] }, 'nothing'],
    ['/redirect', { status: [302] }, ''],
    ['/echo', { method: 'POST', body: 'hello' }, 'hello'],
    ['/echo', { method: 'PUT', body: new Uint8Array([104, 105]) }, 'hi'],
  ]
  for (const [path, init, body] of accepted)
    t.test(`${path} ${JSON.stringify(init)} is accepted`, async (t) => {
      t.equal((await fetch(origin + path, init)).body.toString(), body)
    })

  t.test('an answer as large as the limit is read, with status and headers', async (t) => {
    const answer = await fetch(new URL(`${origin}/exactly-1mb`))
    t.match(answer, { status: 200, headers: { 'content-length': String(MEGABYTE) } })
    t.equal(answer.body.length, MEGABYTE)
  })

  const refused: [path: string, init: FetchInit, code: NetErrorCode][] = [
    ['/redirect', {}, 'NET_FETCH_STATUS'],
    ['/missing', {}, 'NET_FETCH_STATUS'],
    ['/html', { json: true }, 'NET_FETCH_TYPE'],
    ['/untyped', { json: true }, 'NET_FETCH_TYPE'],
    ['/declared-5mb', {}, 'NET_FETCH_TOO_LARGE'],
    ['/chunked-5mb', {}, 'NET_FETCH_TOO_LARGE'],
    ['/json', { maxBytes: 6 }, 'NET_FETCH_TOO_LARGE'],
    ['/hang', { timeoutMs: 50 }, 'NET_FETCH_TIMEOUT'],
    ['/hang-midway', { timeoutMs: 50 }, 'NET_FETCH_TIMEOUT'],
    ['/drip', { timeoutMs: 100 }, 'NET_FETCH_TIMEOUT'],
    ['/cut', {}, 'NET_FETCH_FAILED'],
    ['/hang', { signal: AbortSignal.abort() }, 'NET_FETCH_FAILED'],
  ]
  for (const [path, init, code] of refused)
    t.test(`${path} ${JSON.stringify(init)} is refused with ${code}`, async (t) => {
      await t.rejects(fetch(origin + path, init), { name: 'NetError', code })
    })

  t.test('a redirect is not followed', async (t) => {
    asked.length = 0
    await t.rejects(fetch(`${origin}/redirect`))
    t.strictSame(asked, ['GET /redirect'])
  })

  t.test('a name below localhost is this machine, whatever DNS says', async (t) => {
    const { body } = await fetch(`http://id.gatehouse.localhost:${port}/json`)
    t.equal(body.toString(), '{"a":1}')
  })

  const lookups: [protocol: string, asked: readonly string[]][] = [
    ['http', ['localhost']],
    ['https', ['localhost', 'id.gatehouse.localhost']],
  ]
  for (const [protocol, names] of lookups)
    t.test(`${protocol}: a name below localhost is resolved elsewhere only over TLS`, async (t) => {
      const looked: string[] = []
      const lookup: LookupFunction = (name, _options, callback) => {
        looked.push(name)
        callback(null, [{ address: '127.0.0.1', family: 4 }])
      }
      const mocks = { 'node:dns': { lookup } }
      const { createFetch } = await t.mockImport('../src/fetch.ts', mocks)
      const fetch: BoundedFetch = createFetch()
      t.teardown(() => fetch.close())
      const refusal = { code: 'NET_FETCH_FAILED', message: /ECONNREFUSED/ }
      await t.rejects(fetch(`${protocol}://id.gatehouse.localhost:1/`), refusal)
      t.strictSame(looked, names)
    })

  const addresses: [host: string, allowed: string[], isAnswered: boolean][] = [
    ['127.0.0.1', ['127.0.0.0/8'], true],
    ['127.0.0.1', ['10.0.0.0/8'], false],
    ['0x7f.1', ['10.0.0.0/8'], false],
    ['2130706433', ['10.0.0.0/8'], false],
    ['[::ffff:127.0.0.1]', ['10.0.0.0/8'], false],
    ['[::ffff:7f00:1]', ['::/0'], false],
    ['[::1]', ['127.0.0.0/8'], false],
    ['localhost', ['127.0.0.0/8', '::1'], true],
    ['localhost', ['10.0.0.0/8'], false],
    ['id.gatehouse.localhost', ['127.0.0.0/8', '::1'], true],
    ['id.gatehouse.localhost', ['10.0.0.0/8'], false],
  ]
  for (const [host, allowed, isAnswered] of addresses)
    t.test(
      `${host} is ${isAnswered ? 'reached' : 'refused'} where ${allowed} may be`,
      async (t) => {
        const fetch = createFetch({ allows: compileNetworks(allowed) })
        t.teardown(() => fetch.close())
        asked.length = 0
        const answer = fetch(`http://${host}:${port}/json`)
        if (isAnswered) t.equal((await answer).body.toString(), '{"a":1}')
        else
          await t.rejects(answer, {
            name: 'NetError',
            code: 'NET_ADDRESS_REFUSED',
            message: /^\S+ is at an address that is not allowed$/,
          })
        t.equal(asked.length, isAnswered ? 1 : 0)
      },
    )

  const answers: [name: string, resolved: string[][], isAnswered: boolean][] = [
    ['one allowed address', [['127.0.0.1']], true],
    ['another address', [['127.0.0.2']], false],
    ['an allowed address and another', [['127.0.0.1', '127.0.0.2']], false],
    ['an allowed address that is another the next time', [['127.0.0.1'], ['127.0.0.2']], true],
    ['a mapped address', [['::ffff:127.0.0.2']], false],
    ['an address with a zone', [['fe80::1%lo']], false],
    ['no address', [[]], false],
  ]
  for (const protocol of ['http', 'https'])
    for (const [name, resolved, isAnswered] of answers)
      t.test(`${protocol}: a name with ${name} is resolved once`, async (t) => {
        // All addresses are looked up whatever Node is told to select from.
        const isDefault = getDefaultAutoSelectFamily()
        setDefaultAutoSelectFamily(false)
        t.teardown(() => setDefaultAutoSelectFamily(isDefault))
        let lookups = 0
        const lookup: LookupFunction = (_name, { all }, callback) => {
          t.equal(all, true)
          const found = resolved[lookups++] ?? []
          callback(
            null,
            found.map((address) => ({ address, family: isIPv4(address) ? 4 : 6 })),
          )
        }
        const { createFetch } = await t.mockImport('../src/fetch.ts', { 'node:dns': { lookup } })
        const fetch: BoundedFetch = createFetch({ allows: compileNetworks(['127.0.0.1']) })
        t.teardown(() => fetch.close())
        let connections = 0
        const count = () => {
          connections += 1
        }
        server.on('connection', count)
        t.teardown(() => server.off('connection', count))
        // The server does not speak TLS: that connection fails after it was made.
        const outcome = fetch(`${protocol}://id.example:${port}/json`).then(
          () => 'answered',
          ({ code }) => code,
        )
        const expected = protocol === 'http' ? 'answered' : 'NET_FETCH_FAILED'
        const refusal = resolved[0]?.length ? 'NET_ADDRESS_REFUSED' : 'NET_FETCH_FAILED'
        t.equal(await outcome, isAnswered ? expected : refusal)
        t.equal(connections, isAnswered ? 1 : 0)
        t.equal(lookups, 1)
      })

  t.test('what connects by itself cannot be limited to addresses', async (t) => {
    const dispatcher = await createDispatcher(() => true)
    t.throws(() => createFetch({ allows: () => true, dispatcher }), TypeError)
    t.throws(() => createFetch({ allows: () => true, socketPath: '/nowhere' }), TypeError)
  })

  t.test('an abort ends a request in flight', async (t) => {
    const abort = new AbortController()
    const answer = t.rejects(fetch(`${origin}/hang-midway`, { signal: abort.signal }), {
      code: 'NET_FETCH_FAILED',
    })
    await once(server, 'request')
    abort.abort()
    await answer
  })

  t.test('the error of a refused connection has the reason, and not the query', async (t) => {
    const closed = createServer().listen(0, '127.0.0.1')
    await once(closed, 'listening')
    const { port } = closed.address() as AddressInfo
    closed.close()
    const error = await fetch(`http://127.0.0.1:${port}/x?token=hunter2`).catch((error) => error)
    t.ok(error instanceof NetError)
    t.equal(
      error.message,
      `GET http://127.0.0.1:${port}/x failed: ECONNREFUSED, nothing listens there`,
    )
    t.equal(error.cause.code, 'ECONNREFUSED')
  })

  t.test('an invalid URL or scheme is a NetError too', async (t) => {
    await t.rejects(fetch('nonsense'), { code: 'NET_FETCH_FAILED' })
    await t.rejects(fetch('ftp://127.0.0.1/'), { code: 'NET_FETCH_FAILED' })
  })

  t.test('close() ends requests in flight', async (t) => {
    const fetch = createFetch()
    const refused = t.rejects(fetch(`${origin}/hang`), { code: 'NET_FETCH_FAILED' })
    await once(server, 'request')
    await fetch.close()
    await refused
  })
})

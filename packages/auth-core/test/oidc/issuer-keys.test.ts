import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'
import * as net from '@gatehouse/net'
import fc from 'fast-check'
import t from 'tap'
import { until } from '../../../../scripts/test/until.ts'
import type { AuthError } from '../../src/errors.ts'
import { IssuerKeys } from '../../src/oidc/issuer-keys.ts'
import {
  caught,
  dispatcherOf,
  fakeIssuer,
  frozenClock,
  ISSUER,
  issue,
  signingKey,
  silent,
} from '../kit.ts'

const one = signingKey('ES256', 'one')
const two = signingKey('ES256', 'two')
const rsa = signingKey('RS256', 'one')
const MINUTE = 60_000
const asked = (kid: string | undefined, alg = 'ES256') => ({ kid, alg })

function setup(options: object = {}) {
  const issuer = fakeIssuer({ keys: [one.jwk] })
  const clock = frozenClock()
  const logged: Record<string, unknown>[] = []
  const log = { ...silent, warn: (fields: object) => void logged.push({ ...fields }) }
  const { dispatcher } = issuer
  const keys = new IssuerKeys(
    { issuerUrl: ISSUER, ...options },
    { dispatcher, elapsed: clock.elapsed, log },
  )
  const has = async (kid: string | undefined) => {
    try {
      return (await keys.find(asked(kid))).key.algorithms.includes('ES256')
    } catch (error) {
      return (error as AuthError).code
    }
  }
  return { issuer, clock, keys, has, logged }
}

t.test('the set is requested with the first token, and once for all that wait', async (t) => {
  const { issuer, keys, has } = setup()
  t.equal(issuer.requests.length, 0)
  t.equal(keys.current(), undefined)
  t.strictSame(await Promise.all([has('one'), has('one'), has('one')]), [true, true, true])
  t.equal(issuer.readings(), 1)
  t.ok(!(keys.find(asked('one')) instanceof Promise), 'then without a promise')
})

t.test('1,000 unknown key ids cost one request per cooldown', async (t) => {
  const { issuer, clock, has } = setup()
  await has('one')
  clock.pass(1_000)
  for (let i = 0; i < 1_000; i++) {
    t.equal(await has(`unknown-${i}`), 'AUTH_TOKEN_KEY_UNKNOWN')
    clock.pass(29)
  }
  t.equal(issuer.readings(), 2)
  clock.pass(1_000)
  await has('unknown')
  t.equal(issuer.readings(), 3)
})

t.test('the number of requests is bounded for any sequence of tokens', async () => {
  const step = fc.tuple(fc.constantFrom(0, 1, 500, 999, 1_000, 29_999, 30_000, 299_999), fc.nat(5))
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 100 }), async (steps) => {
      const { issuer, clock, keys, has } = setup()
      for (const [pause, kid] of steps) {
        clock.pass(pause)
        const hint = asked('one', kid === 1 ? 'ES384' : 'ES256')
        // A key whose signature is wrong, or that is unknown, or of another algorithm.
        if (kid === 0) await caught(async () => keys.find(hint, (await keys.find(hint)).set))
        else if (kid === 1) await caught(() => keys.find(hint))
        else await has(kid === 2 ? 'one' : `unknown-${kid}`)
      }
      const { uptime } = clock
      const allowed = 2 + Math.floor(uptime / 30_000) + Math.floor(uptime / (5 * MINUTE))
      return issuer.readings() <= allowed
    }),
  )
})

t.test('a new key', async (t) => {
  t.test('is accepted at once without a flood of unknown ones', async (t) => {
    const { issuer, clock, has } = setup()
    await has('one')
    issuer.keys = [one.jwk, two.jwk]
    t.equal(await has('two'), 'AUTH_TOKEN_KEY_UNKNOWN', 'but for a set that was just read')
    clock.pass(1_000)
    t.equal(await has('two'), true)
    t.equal(issuer.readings(), 2)
  })
  t.test('is delayed by unknown ones for the cooldown at most', async (t) => {
    const { issuer, clock, has } = setup()
    await has('one')
    clock.pass(1_000)
    t.equal(await has('unknown'), 'AUTH_TOKEN_KEY_UNKNOWN', 'takes the reading of this cooldown')
    issuer.keys = [one.jwk, two.jwk]
    clock.pass(29_999)
    t.equal(await has('two'), 'AUTH_TOKEN_KEY_UNKNOWN')
    clock.pass(1)
    t.equal(await has('unknown'), 'AUTH_TOKEN_KEY_UNKNOWN', 'takes the next one')
    t.equal(await has('two'), true, 'which showed the new key as well')
    t.equal(issuer.readings(), 3)
  })
})

t.test('a withdrawn key', async (t) => {
  t.test('is refused as soon as the set was read again', async (t) => {
    const { issuer, clock, has } = setup()
    await has('one')
    issuer.keys = [two.jwk]
    clock.pass(30_000)
    t.equal(await has('two'), true)
    t.equal(await has('one'), 'AUTH_TOKEN_KEY_UNKNOWN')
  })
  t.test('is refused within the maximal age, under traffic', async (t) => {
    const { issuer, clock, has } = setup()
    await has('one')
    issuer.keys = [two.jwk]
    clock.pass(5 * MINUTE)
    t.equal(await has('one'), true, 'read again in the background')
    await until(async () => (await has('one')) === 'AUTH_TOKEN_KEY_UNKNOWN')
  })
  t.test('is refused after the maximal age, without traffic', async (t) => {
    const { issuer, clock, keys, has } = setup()
    await has('one')
    issuer.keys = [two.jwk]
    clock.pass(10 * MINUTE)
    t.equal(keys.current(), undefined)
    t.equal(await has('one'), 'AUTH_TOKEN_KEY_UNKNOWN')
  })
  t.test('is refused if no key is published any more', async (t) => {
    const { issuer, clock, has } = setup()
    await has('one')
    issuer.keys = []
    clock.pass(10 * MINUTE)
    t.equal(await has('one'), 'AUTH_TOKEN_KEY_UNKNOWN')
  })
})

t.test('an unchanged set stays the same object, a changed one does not', async (t) => {
  const { issuer, clock, keys, has } = setup()
  await has('one')
  const first = keys.current()
  clock.pass(10 * MINUTE)
  await has('one')
  t.equal(keys.current(), first)
  issuer.keys = [one.jwk, two.jwk]
  clock.pass(10 * MINUTE)
  await has('one')
  t.not(keys.current(), first)
})

t.test('the age of a set counts from its request, however long the answer takes', async (t) => {
  const clock = frozenClock()
  const dispatcher = dispatcherOf(() => {
    clock.pass(2 * MINUTE)
    return JSON.stringify({ keys: [one.jwk] })
  })
  const deps = { dispatcher, elapsed: clock.elapsed, log: silent }
  const keys = new IssuerKeys({ issuerUrl: ISSUER, jwksUrl: `${ISSUER}/keys` }, deps)
  await keys.find(asked('one'))
  clock.pass(8 * MINUTE - 1)
  t.ok(keys.current())
  clock.pass(1)
  t.equal(keys.current(), undefined)
})

t.test('an issuer that is down', async (t) => {
  t.test('is asked with the first backoff again after it was back', async (t) => {
    const { issuer, clock, keys, has } = setup()
    issuer.isDown = true
    const refusal = () => caught(() => keys.find(asked('two'))) as Promise<AuthError>
    for (let n = 0; n < 6; n++) {
      await has('one')
      clock.pass(30_000)
    }
    await has('one')
    t.ok((await refusal()).retryAfter! > 1)
    issuer.isDown = false
    clock.pass(30_000)
    t.equal(await has('one'), true)
    issuer.isDown = true
    clock.pass(10 * MINUTE)
    await has('two')
    t.match(await refusal(), { retryAfter: 1 })
  })
  t.test('is tried again no sooner than in a second, however late that is told', async (t) => {
    const { issuer, clock } = setup()
    issuer.isDown = true
    const log = { ...silent, warn: () => clock.pass(MINUTE) }
    const deps = { dispatcher: issuer.dispatcher, elapsed: clock.elapsed, log }
    const keys = new IssuerKeys({ issuerUrl: ISSUER }, deps)
    t.match(await caught(() => keys.find(asked('one'))), { statusCode: 503, retryAfter: 1 })
  })
  t.test('at the start refuses tokens with Retry-After until it is back', async (t) => {
    const { issuer, clock, keys, has, logged } = setup()
    issuer.isDown = true
    t.equal(await has('one'), 'AUTH_ISSUER_UNREACHABLE')
    t.match(await caught(() => keys.find(asked('one'))), { statusCode: 503, retryAfter: 1 })
    t.equal(issuer.requests.length, 1, 'nobody waits for a try that was just made')
    t.ok(keys.failing())
    t.match(logged, [{ issuer: ISSUER, code: 'AUTH_ISSUER_UNREACHABLE', detail: /ECONNREFUSED/ }])
    issuer.isDown = false
    clock.pass(1_000)
    t.equal(await has('one'), true)
    t.notOk(keys.failing())
  })
  t.test('is asked with a backoff, and at least twice a minute', async (t) => {
    const { issuer, clock, has } = setup()
    issuer.isDown = true
    for (let second = 0; second < 600; second++) {
      await has('one')
      clock.pass(1_000)
    }
    t.ok(issuer.requests.length >= 20 && issuer.requests.length <= 50, `${issuer.requests.length}`)
  })
  t.test('later lets its known keys be used for an hour', async (t) => {
    const { issuer, clock, keys, has } = setup()
    await has('one')
    issuer.isDown = true
    clock.pass(10 * MINUTE)
    t.equal(await has('one'), true)
    t.equal(await has('two'), 'AUTH_ISSUER_UNREACHABLE', 'an unknown key cannot be judged')
    clock.pass(49 * MINUTE)
    t.equal(await has('one'), true)
    t.ok(!(keys.find(asked('one')) instanceof Promise), 'and nobody waits')
    clock.pass(MINUTE)
    t.equal(await has('one'), 'AUTH_ISSUER_UNREACHABLE')
    issuer.isDown = false
    clock.pass(30_000)
    t.equal(await has('one'), true)
  })
})

const unusable: [why: string, metadata: unknown][] = [
  ['of another issuer', { issuer: 'https://other.example', jwks_uri: `${ISSUER}/keys` }],
  ['of the issuer with one slash more', { issuer: `${ISSUER}/`, jwks_uri: `${ISSUER}/keys` }],
  ['without issuer', { jwks_uri: `${ISSUER}/keys` }],
  ['without jwks_uri', { issuer: ISSUER }],
  ['with keys over plain http', { issuer: ISSUER, jwks_uri: 'http://issuer.example/keys' }],
  ['with keys of this machine', { issuer: ISSUER, jwks_uri: 'http://localhost/keys' }],
  ['with keys of a metadata service', { issuer: ISSUER, jwks_uri: 'https://169.254.169.254/' }],
  ['with keys in a file', { issuer: ISSUER, jwks_uri: 'file:///etc/passwd' }],
  ['that is a list', []],
  ['that is null', null],
]
for (const [why, metadata] of unusable)
  t.test(`a discovery document ${why} gives no keys`, async (t) => {
    const { issuer, has } = setup()
    issuer.metadata = metadata
    t.equal(await has('one'), 'AUTH_ISSUER_INVALID')
    t.equal(issuer.readings(), 0)
  })

t.test(
  'keys of this machine count where they are configured, or the issuer is there',
  async (t) => {
    const urls: string[] = []
    const dispatcher = dispatcherOf((url) => {
      urls.push(url)
      return JSON.stringify({ keys: [one.jwk] })
    })
    const jwksUrl = 'http://127.0.0.1:8080/keys'
    const parts = { elapsed: () => 0, log: silent }
    const configured = new IssuerKeys({ issuerUrl: ISSUER, jwksUrl }, { dispatcher, ...parts })
    t.equal((await configured.find(asked('one'))).key.kid, 'one')
    t.strictSame(urls, [jwksUrl])

    const issuerUrl = 'http://localhost:8080'
    const issuer = fakeIssuer({ issuer: issuerUrl, keys: [one.jwk] })
    const keys = new IssuerKeys({ issuerUrl }, { dispatcher: issuer.dispatcher, ...parts })
    t.equal((await keys.find(asked('one'))).key.kid, 'one')

    const elsewhere = fakeIssuer({ issuer: issuerUrl, keys: [one.jwk] })
    elsewhere.metadata = { issuer: issuerUrl, jwks_uri: 'http://keys.example/' }
    const plain = new IssuerKeys({ issuerUrl }, { dispatcher: elsewhere.dispatcher, ...parts })
    t.match(await caught(() => plain.find(asked('one'))), { code: 'AUTH_ISSUER_INVALID' })
    t.equal(elsewhere.requests.length, 1, 'and nobody is asked without TLS')
  },
)

t.test('keys that are not safe to use are left out, the others are used', async (t) => {
  const weak = (await import('node:crypto')).generateKeyPairSync('rsa', { modulusLength: 1024 })
  const { issuer, has, logged } = setup()
  const { kid: _kid, ...anonymous } = two.jwk
  const off = { ...one.jwk, y: one.jwk.x }
  issuer.keys = [
    { ...one.jwk, kid: 'enc', use: 'enc' },
    { ...one.jwk, kid: 'ops', key_ops: ['sign'] },
    { ...one.jwk, kid: 'number', alg: 256 },
    { ...one.jwk, kid: 'alg', alg: 'RS256' },
    { ...one.jwk, kid: 'hs', alg: 'HS256' },
    { ...one.privateKey.export({ format: 'jwk' }), kid: 'private' },
    { kty: 'oct', k: 'c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0', kid: 'oct' },
    { ...weak.publicKey.export({ format: 'jwk' }), kid: 'weak' },
    { kty: 'EC', crv: 'secp256k1', x: one.jwk.x, y: one.jwk.y, kid: 'curve' },
    { ...off, kid: 'off-curve' },
    { kty: 'RSA', kid: 'empty' },
    { ...one.jwk, kid: 7 },
    { ...one.jwk, kid: '\ud800' },
    'text',
    null,
    anonymous,
    one.jwk,
  ]
  t.equal(await has('one'), true)
  t.equal(await has(undefined), 'AUTH_TOKEN_KEY_UNKNOWN', 'two keys are left')
  for (const kid of ['enc', 'ops', 'number', 'alg', 'hs', 'private', 'oct', 'weak', 'curve'])
    t.equal(await has(kid), 'AUTH_TOKEN_KEY_UNKNOWN', kid)
  for (const kid of ['off-curve', 'empty']) t.equal(await has(kid), 'AUTH_TOKEN_KEY_UNKNOWN', kid)
  t.equal((logged[0]!.refused as string[]).length, 15)
})

t.test(
  'a token without a key id is accepted if its issuer has one key that is safe to use',
  async (t) => {
    const { issuer, clock, has } = setup()
    const { kid: _kid, ...anonymous } = one.jwk
    for (const [why, published, expected] of [
      ['no key', [], 'AUTH_TOKEN_KEY_UNKNOWN'],
      ['one key without an id', [anonymous], true],
      ['one key with an id', [one.jwk], true],
      ['two keys', [one.jwk, two.jwk], 'AUTH_TOKEN_KEY_UNKNOWN'],
      ['two keys without ids', [anonymous, anonymous], 'AUTH_TOKEN_KEY_UNKNOWN'],
      ['two keys of different types', [one.jwk, rsa.jwk], 'AUTH_TOKEN_KEY_UNKNOWN'],
      ['two keys, of which one is not safe to use', [one.jwk, { ...two.jwk, use: 'enc' }], true],
      ['one key of another type', [rsa.jwk], 'AUTH_TOKEN_ALGORITHM'],
    ] as const) {
      issuer.keys = [...published]
      clock.pass(10 * MINUTE)
      t.equal(await has(undefined), expected, why)
    }
  },
)

t.test('a set has at most 64 keys', async (t) => {
  const setOf = (length: number) => Array.from({ length }, (_, i) => ({ ...one.jwk, kid: `${i}` }))
  for (const [length, expected] of [
    [64, true],
    [65, 'AUTH_ISSUER_INVALID'],
  ] as const) {
    const { issuer, has } = setup()
    issuer.keys = setOf(length)
    t.equal(await has('0'), expected, `${length}`)
  }
})

t.test('keys with one id and different algorithms are all used', async (t) => {
  const { issuer, keys } = setup()
  issuer.keys = [one.jwk, rsa.jwk]
  t.strictSame((await keys.find(asked('one'))).key.algorithms, ['ES256'])
  t.strictSame((await keys.find(asked('one', 'RS256'))).key.algorithms, ['RS256'])
  t.equal(issuer.readings(), 1)
})

t.test('keys with one id that name no algorithm are all used', async (t) => {
  const ed = signingKey('EdDSA', 'one')
  const all = [rsa, one, ed]
  const bare = all.map(({ jwk: { alg: _, ...jwk } }) => jwk)
  const orders = [
    bare,
    bare.toReversed(),
    [bare[0], one.jwk],
    [one.jwk, bare[0]],
    [bare[1], rsa.jwk],
  ]
  for (const published of orders) {
    const { issuer, keys } = setup()
    issuer.keys = published
    for (const key of all.filter(({ jwk }) => published.some((one) => one?.kty === jwk.kty))) {
      const found = await keys.find(asked('one', key.alg))
      t.doesNotThrow(() => found.key.verify(issue(key)), `${key.alg} of ${published.length} keys`)
    }
  }
  const { issuer, keys } = setup()
  issuer.keys = bare
  const found = await keys.find(asked('one', 'RS512'))
  t.doesNotThrow(() => found.key.verify(issue({ ...rsa, alg: 'RS512' })), 'with each algorithm')
})

t.test('a key that is not safe to use does not hide another one with its id', async (t) => {
  const { issuer, keys } = setup()
  issuer.keys = [null, { ...two.jwk, kid: 'one', use: 'enc' }, one.jwk]
  for (const time of ['first', 'second']) {
    const { key } = await keys.find(asked('one'))
    t.doesNotThrow(() => key.verify(issue(one)), time)
  }
})

t.test('a key set may be anywhere at its origin', async (t) => {
  for (const path of ['/', '/keys', '//keys', '/a/b?kind=jwks&x=%2F']) {
    const urls: string[] = []
    const dispatcher = dispatcherOf((url) => {
      urls.push(url)
      return JSON.stringify({ keys: [one.jwk] })
    })
    const options = { issuerUrl: ISSUER, jwksUrl: `${ISSUER}${path}` }
    const keys = new IssuerKeys(options, { dispatcher, elapsed: () => 0, log: silent })
    t.equal((await keys.find(asked('one'))).key.kid, 'one')
    t.strictSame(urls, [`${ISSUER}${path}`])
  }
})

t.test('the bearer token file', async (t) => {
  const tokenFile = t.testdir({ token: 'first\n' }).concat('/token')
  const { writeFileSync } = await import('node:fs')

  t.test('is read for each request', async (t) => {
    const { issuer, clock, has } = setup({ tokenFile })
    await has('one')
    writeFileSync(tokenFile, 'second')
    clock.pass(10 * MINUTE)
    await has('one')
    t.strictSame(
      issuer.requests.map(({ authorization }) => authorization),
      ['Bearer first', 'Bearer first', 'Bearer second', 'Bearer second'],
    )
  })
  t.test('is not sent to another origin that the discovery document names', async (t) => {
    const { issuer, has } = setup({ tokenFile })
    issuer.metadata = { issuer: ISSUER, jwks_uri: 'https://other.example/keys' }
    await has('one')
    t.match(issuer.requests, [
      { authorization: 'Bearer second' },
      { url: 'https://other.example/keys', authorization: undefined },
    ])
  })
  t.test('is sent to a configured jwksUrl, without discovery', async (t) => {
    const { issuer, has } = setup({ tokenFile, jwksUrl: `${ISSUER}/keys` })
    t.equal(await has('one'), true)
    t.strictSame(issuer.requests, [{ url: `${ISSUER}/keys`, authorization: 'Bearer second' }])
  })
  t.test('that holds no valid token fails the request, and is not logged', async (t) => {
    const { has, logged } = setup({ tokenFile: t.testdir({ token: 'one\ntwo' }).concat('/token') })
    t.equal(await has('one'), 'AUTH_ISSUER_INVALID')
    t.match(logged, [{ detail: /does not hold a bearer token/ }])
    t.notMatch(JSON.stringify(logged), /two/)
  })
  t.test('that is missing fails the request, not the process', async (t) => {
    const { has } = setup({ tokenFile: `${tokenFile}.gone` })
    t.equal(await has('one'), 'AUTH_ISSUER_INVALID')
  })
})

t.test('over a socket', async (t) => {
  type Answer = Parameters<typeof createServer>[1]
  async function ask(answer: NonNullable<Answer>, timeoutMs = 30_000) {
    const createFetch = (options: object) => net.createFetch({ ...options, timeoutMs })
    const { IssuerKeys } = await t.mockImport<typeof import('../../src/oidc/issuer-keys.ts')>(
      '../../src/oidc/issuer-keys.ts',
      { '@gatehouse/net': { ...net, createFetch } },
    )
    const server = createServer(answer as never)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const issuerUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const keys = new IssuerKeys({ issuerUrl }, { elapsed: () => 0, log: silent })
    try {
      return (await keys.find(asked('one'))).key.kid
    } catch (error) {
      return (error as AuthError).code
    } finally {
      await keys.close()
      server.closeAllConnections()
      server.close()
    }
  }
  const metadata = (host = '') =>
    JSON.stringify({ issuer: `http://${host}`, jwks_uri: `http://${host}/keys` })
  /** Metadata as they should be, and this answer for the keys. */
  const keysWith =
    (answer: NonNullable<Answer>): NonNullable<Answer> =>
    (req, res) =>
      void (req.url === '/keys' ? answer(req, res) : res.end(metadata(req.headers.host)))
  const body = JSON.stringify({ keys: [one.jwk] })
  const answers: [
    why: string,
    expected: string,
    answer: NonNullable<Answer>,
    timeoutMs?: number,
  ][] = [
    [
      'a good answer',
      'one',
      (req, res) =>
        void res.end(
          req.url === '/keys' ? JSON.stringify({ keys: [one.jwk] }) : metadata(req.headers.host),
        ),
    ],
    [
      'a redirect',
      'AUTH_ISSUER_UNREACHABLE',
      (_req, res) => void res.writeHead(302, { location: 'http://127.0.0.1:9/' }).end(),
    ],
    [
      'a redirect of the keys',
      'AUTH_ISSUER_UNREACHABLE',
      (req, res) =>
        void (req.url === '/keys'
          ? res.writeHead(307, { location: '/elsewhere' }).end()
          : res.end(metadata(req.headers.host))),
    ],
    ['5 MB of metadata', 'AUTH_ISSUER_UNREACHABLE', (_req, res) => void res.end(' '.repeat(5e6))],
    [
      'more than 256 kB of metadata',
      'AUTH_ISSUER_UNREACHABLE',
      (req, res) =>
        void res.end(req.url === '/keys' ? body : metadata(req.headers.host).padEnd(262_145)),
    ],
    [
      '5 MB of keys',
      'AUTH_ISSUER_UNREACHABLE',
      (req, res) =>
        void res.end(req.url === '/keys' ? ' '.repeat(5e6) : metadata(req.headers.host)),
    ],
    ['no answer', 'AUTH_ISSUER_UNREACHABLE', () => {}, 50],
    ['half an answer', 'AUTH_ISSUER_UNREACHABLE', (_req, res) => void res.write('{'), 50],
    ['a status of 500', 'AUTH_ISSUER_UNREACHABLE', (_req, res) => void res.writeHead(500).end()],
    ['a web page', 'AUTH_ISSUER_INVALID', (_req, res) => void res.end('<html>')],
    [
      'a web page for the keys',
      'AUTH_ISSUER_INVALID',
      keysWith((_, res) => void res.end('<html>')),
    ],
    ['null for the keys', 'AUTH_ISSUER_INVALID', keysWith((_, res) => void res.end('null'))],
    ['no list of keys', 'AUTH_ISSUER_INVALID', keysWith((_, res) => void res.end('{}'))],
    [
      'a status of 500 for the keys',
      'AUTH_ISSUER_UNREACHABLE',
      keysWith((_, res) => void res.writeHead(500).end(body)),
    ],
    [
      'a status of 404 for the keys, in HTML',
      'AUTH_ISSUER_UNREACHABLE',
      keysWith((_, res) => void res.writeHead(404).end('<html>')),
    ],
    ['no answer for the keys', 'AUTH_ISSUER_UNREACHABLE', keysWith(() => {}), 50],
    [
      'half of the keys',
      'AUTH_ISSUER_UNREACHABLE',
      keysWith((_, res) => void res.write(body.slice(0, 9))),
      50,
    ],
    [
      'keys that come one byte at a time',
      'AUTH_ISSUER_UNREACHABLE',
      keysWith((_, res) => {
        const timer = setInterval(() => res.write(' '), 5)
        res.on('close', () => clearInterval(timer))
      }),
      100,
    ],
    [
      'a connection that breaks',
      'AUTH_ISSUER_UNREACHABLE',
      keysWith((_, res) => {
        res.writeHead(200, { 'content-length': body.length }).write(body.slice(0, 9))
        setImmediate(() => res.destroy())
      }),
    ],
    [
      'compressed keys, which may be larger than the limit',
      'AUTH_ISSUER_UNREACHABLE',
      keysWith((_, res) => {
        res.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(body))
      }),
    ],
  ]
  for (const [why, expected, answer, timeoutMs] of answers)
    t.test(`${why}: ${expected}`, async (t) => t.equal(await ask(answer, timeoutMs), expected))
})

import { createHmac, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto'
import { generateKeyPair, type KeyType } from '@gatehouse/pki'
import fc from 'fast-check'
import t from 'tap'
import { algorithmOf, publicJwk, REQUEST_DIGESTS } from '../../src/protocol/jws.ts'
import {
  AcmeProblem,
  type ProblemType,
  readBinding,
  readKeyChange,
  readPayload,
  readPublicKey,
  readRequest,
} from '../../src/server/index.ts'
import { problemOf } from './refusal.ts'

const url = 'https://acme.example/acme/new-order'
const kid = 'https://acme.example/acme/account/1'
const nonce = 'b25jZQ'
const payload = '{"identifiers":[{"type":"dns","value":"a.example"}]}'
const nested = (depth: number) => `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`
const encode = (text: string | Buffer) => Buffer.from(text).toString('base64url')
const withoutUrl = (text: string) => text.replace(/"url":"[^"]*",?/, '')

/** What a route does with a request of the account. */
function admit(body: Uint8Array, accountKey: KeyObject): void {
  const request = readRequest(body)
  if (request.url !== url) throw new AcmeProblem('unauthorized', 'another url')
  if (request.nonce !== nonce) throw new AcmeProblem('badNonce', 'another nonce')
  if (!request.key && request.kid !== kid)
    throw new AcmeProblem('accountDoesNotExist', 'another account')
  if (!request.isSignedBy(request.key ?? readPublicKey(publicJwk(accountKey))))
    throw new AcmeProblem('unauthorized', 'a wrong signature')
  if (request.payload.length > 0) readPayload(request)
}

type Sign = (input: Buffer) => Buffer

interface Parts {
  readonly header?: string
  readonly payload?: string | Buffer
  readonly sign?: Sign
  readonly outer?: (parts: { protected: string; payload: string; signature: string }) => string
}

/** Signs as a client does, but for what is given. */
function build(key: KeyObject, parts: Parts): Buffer {
  const alg = algorithmOf(publicJwk(key)) ?? ''
  const {
    header = JSON.stringify({ alg, kid, nonce, url }),
    payload: body = payload,
    outer = JSON.stringify,
  } = parts
  const byKey = (input: Buffer) =>
    sign(REQUEST_DIGESTS.get(alg), input, { key, dsaEncoding: 'ieee-p1363' })
  const input = Buffer.from(`${encode(header)}.${encode(body)}`)
  const signature = encode((parts.sign ?? byKey)(input))
  return Buffer.from(outer({ protected: encode(header), payload: encode(body), signature }))
}

type Row = [what: string, type: ProblemType, body: Buffer]

function headersOf(key: KeyObject): [what: string, type: ProblemType, header: string][] {
  const alg = algorithmOf(publicJwk(key)) ?? ''
  const jwk = publicJwk(key)
  const good = { alg, kid, nonce, url }
  const given = (members: object) => JSON.stringify({ ...good, ...members })
  const byJwk = (changes: object) => given({ kid: undefined, jwk: { ...jwk, ...changes } })
  const other = alg === 'ES256' ? 'RS256' : 'ES256'
  const text = JSON.stringify(good)
  return [
    ['none', 'badSignatureAlgorithm', given({ alg: 'none' })],
    ['None', 'badSignatureAlgorithm', given({ alg: 'None' })],
    ['no alg', 'badSignatureAlgorithm', given({ alg: undefined })],
    ['alg is null', 'badSignatureAlgorithm', given({ alg: null })],
    ['alg is a list', 'badSignatureAlgorithm', given({ alg: [alg] })],
    ['alg of the prototype', 'badSignatureAlgorithm', given({ alg: 'constructor' })],
    ['HS256', 'badSignatureAlgorithm', given({ alg: 'HS256' })],
    ['PS256', 'badSignatureAlgorithm', given({ alg: 'PS256' })],
    ['ES512', 'badSignatureAlgorithm', given({ alg: 'ES512' })],
    ['alg of another key', 'unauthorized', given({ alg: other })],
    [
      'alg of another key than jwk',
      'badSignatureAlgorithm',
      given({ kid: undefined, jwk, alg: other }),
    ],
    ['kid and jwk', 'malformed', given({ jwk })],
    ['neither', 'malformed', given({ kid: undefined })],
    ['kid is a number', 'malformed', given({ kid: 1 })],
    ['kid is null', 'malformed', given({ kid: null })],
    ['kid is empty', 'malformed', given({ kid: '' })],
    ['kid is long', 'malformed', given({ kid: `${kid}${'1'.repeat(3_000)}` })],
    ['kid of several lines', 'malformed', given({ kid: `${kid}\nx` })],
    ['kid of another', 'accountDoesNotExist', given({ kid: `${kid}1` })],
    ['url of another path', 'unauthorized', given({ url: `${url}/1` })],
    ['url of another host', 'unauthorized', given({ url: url.replace('acme.', 'acne.') })],
    ['no url', 'malformed', given({ url: undefined })],
    ['url is a list', 'malformed', given({ url: [url] })],
    ['url is long', 'malformed', given({ url: url + '/x'.repeat(2_000) })],
    ['no nonce', 'badNonce', given({ nonce: undefined })],
    ['another nonce', 'badNonce', given({ nonce: 'b25jZR' })],
    ['nonce is a number', 'malformed', given({ nonce: 1 })],
    ['nonce is empty', 'malformed', given({ nonce: '' })],
    ['nonce with padding', 'malformed', given({ nonce: `${nonce}==` })],
    ['nonce is long', 'malformed', given({ nonce: 'a'.repeat(201) })],
    ['crit', 'malformed', given({ crit: ['exp'] })],
    ['empty crit', 'malformed', given({ crit: [] })],
    ['b64', 'malformed', given({ b64: false, crit: ['b64'] })],
    ['b64 alone', 'malformed', given({ b64: true })],
    ['deep', 'malformed', text.replace('{', `{"x":${nested(40)},`)],
    ['doubled alg', 'malformed', text.replace('{', '{"alg":"none",')],
    ['doubled kid', 'malformed', text.replace('{', `{"kid":"${kid}1",`)],
    ['doubled by an escape', 'malformed', text.replace('{', '{"\\u0061lg":"none",')],
    ['doubled below', 'malformed', text.replace('{', '{"x":{"a":1,"a":1},')],
    ['all in the prototype', 'badSignatureAlgorithm', `{"__proto__":${text}}`],
    [
      'url of the prototype',
      'malformed',
      withoutUrl(text).replace(/,?\}$/, `,"__proto__":{"url":"${url}"}}`),
    ],
    ['a byte order mark', 'malformed', `\ufeff${text}`],
    ['trailing data', 'malformed', `${text}{}`],
    ['a comma at the end', 'malformed', text.replace('}', ',}')],
    ['a list', 'malformed', `[${text}]`],
    ['a string', 'malformed', JSON.stringify(text)],
    ['null', 'malformed', 'null'],
    ['empty', 'malformed', ''],
    ['jwk is null', 'badPublicKey', given({ kid: undefined, jwk: null })],
    ['jwk is a text', 'badPublicKey', given({ kid: undefined, jwk: JSON.stringify(jwk) })],
    ['jwk is a list', 'badPublicKey', given({ kid: undefined, jwk: [jwk] })],
    ['jwk is empty', 'badPublicKey', given({ kid: undefined, jwk: {} })],
    ['jwk is private', 'badPublicKey', byJwk({ d: 'AAAA' })],
    ['jwk is symmetric', 'badPublicKey', byJwk({ kty: 'oct', k: 'AAAA' })],
    ['jwk of oct', 'badPublicKey', byJwk({ kty: 'oct' })],
    ['jwk that is no text', 'badPublicKey', byJwk({ kty: { toString: 1, valueOf: 1 } })],
    ['jwk of no kind', 'badPublicKey', byJwk({ kty: undefined })],
    ['jwk of another curve', 'badPublicKey', byJwk({ crv: 'P-521' })],
    ['jwk of secp256k1', 'badPublicKey', byJwk({ kty: 'EC', crv: 'secp256k1' })],
    [
      'jwk of X25519',
      'badPublicKey',
      byJwk({ kty: 'OKP', crv: 'X25519', x: encode(Buffer.alloc(32, 9)) }),
    ],
    ['jwk with a number', 'badPublicKey', byJwk(jwk.n ? { n: 1 } : { x: 1 })],
    ['jwk with padding', 'badPublicKey', byJwk(jwk.n ? { n: `${jwk.n}==` } : { x: `${jwk.x}=` })],
    [
      'jwk that is long',
      'badPublicKey',
      byJwk(jwk.n ? { n: 'A'.repeat(40_000) } : { x: 'A'.repeat(40_000) }),
    ],
    ['jwk with a zero before', 'badPublicKey', byJwk(wider(jwk))],
    ['jwk of zeros', 'badPublicKey', byJwk(jwk.n ? { n: 'AAAA' } : { x: 'AAAA', y: 'AAAA' })],
  ]
}

function wider({ n, x, y }: ReturnType<typeof publicJwk>): object {
  const widen = (text?: string) =>
    text === undefined ? {} : encode(Buffer.concat([Buffer.of(0), Buffer.from(text, 'base64url')]))
  return n ? { n: widen(n) } : { x: widen(x), ...(y && { y: widen(y) }) }
}

function payloadsOf(key: KeyObject): Row[] {
  const rows: [what: string, payload: string | Buffer][] = [
    ['a list', '[]'],
    ['a number', '1'],
    ['null', 'null'],
    ['no JSON', '{'],
    ['a doubled member', '{"a":1,"a":1}'],
    ['a doubled member below', '{"a":[{"b":1,"c":2,"b":1}]}'],
    ['a doubled member of the prototype', '{"__proto__":1,"__proto__":1}'],
    ['a byte order mark', `\ufeff${payload}`],
    ['trailing data', `${payload} x`],
    ['too deep', nested(40)],
    ['very deep', '['.repeat(20_000)],
    ['wrong UTF-8', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])],
    ['an overlong character', Buffer.from([0x7b, 0x22, 0xc0, 0x80, 0x22, 0x3a, 0x31, 0x7d])],
    ['UTF-16', Buffer.from(payload, 'utf16le')],
  ]
  return rows.map(([what, payload]) => [`payload: ${what}`, 'malformed', build(key, { payload })])
}

function bodiesOf(key: KeyObject): Row[] {
  const good = build(key, {}).toString()
  const parts = JSON.parse(good)
  const changed = (members: object) => JSON.stringify({ ...parts, ...members })
  const rows: [what: string, body: string | Buffer][] = [
    ['empty', ''],
    ['null', 'null'],
    ['a list', `[${good}]`],
    ['compact', `${parts.protected}.${parts.payload}.${parts.signature}`],
    ['compact in JSON', JSON.stringify(`${parts.protected}.${parts.payload}.${parts.signature}`)],
    ['general', JSON.stringify({ payload: parts.payload, signatures: [parts] })],
    ['general and flattened', changed({ signatures: [parts] })],
    ['an unprotected header', changed({ header: { kid } })],
    ['an empty unprotected header', changed({ header: {} })],
    ['an unknown member', changed({ x: 1 })],
    ['a member of the prototype', good.replace('{', '{"__proto__":{},')],
    ['all in the prototype', `{"__proto__":${good}}`],
    ['a doubled payload', good.replace('{', '{"payload":"e30",')],
    ['a doubled signature', good.replace('{', '{"signature":"",')],
    ['doubled by an escape', good.replace('{', '{"p\\u0061yload":"e30",')],
    ['no payload', changed({ payload: undefined })],
    ['payload is null', changed({ payload: null })],
    ['payload is an object', changed({ payload: {} })],
    ['no signature', changed({ signature: undefined })],
    ['no protected', changed({ protected: undefined })],
    ['protected is an object', changed({ protected: { alg: 'ES256' } })],
    ['protected is deep', good.replace('{', `{"x":${nested(10_000)},`)],
    ['padding', changed({ payload: `${parts.payload}=` })],
    ['base64 of another alphabet', changed({ payload: `${parts.payload.slice(0, -4)}++//` })],
    ['a space', changed({ payload: ` ${parts.payload}` })],
    ['a line', changed({ protected: `${parts.protected}\n` })],
    ['bits after the end', changed({ payload: 'e31' })],
    ['a single character', changed({ payload: 'e30A0' })],
    ['a padded signature', changed({ signature: `${parts.signature}==` })],
    ['a byte order mark', `\ufeff${good}`],
    ['UTF-16', Buffer.from(good, 'utf16le')],
    ['trailing data', `${good}${good}`],
    [
      'wrong UTF-8',
      Buffer.concat([Buffer.from(good.slice(0, -1)), Buffer.from(',"\xff":1}', 'latin1')]),
    ],
    ['big', changed({ payload: 'A'.repeat(70_000) })],
    ['very big', Buffer.alloc(10_000_000, '[')],
    ['deep', '['.repeat(60_000)],
    ['colons in a string', changed({ x: ':":'.repeat(1_000) })],
    ['backslashes', `{"a":"${'\\\\'.repeat(30_000)}"}`],
    ['quotes', `{"a":"${'\\"'.repeat(30_000)}"}`],
    ['a form', `payload=${parts.payload}`],
  ]
  return rows.map(([what, body]) => [`body: ${what}`, 'malformed', Buffer.from(body)])
}

function signaturesOf(key: KeyObject, other: KeyObject): Row[] {
  const alg = algorithmOf(publicJwk(key)) ?? ''
  const digest = REQUEST_DIGESTS.get(alg)
  const good = (input: Buffer) => sign(digest, input, { key, dsaEncoding: 'ieee-p1363' })
  const half = (input: Buffer) => good(input).length / 2
  const zero = (input: Buffer) => Buffer.alloc(half(input))
  const rows: [what: string, sign: Sign][] = [
    ['none', () => Buffer.alloc(0)],
    ['a byte', () => Buffer.alloc(1)],
    ['zeros', (input) => Buffer.alloc(good(input).length)],
    ['ones', (input) => Buffer.alloc(good(input).length, 0xff)],
    ['random', (input) => randomBytes(good(input).length)],
    ['a byte less', (input) => good(input).subarray(1)],
    ['a byte less at the end', (input) => good(input).subarray(0, -1)],
    ['a byte more', (input) => Buffer.concat([good(input), Buffer.alloc(1)])],
    ['a byte more before', (input) => Buffer.concat([Buffer.alloc(1), good(input)])],
    ['twice', (input) => Buffer.concat([good(input), good(input)])],
    ['r is zero', (input) => Buffer.concat([zero(input), good(input).subarray(half(input))])],
    ['s is zero', (input) => Buffer.concat([good(input).subarray(0, half(input)), zero(input)])],
    [
      'the halves exchanged',
      (input) =>
        Buffer.concat([good(input).subarray(half(input)), good(input).subarray(0, half(input))]),
    ],
    [
      'of another key',
      (input) => sign(REQUEST_DIGESTS.get(algorithmOf(publicJwk(other)) ?? ''), input, other),
    ],
    ['of other data', () => good(Buffer.from('x'))],
    ['of the payload alone', (input) => good(input.subarray(input.indexOf('.') + 1))],
    [
      'HMAC with the public key',
      (input) =>
        createHmac('sha256', JSON.stringify(publicJwk(key)))
          .update(input)
          .digest(),
    ],
    ['long', () => randomBytes(20_000)],
  ]
  if (alg.startsWith('ES'))
    rows.push(['in DER', (input) => sign(digest, input, { key, dsaEncoding: 'der' })])
  if (alg === 'RS256') rows.push(['with SHA-1', (input) => sign('sha1', input, key)])
  return rows.map(([what, sign]) => [`signature: ${what}`, 'unauthorized', build(key, { sign })])
}

/** Requests with a single change anywhere. */
function mutantsOf(key: KeyObject, count: number): Buffer[] {
  const good = build(key, {})
  const change = fc.tuple(
    fc.nat(good.length - 2),
    fc.constantFrom('flip', 'drop', 'double', 'swap'),
    fc.nat(6),
  )
  const mutants = fc.sample(change, { numRuns: count, seed: 32 }).map(([at, how, bit]) => {
    const [before, [char = 0, ...after]] = [good.subarray(0, at), good.subarray(at)]
    const [next = 0, ...rest] = after
    if (how === 'flip') return Buffer.of(...before, char ^ (1 << bit), ...after)
    if (how === 'drop') return Buffer.of(...before, ...after)
    if (how === 'double') return Buffer.of(...before, char, char, ...after)
    return Buffer.of(...before, next, char, ...rest)
  })
  // Two characters that are exchanged may be the same.
  return mutants.filter((body) => !body.equals(good))
}

/** Microseconds of the processor, however busy the machine is. */
const MAX_TIME = 500_000
const TYPES: readonly KeyType[] = ['p256', 'p384', 'rsa2048', 'ed25519']

t.test('1,000 hostile requests are refused, each for its reason', async (t) => {
  const keys = await Promise.all(
    TYPES.map(async (type) => (await generateKeyPair(type)).privateKey),
  )
  let count = 0
  const refused = (what: string, body: Buffer, key: KeyObject): AcmeProblem | undefined => {
    count++
    const start = process.threadCpuUsage()
    const problem = problemOf(() => admit(body, key))
    t.ok(process.threadCpuUsage(start).user < MAX_TIME, `${what}: in time`)
    t.match(
      JSON.parse(JSON.stringify(problem ?? null)),
      { type: /^urn:ietf:params:acme:error:/, detail: /^[ -~]{1,300}$/ },
      what,
    )
    return problem
  }
  for (const [i, key] of keys.entries()) {
    const type = TYPES[i]
    t.equal(
      problemOf(() => admit(build(key, {}), key)),
      undefined,
      `${type}: unchanged`,
    )
    const rows: Row[] = [
      ...headersOf(key).map(
        ([what, type, header]): Row => [`header: ${what}`, type, build(key, { header })],
      ),
      ...payloadsOf(key),
      ...bodiesOf(key),
      ...signaturesOf(key, keys[(i + 1) % keys.length] ?? key),
    ]
    for (const [what, expected, body] of rows)
      t.equal(refused(`${type}, ${what}`, body, key)?.type, expected, `${type}, ${what}`)
    for (const [n, body] of mutantsOf(key, 140).entries())
      refused(`${type}, mutant ${n}`, body, key)
  }
  t.ok(count >= 1_000, `${count} requests`)
})

t.test('a key that is weak or of another kind is refused', async (t) => {
  const { privateKey: key } = await generateKeyPair('p256')
  const rsa = publicJwk((await generateKeyPair('rsa2048')).privateKey)
  const modulus = Buffer.from(rsa.n ?? '', 'base64url')
  const even = Buffer.from(modulus)
  even.writeUInt8((even.at(-1) ?? 0) & 0xfe, even.length - 1)
  const rsaOf = (modulusLength: number, publicExponent = 65_537) =>
    publicJwk(generateKeyPairSync('rsa', { modulusLength, publicExponent }).privateKey)
  const p384 = publicJwk((await generateKeyPair('p384')).privateKey)
  const ec = publicJwk(key)
  const P = Buffer.from('ffffffff00000001000000000000000000000000ffffffffffffffffffffffff', 'hex')
  const rows: [what: string, jwk: object][] = [
    ['RSA, e = 1', { ...rsa, e: 'AQ' }],
    ['RSA, e = 3', { ...rsa, e: 'Aw' }],
    ['RSA, e = 3, made so', rsaOf(2_048, 3)],
    ['RSA, e = 65537 with a zero before', { ...rsa, e: 'AAEAAQ' }],
    ['RSA, even e', { ...rsa, e: 'AQAA' }],
    ['RSA, e as long as the modulus', { ...rsa, e: rsa.n }],
    ['RSA, even modulus', { ...rsa, n: encode(even) }],
    ['RSA, 1024 bits', rsaOf(1_024)],
    ['RSA, 2040 bits', { ...rsa, n: encode(modulus.subarray(1)) }],
    ['RSA, 4104 bits', { ...rsa, n: encode(Buffer.concat([modulus, modulus, Buffer.of(1)])) }],
    ['RSA, 16384 bits', { ...rsa, n: encode(Buffer.concat(Array(8).fill(modulus))) }],
    ['RSA with a curve', { ...rsa, crv: 'P-256' }],
    ['RSA with a coordinate', { ...rsa, x: ec.x }],
    ['EC beside its curve', { ...ec, y: ec.x }],
    ['EC, exchanged', { ...ec, x: ec.y, y: ec.x }],
    ['EC, at infinity', { ...ec, x: encode(Buffer.alloc(32)), y: encode(Buffer.alloc(32)) }],
    ['EC, x is the prime', { ...ec, x: encode(P) }],
    ['EC of another curve', { ...p384, crv: 'P-256' }],
    ['EC without y', { ...ec, y: undefined }],
    ['EC with a modulus', { ...ec, n: rsa.n }],
    [
      'EC, compressed',
      { ...ec, x: encode(Buffer.concat([Buffer.of(2), Buffer.alloc(32, 1)])), y: undefined },
    ],
    ['P-521', publicJwk(generateKeyPairSync('ec', { namedCurve: 'P-521' }).privateKey)],
    ['secp256k1', publicJwk(generateKeyPairSync('ec', { namedCurve: 'secp256k1' }).privateKey)],
    ['Ed448', publicJwk(generateKeyPairSync('ed448').privateKey)],
    ['X25519', publicJwk(generateKeyPairSync('x25519').privateKey)],
    ['Ed25519 of 31 bytes', { kty: 'OKP', crv: 'Ed25519', x: encode(Buffer.alloc(31, 1)) }],
    ['a private key', key.export({ format: 'jwk' })],
  ]
  for (const [what, jwk] of rows)
    t.equal(problemOf(() => readPublicKey(jwk))?.type, 'badPublicKey', what)
  for (const jwk of [undefined, null, 1, [], () => {}])
    t.equal(problemOf(() => readPublicKey(jwk))?.type, 'badPublicKey')
})

t.test('a change of the key is refused unless both keys and the request agree', async (t) => {
  const [oldKey, newKey] = await Promise.all(
    [1, 2].map(async () => (await generateKeyPair('p256')).privateKey),
  )
  if (!oldKey || !newKey) throw new Error('no keys')
  const jwk = publicJwk(newKey)
  const inner = { alg: 'ES256', jwk, url }
  const change = { account: kid, oldKey: publicJwk(oldKey) }
  const rows: [
    what: string,
    type: ProblemType | undefined,
    header: object,
    payload: object,
    signer?: KeyObject,
  ][] = [
    ['whole', undefined, inner, change],
    ['with a nonce', 'malformed', { ...inner, nonce }, change],
    ['with an empty nonce', 'malformed', { ...inner, nonce: '' }, change],
    ['with another url', 'malformed', { ...inner, url: `${url}x` }, change],
    ['without url', 'malformed', { ...inner, url: undefined }, change],
    ['with kid', 'malformed', { ...inner, jwk: undefined, kid }, change],
    ['with kid and jwk', 'malformed', { ...inner, kid }, change],
    ['without a key', 'badPublicKey', { ...inner, jwk: undefined }, change],
    ['with a MAC', 'badSignatureAlgorithm', { ...inner, alg: 'HS256' }, change],
    ['signed by the old key', 'unauthorized', inner, change, oldKey],
    ['of another account', 'malformed', inner, { ...change, account: `${kid}1` }],
    ['without an account', 'malformed', inner, { ...change, account: undefined }],
    ['without the old key', 'badPublicKey', inner, { ...change, oldKey: undefined }],
    [
      'with the old key as text',
      'badPublicKey',
      inner,
      { ...change, oldKey: JSON.stringify(publicJwk(oldKey)) },
    ],
    ['of a list', 'malformed', inner, [change]],
  ]
  for (const [what, type, header, payload, signer = newKey] of rows) {
    const body = build(signer, { header: JSON.stringify(header), payload: JSON.stringify(payload) })
    t.equal(problemOf(() => readKeyChange(body, { url, kid }))?.type, type, what)
  }
  for (const body of ['', '{}', '[]', 'null', 'x'])
    t.equal(
      problemOf(() => readKeyChange(Buffer.from(body), { url, kid }))?.type,
      'malformed',
      body,
    )
})

t.test('a binding is refused unless it is of the account key', async (t) => {
  const { privateKey: key } = await generateKeyPair('p256')
  const { privateKey: other } = await generateKeyPair('p256')
  const hmacKey = Buffer.alloc(32, 1)
  const outer = { url, accountKey: readPublicKey(publicJwk(key)) }
  const header = { alg: 'HS256', kid: 'web.1', url }
  const jwk = publicJwk(key)
  const rows: [what: string, type: ProblemType | undefined, header: object, payload: object][] = [
    ['whole', undefined, header, jwk],
    ['HS384', undefined, { ...header, alg: 'HS384' }, jwk],
    ['HS512', undefined, { ...header, alg: 'HS512' }, jwk],
    [
      'the members in another order',
      undefined,
      header,
      { y: jwk.y, x: jwk.x, kty: jwk.kty, crv: jwk.crv },
    ],
    ['HS1', 'badSignatureAlgorithm', { ...header, alg: 'HS1' }, jwk],
    ['none', 'badSignatureAlgorithm', { ...header, alg: 'none' }, jwk],
    ['ES256', 'badSignatureAlgorithm', { ...header, alg: 'ES256' }, jwk],
    ['with a nonce', 'malformed', { ...header, nonce }, jwk],
    ['with jwk', 'malformed', { ...header, jwk }, jwk],
    ['without kid', 'malformed', { ...header, kid: undefined }, jwk],
    ['with a kid that is long', 'malformed', { ...header, kid: 'x'.repeat(2_001) }, jwk],
    ['for another url', 'malformed', { ...header, url: `${url}x` }, jwk],
    ['of another key', 'malformed', header, publicJwk(other)],
    ['of no key', 'badPublicKey', header, {}],
    ['of a private key', 'badPublicKey', header, key.export({ format: 'jwk' })],
    ['of a list', 'malformed', header, [jwk]],
  ]
  const mac = (alg: string) => (input: Buffer) =>
    createHmac(`sha${alg.slice(2)}`, hmacKey)
      .update(input)
      .digest()
  const bind = (header: object, payload: object, sign = mac('HS256')) =>
    JSON.parse(
      build(key, {
        header: JSON.stringify(header),
        payload: JSON.stringify(payload),
        sign,
      }).toString(),
    )
  for (const [what, type, header, payload] of rows)
    t.equal(problemOf(() => readBinding(bind(header, payload), outer))?.type, type, what)
  for (const binding of [undefined, null, 'x', [], {}, 1])
    t.equal(problemOf(() => readBinding(binding, outer))?.type, 'malformed')

  for (const alg of ['HS256', 'HS384', 'HS512']) {
    const binding = readBinding(bind({ ...header, alg }, jwk, mac(alg)), outer)
    t.ok(binding.isMadeWith(hmacKey), alg)
    t.notOk(binding.isMadeWith(Buffer.alloc(32)), `${alg}, another key`)
  }
  const shortened = (input: Buffer) => mac('HS256')(input).subarray(0, 16)
  t.notOk(readBinding(bind(header, jwk, shortened), outer).isMadeWith(hmacKey), 'a part of the MAC')
  t.notOk(
    readBinding(bind(header, jwk, mac('HS512')), outer).isMadeWith(hmacKey),
    'of another hash',
  )
  t.notOk(
    readBinding(
      bind(header, jwk, () => Buffer.alloc(0)),
      outer,
    ).isMadeWith(hmacKey),
    'no MAC',
  )
})

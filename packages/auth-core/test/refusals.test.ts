import { createHash } from 'node:crypto'
import type { AddressInfo } from 'node:net'
import { connect } from 'node:net'
import fc from 'fast-check'
import Fastify, { type FastifyServerOptions } from 'fastify'
import t, { type Test } from 'tap'
import { AUTH_ERRORS, type AuthErrorCode } from '../src/errors.ts'
import auth from '../src/index.ts'
import {
  AUDIENCE,
  encode,
  fakeIssuer,
  frozenClock,
  goodClaims,
  ISSUER,
  issue,
  NOW,
  signingKey,
  token,
} from './kit.ts'

const KEY = 'correct-horse-battery-staple'
const rs = signingKey('RS256', 'rs')
const ps = signingKey('PS256', 'ps')
const es = signingKey('ES256', 'es')
const es384 = signingKey('ES384', 'es384')
const ed = signingKey('EdDSA', 'ed')
const { alg: _alg, ...rsAny } = { ...rs.jwk, kid: 'rs-any' }
const attacker = signingKey('RS256', 'rs')
const published = [rs.jwk, ps.jwk, es.jwk, es384.jwk, ed.jwk, rsAny]

const seconds = NOW / 1_000
const pem = rs.publicKey.export({ type: 'spki', format: 'pem' }) as string
const good = issue(rs)
const [goodHeader, goodPayload, goodSignature] = good.split('.') as [string, string, string]
const raw = (header: string, claims: string) => token(header, claims, 'RS256', rs.privateKey)
const rsHeader = (more: string) => `{"alg":"RS256","kid":"rs"${more}}`
const claimText = JSON.stringify(goodClaims())
const lastChanged = (text: string) => text.slice(0, -1) + (text.endsWith('A') ? 'B' : 'A')

/** Bearer tokens that must not pass, and why. */
const tokens: [what: string, code: AuthErrorCode, token: string][] = [
  // Form
  ['not a JWT', 'AUTH_TOKEN_MALFORMED', 'opaque-token'],
  ['two parts', 'AUTH_TOKEN_MALFORMED', `${goodHeader}.${goodPayload}`],
  ['four parts', 'AUTH_TOKEN_MALFORMED', `${good}.AAAA`],
  ['five parts, as if encrypted', 'AUTH_TOKEN_MALFORMED', `${good}.AAAA.AAAA`],
  ['only dots', 'AUTH_TOKEN_MALFORMED', '..'],
  ['a space inside', 'AUTH_TOKEN_MALFORMED', `${goodHeader}. ${goodPayload}.${goodSignature}`],
  ['a second credential after a comma', 'AUTH_TOKEN_MALFORMED', `${good}, APIKey ${KEY}`],
  ['padded base64', 'AUTH_TOKEN_MALFORMED', `${goodHeader}.${goodPayload}.${goodSignature}==`],
  ['plain base64', 'AUTH_TOKEN_MALFORMED', `${goodHeader}.${goodPayload}.++//`],
  ['stray bits at the end', 'AUTH_TOKEN_MALFORMED', `${goodHeader}.${goodPayload}.AB`],
  ['a header that is a list', 'AUTH_TOKEN_MALFORMED', raw('[]', claimText)],
  ['a header that is null', 'AUTH_TOKEN_MALFORMED', raw('null', claimText)],
  ['a header that is no JSON', 'AUTH_TOKEN_MALFORMED', raw('{alg:RS256}', claimText)],
  ['claims that are a list', 'AUTH_TOKEN_MALFORMED', raw(rsHeader(''), `[${claimText}]`)],
  ['claims that are a string', 'AUTH_TOKEN_MALFORMED', raw(rsHeader(''), '"machine-1"')],
  [
    'claims after a byte order mark',
    'AUTH_TOKEN_MALFORMED',
    raw(rsHeader(''), `\uFEFF${claimText}`),
  ],
  ['claims with more behind them', 'AUTH_TOKEN_MALFORMED', raw(rsHeader(''), `${claimText}{}`)],
  [
    'claims that are not UTF-8',
    'AUTH_TOKEN_MALFORMED',
    `${goodHeader}.${Buffer.from([0x7b, 0xff, 0x7d]).toString('base64url')}.AAAA`,
  ],
  ['a number beyond JSON', 'AUTH_TOKEN_MALFORMED', raw(rsHeader(''), '{"exp":Infinity}')],
  ['endless nesting', 'AUTH_TOKEN_MALFORMED', raw(rsHeader(''), '['.repeat(8_000))],
  [
    'deep nesting',
    'AUTH_TOKEN_MALFORMED',
    raw(rsHeader(''), `{"iss":"${ISSUER}","a":${'['.repeat(3_000)}${']'.repeat(3_000)}}`),
  ],
  [
    'a claim twice',
    'AUTH_TOKEN_MALFORMED',
    raw(rsHeader(''), `{"sub":"admin",${claimText.slice(1)}`),
  ],
  [
    'a claim twice, once escaped',
    'AUTH_TOKEN_MALFORMED',
    raw(rsHeader(''), `{"s\\u0075b":"admin",${claimText.slice(1)}`),
  ],
  [
    'a nested claim twice',
    'AUTH_TOKEN_MALFORMED',
    raw(rsHeader(''), `{"x":{"a":1,"a":2},${claimText.slice(1)}`),
  ],
  ['the algorithm twice', 'AUTH_TOKEN_MALFORMED', raw(rsHeader(',"alg":"none"'), claimText)],
  ['64 kB', 'AUTH_TOKEN_TOO_LARGE', issue(rs, { pad: 'x'.repeat(48_000) })],
  ['64 kB of rubbish', 'AUTH_TOKEN_TOO_LARGE', '.'.repeat(65_536)],

  // Algorithm
  ['alg none', 'AUTH_TOKEN_ALGORITHM', `${encode({ alg: 'none' })}.${goodPayload}.`],
  ['alg None', 'AUTH_TOKEN_ALGORITHM', `${encode({ alg: 'None' })}.${goodPayload}.`],
  [
    'alg none with a signature',
    'AUTH_TOKEN_ALGORITHM',
    raw('{"alg":"none","kid":"rs"}', claimText),
  ],
  ['no alg', 'AUTH_TOKEN_ALGORITHM', raw('{"kid":"rs"}', claimText)],
  ['alg in a list', 'AUTH_TOKEN_ALGORITHM', raw('{"alg":["RS256"],"kid":"rs"}', claimText)],
  ['alg in lower case', 'AUTH_TOKEN_ALGORITHM', raw('{"alg":"rs256","kid":"rs"}', claimText)],
  [
    'HS256 over the public key as PEM',
    'AUTH_TOKEN_ALGORITHM',
    token({ alg: 'HS256', kid: 'rs' }, goodClaims(), 'HS256', pem),
  ],
  [
    'HS256 over the public key as JWK',
    'AUTH_TOKEN_ALGORITHM',
    token({ alg: 'HS256', kid: 'rs' }, goodClaims(), 'HS256', JSON.stringify(rs.jwk)),
  ],
  [
    'HS256 over nothing',
    'AUTH_TOKEN_ALGORITHM',
    token({ alg: 'HS256', kid: 'rs' }, goodClaims(), 'HS256', ''),
  ],
  [
    'HS256 over the API key',
    'AUTH_TOKEN_ALGORITHM',
    token({ alg: 'HS256', kid: 'rs' }, goodClaims(), 'HS256', KEY),
  ],
  ['RS384 where the key says RS256', 'AUTH_TOKEN_ALGORITHM', issue({ ...rs, alg: 'RS384' })],
  ['PS256 where the key says RS256', 'AUTH_TOKEN_ALGORITHM', issue({ ...rs, alg: 'PS256' })],
  ['ES256 with the id of an RSA key', 'AUTH_TOKEN_ALGORITHM', issue({ ...es, kid: 'rs' })],
  ['RS256 with the id of an EC key', 'AUTH_TOKEN_ALGORITHM', issue({ ...rs, kid: 'es' })],
  ['ES256 with the id of a P-384 key', 'AUTH_TOKEN_ALGORITHM', issue({ ...es, kid: 'es384' })],
  ['EdDSA with the id of an EC key', 'AUTH_TOKEN_ALGORITHM', issue({ ...ed, kid: 'es' })],
  ['ES256K', 'AUTH_TOKEN_ALGORITHM', raw('{"alg":"ES256K","kid":"es"}', claimText)],

  // Key and signature
  ['an unknown key id', 'AUTH_TOKEN_KEY_UNKNOWN', issue({ ...rs, kid: 'unknown' })],
  ['an empty key id', 'AUTH_TOKEN_KEY_UNKNOWN', issue({ ...rs, kid: '' })],
  ['a key id that is a number', 'AUTH_TOKEN_KEY_UNKNOWN', issue(rs, {}, { kid: 1 })],
  ['a key id that is a list', 'AUTH_TOKEN_KEY_UNKNOWN', issue(rs, {}, { kid: ['rs'] })],
  ['a key id that is a path', 'AUTH_TOKEN_KEY_UNKNOWN', issue(rs, {}, { kid: '../../dev/null' })],
  ['a key id of the prototype', 'AUTH_TOKEN_KEY_UNKNOWN', issue(rs, {}, { kid: '__proto__' })],
  ['a key of somebody else', 'AUTH_TOKEN_SIGNATURE', issue(attacker)],
  [
    'a key of somebody else and no key id',
    'AUTH_TOKEN_KEY_UNKNOWN',
    issue(attacker, {}, { kid: undefined }),
  ],
  ['no key id, of several keys', 'AUTH_TOKEN_KEY_UNKNOWN', issue(rs, {}, { kid: undefined })],
  ['a key of its own in jwk', 'AUTH_TOKEN_SIGNATURE', issue(attacker, {}, { jwk: attacker.jwk })],
  [
    'a key of its own behind jku',
    'AUTH_TOKEN_SIGNATURE',
    issue(attacker, {}, { jku: 'https://evil.example/keys' }),
  ],
  [
    'a key of its own behind x5u',
    'AUTH_TOKEN_SIGNATURE',
    issue(attacker, {}, { x5u: 'https://evil.example/cert' }),
  ],
  ['a key of its own in x5c', 'AUTH_TOKEN_SIGNATURE', issue(attacker, {}, { x5c: ['MIIB'] })],
  ['no signature', 'AUTH_TOKEN_SIGNATURE', `${goodHeader}.${goodPayload}.`],
  [
    'a changed signature',
    'AUTH_TOKEN_SIGNATURE',
    `${goodHeader}.${goodPayload}.${goodSignature.replace(/^./, (c) => (c === 'A' ? 'B' : 'A'))}`,
  ],
  [
    'a shortened signature',
    'AUTH_TOKEN_SIGNATURE',
    `${goodHeader}.${goodPayload}.${Buffer.from(goodSignature, 'base64url').subarray(1).toString('base64url')}`,
  ],
  [
    'other claims under the same signature',
    'AUTH_TOKEN_SIGNATURE',
    `${goodHeader}.${encode({ ...goodClaims(), sub: 'admin' })}.${goodSignature}`,
  ],
  [
    'another header over the same signature',
    'AUTH_TOKEN_SIGNATURE',
    `${encode({ alg: 'RS256', kid: 'rs', typ: 'JWT' })}.${goodPayload}.${goodSignature}`,
  ],
  [
    'PS256 signed as RS256',
    'AUTH_TOKEN_SIGNATURE',
    token({ alg: 'PS256', kid: 'rs-any' }, goodClaims(), 'RS256', rs.privateKey),
  ],
  [
    'an ECDSA signature in DER',
    'AUTH_TOKEN_SIGNATURE',
    `${encode({ alg: 'ES256', kid: 'es' })}.${goodPayload}.${Buffer.alloc(70, 0x30).toString('base64url')}`,
  ],
  [
    'an ECDSA signature of zeros',
    'AUTH_TOKEN_SIGNATURE',
    `${encode({ alg: 'ES256', kid: 'es' })}.${goodPayload}.${Buffer.alloc(64).toString('base64url')}`,
  ],
  [
    'an EdDSA signature of zeros',
    'AUTH_TOKEN_SIGNATURE',
    `${encode({ alg: 'EdDSA', kid: 'ed' })}.${goodPayload}.${Buffer.alloc(64).toString('base64url')}`,
  ],

  // Header
  ['crit', 'AUTH_TOKEN_CRITICAL', issue(rs, {}, { crit: ['exp'] })],
  ['crit with b64', 'AUTH_TOKEN_CRITICAL', issue(rs, {}, { crit: ['b64'], b64: false })],
  ['an empty crit', 'AUTH_TOKEN_CRITICAL', issue(rs, {}, { crit: [] })],
  ['crit null', 'AUTH_TOKEN_CRITICAL', issue(rs, {}, { crit: null })],
  ['typ of a logout token', 'AUTH_TOKEN_TYPE', issue(rs, {}, { typ: 'logout+jwt' })],
  ['typ of a DPoP proof', 'AUTH_TOKEN_TYPE', issue(rs, {}, { typ: 'dpop+jwt' })],
  ['typ that is empty', 'AUTH_TOKEN_TYPE', issue(rs, {}, { typ: '' })],
  ['typ that is null', 'AUTH_TOKEN_TYPE', issue(rs, {}, { typ: null })],
  ['typ in a list', 'AUTH_TOKEN_TYPE', issue(rs, {}, { typ: ['at+jwt'] })],

  // Claims
  ['no issuer', 'AUTH_TOKEN_ISSUER', issue(rs, { iss: undefined })],
  ['another issuer', 'AUTH_TOKEN_ISSUER', issue(rs, { iss: 'https://evil.example' })],
  ['the issuer with a slash', 'AUTH_TOKEN_ISSUER', issue(rs, { iss: `${ISSUER}/` })],
  ['the issuer in upper case', 'AUTH_TOKEN_ISSUER', issue(rs, { iss: ISSUER.toUpperCase() })],
  ['the issuer in a list', 'AUTH_TOKEN_ISSUER', issue(rs, { iss: [ISSUER] })],
  ['no subject', 'AUTH_TOKEN_CLAIMS', issue(rs, { sub: undefined })],
  ['no subject but a null', 'AUTH_TOKEN_CLAIMS', issue(rs, { sub: null, client_id: 'web' })],
  ['an empty client', 'AUTH_TOKEN_CLAIMS', issue(rs, { sub: undefined, client_id: '' })],
  ['a client in a list', 'AUTH_TOKEN_CLAIMS', issue(rs, { sub: undefined, client_id: ['web'] })],
  [
    'no subject, of the client that a person signed in at',
    'AUTH_TOKEN_CLAIMS',
    issue(rs, { sub: undefined, client_id: 'web', sid: '1' }),
  ],
  [
    'no subject, of a person who signed in',
    'AUTH_TOKEN_CLAIMS',
    issue(rs, { sub: undefined, client_id: 'web', auth_time: seconds }),
  ],
  [
    'no subject, but the party that an ID token is for',
    'AUTH_TOKEN_CLAIMS',
    issue(rs, { sub: undefined, azp: 'web', appid: 'web' }),
  ],
  [
    'a subject that looks like a client without one',
    'AUTH_TOKEN_CLAIMS',
    issue(rs, { sub: 'client_id=web' }),
  ],
  ['a nonce', 'AUTH_TOKEN_TYPE', issue(rs, { nonce: 'n' })],
  ['a nonce that is null', 'AUTH_TOKEN_TYPE', issue(rs, { nonce: null })],
  ['a nonce, typ JWT', 'AUTH_TOKEN_TYPE', issue(rs, { nonce: 'n' }, { typ: 'JWT' })],
  ['a nonce, no typ', 'AUTH_TOKEN_TYPE', issue(rs, { nonce: 'n' }, { typ: undefined })],
  ['the hash of an access token', 'AUTH_TOKEN_TYPE', issue(rs, { at_hash: 'h' })],
  ['the hash of a code', 'AUTH_TOKEN_TYPE', issue(rs, { c_hash: 'h' })],
  ['the hash of a state', 'AUTH_TOKEN_TYPE', issue(rs, { s_hash: 'h' })],
  [
    'the events of a logout token',
    'AUTH_TOKEN_TYPE',
    issue(
      rs,
      { events: { 'http://schemas.openid.net/event/backchannel-logout': {} } },
      { typ: undefined },
    ),
  ],
  ['a key that nobody proves (DPoP)', 'AUTH_TOKEN_TYPE', issue(rs, { cnf: { jkt: 'AAAA' } })],
  ['a certificate', 'AUTH_TOKEN_TYPE', issue(rs, { cnf: { 'x5t#S256': 'AAAA' } })],
  ['a key of its own in cnf', 'AUTH_TOKEN_TYPE', issue(rs, { cnf: { jwk: rs.jwk } })],
  ['an empty cnf', 'AUTH_TOKEN_TYPE', issue(rs, { cnf: {} })],
  ['a cnf that is null', 'AUTH_TOKEN_TYPE', issue(rs, { cnf: null })],
  ['the mark of an ID token of Cognito', 'AUTH_TOKEN_TYPE', issue(rs, { token_use: 'id' })],
  ['the mark of an ID token of Keycloak', 'AUTH_TOKEN_TYPE', issue(rs, { typ: 'ID' })],
  ['an empty subject', 'AUTH_TOKEN_CLAIMS', issue(rs, { sub: '' })],
  ['a subject that is a number', 'AUTH_TOKEN_CLAIMS', issue(rs, { sub: 1 })],
  ['no audience', 'AUTH_TOKEN_CLAIMS', issue(rs, { aud: undefined })],
  ['an audience that is a number', 'AUTH_TOKEN_CLAIMS', issue(rs, { aud: 1 })],
  ['an audience with a number', 'AUTH_TOKEN_CLAIMS', issue(rs, { aud: [AUDIENCE, 1] })],
  ['an audience in an object', 'AUTH_TOKEN_CLAIMS', issue(rs, { aud: { [AUDIENCE]: true } })],
  ['another audience', 'AUTH_TOKEN_AUDIENCE', issue(rs, { aud: 'https://other.example' })],
  ['a prefix of the audience', 'AUTH_TOKEN_AUDIENCE', issue(rs, { aud: AUDIENCE.slice(0, -1) })],
  ['a list of no audience', 'AUTH_TOKEN_AUDIENCE', issue(rs, { aud: [] })],
  ['no expiry', 'AUTH_TOKEN_CLAIMS', issue(rs, { exp: undefined })],
  ['an expiry that is a string', 'AUTH_TOKEN_CLAIMS', issue(rs, { exp: `${seconds + 300}` })],
  ['an expiry in a list', 'AUTH_TOKEN_CLAIMS', issue(rs, { exp: [seconds + 300] })],
  ['an expiry that is null', 'AUTH_TOKEN_CLAIMS', issue(rs, { exp: null })],
  ['a huge expiry', 'AUTH_TOKEN_CLAIMS', issue(rs, { exp: 1e300 })],
  [
    'an endless expiry',
    'AUTH_TOKEN_CLAIMS',
    raw(rsHeader(''), claimText.replace(/"exp":\d+/, '"exp":1e999')),
  ],
  ['a negative expiry', 'AUTH_TOKEN_CLAIMS', issue(rs, { exp: -1 })],
  ['an expiry of long ago', 'AUTH_TOKEN_EXPIRED', issue(rs, { exp: 0 })],
  ['an expiry 30 seconds ago', 'AUTH_TOKEN_EXPIRED', issue(rs, { exp: seconds - 30 })],
  ['a start in 31 seconds', 'AUTH_TOKEN_NOT_YET_VALID', issue(rs, { nbf: seconds + 31 })],
  ['a start that is a string', 'AUTH_TOKEN_CLAIMS', issue(rs, { nbf: '0' })],
  ['made in 31 seconds', 'AUTH_TOKEN_NOT_YET_VALID', issue(rs, { iat: seconds + 31 })],
  ['made at a huge time', 'AUTH_TOKEN_CLAIMS', issue(rs, { iat: 1e300 })],
  ['without the scope', 'AUTH_SCOPE_MISSING', issue(rs, { scope: 'b' })],
  ['with a scope that only begins so', 'AUTH_SCOPE_MISSING', issue(rs, { scope: 'aa' })],
  ['with a scope in another case', 'AUTH_SCOPE_MISSING', issue(rs, { scope: 'A' })],
  ['with scopes in an object', 'AUTH_SCOPE_MISSING', issue(rs, { scope: { a: true } })],
]

/** Whole headers that must not pass. */
const headers: [what: string, code: AuthErrorCode, header: string | undefined][] = [
  ['no header', 'AUTH_CREDENTIALS_MISSING', undefined],
  ['an empty header', 'AUTH_SCHEME_UNSUPPORTED', ''],
  ['Basic', 'AUTH_SCHEME_UNSUPPORTED', `Basic ${Buffer.from(`x:${KEY}`).toString('base64')}`],
  ['the key without a scheme', 'AUTH_SCHEME_UNSUPPORTED', KEY],
  ['a token without a scheme', 'AUTH_SCHEME_UNSUPPORTED', good],
  ['a scheme of the prototype', 'AUTH_SCHEME_UNSUPPORTED', `__proto__ ${KEY}`],
  ['Bearer:', 'AUTH_SCHEME_UNSUPPORTED', `Bearer: ${good}`],
  ['DPoP', 'AUTH_SCHEME_UNSUPPORTED', `DPoP ${good}`],
  ['Bearer and a tab', 'AUTH_SCHEME_UNSUPPORTED', `Bearer\t${good}`],
  ['Bearer alone', 'AUTH_HEADER_INVALID', 'Bearer'],
  ['Bearer and spaces', 'AUTH_HEADER_INVALID', 'Bearer   '],
  ['APIKey alone', 'AUTH_HEADER_INVALID', 'APIKey'],
  ['APIKey and a space', 'AUTH_HEADER_INVALID', 'APIKey '],
  ['a wrong key', 'AUTH_KEY_INVALID', 'APIKey wrong-horse-battery-staple'],
  ['a prefix of the key', 'AUTH_KEY_INVALID', `APIKey ${KEY.slice(0, -1)}`],
  ['a suffix of the key', 'AUTH_KEY_INVALID', `APIKey ${KEY.slice(1)}`],
  ['the key and more', 'AUTH_KEY_INVALID', `APIKey ${KEY}x`],
  ['the key twice', 'AUTH_KEY_INVALID', `APIKey ${KEY} ${KEY}`],
  ['the key in quotes', 'AUTH_KEY_INVALID', `APIKey "${KEY}"`],
  ['the key in another case', 'AUTH_KEY_INVALID', `APIKey ${KEY.toUpperCase()}`],
  [
    'the digest of the key',
    'AUTH_KEY_INVALID',
    `APIKey ${createHash('sha256').update(KEY).digest('hex')}`,
  ],
  ['a key of 64 kB', 'AUTH_KEY_INVALID', `APIKey ${'x'.repeat(65_536)}`],
  ['a token as a key', 'AUTH_KEY_INVALID', `APIKey ${good}`],
  ['a key as a token', 'AUTH_TOKEN_MALFORMED', `Bearer ${KEY}`],
  ['the name of the key', 'AUTH_KEY_INVALID', 'APIKey default'],
  ['a key without the scope', 'AUTH_SCOPE_MISSING', 'APIKey limited-limited-limited'],
]

async function buildApp(t: Test, options: FastifyServerOptions = {}) {
  const issuer = fakeIssuer({ keys: published })
  const app = Fastify(options)
  t.teardown(() => app.close())
  await app.register(auth, {
    psk: {
      keys: [
        { name: 'default', key: KEY },
        { name: 'limited', key: 'limited-limited-limited', scopes: ['b'] },
      ],
    },
    jwt: { issuerUrl: ISSUER, audience: AUDIENCE },
    now: frozenClock().now,
    elapsed: () => 0,
    dispatcher: issuer.dispatcher,
  })
  const reached: unknown[] = []
  app.get('/', { onRequest: app.requireCaller({ scopes: ['a'] }) }, (request) => {
    reached.push(request.caller)
    return request.caller
  })
  return { app, issuer, reached }
}

/** What RFC 6750 section 3 and RFC 9110 section 11.6.1 ask for. */
function expectedChallenges(code: AuthErrorCode): string[] {
  const { status, title } = AUTH_ERRORS[code]
  const error = code.startsWith('AUTH_TOKEN_')
    ? 'invalid_token'
    : { 400: 'invalid_request', 403: 'insufficient_scope' }[status as number]
  const scope = status === 403 ? ', scope="a"' : ''
  const attributes = error ? `, error="${error}", error_description="${title}"${scope}` : ''
  return ['APIKey realm="api"', `Bearer realm="api"${attributes}`]
}

t.test('refused credentials', async (t) => {
  const { app, issuer, reached } = await buildApp(t)
  const rows = [
    ...tokens.map(([what, code, bad]) => [`token: ${what}`, code, `Bearer ${bad}`] as const),
    ...headers,
  ]
  for (const [what, code, authorization] of rows)
    await t.test(`${what}: ${AUTH_ERRORS[code].status} ${code}`, async (t) => {
      const response = await app.inject({
        url: '/',
        headers: authorization === undefined ? {} : { authorization },
      })
      t.equal(response.json().code, code)
      t.equal(response.statusCode, AUTH_ERRORS[code].status)
      t.strictSame(response.headers['www-authenticate'], expectedChallenges(code))
      t.ok([400, 401, 403].includes(response.statusCode))
    })
  t.strictSame(reached, [], 'no handler ran')
  t.equal(issuer.readings(), 1, 'and all of them cost one reading of the keys')
  t.ok(
    rows.every(([what], i) => rows.findIndex(([other]) => other === what) === i),
    'each once',
  )
  t.comment(`${rows.length} forged or broken tokens and headers`)
  t.ok(rows.length >= 60)
})

const accepted: [what: string, header: string][] = [
  ['RS256', `Bearer ${good}`],
  ['PS256', `Bearer ${issue(ps)}`],
  ['ES256', `Bearer ${issue(es)}`],
  ['ES384', `Bearer ${issue(es384)}`],
  ['EdDSA', `Bearer ${issue(ed)}`],
  [
    'RS512 with a key that names no algorithm',
    `Bearer ${issue({ ...rs, kid: 'rs-any', alg: 'RS512' })}`,
  ],
  ['the scheme in lower case', `bearer ${good}`],
  ['two spaces', `BEARER  ${good}`],
  ['no typ', `Bearer ${issue(rs, {}, { typ: undefined })}`],
  ['typ JWT', `Bearer ${issue(rs, {}, { typ: 'JWT' })}`],
  ['typ application/AT+JWT', `Bearer ${issue(rs, {}, { typ: 'application/AT+JWT' })}`],
  [
    'key members of others, never used',
    `Bearer ${issue(rs, {}, { jku: 'https://evil.example', x5c: ['A'] })}`,
  ],
  ['b64 without crit, never used', `Bearer ${issue(rs, {}, { b64: false })}`],
  ['one of several audiences', `Bearer ${issue(rs, { aud: ['x', AUDIENCE] })}`],
  ['expired within the skew', `Bearer ${issue(rs, { exp: seconds - 29 })}`],
  ['started within the skew', `Bearer ${issue(rs, { nbf: seconds + 30 })}`],
  ['times with a fraction', `Bearer ${issue(rs, { exp: seconds + 0.5, iat: seconds - 0.5 })}`],
  ['no iat', `Bearer ${issue(rs, { iat: undefined })}`],
  [
    'colons, quotes and braces inside strings',
    `Bearer ${issue(rs, { x: '"a":1,\\"a\\":{', '"a":': ['}:'] })}`,
  ],
  [
    'a member of the prototype',
    `Bearer ${raw(rsHeader(''), `{"__proto__":{"a":1},${claimText.slice(1)}`)}`,
  ],
  ['the key', `APIKey ${KEY}`],
  ['the key, scheme in lower case', `apikey   ${KEY}`],
]
t.test('accepted credentials', async (t) => {
  const { app } = await buildApp(t)
  for (const [what, authorization] of accepted) {
    const response = await app.inject({ url: '/', headers: { authorization } })
    t.equal(response.statusCode, 200, `${what}: ${response.body}`)
  }
})

t.test('a token with one bit changed anywhere never passes', async (t) => {
  const { app } = await buildApp(t)
  const bad = issue(es)
  for (let at = 0; at < bad.length; at += 7) {
    const changed = bad.slice(0, at) + lastChanged(bad.slice(at, at + 1)) + bad.slice(at + 1)
    const { statusCode } = await app.inject({
      url: '/',
      headers: { authorization: `Bearer ${changed}` },
    })
    t.equal(statusCode, 401, `character ${at}`)
  }
})

t.test('two Authorization headers, whichever comes first', async (t) => {
  const { app } = await buildApp(t)
  await app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = app.server.address() as AddressInfo
  const send = (...lines: string[]) =>
    new Promise<string>((resolve, reject) => {
      let answer = ''
      connect(port, '127.0.0.1')
        .on('data', (data) => (answer += data))
        .on('end', () => resolve(answer))
        .on('error', reject)
        .end(['GET / HTTP/1.1', 'Host: x', 'Connection: close', ...lines, '', ''].join('\r\n'))
    })
  const right = `Authorization: APIKey ${KEY}`
  t.match(await send(right), /^HTTP\/1.1 200 /)
  for (const other of [
    'AUTHORIZATION: APIKey x',
    'authorization: Basic eDp4',
    right,
    'Authorization:',
  ]) {
    t.match(await send(right, other), /^HTTP\/1.1 400 .*invalid_request.*AUTH_HEADER_INVALID/s)
    t.match(await send(other, right), /^HTTP\/1.1 400 .*AUTH_HEADER_INVALID/s)
  }
})

/** A text that no log may have, somewhere in what a stranger sends. */
const CANARY = 'c4nary'
const filler = fc.constantFrom(
  '',
  'x',
  '"',
  '{',
  '\u001b[2J',
  'ü',
  'x'.repeat(900),
  'x'.repeat(11_000),
)
const canary = fc.tuple(filler, filler).map(([before, after]) => `${before}${CANARY}${after}`)
const spoilt = (text: string, canary: string, at: number) =>
  text.slice(0, at % text.length) + canary + text.slice(at % text.length)
/** The values of these are in the log as far as its bound allows, since they say what to correct. */
const shown = ['alg', 'typ', 'iss', 'aud']
const SHOWN = /^(alg|typ|iss|aud) is /
const hidden = ['kid', 'jku', 'jwk', 'crit', 'sub', 'exp', 'nbf', 'scope', 'nonce', 'cnf', CANARY]
const sent = fc.oneof(
  canary.map((text) => `Bearer ${text}`),
  canary.map((text) => `APIKey ${text}`),
  canary.map((text) => `${text} ${good}`),
  canary.map((text) => `Basic ${encode(text)}`),
  fc.tuple(canary, fc.nat()).map(([text, at]) => `Bearer ${spoilt(good, text, at)}`),
  fc.tuple(canary, fc.nat(), fc.nat(2)).map(([text, at, part]) => {
    const parts = [rsHeader(''), claimText, goodSignature].map((one, i) =>
      i === part ? encode(spoilt(one, text, at)) : i === 2 ? one : encode(one),
    )
    return `Bearer ${parts.join('.')}`
  }),
  fc
    .tuple(canary, fc.constantFrom(...hidden))
    .map(([text, name]) => `Bearer ${issue(rs, { [name]: text }, { [name]: text })}`),
  fc
    .tuple(canary, fc.constantFrom('kid', 'jku', 'x5u'))
    .map(([text, name]) => `Bearer ${issue(rs, {}, { [name]: text })}`),
  fc
    .tuple(canary, fc.constantFrom(...hidden))
    .map(([text, name]) => `Bearer ${issue(rs, { [name]: text })}`),
  fc.tuple(fc.nat(11_000), fc.constantFrom(...shown)).map(([length, name]) => {
    const long = '\u0001'.repeat(length)
    return `Bearer ${issue(rs, { [name]: long }, { [name]: ['alg', 'typ'].includes(name) ? long : undefined })}`
  }),
)

t.test('no log line holds what a stranger sends, or grows with it', async (t) => {
  const lines: string[] = []
  const stream = { write: (line: string) => void lines.push(line) }
  const { app } = await buildApp(t, { logger: { stream, level: 'trace' } })
  await fc.assert(
    fc.asyncProperty(sent, async (authorization) => {
      lines.length = 0
      await app.inject({ url: '/', headers: { authorization } })
      return lines.every((line) => {
        const rest = JSON.stringify(JSON.parse(line), (_, value) =>
          SHOWN.test(value) && value.length <= 201 ? undefined : value,
        )
        return line.length < 4_096 && !rest.includes(CANARY)
      })
    }),
    { numRuns: 500 },
  )
})

t.test('what a client is told', async (t) => {
  const { app } = await buildApp(t)
  const told = async (bad: string) =>
    (await app.inject({ url: '/', headers: { authorization: `Bearer ${bad}` } })).body
  t.notMatch(await told(issue(rs, { aud: 'https://canary.example' })), /canary/)
  t.notMatch(await told(issue(rs, { iss: 'https://canary.example' })), /canary|issuer\.example/)
  t.match(await told(issue(rs, { scope: 'b' })), /Scope is missing: a"/, 'which scope is missing')
})

import { createPrivateKey, createPublicKey, type JsonWebKey, verify } from 'node:crypto'
import { generateKeyPair, type KeyType } from '@gatehouse/pki'
import t from 'tap'
import {
  bindExternalAccount,
  keyAuthorization,
  publicJwk,
  signRequest,
} from '../../src/protocol/jws.ts'

// RFC 7515 appendix A.3.
const KEY: JsonWebKey = {
  kty: 'EC',
  crv: 'P-256',
  x: 'f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU',
  y: 'x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0',
  d: 'jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI',
}
const key = createPrivateKey({ key: KEY, format: 'jwk' })
const decode = (part: string) => JSON.parse(Buffer.from(part, 'base64url').toString())

t.test('exports only the public members of a key, in the order of a thumbprint', async (t) => {
  const { kty, crv, x, y } = KEY
  t.equal(JSON.stringify(publicJwk(key)), JSON.stringify({ crv, kty, x, y }))
})

t.test('a key authorization is the token and the thumbprint of the key', async (t) => {
  t.equal(keyAuthorization('token', key), 'token.oKIywvGUpTVTyxMQ3bwIIeQUudfr_CkLMjCE19ECD-U')
})

t.test('signs a request with its key, URL and payload', async (t) => {
  const header = { url: 'https://ca.example/order', nonce: 'once' }
  const accountUrl = 'https://ca.example/account/1'
  const { d: _, ...jwk } = KEY
  const rows: [
    what: string,
    signer: object,
    payload: object | undefined,
    protectedHeader: object,
  ][] = [
    ['an account', { accountUrl }, { a: 1 }, { alg: 'ES256', kid: accountUrl, ...header }],
    ['a key', {}, { a: 1 }, { alg: 'ES256', jwk, ...header }],
    ['a POST-as-GET', { accountUrl }, undefined, { alg: 'ES256', kid: accountUrl, ...header }],
    ['an empty object', { accountUrl }, {}, { alg: 'ES256', kid: accountUrl, ...header }],
  ]
  for (const [what, signer, payload, protectedHeader] of rows) {
    const jws = signRequest({ key, ...signer }, header, payload)
    t.strictSame(decode(jws.protected), protectedHeader, what)
    if (payload) t.strictSame(decode(jws.payload), payload, what)
    else t.equal(jws.payload, '', what)
  }
})

t.test('each type of key signs with its own algorithm', async (t) => {
  const rows: [KeyType, alg: string, digest: string | null][] = [
    ['p256', 'ES256', 'sha256'],
    ['p384', 'ES384', 'sha384'],
    ['rsa2048', 'RS256', 'sha256'],
    ['ed25519', 'EdDSA', null],
  ]
  for (const [type, alg, digest] of rows) {
    const { privateKey } = await generateKeyPair(type)
    const jws = signRequest({ key: privateKey }, { url: 'https://ca.example/' }, {})
    const input = Buffer.from(`${jws.protected}.${jws.payload}`)
    const signature = Buffer.from(jws.signature, 'base64url')
    const verifier = { key: createPublicKey(privateKey), dsaEncoding: 'ieee-p1363' } as const
    t.equal(decode(jws.protected).alg, alg, type)
    t.ok(verify(digest, input, verifier, signature), `${type} verifies`)
  }
})

t.test('an external account is bound by the MAC of the key', async (t) => {
  const account = {
    kid: 'kid-1',
    hmacKey: 'zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W',
  }
  const jws = bindExternalAccount(account, key, 'https://ca.example/new-account')
  t.strictSame(decode(jws.protected), {
    alg: 'HS256',
    kid: 'kid-1',
    url: 'https://ca.example/new-account',
  })
  t.strictSame(decode(jws.payload), JSON.parse(JSON.stringify(publicJwk(key))))
  // Computed with OpenSSL: it is deterministic.
  t.equal(jws.signature, 'YujFtUUCIxVOtvMmJAy5gt-pF4XIKM8rrDxRWcYY7Qo')
})

import { createPublicKey, type KeyObject, sign } from 'node:crypto'
import { generateKeyPair, KEY_TYPES, type KeyType } from '@gatehouse/pki'
import t from 'tap'
import { changeKey } from '../../src/index.ts'
import { bindExternalAccount, type Jws, publicJwk, signRequest } from '../../src/protocol/jws.ts'
import {
  ACCOUNT_ALGORITHMS,
  readBinding,
  readKeyChange,
  readPayload,
  readPublicKey,
  readRequest,
} from '../../src/server/index.ts'
import { problemOf } from './refusal.ts'

const header = { url: 'https://acme.example/acme/order/1', nonce: 'b25jZQ' }
const accountUrl = 'https://acme.example/acme/account/1'
const keyOf = async (type: KeyType) => (await generateKeyPair(type)).privateKey
const toBytes = (value: unknown) => Buffer.from(JSON.stringify(value))
const publicKeyOf = (key: KeyObject) => readPublicKey(publicJwk(key))
const read = (jws: Jws) => readRequest(toBytes(jws))

t.test('reads what a client signs with each type of key', async (t) => {
  const seen = new Set<string>()
  const other = publicKeyOf(await keyOf('p256'))
  for (const type of KEY_TYPES) {
    const key = await keyOf(type)
    const publicKey = publicKeyOf(key)
    const byKey = read(signRequest({ key }, header, { a: 1 }))
    t.match(byKey, { ...header, alg: publicKey.alg, kid: undefined }, type)
    t.equal(byKey.key?.thumbprint, publicKey.thumbprint)
    t.strictSame(readPayload(byKey), { a: 1 })
    const byAccount = read(signRequest({ key, accountUrl }, header))
    t.match(byAccount, { ...header, kid: accountUrl, key: undefined }, `${type}, by its account`)
    t.equal(byAccount.payload.length, 0, 'a POST-as-GET')
    for (const request of [byKey, byAccount]) {
      t.ok(request.isSignedBy(publicKey))
      t.notOk(request.isSignedBy(other))
    }
    seen.add(byKey.alg)
  }
  t.strictSame([...seen].sort(), [...ACCOUNT_ALGORITHMS].sort())
})

t.test('reads a body of 64 KiB at most', async (t) => {
  const body = JSON.stringify(signRequest({ key: await keyOf('p256'), accountUrl }, header))
  t.ok(readRequest(Buffer.from(body.padEnd(65_536))))
  const tooLarge = Buffer.from(body.padEnd(65_537))
  t.match(
    problemOf(() => readRequest(tooLarge)),
    { type: 'malformed', status: 413 },
  )
})

t.test('the key of an account signs by its own algorithm only', async (t) => {
  const key = await keyOf('p256')
  const encode = (value: object) => toBytes(value).toString('base64url')
  const protectedHeader = encode({ alg: 'RS256', kid: accountUrl, ...header })
  const signature = sign('sha256', Buffer.from(`${protectedHeader}.`), key).toString('base64url')
  const request = read({ protected: protectedHeader, payload: '', signature })
  t.notOk(request.isSignedBy(publicKeyOf(key)))
})

t.test('accepts signatures whose numbers have any form', async (t) => {
  const forms: Record<string, (first: Buffer, second: Buffer) => boolean> = {
    'the first begins with zeros': (first) => first[0] === 0,
    'the second begins with zeros': (_, second) => second[0] === 0,
    'both begin with a set bit': (...both) => both.every(([byte = 0]) => byte >= 0x80),
    'neither begins with a set bit': (...both) => both.every(([byte = 0]) => byte < 0x80),
  }
  for (const type of ['p256', 'p384'] as const) {
    const key = await keyOf(type)
    const publicKey = publicKeyOf(key)
    for (const [form, isOf] of Object.entries(forms)) {
      let jws: Jws
      let numbers: [Buffer, Buffer]
      do {
        jws = signRequest({ key, accountUrl }, header)
        const signature = Buffer.from(jws.signature, 'base64url')
        const half = signature.length / 2
        numbers = [signature.subarray(0, half), signature.subarray(half)]
      } while (!isOf(...numbers))
      t.ok(read(jws).isSignedBy(publicKey), `${type}, ${form}`)
      const [first, second] = numbers
      const others = [
        Buffer.concat([second, first]),
        Buffer.concat([first, second, Buffer.of(0)]),
        Buffer.concat([Buffer.of(0), first, Buffer.of(0), second]),
        Buffer.concat([first, second]).subarray(0, -1),
        Buffer.alloc(first.length * 2),
        Buffer.alloc(0),
      ]
      for (const other of others) {
        const changed = { ...jws, signature: other.toString('base64url') }
        t.notOk(read(changed).isSignedBy(publicKey))
      }
    }
  }
})

t.test('a stored key is read again from its text', async (t) => {
  for (const type of KEY_TYPES) {
    const key = publicKeyOf(await keyOf(type))
    const again = readPublicKey(key.jwk)
    t.match(again, { alg: key.alg, thumbprint: key.thumbprint, jwk: key.jwk }, type)
    t.ok(again.key.equals(key.key))
    t.equal(readPublicKey(key.jwk), again, 'once')
  }
  const jwk = {
    kty: 'EC',
    crv: 'P-256',
    x: 'f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU',
    y: 'x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0',
  }
  const { thumbprint } = readPublicKey({ ...jwk, use: 'sig', kid: 'mine' })
  t.equal(thumbprint, 'oKIywvGUpTVTyxMQ3bwIIeQUudfr_CkLMjCE19ECD-U', 'of the required members')
})

t.test('reads the change of a key to each type', async (t) => {
  const oldKey = await keyOf('p256')
  const { url } = header
  for (const type of KEY_TYPES) {
    const newKey = await keyOf(type)
    const payload = toBytes(changeKey(accountUrl, oldKey, newKey).payload?.(url))
    const change = readKeyChange(payload, { url, kid: accountUrl })
    t.equal(change.newKey.thumbprint, publicKeyOf(newKey).thumbprint, type)
    t.equal(change.oldKey.thumbprint, publicKeyOf(oldKey).thumbprint)
    t.equal(change.account, accountUrl)
  }
})

t.test('reads the binding of each type of key', async (t) => {
  const { url } = header
  const hmacKey = Buffer.alloc(32, 7)
  for (const type of KEY_TYPES) {
    const key = await keyOf(type)
    const account = { kid: 'web.1', hmacKey: hmacKey.toString('base64url') }
    const outer = { url, accountKey: publicKeyOf(createPublicKey(key)) }
    const binding = readBinding(bindExternalAccount(account, key, url), outer)
    t.equal(binding.kid, 'web.1', type)
    t.ok(binding.isMadeWith(hmacKey))
    t.notOk(binding.isMadeWith(Buffer.alloc(32, 8)))
  }
})

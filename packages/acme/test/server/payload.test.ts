import { generateP256, REVOCATION_REASONS } from '@gatehouse/pki'
import t from 'tap'
import { Type } from 'typebox'
import { readBase64url, readPayload, readRevocation } from '../../src/server/index.ts'
import { problemOf } from './refusal.ts'

const of = (value: unknown) => ({ payload: Buffer.from(JSON.stringify(value)) })
const Schema = Type.Object({ a: Type.Optional(Type.Array(Type.String())), b: Type.Boolean() })

t.test('reads a payload by its schema', async (t) => {
  t.strictSame(readPayload(of({ a: ['x'], b: true, c: 1 }), Schema), { a: ['x'], b: true, c: 1 })
  t.strictSame(readPayload(of({ a: null, b: true }), Schema), { b: true }, 'null is absent')
  t.strictSame(readPayload(of({})), {}, 'without a schema')
  const rows: [what: string, payload: unknown, detail: RegExp][] = [
    ['a missing member', {}, /^the payload must have required properties b$/],
    ['another type', { b: 'x' }, /^the payload\/b must be boolean$/],
    ['another type below', { a: ['x', 1], b: true }, /^the payload\/a\/1 must be string$/],
    ['a list', [], /^the payload is no JSON object/],
  ]
  for (const [what, payload, detail] of rows)
    t.match(
      problemOf(() => readPayload(of(payload), Schema)),
      { type: 'malformed', detail },
      what,
    )
  t.match(
    problemOf(() => readPayload({ payload: Buffer.alloc(0) })),
    { type: 'malformed' },
    'a POST-as-GET',
  )
})

t.test('reads what to revoke, and why', async (t) => {
  const certificate = generateP256().spki.toString('base64url')
  const der = Buffer.from(certificate, 'base64url')
  t.strictSame(readRevocation(of({ certificate })), { certificate: der, reason: 'unspecified' })
  for (const [name, reason] of Object.entries(REVOCATION_REASONS))
    t.equal(readRevocation(of({ certificate, reason })).reason, name)
  const longest = Buffer.alloc(16_384)
  const { certificate: read } = readRevocation(of({ certificate: longest.toString('base64url') }))
  t.strictSame(read, longest)
  for (const reason of [-1, 6, 7, 8, 10, 11, 2 ** 60])
    t.match(
      problemOf(() => readRevocation(of({ certificate, reason }))),
      { type: 'badRevocationReason' },
    )
  const rows: [what: string, payload: object][] = [
    ['nothing', {}],
    ['a reason that is no number', { certificate, reason: '1' }],
    ['a reason between', { certificate, reason: 1.5 }],
    ['PEM', { certificate: '-----BEGIN CERTIFICATE-----' }],
    ['padding', { certificate: 'AA==' }],
    ['a big one', { certificate: Buffer.alloc(16_385).toString('base64url') }],
  ]
  for (const [what, payload] of rows)
    t.match(
      problemOf(() => readRevocation(of(payload))),
      { type: 'malformed' },
      what,
    )
})

t.test('reads base64url in one spelling', async (t) => {
  t.strictSame(readBase64url('-_8', 'x'), Buffer.from([0xfb, 0xff]))
  for (const value of ['-_9', '+/8', '-_8=', '-_8 ', 'A', 1, undefined, null, {}])
    t.match(
      problemOf(() => readBase64url(value, '`csr`')),
      {
        type: 'malformed',
        detail: '`csr` is not base64url without padding',
      },
    )
})

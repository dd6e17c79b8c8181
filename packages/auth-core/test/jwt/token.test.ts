import fc from 'fast-check'
import t from 'tap'
import { AuthError } from '../../src/errors.ts'
import { decodeToken } from '../../src/jwt/token.ts'
import { encode } from '../kit.ts'

const members = fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 3 }), { maxKeys: 5 })

t.test('decodes any JSON object as it is', async () => {
  fc.assert(
    fc.property(members, (claims) => {
      const decoded = decodeToken(`${encode({ alg: 'x' })}.${encode(claims)}.`)
      return JSON.stringify(decoded.claims) === JSON.stringify(claims)
    }),
  )
})

t.test('refuses duplicate members at any depth', async () => {
  fc.assert(
    fc.property(members, fc.string(), fc.jsonValue(), fc.nat(3), (claims, name, value, depth) => {
      const member = `${JSON.stringify(name)}:${JSON.stringify(value)}`
      const rest = Object.entries(claims).map((one) => one.map((x) => JSON.stringify(x)).join(':'))
      let text = `{${[member, ...rest, member].join(',')}}`
      for (let i = 0; i < depth; i++) text = `{"x":[${text}]}`
      return isRefused(`${encode({ alg: 'x' })}.${encode(text)}.`)
    }),
  )
})

t.test('throws only errors of this package', async () => {
  const part = fc.oneof(fc.base64String(), fc.string(), fc.json().map(encode))
  fc.assert(
    fc.property(fc.array(part, { maxLength: 4 }), (parts) => {
      try {
        decodeToken(parts.join('.'))
      } catch (error) {
        return error instanceof AuthError
      }
      return true
    }),
  )
})

t.test('refuses more than 16,384 characters', async (t) => {
  const start = `${encode({ alg: 'x' })}.${encode({})}.`
  t.ok(decodeToken(start + 'A'.repeat(16_384 - start.length)))
  t.throws(() => decodeToken(start + 'A'.repeat(16_388 - start.length)), {
    code: 'AUTH_TOKEN_TOO_LARGE',
  })
})

t.test('freezes the decoded token deeply', async (t) => {
  const { header, claims } = decodeToken(
    `${encode({ a: [{ b: 1 }] })}.${encode({ a: { b: {} } })}.`,
  )
  const all = [header, header.a, (header.a as object[])[0], claims, claims.a]
  t.ok([...all, (claims.a as { b: object }).b].every((one) => Object.isFrozen(one)))
})

function isRefused(token: string): boolean {
  try {
    decodeToken(token)
    return false
  } catch (error) {
    return (error as AuthError).code === 'AUTH_TOKEN_MALFORMED'
  }
}

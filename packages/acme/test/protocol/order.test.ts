import t from 'tap'
import { readAuthorization, readOrder } from '../../src/protocol/order.ts'

const url = new URL('https://ca.example/acme/order/1')
const answer = (body: object) => ({
  url,
  status: 200,
  headers: {},
  body: Buffer.from(JSON.stringify(body)),
})

const ORDER = {
  status: 'pending',
  identifiers: [{ type: 'dns', value: 'a.example' }],
  authorizations: ['/acme/authz/1'],
  finalize: '/acme/finalize/1',
}

t.test('reads an order', async (t) => {
  const read = (changes: object) => readOrder(url.href).process(answer({ ...ORDER, ...changes }))
  t.match(read({}), {
    url: url.href,
    status: 'pending',
    authorizations: [new URL('https://ca.example/acme/authz/1')],
    finalize: new URL('https://ca.example/acme/finalize/1'),
    certificate: undefined,
    error: undefined,
  })
  t.match(read({ status: 'valid', certificate: '/acme/cert/1' }), {
    certificate: new URL('https://ca.example/acme/cert/1'),
  })
  t.match(read({ status: 'invalid', error: { detail: 'no' } }).error, { code: 'ACME_PROBLEM' })
  const many = (count: number) => Array.from({ length: count }, (_, i) => `/acme/authz/${i}`)
  t.equal(read({ authorizations: many(100) }).authorizations.length, 100)
  const refused: [what: string, changes: object][] = [
    ['valid without a certificate', { status: 'valid' }],
    ['an unknown status', { status: 'done' }],
    ['101 authorizations', { authorizations: many(101) }],
    ['an authorization over plain HTTP', { authorizations: ['http://ca.example/authz/1'] }],
    ['a URL to finalize over plain HTTP', { finalize: 'http://ca.example/finalize/1' }],
    ['a certificate over plain HTTP', { certificate: 'http://ca.example/cert/1' }],
    ['an identifier of several lines', { identifiers: [{ type: 'dns', value: 'a\nb' }] }],
  ]
  for (const [what, changes] of refused)
    t.throws(() => read(changes), { code: 'ACME_ANSWER_INVALID' }, what)
})

t.test('reads an authorization, with the challenges that have a token for a path', async (t) => {
  const challenge = (token: unknown) => ({
    type: 'http-01',
    url: `/acme/chall/${token}`,
    status: 'pending',
    token,
  })
  const tokens = ['abc-_9', 'x'.repeat(256), 'x'.repeat(257), '', '../x', 'a b', 'a\nb', 7, null]
  const { challenges } = readAuthorization(url).process(
    answer({
      status: 'pending',
      identifier: { type: 'dns', value: 'a.example' },
      challenges: tokens.map(challenge),
    }),
  )
  t.strictSame(
    challenges.map(({ token }) => token),
    ['abc-_9', 'x'.repeat(256)],
  )
})

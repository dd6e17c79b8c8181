import fc from 'fast-check'
import t from 'tap'
import { parseBasic } from '../src/basic.ts'

const basic = (text: string | Buffer) => `Basic ${Buffer.from(text).toString('base64')}`

t.test('reads the user and the password as RFC 7617 has them', async (t) => {
  const table: [authorization: string, read: { user: string; password: string } | undefined][] = [
    ['Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==', { user: 'Aladdin', password: 'open sesame' }],
    ['basic  QWxhZGRpbjpvcGVuIHNlc2FtZQ==', { user: 'Aladdin', password: 'open sesame' }],
    [basic('test:123£'), { user: 'test', password: '123£' }],
    [basic('a:b:c'), { user: 'a', password: 'b:c' }],
    [basic(':b'), { user: '', password: 'b' }],
    [basic('a:'), { user: 'a', password: '' }],
    [basic('a'), undefined],
    [basic('a:b\n'), undefined],
    [basic('a\0:b'), undefined],
    [basic(Buffer.from([0x61, 0x3a, 0xe9])), undefined],
    [basic(Buffer.from([0x61, 0x3a, 0xc0, 0xaf])), undefined],
    ['Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ', undefined],
    ['Basic QWxhZGRpbjpvcGVuIHNlc2FtZR==', undefined],
    ['Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ== ', undefined],
    ['Basic QWxh ZGRpbjpvcGVuIHNlc2FtZQ==', undefined],
    ['Basic YTotLV8-', undefined],
    ['Basic a:b', undefined],
    ['Basic', undefined],
    ['Basic ', undefined],
    ['', undefined],
    ['Bearer QWxhZGRpbjpvcGVuIHNlc2FtZQ==', undefined],
    ['xBasic QWxhZGRpbjpvcGVuIHNlc2FtZQ==', undefined],
    [basic(`a:${'b'.repeat(1_500)}`), { user: 'a', password: 'b'.repeat(1_500) }],
    [basic(`a:${'b'.repeat(1_600)}`), undefined],
  ]
  for (const [authorization, read] of table)
    t.strictSame(parseBasic(authorization), read, authorization.slice(0, 60))
})

t.test('what it reads is what was written, and it takes one spelling of it', async (t) => {
  const text = fc.string({ unit: 'grapheme', maxLength: 40 })
  fc.assert(
    fc.property(text, text, (user, password) => {
      const isPlain = !/[:\p{Cc}]/u.test(user) && !/\p{Cc}/u.test(password)
      const sent = basic(`${user}:${password}`)
      if (isPlain) t.strictSame(parseBasic(sent), { user, password })
    }),
  )
  fc.assert(
    fc.property(fc.oneof(fc.string({ unit: 'binary' }), fc.base64String()), (text) => {
      const read = parseBasic(`Basic ${text}`)
      if (read) t.equal(basic(`${read.user}:${read.password}`), `Basic ${text.trimStart()}`)
    }),
  )
})

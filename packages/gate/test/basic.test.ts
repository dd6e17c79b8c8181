import fc from 'fast-check'
import t from 'tap'
import { parseBasic } from '../src/basic.ts'

const basic = (text: string | Buffer) => `Basic ${Buffer.from(text).toString('base64')}`

function read(authorization: string) {
  const { user, password, isPlain } = parseBasic(authorization) ?? {}
  return password && [user, password.toString(), isPlain ? 'plain' : 'odd']
}

t.test('reads the user and the password as RFC 7617 has them', async (t) => {
  const table: [authorization: string, ...read: string[]][] = [
    ['Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==', 'Aladdin', 'open sesame', 'plain'],
    ['basic  QWxhZGRpbjpvcGVuIHNlc2FtZQ==', 'Aladdin', 'open sesame', 'plain'],
    [basic('test:123£'), 'test', '123£', 'plain'],
    [basic('a:b:c'), 'a', 'b:c', 'plain'],
    [basic(':b'), '', 'b', 'plain'],
    [basic('a:'), 'a', '', 'plain'],
    [basic('a:b\n'), 'a', 'b\n', 'plain'],
    [basic('\ufeffa:b'), '\ufeffa', 'b', 'plain'],
    [basic(`a:${'b'.repeat(6_000)}`), 'a', 'b'.repeat(6_000), 'plain'],
  ]
  for (const [authorization, ...expected] of table)
    t.strictSame(read(authorization), expected, authorization.slice(0, 60))
})

t.test('reads what an app may read too, and says that it is odd', async (t) => {
  const table: [authorization: string, user: string, password: string][] = [
    ['Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ', 'Aladdin', 'open sesame'],
    ['Basic QWxhZGRpbjpvcGVuIHNlc2FtZR==', 'Aladdin', 'open sesame'],
    ['Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ== ', 'Aladdin', 'open sesame'],
    ['Basic QWxh ZGRpbjpvcGVuIHNlc2FtZQ==', 'Aladdin', 'open sesame'],
    ['Basic\tQWxhZGRpbjpvcGVuIHNlc2FtZQ==', 'Aladdin', 'open sesame'],
    ['Basic \tQWxhZGRpbjpvcGVuIHNlc2FtZQ==', 'Aladdin', 'open sesame'],
    ['Basic "QWxhZGRpbjpvcGVuIHNlc2FtZQ=="', 'Aladdin', 'open sesame'],
    ['Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==, Basic YTpi', 'Aladdin', 'open sesame'],
    ['Basic YTo_Pz8-', 'a', '???>'],
  ]
  for (const [authorization, user, password] of table)
    t.strictSame(read(authorization), [user, password, 'odd'], authorization)
})

t.test('reads nothing else', async (t) => {
  const others = ['Basic a:b', 'Basic', 'Basic ', '', basic('a'), basic(''), 'QWxhZGRpbjpvcGVu']
  for (const scheme of ['Bearer ', 'xBasic ', 'Basic', 'Basic=', ' Basic ', 'Basic\u00a0'])
    others.push(`${scheme}QWxhZGRpbjpvcGVuIHNlc2FtZQ==`)
  for (const authorization of others) t.equal(read(authorization), undefined, authorization)
})

t.test('what is plain is what was written, and has one spelling', async (t) => {
  const text = fc.string({ unit: 'grapheme', maxLength: 40 })
  fc.assert(
    fc.property(text, text, (user, password) => {
      if (!user.includes(':'))
        t.strictSame(read(basic(`${user}:${password}`)), [user, password, 'plain'])
    }),
  )
  fc.assert(
    fc.property(fc.oneof(fc.string({ unit: 'binary' }), fc.base64String()), (text) => {
      const { user, password, isPlain } = parseBasic(`Basic ${text}`) ?? {}
      if (isPlain) t.equal(text.trimStart(), Buffer.from(text, 'base64').toString('base64'))
      t.equal(user === undefined, password === undefined)
    }),
  )
})

import { rootCertificates } from 'node:tls'
import { requireCertificates } from '@gatehouse/net'
import fc from 'fast-check'
import t from 'tap'

const [one = '', two = ''] = rootCertificates
const block = (body: string) => `-----BEGIN CERTIFICATE-----\n${body}\n-----END CERTIFICATE-----\n`

t.test('texts with certificates', async (t) => {
  for (const [what, pem, fault] of [
    ['one', one],
    ['two', `${one}\n${two}\n`],
    ['without a line between them', one + two],
    ['with comments', `# ours\n${one}\n# the next\n${two}\n# end`],
    ['with lines that end as on Windows', `${one}\n${two}`.replaceAll('\n', '\r\n')],
    ['after a byte order mark', `\ufeff${one}`],
    ['with a key', `-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n${one}`],
    ['none', '', 'holds no PEM certificate'],
    ['something else', 'ca: true\n', 'holds no PEM certificate'],
    [
      'a key alone',
      block('AAAA').replaceAll('CERTIFICATE', 'PUBLIC KEY'),
      'holds no PEM certificate',
    ],
    ['the first is broken', block('AAAA') + one, 'holds a broken certificate, 1 of 2'],
    ['the second is broken', one + block('AAAA'), 'holds a broken certificate, 2 of 2'],
    ['the second is cut', one + two.slice(0, 300), 'holds a broken certificate, 2 of 2'],
    [
      'the second has other characters',
      one + two.replace(/(?<=\n)\w{9}/, '!'),
      'holds a broken certificate, 2 of 2',
    ],
  ] as const) {
    if (fault) t.throws(() => requireCertificates(pem), new Error(fault), what)
    else t.doesNotThrow(() => requireCertificates(pem), what)
  }
})

t.test('whatever is cut off at the end is noticed', async () => {
  const both = `${one}\n${two}`
  const inSecond = fc.integer({ min: one.length + 30, max: both.length - 2 })
  fc.assert(
    fc.property(inSecond, (length) => {
      try {
        requireCertificates(both.slice(0, length))
        return false
      } catch {
        return true
      }
    }),
  )
})

import fc from 'fast-check'
import t from 'tap'
import { wordsOf } from '../../../../packages/identity-providers/test/kit.ts'
import { errorPage } from '../../src/pages/pages.ts'
import { elements, named, text } from '../pages/read.ts'
import { portal } from '../pages/samples.ts'

const pageOf = (providerSays: string | undefined) =>
  errorPage({
    ...{ portal, language: 'en', status: 403, code: 'FWA_LOGIN_REFUSED', requestId: 'abc' },
    providerSays,
  }).html

const HOSTILE = [
  ...[
    '<script>alert(1)</script>',
    '</bdi></q><a href="https://evil.test">',
    '"><img src=x onerror=x>',
  ],
  ...['javascript:alert(1)', 'https://evil.test/', '\u202e\u2066\u2069\u200f', '\u0000\u001b[31m'],
  ...['&lt;b&gt;', "' onfocus='x", ']]>-->', '\ud800'],
]

t.test('hostile words of a provider give no markup and turn no text', async () => {
  const usual = elements(pageOf('words')).map(({ tagName }) => tagName)
  const words = fc.array(fc.oneof(fc.constantFrom(...HOSTILE), fc.string({ unit: 'binary' })), {
    maxLength: 6,
  })
  fc.assert(
    fc.property(words, (parts) => {
      const said = wordsOf(parts.join(' '))
      const html = pageOf(said)
      if (said === undefined) return !html.includes('<q>')
      const found = elements(html).map(({ tagName }) => tagName)
      const [quoted = ''] = named(html, 'bdi').map(text)
      const isWhole = said === quoted || said.startsWith(quoted.replace(/…$/, ''))
      return (
        found.join() === usual.join() &&
        isWhole &&
        !/[\p{C}\u2028\u2029]/u.test(quoted) &&
        Array.from(quoted).length <= 200
      )
    }),
    { numRuns: 2_000 },
  )
})

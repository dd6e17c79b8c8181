import fc from 'fast-check'
import { AuthorizationResponseError, ResponseBodyError } from 'openid-client'
import t from 'tap'
import { errorPage } from '../../src/pages/pages.ts'
import { toFwaError } from '../../src/providers/failure.ts'
import { elements, named, text } from '../pages/read.ts'
import { portal } from '../pages/samples.ts'

const refusal = (error_description: string) => {
  const cause = new URLSearchParams({ error: 'access_denied', error_description })
  return new AuthorizationResponseError('refused', { cause })
}
const wordsOf = (description: string) =>
  toFwaError('Corp', refusal(description)).members?.providerSays as string | undefined
const pageOf = (providerSays: string | undefined) =>
  errorPage({
    ...{ portal, language: 'en', status: 403, code: 'FWA_LOGIN_REFUSED', requestId: 'abc' },
    providerSays,
  }).html

t.test('the words of the provider are bounded text without control characters', async (t) => {
  const table: [said: string, words: string | undefined][] = [
    ['User is not assigned to this app.', 'User is not assigned to this app.'],
    ['', undefined],
    [' \u0000\u202e\u200b ', undefined],
    ['a\r\n\tb\u2028c', 'a b c'],
    ['to \u202eli\u2066ve\u2069', 'to li ve'],
    ['<b>no</b>', '<b>no</b>'],
    ['😀'.repeat(300), '😀'.repeat(200)],
  ]
  for (const [said, words] of table) t.equal(wordsOf(said), words, encodeURI(said.slice(0, 40)))
})

t.test('what the token endpoint says is for the log', async (t) => {
  const cause = { error: 'invalid_grant', error_description: 'the code of client x' }
  const response = new Response(null, { status: 400 })
  const error = toFwaError('Corp', new ResponseBodyError('refused', { cause, response }))
  t.equal(error.code, 'FWA_LOGIN_REFUSED')
  t.equal(error.members, undefined)
  t.match((error.cause as Error).message, 'the code of client x')
})

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

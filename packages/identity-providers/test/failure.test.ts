import { ResponseBodyError } from 'openid-client'
import t from 'tap'
import { toProviderError } from '../src/failure.ts'
import { wordsOf } from './kit.ts'

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
  const error = toProviderError('Corp', new ResponseBodyError('refused', { cause, response }))
  t.equal(error.code, 'FWA_LOGIN_REFUSED')
  t.equal(error.members, undefined)
  t.match((error.cause as Error).message, 'the code of client x')
})

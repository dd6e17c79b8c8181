import t from 'tap'
import { attempt, parseJson, retryAfterOf } from '../src/answers.ts'

const NOW = Date.UTC(2030, 0, 1)

t.test('converts Retry-After to milliseconds', async (t) => {
  const rows: [what: string, headers: Readonly<Record<string, string>>, ms: number | undefined][] =
    [
      ['seconds', { 'retry-after': '120' }, 120_000],
      ['none', {}, undefined],
      ['nonsense', { 'retry-after': 'soon' }, undefined],
      ['a negative number', { 'retry-after': '-5' }, undefined],
      ['more than a month', { 'retry-after': '99999999999' }, 30 * 86_400_000],
      ['a date', { 'retry-after': 'Tue, 01 Jan 2030 00:01:00 GMT' }, 60_000],
      ['a date that is over', { 'retry-after': 'Mon, 31 Dec 2029 23:00:00 GMT' }, 0],
      [
        'a date of a server whose clock is a day ahead',
        { 'retry-after': 'Wed, 02 Jan 2030 00:01:00 GMT', date: 'Wed, 02 Jan 2030 00:00:00 GMT' },
        60_000,
      ],
    ]
  for (const [what, headers, ms] of rows) t.equal(retryAfterOf(headers, NOW), ms, what)
})

t.test('JSON, or nothing', async (t) => {
  t.strictSame(parseJson('{"a":null}'), { a: null })
  t.strictSame(parseJson(Buffer.from('[1]')), [1])
  for (const text of ['', '{', 'x']) t.equal(parseJson(text), undefined, text)
})

t.test('gives what a function gives, and nothing if it throws', async (t) => {
  const decode = (text: string) => attempt(() => decodeURIComponent(text))
  t.equal(decode('a%20b'), 'a b')
  t.equal(decode(''), '')
  t.equal(decode('%'), undefined)
})

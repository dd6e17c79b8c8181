import fc from 'fast-check'
import t from 'tap'
import { Type } from 'typebox'
import {
  type AcmeResponse,
  linksOf,
  locationOf,
  readJson,
  readUrl,
} from '../../src/protocol/request.ts'

const answer = (headers: AcmeResponse['headers'], body = ''): AcmeResponse => ({
  url: new URL('https://ca.example/acme/order/1?q=secret'),
  status: 200,
  headers,
  body: Buffer.from(body),
})

t.test('links of a relation', async (t) => {
  const rows: [link: string | string[], urls: string[]][] = [
    ['<https://ca.example/1>;rel="alternate"', ['https://ca.example/1']],
    ['</2>; title="a, b"; rel=alternate', ['https://ca.example/2']],
    [
      '<https://ca.example/dir>;rel="index", <https://ca.example/3>;rel="alternate"',
      ['https://ca.example/3'],
    ],
    ['<https://ca.example/4>;rel="up alternate"', ['https://ca.example/4']],
    ['<https://ca.example/5>;rel="alternates"', []],
    ['<https://ca.example/6>', []],
    ['nothing', []],
  ]
  for (const [link, urls] of rows) {
    const headers = { link } as AcmeResponse['headers']
    t.strictSame(linksOf(answer(headers), 'alternate').map(String), urls, String(link))
  }
  t.equal(linksOf(answer({}), 'alternate').length, 0, 'no header')
  const many = Array.from({ length: 11 }, (_, i) => `</${i}>;rel="alternate"`)
  t.equal(linksOf(answer({ link: many } as never), 'alternate').length, 10, 'ten at most')
})

t.test('property: reads links from any header in time', async (t) => {
  fc.assert(
    fc.property(fc.stringMatching(/^[<>;,=" a-z/:]{0,200}$/), (link) => {
      try {
        linksOf(answer({ link } as AcmeResponse['headers']), 'alternate')
      } catch (error) {
        if ((error as { code?: string }).code !== 'ACME_ANSWER_INVALID') throw error
      }
    }),
  )
  const hostile = `<a>${';a='.repeat(20_000)}`
  t.strictSame(linksOf(answer({ link: hostile } as AcmeResponse['headers']), 'alternate'), [])
})

t.test('URLs that a CA gives', async (t) => {
  const rows: [text: string, url: string | undefined][] = [
    ['https://other.example/x', 'https://other.example/x'],
    ['/acme/order/2', 'https://ca.example/acme/order/2'],
    ['http://127.0.0.1:14000/x', undefined],
    ['http://ca.example/x', undefined],
    ['file:///etc/passwd', undefined],
    ['https://user:secret@ca.example/', undefined],
    ['javascript:alert(1)', undefined],
    [`/${'x'.repeat(1_981)}`, `https://ca.example/${'x'.repeat(1_981)}`],
    [`/${'x'.repeat(1_982)}`, undefined],
  ]
  for (const [text, url] of rows)
    if (url) t.equal(readUrl(text, answer({})).href, url, text.slice(0, 40))
    else
      t.throws(() => readUrl(text, answer({})), { code: 'ACME_ANSWER_INVALID' }, text.slice(0, 40))
  const local = { ...answer({}), url: new URL('http://127.0.0.1:14000/dir') }
  t.equal(readUrl('/x', local).href, 'http://127.0.0.1:14000/x', 'of a CA on loopback')
  t.equal(locationOf(answer({ location: '/a' })).href, 'https://ca.example/a')
  t.throws(() => locationOf(answer({})), { code: 'ACME_ANSWER_INVALID' })
})

t.test('JSON by its schema', async (t) => {
  const schema = Type.Object({ a: Type.String(), b: Type.Optional(Type.String()) })
  t.match(readJson(answer({}, '{"a":"x","b":null,"unknown":[1]}'), schema, 'it'), { a: 'x' })
  for (const body of ['', '{', '[]', 'null', '{"b":"x"}', '{"a":1}'])
    t.throws(
      () => readJson(answer({}, body), schema, 'a thing'),
      {
        code: 'ACME_ANSWER_INVALID',
        message: 'https://ca.example/acme/order/1 was not answered with a thing',
      },
      body,
    )
})

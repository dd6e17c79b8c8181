import fc from 'fast-check'
import t from 'tap'
import { decodeBase64url, parseStrictJson } from '../src/index.ts'

const parse = (text: string) => parseStrictJson(Buffer.from(text))

t.test('parses JSON that every reader reads the same', async (t) => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 5 }), (value) => {
      const text = JSON.stringify(value)
      return JSON.stringify(parse(text)) === text
    }),
  )
  const value = parse('{"a":[{"b":1}],"__proto__":{"c":":"}}') as { a: object[] }
  t.ok(Object.isFrozen(value) && Object.isFrozen(value.a[0]), 'frozen')
  t.equal(Object.getPrototypeOf(value), Object.prototype)
  t.doesNotThrow(() => parse(`${'['.repeat(33)}${']'.repeat(33)}`), 'as deep as can be')
  const rows: [what: string, bytes: string | Uint8Array][] = [
    ['nothing', ''],
    ['no JSON', '{a:1}'],
    ['trailing data', '{} {}'],
    ['a doubled member', '{"a":1,"a":1}'],
    ['one below', '[{"x":{"a":1,"b":2,"a":1}}]'],
    ['one by an escape', '{"a":1,"\\u0061":1}'],
    ['one with quotes and backslashes', '{"\\"\\\\":1,"\\"\\\\":1}'],
    ['one of the prototype', '{"__proto__":1,"__proto__":1}'],
    ['too deep', `${'['.repeat(34)}${']'.repeat(34)}`],
    ['a byte order mark', '\ufeff{}'],
    ['wrong UTF-8', Uint8Array.of(0x22, 0xff, 0x22)],
    ['an overlong character', Uint8Array.of(0x22, 0xc0, 0xaf, 0x22)],
    ['a surrogate', Uint8Array.of(0x22, 0xed, 0xa0, 0x80, 0x22)],
  ]
  for (const [what, bytes] of rows) t.throws(() => parseStrictJson(Buffer.from(bytes)), what)
})

t.test('no error holds any of the text', async () => {
  const rest = fc.oneof(fc.string(), fc.stringMatching(/^[{}[\]",:0-9a-f\\]{0,20}$/))
  fc.assert(
    fc.property(rest, rest, (before, after) => {
      try {
        parse(`${before}c4nary${after}`)
        return true
      } catch (error) {
        return !String(error).includes('c4n')
      }
    }),
  )
})

t.test('finds a doubled member wherever it is', async () => {
  const names = fc.array(fc.string(), { minLength: 2, maxLength: 8 })
  fc.assert(
    fc.property(names, (names) => {
      const text = `{${names.map((name) => `${JSON.stringify(name)}:${JSON.stringify(name)}`)}}`
      try {
        parse(text)
        return new Set(names).size === names.length
      } catch {
        return new Set(names).size < names.length
      }
    }),
  )
})

t.test('decodes base64url in one spelling', async (t) => {
  fc.assert(
    fc.property(fc.uint8Array(), (bytes) => {
      const text = Buffer.from(bytes).toString('base64url')
      return decodeBase64url(text).equals(bytes)
    }),
  )
  for (const text of ['-_9', '+/8', '-_8=', '-_8 ', 'A', 'AAAAA', '\n'])
    t.throws(() => decodeBase64url(text), SyntaxError, text)
})

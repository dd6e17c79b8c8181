import t from 'tap'
import { argumentLines, visibleText } from '../../src/pages/visible.ts'

const range = (first: number, last: number) =>
  Array.from({ length: last - first + 1 }, (_, i) => first + i)

t.test('what nobody would see has a name', (t) => {
  const table: [text: string, shown: string[]][] = [
    ['', ['']],
    ['delete note 7', ['delete note 7']],
    ['a\u202eb', ['a', 'U+202E', 'b']],
    ['\u202e\u2066', ['', 'U+202E', '', 'U+2066', '']],
    ['a  b', ['a', '␣×2', 'b']],
    [`ok${' '.repeat(10_000)}rm -rf`, ['ok', '␣×10000', 'rm -rf']],
    ['a\nb\tc', ['a', 'U+000A', 'b', 'U+0009', 'c']],
    ['a\u00a0b', ['a', 'U+00A0', 'b']],
    ['a\u{e0041}b', ['a', 'U+E0041', 'b']],
    ['a\ud800b', ['a', 'U+D800', 'b']],
    ['e\u0301\u0300', ['e\u0301\u0300']],
    ['e\u0301\u0300\u0302', ['e', 'U+0301 U+0300 U+0302', '']],
    ['Ωμέγα, 日本語, עברית', ['Ωμέγα, 日本語, עברית']],
    ['U+202E', ['U+202E']],
  ]
  for (const [text, shown] of table) t.strictSame(visibleText(text), shown, JSON.stringify(text))
  t.end()
})

t.test('every character that has no shape or turns others around has a name', (t) => {
  const codes = [
    ...[...range(0, 0x1f), ...range(0x7f, 0x9f), 0xad, 0x34f, 0x61c, 0x115f, 0x1160, 0x1680],
    ...[0x17b4, 0x17b5, 0x180e, ...range(0x2000, 0x200f), ...range(0x2028, 0x202f)],
    ...[0x205f, ...range(0x2060, 0x206f), 0x2800, 0x3000, 0x3164, ...range(0xfe00, 0xfe0f)],
    ...[0xfeff, 0xffa0, ...range(0xfff9, 0xfffb), ...range(0xe0000, 0xe007f)],
  ]
  for (const code of codes) {
    const name = `U+${code.toString(16).toUpperCase().padStart(4, '0')}`
    t.strictSame(visibleText(`a${String.fromCodePoint(code)}b`), ['a', name, 'b'])
  }
  t.end()
})

t.test('arguments are shown whole, each with its value as JSON', (t) => {
  const given = JSON.parse(
    '{"id":7,"text":"a\\nb","on":true,"none":null,"list":[1,{"a":"  "}],"":"","__proto__":{"x":1}}',
  )
  t.strictSame(argumentLines(given), [
    [['id'], ['7']],
    [['text'], ['"a\\nb"']],
    [['on'], ['true']],
    [['none'], ['null']],
    [['list'], ['[1,{"a":"', '␣×2', '"}]']],
    [[''], ['""']],
    [['__proto__'], ['{"x":1}']],
  ])
  t.strictSame(argumentLines({ 'a\u202eb': '\u200b' }), [
    [
      ['a', 'U+202E', 'b'],
      ['"', 'U+200B', '"'],
    ],
  ])
  t.equal(argumentLines({ text: 'x'.repeat(16_384) }), undefined)
  t.end()
})

t.test('shows integers in all their digits, and no number that was rounded', async (t) => {
  const big = { id: 2n ** 64n + 1n, list: [-(2n ** 53n), 2 ** 53 - 1, 0.1] }
  t.strictSame(argumentLines(big), [
    [['id'], ['18446744073709551617']],
    [['list'], ['[-9007199254740992,9007199254740991,0.1]']],
  ])
  t.equal(argumentLines({ id: 2 ** 53 }), undefined)
})

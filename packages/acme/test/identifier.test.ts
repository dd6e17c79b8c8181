import t from 'tap'
import { type Identifier, sameIdentifiers } from '../src/identifier.ts'

const read = (text: string): Identifier[] =>
  text
    .split(' ')
    .filter(Boolean)
    .map((value) => ({ type: /:|^[\d.]+$/.test(value) ? 'ip' : 'dns', value }))

t.test('the same identifiers, in whatever order and spelling', async (t) => {
  const rows: [a: string, b: string, same: boolean][] = [
    ['a.example b.example', 'b.example A.example', true],
    ['2001:db8::1', '2001:0DB8:0:0:0:0:0:1', true],
    ['a.example', 'a.example a.example', true],
    ['a.example', 'a.example b.example', false],
    ['a.example b.example', 'a.example', false],
    ['a.example', '*.a.example', false],
    ['a.example', '', false],
  ]
  for (const [a, b, same] of rows) t.equal(sameIdentifiers(read(a), read(b)), same, `${a} | ${b}`)
  const [value] = ['192.0.2.1']
  t.notOk(sameIdentifiers([{ type: 'dns', value }], [{ type: 'ip', value }]), 'of another type')
})

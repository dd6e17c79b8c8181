import fc from 'fast-check'
import t from 'tap'
import { Type } from 'typebox'
import { namedMembersSerializer } from '../../src/http/serialization.ts'

const Name = Type.Object({ first: Type.String(), last: Type.Optional(Type.String()) })

const rows: [what: string, schema: object, value: unknown, sent: unknown][] = [
  ['a member without a name in the schema', Name, { first: 'a', key: 'secret' }, { first: 'a' }],
  [
    'one below',
    Type.Object({ name: Name }),
    { name: { first: 'a', key: 's' } },
    { name: { first: 'a' } },
  ],
  ['one in a list', Type.Array(Name), [{ first: 'a', key: 's' }], [{ first: 'a' }]],
  ['a member without a value', Name, { first: 'a', last: undefined }, { first: 'a' }],
  ['null', Type.Object({ name: Name }), { name: null }, { name: null }],
  ['a list of texts', Type.Object({ a: Type.Array(Type.String()) }), { a: ['x'] }, { a: ['x'] }],
  ['a map', Type.Record(Type.String(), Type.String()), { any: 'x' }, { any: 'x' }],
  ['an open object', Type.Object({}, { additionalProperties: true }), { any: 'x' }, { any: 'x' }],
  ['a union', Type.Union([Name, Type.String()]), { first: 'a', b: 1 }, { first: 'a', b: 1 }],
  [
    'a date',
    Type.Object({ at: Type.Unsafe<Date>({}) }),
    { at: new Date(0) },
    { at: '1970-01-01T00:00:00.000Z' },
  ],
  ['no list where one belongs', Type.Array(Name), 'x', 'x'],
]

t.test('answers', async (t) => {
  for (const [what, schema, value, sent] of rows)
    t.test(what, async (t) => {
      t.strictSame(JSON.parse(send(schema, value)), sent)
    })

  t.test('never hold a member that the schema does not name', async () => {
    fc.assert(
      fc.property(fc.object(), (value) => {
        const sent = JSON.parse(send(Type.Object({ a: Name, b: Type.String() }), value))
        return Object.keys(sent).every((key) => key === 'a' || key === 'b')
      }),
    )
  })
})

function send(schema: object, value: unknown): string {
  return namedMembersSerializer({ schema, method: 'GET', url: '/' })(value)
}

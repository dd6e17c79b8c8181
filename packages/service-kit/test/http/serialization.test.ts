import fc from 'fast-check'
import Fastify from 'fastify'
import t from 'tap'
import { Type } from 'typebox'
import { appOptions } from '../../src/http/index.ts'
import { createLogger } from '../../src/telemetry/index.ts'

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
  ['a list of texts', Type.Object({ a: Type.Array(Type.String()) }), { a: ['x'] }, { a: ['x'] }],
  ['a map', Type.Record(Type.String(), Type.String()), { any: 'x' }, { any: 'x' }],
  ['an open object', Type.Object({}, { additionalProperties: true }), { any: 'x' }, { any: 'x' }],
  ['an object of a union', Type.Union([Name, Type.Null()]), { first: 'a', b: 1 }, { first: 'a' }],
  [
    'null of a union',
    Type.Object({ name: Type.Union([Name, Type.Null()]) }),
    { name: null },
    { name: null },
  ],
  [
    'a date',
    Type.Object({ at: Type.Unsafe<Date>({}) }),
    { at: new Date(0) },
    { at: '1970-01-01T00:00:00.000Z' },
  ],
]

/** Creates an app that answers with `value` by a response schema. */
function answering(schema: object, value: () => unknown) {
  const log = createLogger({ level: 'silent', format: 'json', name: 'test' })
  const app = Fastify(appOptions(log))
  app.get('/', { schema: { response: { 200: schema } } }, async () => value() as never)
  return app
}

t.test('answers', async (t) => {
  for (const [what, schema, value, sent] of rows)
    t.test(what, async (t) => {
      const app = answering(schema, () => value)
      t.strictSame((await app.inject('/')).json(), sent)
    })

  t.test('never hold a member that the schema does not name', async () => {
    let value: object
    const Both = Type.Partial(Type.Object({ a: Type.Unknown(), b: Type.Unknown() }))
    const app = answering(Both, () => value)
    await fc.assert(
      fc.asyncProperty(fc.object(), async (given) => {
        value = given
        const sent = (await app.inject('/')).json()
        return Object.keys(sent).every((key) => key === 'a' || key === 'b')
      }),
    )
  })
})

import t from 'tap'
import { type TSchema, Type } from 'typebox'
import { strictValidatorCompiler } from '../../src/http/server.ts'
import { fieldErrors, type RawError } from '../../src/http/validation.ts'

function faultsOf(schema: TSchema, value: unknown): string[] {
  const validate = strictValidatorCompiler({ schema, httpPart: 'body', method: '', url: '' })
  const { error } = validate({ it: value }) as { error?: RawError[] }
  return fieldErrors(error ?? []).map(({ pointer, detail }) => `${pointer} ${detail}`)
}

t.test('describes each keyword that schemas use', async (t) => {
  const table: [schema: TSchema, value: unknown, sentence: string][] = [
    [Type.String(), 1, 'must be a text'],
    [Type.Number(), 'x', 'must be a number'],
    [Type.Integer(), 1.5, 'must be a whole number'],
    [Type.Boolean(), 'true', 'must be true or false'],
    [Type.Object({}), [], 'must be an object'],
    [Type.Array(Type.String()), {}, 'must be a list'],
    [Type.Null(), 0, 'must be null'],
    [Type.String({ minLength: 1 }), '', 'must not be empty'],
    [Type.String({ minLength: 2 }), 'a', 'must have at least 2 characters'],
    [Type.String({ maxLength: 1 }), 'ab', 'must have at most 1 character'],
    [Type.Array(Type.String(), { minItems: 1 }), [], 'must not be empty'],
    [Type.Array(Type.String(), { minItems: 2 }), ['a'], 'must have at least 2 entries'],
    [Type.Array(Type.String(), { maxItems: 1 }), ['a', 'b'], 'must have at most 1 entry'],
    [
      Type.Array(Type.String(), { uniqueItems: true }),
      ['a', 'a'],
      'must not have the same entry twice',
    ],
    [Type.Integer({ minimum: 1 }), 0, 'must be at least 1'],
    [Type.Integer({ maximum: 1 }), 2, 'must be at most 1'],
    [Type.Enum(['a', 'b']), 'c', 'must be one of "a", "b"'],
    [Type.Literal('fast'), 'slow', 'must be "fast"'],
    [Type.String({ pattern: '^[0-9]$' }), 'x', 'must match the pattern ^[0-9]$'],
    [Type.String({ format: 'date-time' }), 'x', 'must be a date-time'],
    [Type.Union([Type.String(), Type.Null()]), 1, 'has none of the forms that are allowed'],
  ]
  for (const [schema, value, sentence] of table)
    t.strictSame(faultsOf(Type.Object({ it: schema }), value), [`/it ${sentence}`], sentence)
})

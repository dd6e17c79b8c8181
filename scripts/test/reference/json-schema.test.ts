import { Duration, FilePath, Secret } from '@gatehouse/service-kit/config'
import t from 'tap'
import { Type } from 'typebox'
import { jsonSchemaOf } from '../../reference/json-schema.ts'

const VARIABLE = { $ref: '#/definitions/variable' }

t.test('values as they are written', async (t) => {
  const schema = Type.Object(
    {
      word: Type.Enum(['a', 'b'], { default: 'a', description: 'A word.' }),
      text: Type.Optional(Type.String({ minLength: 1 })),
      number: Type.Integer({ minimum: 1 }),
      span: Duration({ default: '1h', from: '1m' }),
      file: FilePath('A folder.', { default: 'data' }),
      secret: Secret('A key.', { minLength: 32 }),
      mixed: Type.Optional(Type.Union([Type.Literal('off'), Type.Integer()])),
      section: Type.Object({ on: Type.Boolean({ default: true }) }),
      other: Type.Object({ name: Type.String() }),
    },
    { removed: { old: 'is now `word`' } },
  )
  const { properties, ...document } = JSON.parse(jsonSchemaOf('test', schema))
  t.strictSame(properties, {
    word: { default: 'a', description: 'A word.', anyOf: [{ enum: ['a', 'b'] }, VARIABLE] },
    text: { type: 'string', minLength: 1 },
    number: { anyOf: [{ type: 'integer', minimum: 1 }, VARIABLE] },
    span: {
      default: '1h',
      anyOf: [
        {
          type: 'string',
          pattern: '^(0|[1-9][0-9]{0,5})(ms|s|m|h|d)$',
          patternErrorMessage: 'Must be a duration such as 1m, at least 1m.',
        },
        VARIABLE,
      ],
    },
    file: { type: 'string', minLength: 1, default: 'data', description: 'A folder.' },
    secret: {
      description: 'A key.',
      writeOnly: true,
      anyOf: [{ type: 'string', minLength: 32 }, VARIABLE],
    },
    secretFile: { type: 'string', minLength: 1, description: 'File that holds `secret`.' },
    mixed: { anyOf: [{ enum: ['off'] }, { type: 'integer' }, VARIABLE] },
    section: {
      type: 'object',
      properties: { on: { default: true, anyOf: [{ type: 'boolean' }, VARIABLE] } },
      additionalProperties: false,
    },
    other: {
      type: 'object',
      properties: { name: { type: 'string' } },
      required: ['name'],
      additionalProperties: false,
    },
    old: { not: {}, deprecationMessage: 'is now `word`', doNotSuggest: true },
  })
  t.match(document, {
    type: 'object',
    required: ['number', 'other'],
    dependencies: { secret: { properties: { secretFile: false } } },
    allOf: [{ anyOf: [{ required: ['secret'] }, { required: ['secretFile'] }] }],
    additionalProperties: false,
  })
})

t.test('variants', async (t) => {
  const kind = (type: string) => Type.Object({ type: Type.Literal(type), [type]: Type.String() })
  const schema = Type.Object({
    tagged: Type.Array(Type.Union([kind('a'), kind('b')])),
    untagged: Type.Union([Type.Object({ a: Type.String() }), Type.Object({ b: Type.String() })]),
  })
  const { properties } = JSON.parse(jsonSchemaOf('test', schema))
  // biome-ignore-start lint/suspicious/noThenProperty: a keyword of JSON Schema
  t.match(properties.tagged.items, {
    required: ['type'],
    properties: { type: { enum: ['a', 'b'] } },
    allOf: [
      { if: { properties: { type: { const: 'a' } } }, then: { required: ['type', 'a'] } },
      { if: { properties: { type: { const: 'b' } } }, then: { required: ['type', 'b'] } },
    ],
  })
  t.match(properties.untagged, {
    if: { anyOf: [{ required: ['a'] }, { required: ['aFile'] }] },
    then: { required: ['a'] },
    else: { required: ['b'] },
  })
  // biome-ignore-end lint/suspicious/noThenProperty: a keyword of JSON Schema
})

t.test('members that are written together', async (t) => {
  const members = {
    key: Secret('A key.'),
    token: Type.String(),
    user: Type.String(),
    kind: Type.String(),
  }
  const demand = {
    when: { required: ['kind'], properties: { kind: { const: 'a' } } },
    schema: { required: ['user'] },
    path: '/user',
    message: 'is missing',
  }
  const schema = Type.Object(Type.Partial(Type.Object(members)).properties, {
    exactlyOne: [['key', 'token']],
    atLeastOne: [['key', 'user']],
    needs: { user: ['key', 'kind'], token: ['kind'] },
    excludes: { kind: ['key'] },
    demands: [demand],
  })
  const { allOf } = JSON.parse(jsonSchemaOf('test', schema))
  const required = (key: string) => ({ required: [key] })
  const key = { properties: { token: false } }
  t.strictSame(allOf, [
    {
      anyOf: ['key', 'keyFile', 'token'].map(required),
      dependencies: { key, keyFile: key, token: { properties: {} } },
    },
    { anyOf: ['key', 'keyFile', 'user'].map(required) },
    {
      dependencies: {
        user: { required: ['kind'], allOf: [{ anyOf: ['key', 'keyFile'].map(required) }] },
        token: required('kind'),
      },
    },
    { dependencies: { kind: { properties: { key: false, keyFile: false } } } },
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
    { if: demand.when, then: demand.schema },
  ])
})

t.test('a mapping that may not be empty has to be written', async (t) => {
  const section = (rules: { [keyword: string]: string[][] }) =>
    Type.Object({ a: Type.Optional(Type.String()), b: Type.Optional(Type.String()) }, rules)
  const schema = Type.Object({
    none: section({}),
    one: section({ exactlyOne: [['a', 'b']] }),
    some: section({ atLeastOne: [['a', 'b']] }),
  })
  t.strictSame(JSON.parse(jsonSchemaOf('test', schema)).required, ['one', 'some'])
})

import type { TObject } from 'typebox'
import {
  type ConfigSchema,
  expectation,
  tagOf,
} from '../../packages/service-kit/src/config/schema.ts'

type Json = Readonly<Record<string, unknown>>

/** A text with a variable of the environment or `$$` in it: what that becomes is known when the file is loaded. */
const VARIABLE = {
  type: 'string',
  pattern: '\\$(\\$|\\{[A-Za-z_][A-Za-z0-9_]*\\})',
  description: 'With a variable of the environment.',
}
const ANY_VARIABLE = { $ref: '#/definitions/variable' }

/**
 * The JSON Schema (draft-07) of a configuration file as people write it, for editors. Its patterns have to be those of
 * Go too, for Helm.
 */
export function jsonSchemaOf(service: string, schema: TObject): string {
  const document = {
    $schema: 'http://json-schema.org/draft-07/schema#',
    $id: `urn:gatehouse:${service}`,
    title: `Configuration of ${service}`,
    ...jsonOf(schema as ConfigSchema),
    definitions: { variable: VARIABLE },
  }
  return `${JSON.stringify(document, null, 2)}\n`
}

function jsonOf(schema: ConfigSchema): Json {
  const { anyOf, items, type } = schema
  const own = keywordsOf(schema)
  if (anyOf) return { ...own, ...unionOf(anyOf) }
  if (type === 'object') return { ...own, ...membersOf(schema), additionalProperties: false }
  if (items) return { ...own, items: jsonOf(items) }
  const { description, default: fallback, ...limits } = own
  const secret = schema.secret && { writeOnly: true }
  return { description, default: fallback, ...secret, ...withVariable(limits) }
}

function membersOf(schema: ConfigSchema): Json {
  const { properties = {}, patternProperties = {}, removed = {} } = schema
  const secrets = Object.keys(properties).filter((key) => properties[key]?.secret)
  const needed = requiredOf(schema)
  // With patterns, which allow the keys that were removed, only their names are refused.
  const isOpen = Object.keys(patternProperties).length > 0
  const refused = Object.keys(isOpen ? removed : {})
  return filled({
    properties: {
      ...eachOf(properties, (member) => jsonOf(member)),
      ...fromKeys(secrets, (key) => [`${key}File`, fileWith(key)]),
      ...(!isOpen && eachOf(removed, former)),
    },
    ...(refused.length > 0 && { propertyNames: { not: { enum: refused } } }),
    patternProperties: eachOf(patternProperties, (member) => jsonOf(member)),
    required: needed.filter((key) => !secrets.includes(key)),
    dependencies: fromKeys(secrets, (key) => [key, { properties: { [`${key}File`]: false } }]),
    allOf: [
      ...needed.filter((key) => secrets.includes(key)).map((key) => ({ anyOf: eitherOf(key) })),
      ...together(schema),
    ],
  })
}

/** The members that have to be written: a mapping may be left out if nothing in it has to be. */
function requiredOf({ required = [], properties = {} }: ConfigSchema): string[] {
  return required.filter((key) => {
    const member = properties[key] ?? {}
    if (member.default !== undefined) return false
    const { type, exactlyOne, atLeastOne } = member
    return type !== 'object' || !!(exactlyOne ?? atLeastOne) || requiredOf(member).length > 0
  })
}

function unionOf(variants: readonly ConfigSchema[]): Json {
  const mappings = variants.filter(({ type }) => type === 'object')
  const lists = variants.filter(({ items }) => items)
  const scalars = variants.filter((one) => !mappings.includes(one) && !lists.includes(one))
  const isWord = ({ const: word, enum: words }: ConfigSchema) => word !== undefined || words
  const words = scalars.filter(isWord).flatMap((one) => one.enum ?? [one.const])
  const others = scalars.filter((one) => !isWord(one)).map(keywordsOf)
  const all = [
    ...(words.length > 0 ? [{ enum: words }] : []),
    ...others,
    ...(scalars.length > 0 && !others.some(isAnyText) ? [ANY_VARIABLE] : []),
    ...lists.map((one) => jsonOf(one)),
    ...(mappings.length > 0 ? [mappingsOf(mappings)] : []),
  ]
  return all.length === 1 ? (all[0] ?? {}) : { anyOf: all }
}

/** Variants by condition, so that only the faults of the one that is meant are shown. */
function mappingsOf(variants: readonly ConfigSchema[]): Json {
  const [first = {}, ...others] = variants
  if (others.length === 0) return jsonOf(first)
  const tag = tagOf(variants)
  if (tag === undefined) return untaggedOf(first, others)
  const words = variants.map(({ properties }) => properties?.[tag]?.const)
  return {
    type: 'object',
    required: [tag],
    properties: { [tag]: { enum: words } },
    allOf: variants.map((variant, index) => ({
      if: { required: [tag], properties: { [tag]: { const: words[index] } } },
      // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
      then: { title: words[index], ...jsonOf(variant) },
    })),
  }
}

/** The first variant is meant where a member is written that only it has, and needs. */
function untaggedOf(first: ConfigSchema, others: readonly ConfigSchema[]): Json {
  const own = requiredOf(first).filter((key) =>
    others.every(({ properties }) => !properties?.[key]),
  )
  return {
    type: 'object',
    // Editors offer these as long as nothing says which variant is meant.
    properties: fromKeys(own, (key) => {
      return [key, { description: first.properties?.[key]?.description }]
    }),
    if: { anyOf: own.flatMap(eitherOf) },
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
    then: jsonOf(first),
    else: mappingsOf(others),
  }
}

/** The keywords that a schema shares with its JSON Schema. */
function keywordsOf(schema: ConfigSchema): Json {
  const { anyOf, items, properties, patternProperties, required, ...own } = schema
  const { secret, duration, from, to, filePath, removed, write, ...others } = own
  const { exactlyOne, atLeastOne, needs, excludes, demands, ...keywords } = others
  return duration
    ? { ...keywords, patternErrorMessage: `Must be ${expectation(schema)}.` }
    : keywords
}

/** Any value may be a variable, whatever is demanded of what that becomes. */
function withVariable(limits: Json): Json {
  return isAnyText(limits) ? limits : { anyOf: [limits, ANY_VARIABLE] }
}

function isAnyText({ type, minLength = 0, ...others }: Json): boolean {
  return type === 'string' && Number(minLength) <= 1 && Object.keys(others).length === 0
}

/** What a mapping demands of its members together. */
function together({ properties = {}, ...schema }: ConfigSchema): Json[] {
  const { exactlyOne = [], atLeastOne = [], needs = {}, excludes = {}, demands = [] } = schema
  const isSecret = (key: string) => properties[key]?.secret === true
  const keysOf = (keys: readonly string[]) => [
    ...new Set(keys.flatMap((key) => (isSecret(key) ? [key, `${key}File`] : [key]))),
  ]
  const rowsOf = (rules: typeof needs, demandOf: (names: readonly string[]) => Json) =>
    Object.entries(rules).flatMap(([rule, names]) =>
      keysOf([rule]).map((key): [string, Json] => [key, demandOf(names)]),
    )
  const dependencies = [
    rowsOf(needs, (names) => requiring(names, isSecret)),
    rowsOf(excludes, (names) => none(keysOf(names))),
  ]
  return [
    ...exactlyOne.map((keys) => oneOf(keysOf(keys))),
    ...atLeastOne.map((keys) => ({ anyOf: keysOf(keys).map(only) })),
    ...dependencies
      .filter((rows) => rows.length > 0)
      .map((rows) => ({ dependencies: Object.fromEntries(rows) })),
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
    ...demands.map(({ when, schema: demand }) => ({ if: when, then: demand })),
  ]
}

/** Exactly one of the members, of which a later one is marked. Of a secret and its file, this is known. */
function oneOf(keys: readonly string[]): Json {
  const rows = keys.map((key, index): [string, Json] => {
    const others = keys.slice(index + 1).filter((other) => other !== `${key}File`)
    return [key, none(others)]
  })
  return { anyOf: keys.map(only), dependencies: Object.fromEntries(rows) }
}

/** All of the members, each secret as a value or a file. */
function requiring(keys: readonly string[], isSecret: (key: string) => boolean): Json {
  return filled({
    required: keys.filter((key) => !isSecret(key)),
    allOf: keys.filter(isSecret).map((key) => ({ anyOf: eitherOf(key) })),
  })
}

const only = (key: string) => ({ required: [key] })
const none = (keys: readonly string[]) => ({ properties: fromKeys(keys, (key) => [key, false]) })

/** A value, or the file of a secret. */
const eitherOf = (key: string) => [only(key), only(`${key}File`)]

const former = (text: string) => ({ not: {}, deprecationMessage: text, doNotSuggest: true })

const fileWith = (key: string) => ({
  type: 'string',
  minLength: 1,
  description: `File that holds \`${key}\`.`,
})

function eachOf<T>(
  values: Readonly<Record<string, T>>,
  map: (value: T, key: string) => unknown,
): Json {
  return Object.fromEntries(Object.entries(values).map(([key, value]) => [key, map(value, key)]))
}

function fromKeys(keys: readonly string[], map: (key: string) => [string, unknown]): Json {
  return Object.fromEntries(keys.map(map))
}

/** Without the keywords that nothing is said by, of which drafts do not allow all. */
function filled({ allOf, required, dependencies, patternProperties, ...keywords }: Json): Json {
  const lists = Object.entries({ patternProperties, required, dependencies, allOf })
  const given = lists.filter(([, list]) => Object.keys(list ?? {}).length > 0)
  return { ...keywords, ...Object.fromEntries(given) }
}

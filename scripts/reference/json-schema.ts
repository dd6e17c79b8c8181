import type { TObject } from 'typebox'
import {
  type ConfigSchema,
  expectation,
  tagOf,
} from '../../packages/service-kit/src/config/schema.ts'
import { FORMS, type Form, oneOf, only } from './forms.ts'

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
    ...new Writer(FORMS[service] ?? {}).write(schema as ConfigSchema, ''),
    definitions: { variable: VARIABLE },
  }
  return `${JSON.stringify(document, null, 2)}\n`
}

class Writer {
  readonly #forms: Readonly<Record<string, Form>>

  constructor(forms: Readonly<Record<string, Form>>) {
    this.#forms = forms
  }

  /** @param at - the place, as the reference has it: `portals[].name` */
  write(schema: ConfigSchema, at: string): Json {
    const { anyOf, items, type } = schema
    const own = keywordsOf(schema)
    if (anyOf) return { ...own, ...this.#union(anyOf, at) }
    if (type === 'object')
      return { ...own, ...this.#members(schema, at), additionalProperties: false }
    if (items) return { ...own, items: this.write(items, `${at}[]`) }
    const { description, default: fallback, ...limits } = own
    const secret = schema.secret && { writeOnly: true }
    return { description, default: fallback, ...secret, ...withVariable(limits) }
  }

  #members(schema: ConfigSchema, at: string): Json {
    const { properties = {}, patternProperties = {}, removed = {} } = schema
    const below = (key: string) => (at ? `${at}.${key}` : key)
    const secrets = Object.keys(properties).filter((key) => properties[key]?.secret)
    const needed = this.#needed(schema, at)
    const { type = {} } = properties
    // With patterns, which allow the keys that were removed, only their names are refused.
    const isOpen = Object.keys(patternProperties).length > 0
    const refused = Object.keys(isOpen ? removed : {})
    const forms = [this.#forms[at], this.#forms[`${at} ${type.const}`], ...together(schema)].filter(
      (form) => form,
    )
    return filled({
      properties: {
        ...eachOf(properties, (member, key) => this.write(member, below(key))),
        ...fromKeys(secrets, (key) => [`${key}File`, fileWith(key)]),
        ...(!isOpen && eachOf(removed, former)),
      },
      ...(refused.length > 0 && { propertyNames: { not: { enum: refused } } }),
      patternProperties: eachOf(patternProperties, (member) => this.write(member, below('<name>'))),
      required: needed.filter((key) => !secrets.includes(key)),
      dependencies: fromKeys(secrets, (key) => [key, { properties: { [`${key}File`]: false } }]),
      allOf: [
        ...needed.filter((key) => secrets.includes(key)).map((key) => ({ anyOf: eitherOf(key) })),
        ...forms,
      ],
    })
  }

  /** The members that have to be written: a mapping may be left out if nothing in it has to be. */
  #needed({ required = [], properties = {} }: ConfigSchema, at: string): string[] {
    return required.filter((key) => {
      const member = properties[key] ?? {}
      const place = at ? `${at}.${key}` : key
      if (member.default !== undefined) return false
      return (
        member.type !== 'object' || place in this.#forms || this.#needed(member, place).length > 0
      )
    })
  }

  #union(variants: readonly ConfigSchema[], at: string): Json {
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
      ...lists.map((one) => this.write(one, at)),
      ...(mappings.length > 0 ? [this.#mappings(mappings, at)] : []),
    ]
    return all.length === 1 ? (all[0] ?? {}) : { anyOf: all }
  }

  /** Variants by condition, so that only the faults of the one that is meant are shown. */
  #mappings(variants: readonly ConfigSchema[], at: string): Json {
    const [first = {}, ...others] = variants
    if (others.length === 0) return this.write(first, at)
    const tag = tagOf(variants)
    if (tag === undefined) return this.#untagged(first, others, at)
    const words = variants.map(({ properties }) => properties?.[tag]?.const)
    return {
      type: 'object',
      required: [tag],
      properties: { [tag]: { enum: words } },
      allOf: variants.map((variant, index) => ({
        if: { required: [tag], properties: { [tag]: { const: words[index] } } },
        // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
        then: { title: words[index], ...this.write(variant, at) },
      })),
    }
  }

  /** The first variant is meant where a member is written that only it has, and needs. */
  #untagged(first: ConfigSchema, others: readonly ConfigSchema[], at: string): Json {
    const own = this.#needed(first, at).filter((key) =>
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
      then: this.write(first, at),
      else: this.#mappings(others, at),
    }
  }
}

/** The keywords that a schema shares with its JSON Schema. */
function keywordsOf(schema: ConfigSchema): Json {
  const { anyOf, items, properties, patternProperties, required, ...own } = schema
  const { secret, duration, from, to, filePath, removed, exactlyOne, needs, write, ...keywords } =
    own
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
function together({ exactlyOne = [], needs = {}, properties = {} }: ConfigSchema): Form[] {
  const keysOf = (key: string) => (properties[key]?.secret ? [key, `${key}File`] : [key])
  const rows = Object.entries(needs).flatMap(([key, names]) => {
    const demand = { allOf: names.map((name) => ({ anyOf: keysOf(name).map((key) => only(key)) })) }
    return keysOf(key).map((key) => [key, demand])
  })
  return [
    ...exactlyOne.map((keys) => oneOf(...keys.flatMap(keysOf))),
    ...(rows.length > 0 ? [{ dependencies: Object.fromEntries(rows) }] : []),
  ]
}

/** A value, or the file of a secret. */
const eitherOf = (key: string) => [{ required: [key] }, { required: [`${key}File`] }]

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

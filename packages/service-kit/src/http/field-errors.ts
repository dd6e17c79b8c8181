// What is wrong with a member, in plain words.
import { suggest } from '../suggest.ts'

const MAX_ERRORS = 20
const MAX_VALUES = 12

/** One fault as a validator tells it. */
export interface RawError {
  readonly keyword: string
  /** JSON pointer into the schema, to what holds the keyword. */
  readonly schemaPath: string
  readonly instancePath: string
  readonly params: object
  readonly message?: string
  /** Of an unknown member: the known one that was probably meant. */
  readonly suggestion?: string | undefined
}

export interface FieldError {
  readonly pointer: string
  readonly detail: string
}

type Params = Readonly<Record<string, unknown>>

/** How a fault reads after the name of its member. Unknown and missing members are told below. */
const SENTENCES: Readonly<Record<string, (params: Params) => string>> = {
  type: ({ type }) => `must be ${withArticle(String(type))}`,
  minLength: ({ limit }) =>
    limit === 1 ? 'must not be empty' : `must have at least ${count(limit, 'character')}`,
  maxLength: ({ limit }) => `must have at most ${count(limit, 'character')}`,
  minItems: ({ limit }) =>
    limit === 1 ? 'must not be empty' : `must have at least ${count(limit, 'entry')}`,
  maxItems: ({ limit }) => `must have at most ${count(limit, 'entry')}`,
  uniqueItems: () => 'must not have the same entry twice',
  minimum: ({ limit }) => `must be at least ${limit}`,
  maximum: ({ limit }) => `must be at most ${limit}`,
  enum: ({ allowedValues }) => `must be one of ${listOf(allowedValues)}`,
  const: ({ allowedValue }) => `must be ${JSON.stringify(allowedValue)}`,
  pattern: ({ pattern }) => `must match the pattern ${pattern}`,
  format: ({ format }) => `must be a ${String(format)}`,
  anyOf: () => 'has none of the forms that are allowed',
}

const NAMES: Readonly<Record<string, string>> = {
  string: 'a text',
  number: 'a number',
  integer: 'a whole number',
  boolean: 'true or false',
  object: 'an object',
  array: 'a list',
  null: 'null',
}

/** A pointer and a sentence for each member that was refused; unknown and missing ones are named. */
export function fieldErrors(errors: readonly RawError[]): FieldError[] {
  return errors.flatMap(fieldErrorsOf).slice(0, MAX_ERRORS)
}

function fieldErrorsOf(error: RawError): FieldError[] {
  const { keyword, instancePath: pointer, params, message = 'is not valid' } = error
  // Told of each of its members, and of each of its forms.
  if (keyword === 'additionalProperties' || error.schemaPath.includes('/anyOf/')) return []
  if (keyword === 'boolean') return [{ pointer, detail: unknownMember(error) }]
  if (keyword === 'required') {
    const { requiredProperties = [] } = params as { requiredProperties?: string[] }
    return requiredProperties.map((name) => ({
      pointer: `${pointer}/${name}`,
      detail: 'is missing',
    }))
  }
  return [{ pointer, detail: SENTENCES[keyword]?.(params as Params) ?? message }]
}

function unknownMember({ suggestion }: RawError): string {
  const hint = suggestion === undefined ? '' : `; did you mean \`${suggestion}\`?`
  return `is not a known member${hint}`
}

/** As many errors as are told, with what was probably meant by each unknown member. */
export function withSuggestions(errors: readonly RawError[], schema: object): RawError[] {
  return errors.slice(0, 2 * MAX_ERRORS).map((error) => {
    if (error.keyword !== 'boolean') return error
    const name = error.instancePath.slice(error.instancePath.lastIndexOf('/') + 1)
    return { ...error, suggestion: suggest(name, membersAt(schema, error.schemaPath)) }
  })
}

/** Names of the members of the object whose `additionalProperties` that path names. */
function membersAt(schema: object, path: string): string[] {
  const steps = path.split('/').slice(1, -1)
  let at: unknown = schema
  for (const step of steps) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, step)) return []
    at = (at as Params)[step]
  }
  return Object.keys((at as { properties?: object } | undefined)?.properties ?? {})
}

const withArticle = (type: string): string => NAMES[type] ?? type

function count(limit: unknown, one: string): string {
  if (limit === 1) return `1 ${one}`
  return `${limit} ${one.endsWith('y') ? `${one.slice(0, -1)}ies` : `${one}s`}`
}

function listOf(values: unknown): string {
  const texts = (values as unknown[]).map((value) => JSON.stringify(value))
  const more = texts.length > MAX_VALUES ? ', …' : ''
  return `${texts.slice(0, MAX_VALUES).join(', ')}${more}`
}

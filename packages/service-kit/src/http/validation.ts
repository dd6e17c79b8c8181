import type { FastifyRequest } from 'fastify'

export const MAX_ERRORS = 20
const MAX_VALUES = 12

/** An error of the validator. */
export interface RawError {
  readonly keyword: string
  /** JSON pointer into the schema, to the part with the keyword. */
  readonly schemaPath: string
  readonly instancePath: string
  readonly params: object
  readonly message?: string
  /** The known member that was probably meant by an unknown one. */
  readonly suggestion?: string | undefined
}

export interface FieldError {
  readonly pointer: string
  readonly detail: string
}

type Params = Readonly<Record<string, unknown>>

/** The first error as a sentence, for `detail`. */
export function describeErrors(errors: readonly RawError[]): string {
  const [first, ...more] = fieldErrors(errors)
  if (!first) return 'The request is not valid.'
  const remainder = more.length > 0 ? ` ${more.length} more under \`errors\`.` : ''
  const name =
    first.pointer === '' ? 'The body' : `\`${first.pointer.slice(1).replaceAll('/', '.')}\``
  return `${name} ${first.detail}.${remainder}`
}

/** A pointer and a sentence for each refused member. */
export function fieldErrors(errors: readonly RawError[]): FieldError[] {
  return errors.flatMap(fieldErrorsOf).slice(0, MAX_ERRORS)
}

/** The words after the name of the member. Unknown and missing members are described elsewhere. */
const SENTENCES: Readonly<Record<string, (params: Params) => string>> = {
  type: ({ type }) => `must be ${TYPES[String(type)] ?? type}`,
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

const TYPES: Readonly<Record<string, string>> = {
  string: 'a text',
  number: 'a number',
  integer: 'a whole number',
  boolean: 'true or false',
  object: 'an object',
  array: 'a list',
  null: 'null',
}

function fieldErrorsOf(error: RawError): FieldError[] {
  const { keyword, instancePath: pointer, params, message = 'is not valid' } = error
  // Each unknown member, and each variant of a union, has an error of its own.
  if (keyword === 'additionalProperties' || error.schemaPath.includes('/anyOf/')) return []
  if (keyword === 'boolean') return [{ pointer, detail: unknownMember(error) }]
  if (keyword === 'required') {
    const { requiredProperties: names = [] } = params as { requiredProperties?: string[] }
    return names.map((name) => ({ pointer: `${pointer}/${name}`, detail: 'is missing' }))
  }
  return [{ pointer, detail: SENTENCES[keyword]?.(params as Params) ?? message }]
}

function unknownMember({ suggestion }: RawError): string {
  const hint = suggestion === undefined ? '' : `; did you mean \`${suggestion}\`?`
  return `is not a known member${hint}`
}

function count(limit: unknown, noun: string): string {
  if (limit === 1) return `1 ${noun}`
  return `${limit} ${noun.endsWith('y') ? `${noun.slice(0, -1)}ies` : `${noun}s`}`
}

function listOf(values: unknown): string {
  const texts = (values as unknown[]).map((value) => JSON.stringify(value))
  const more = texts.length > MAX_VALUES ? ', …' : ''
  return `${texts.slice(0, MAX_VALUES).join(', ')}${more}`
}

/** The media types of bodies that parsers take. */
export const MEDIA_TYPES = ['application/json', 'application/x-www-form-urlencoded'] as const
const MAX_TYPE = 100

/** A sentence about a body whose media type no parser takes: what to send instead. */
export function describeMediaType({ headers, server }: FastifyRequest): string {
  const mediaType = headers['content-type']?.split(';', 1)[0]?.trim().slice(0, MAX_TYPE)
  const came = mediaType ? `The body is ${mediaType}` : 'The body has no content type'
  const expected = MEDIA_TYPES.filter((type) => server.hasContentTypeParser(type))
  if (expected.length === 0) return `${came}, and this path takes none.`
  const fields = expected.map((type) => `\`Content-Type: ${type}\``).join(' or ')
  return `${came}, which this path does not take: send the header ${fields}.`
}

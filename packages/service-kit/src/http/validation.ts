import type { FastifySchemaCompiler } from 'fastify'
import { Compile, type XSchema } from 'typebox/schema'
import { type FieldError, fieldErrors, type RawError, withSuggestions } from './field-errors.ts'

/**
 * Validators without coercion and defaults: what does not match is refused. Objects in a body, query
 * or path are closed unless their schema says otherwise. Numbers in a query are strings with a pattern.
 */
export const strictValidatorCompiler: FastifySchemaCompiler<object> = ({ schema, httpPart }) => {
  // Compiled by the first request that needs it: compiling is most of what starting a service costs.
  let validator: ReturnType<typeof Compile> | undefined
  return (value: unknown) => {
    validator ??= Compile(httpPart === 'headers' ? schema : (closed(schema) as XSchema))
    if (validator.Check(value)) return { value }
    const [, errors] = validator.Errors(value)
    return { error: withSuggestions(errors as unknown as RawError[], schema) as never }
  }
}

/** One sentence on the first fault, for `detail`; `errors` has all of them. */
export function describeFaults(errors: readonly RawError[]): string {
  const [first, ...more] = fieldErrors(errors)
  if (!first) return 'The request is not valid.'
  const others = more.length > 0 ? ` ${more.length} more under \`errors\`.` : ''
  return `${nameOf(first)} ${first.detail}.${others}`
}

const nameOf = ({ pointer }: FieldError): string =>
  pointer === '' ? 'The body' : `\`${pointer.slice(1).replaceAll('/', '.')}\``

/** A copy in which every object with named members refuses others. */
function closed(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(closed)
  if (typeof schema !== 'object' || schema === null) return schema
  const copy = Object.fromEntries(
    Object.entries(schema).map(([key, value]) => [key, key === 'default' ? value : closed(value)]),
  )
  const isOpen = copy.type === 'object' && copy.additionalProperties === undefined
  return isOpen && !copy.patternProperties ? { ...copy, additionalProperties: false } : copy
}

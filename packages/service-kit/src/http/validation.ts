import type { FastifySchemaCompiler } from 'fastify'
import { Compile, type XSchema } from 'typebox/schema'

const MAX_ERRORS = 20

/** One fault as a validator tells it. */
interface RawError {
  readonly keyword: string
  readonly schemaPath: string
  readonly instancePath: string
  readonly params: object
  readonly message?: string
}

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
    return { error: errors.slice(0, MAX_ERRORS) as never }
  }
}

/** A pointer and a sentence for each member that was refused; unknown and missing ones are named. */
export function fieldErrors(errors: readonly RawError[]): { pointer: string; detail: string }[] {
  const told = errors.flatMap(({ keyword, instancePath, params, message = 'is not valid' }) => {
    if (keyword === 'additionalProperties') return []
    if (keyword === 'boolean') return [{ pointer: instancePath, detail: 'is not a known member' }]
    const { requiredProperties = [] } = params as { requiredProperties?: string[] }
    if (keyword !== 'required') return [{ pointer: instancePath, detail: message }]
    return requiredProperties.map((name) => ({
      pointer: `${instancePath}/${name}`,
      detail: 'is missing',
    }))
  })
  return told.slice(0, MAX_ERRORS)
}

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

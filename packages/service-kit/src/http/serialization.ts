import type { FastifySerializerCompiler } from 'fastify'

/** As much of a schema as tells which members an answer may have. */
interface Shape {
  readonly properties?: Readonly<Record<string, Shape>>
  readonly additionalProperties?: unknown
  readonly patternProperties?: unknown
  readonly items?: Shape
}

type Pick = (value: unknown) => unknown

/**
 * Serialisers that send the members which the schema names and no others; a union lets all of its
 * value through. Fastify's own would load Ajv and generate code for each answer, a good part of what starting a service costs.
 */
export const namedMembersSerializer: FastifySerializerCompiler<object> = ({ schema }) => {
  const pick = pickerOf(schema) ?? ((value) => value)
  return (value) => JSON.stringify(pick(value))
}

/** Undefined when the schema lets everything through. */
function pickerOf({ properties, items, ...schema }: Shape): Pick | undefined {
  if (items) {
    const pick = pickerOf(items)
    return pick && ((value) => (Array.isArray(value) ? value.map(pick) : value))
  }
  if (!properties || schema.additionalProperties || schema.patternProperties) return undefined
  const members = Object.entries(properties).map(
    ([name, shape]) => [name, pickerOf(shape)] as const,
  )
  return (value) => {
    if (typeof value !== 'object' || value === null) return value
    const picked: Record<string, unknown> = {}
    for (const [name, pick] of members) {
      const member = (value as Record<string, unknown>)[name]
      if (member !== undefined) picked[name] = pick ? pick(member) : member
    }
    return picked
  }
}

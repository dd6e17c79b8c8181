import type { TObject } from 'typebox'
import { type ConfigSchema, expectation } from '../../packages/service-kit/src/config/schema.ts'

interface Variant {
  readonly title: string
  readonly rows: readonly string[]
}

/** Renders a Markdown page with a row for each key of the schema, and a table for each variant. */
export function renderReference(schema: TObject, options: { title: string }): string {
  const variants: Variant[] = []
  const rows = membersOf(schema as ConfigSchema, '', variants)
  // The same union may occur in several variants.
  const sections = unique(variants.map(({ title, rows }) => `## ${title}\n\n${table(rows)}`))
  return `${[`# ${options.title}\n\n${table(rows)}`, ...sections].join('\n\n')}\n`
}

function table(rows: readonly string[]): string {
  return ['| key | type | default | what it does |', '| --- | --- | --- | --- |', ...rows].join(
    '\n',
  )
}

/** The rows of a schema. Rows of variants are added to `variants`, in the order of the page. */
function membersOf(schema: ConfigSchema, prefix: string, variants: Variant[]): string[] {
  if (schema.anyOf) return unionRows(schema.anyOf, prefix, variants)
  if (schema.items) return membersOf(schema.items, `${prefix}[]`, variants)
  const { properties = {}, patternProperties = {}, required } = schema
  const patterned = Object.values(patternProperties).map((member) => ['<name>', member] as const)
  return [...Object.entries(properties), ...patterned].flatMap(([name, member]) => {
    const key = prefix ? `${prefix}.${name}` : name
    const own = row(key, member, required?.includes(name) ?? false)
    return [own, ...membersOf(member, key, variants)]
  })
}

function unionRows(union: readonly ConfigSchema[], prefix: string, variants: Variant[]): string[] {
  const mappings = mappingsOf(union)
  if (mappings.length < 2) return union.flatMap((variant) => membersOf(variant, prefix, variants))
  for (const variant of mappings) {
    const below: Variant[] = []
    const rows = membersOf(variant, prefix, below)
    variants.push({ title: titleOf(variant, mappings, prefix), rows }, ...below)
  }
  return union
    .filter((variant) => !mappings.includes(variant))
    .flatMap((variant) => membersOf(variant, prefix, variants))
}

function mappingsOf(union: readonly ConfigSchema[]): readonly ConfigSchema[] {
  return union.filter(({ type }) => type === 'object')
}

/** Named by its constant, or else by the keys that only it has. */
function titleOf(variant: ConfigSchema, all: readonly ConfigSchema[], prefix: string): string {
  const { properties = {} } = variant
  const tag = Object.entries(properties).find(([, { const: value }]) => value !== undefined)
  if (tag) return `\`${prefix}\` with \`${tag[0]}: ${tag[1].const}\``
  const others = all.filter((other) => other !== variant)
  const own = Object.keys(properties).filter((key) =>
    others.every((other) => other.properties?.[key] === undefined),
  )
  return `\`${prefix}\` with ${own.map((key) => `\`${key}\``).join(' and ')}`
}

function row(key: string, schema: ConfigSchema, isRequired: boolean): string {
  const types = typesOf(schema, key).join(' or ')
  const fallback = schema.type === 'object' ? '' : fallbackOf(schema, isRequired)
  const cells = [`\`${key}\``, types, fallback, schema.description ?? '']
  return `| ${cells.map(escapePipes).join(' | ')} |`
}

function fallbackOf(schema: ConfigSchema, isRequired: boolean): string {
  if (schema.default === undefined) return isRequired ? 'required' : ''
  const isText = typeof schema.default === 'string'
  return `\`${isText ? schema.default : JSON.stringify(schema.default)}\``
}

function typesOf(schema: ConfigSchema, key: string): string[] {
  const { anyOf } = schema
  if (!anyOf) return [typeOf(schema, key)]
  if (mappingsOf(anyOf).length < 2) return unique(anyOf.flatMap((one) => typesOf(one, key)))
  const others = anyOf.filter(({ type }) => type !== 'object')
  return unique([...others.flatMap((one) => typesOf(one, key)), 'mapping, see below'])
}

function typeOf(schema: ConfigSchema, key: string): string {
  if (schema.items) return `list of ${typesOf(schema.items, key).join(' or ')}`
  if (schema.secret) return `secret, or \`${key.split('.').at(-1)}File\``
  if (schema.filePath) return 'path'
  if (schema.duration) return spanOf(schema)
  if (schema.type === 'object') return 'mapping'
  if (schema.const !== undefined || schema.enum) return `\`${expectation(schema)}\``
  return schema.type ?? 'any'
}

function spanOf({ from, to }: ConfigSchema): string {
  return ['duration', from && `from ${from}`, to && `to ${to}`].filter(Boolean).join(' ')
}

function unique(items: readonly string[]): string[] {
  return [...new Set(items)]
}

function escapePipes(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('\n', ' ')
}

import type { TObject } from 'typebox'
import { expectation } from './reading.ts'
import type { ConfigSchema } from './schema.ts'

interface Row {
  readonly key: string
  readonly types: readonly string[]
  readonly fallback: string
  readonly description: string
}

/** A Markdown section with one row for each key that the schema knows. */
export function renderReference(schema: TObject, options: { title: string }): string {
  const rows = membersOf(schema as ConfigSchema, '').map(
    ({ key, types, fallback, description }) =>
      `| ${[`\`${key}\``, types.join(' or '), fallback, description].map(escapePipes).join(' | ')} |`,
  )
  return [
    `# ${options.title}`,
    '',
    '| key | type | default | what it does |',
    '| --- | --- | --- | --- |',
    ...rows,
    '',
  ].join('\n')
}

function membersOf(schema: ConfigSchema, prefix: string): Row[] {
  if (schema.anyOf) return mergeByKey(schema.anyOf.flatMap((variant) => membersOf(variant, prefix)))
  if (schema.items) return membersOf(schema.items, `${prefix}[]`)
  const named = Object.entries(schema.properties ?? {}).flatMap(([name, member]) => {
    const key = prefix ? `${prefix}.${name}` : name
    return [row(key, member, schema.required?.includes(name) ?? false), ...membersOf(member, key)]
  })
  const patterned = Object.values(schema.patternProperties ?? {}).flatMap((member) => {
    const key = `${prefix}.<name>`
    return [row(key, member, false), ...membersOf(member, key)]
  })
  return [...named, ...patterned]
}

function row(key: string, schema: ConfigSchema, isRequired: boolean): Row {
  const fallback = schema.type === 'object' ? '' : fallbackOf(schema, isRequired)
  return { key, types: typesOf(schema, key), fallback, description: schema.description ?? '' }
}

function fallbackOf(schema: ConfigSchema, isRequired: boolean): string {
  if (schema.default === undefined) return isRequired ? 'required' : ''
  const isText = typeof schema.default === 'string'
  return `\`${isText ? schema.default : JSON.stringify(schema.default)}\``
}

function typesOf(schema: ConfigSchema, key: string): string[] {
  return schema.anyOf
    ? unique(schema.anyOf.flatMap((variant) => typesOf(variant, key)))
    : [typeOf(schema, key)]
}

function typeOf(schema: ConfigSchema, key: string): string {
  if (schema.items) return `list of ${typesOf(schema.items, key).join(' or ')}`
  if (schema.secret) return `secret, or \`${key.split('.').at(-1)}File\``
  if (schema.filePath) return 'path'
  if (schema.duration) return 'duration'
  if (schema.type === 'object') return 'mapping'
  if (schema.const !== undefined || schema.enum) return `\`${expectation(schema)}\``
  return schema.type ?? 'any'
}

/** One row for a key that several variants have. */
function mergeByKey(rows: readonly Row[]): Row[] {
  const merged = new Map<string, Row>()
  for (const row of rows) {
    const types = unique([...(merged.get(row.key)?.types ?? []), ...row.types])
    merged.set(row.key, { ...row, types })
  }
  return [...merged.values()]
}

function unique(items: readonly string[]): string[] {
  return [...new Set(items)]
}

function escapePipes(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('\n', ' ')
}

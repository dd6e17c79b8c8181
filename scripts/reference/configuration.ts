import type { TObject } from 'typebox'
import { type ConfigSchema, expectation } from '../../packages/service-kit/src/config/schema.ts'

interface Section {
  readonly title: string
  readonly text: string
  readonly rows: readonly string[]
}

/** What is collected while rows are written. */
interface Page {
  /** Write the tables of variants, which follow the rows. */
  readonly unions: (() => Section[])[]
  /** Where a mapping was shown, by its rows. */
  readonly shown: Map<string, string>
}

/**
 * Renders a Markdown page with a row for each key of the schema, and a table for each variant. What variants
 * share, and a mapping that occurs again elsewhere, is shown once.
 */
export function renderReference(schema: TObject, options: { title: string }): string {
  const page: Page = { unions: [], shown: new Map() }
  const rows = membersOf(schema as ConfigSchema, '', page)
  // The same union may occur in several variants.
  const sections = unique(
    sectionsOf(page).map(({ title, text, rows }) =>
      [`## ${title}`, text, rows.length > 0 && table(rows)].filter(Boolean).join('\n\n'),
    ),
  )
  return `${[`# ${options.title}\n\n${table(rows)}`, ...sections].join('\n\n')}\n`
}

const sectionsOf = ({ unions }: Page): Section[] => unions.flatMap((write) => write())

function table(rows: readonly string[]): string {
  return ['| key | type | default | what it does |', '| --- | --- | --- | --- |', ...rows].join(
    '\n',
  )
}

/** The rows of a schema. Tables of variants are added to the page. */
function membersOf(schema: ConfigSchema, prefix: string, page: Page): string[] {
  if (schema.anyOf) return unionRows(schema.anyOf, prefix, page)
  if (schema.items) return membersOf(schema.items, `${prefix}[]`, page)
  const { properties = {}, patternProperties = {}, required } = schema
  const patterned = Object.values(patternProperties).map((member) => ['<name>', member] as const)
  return [...Object.entries(properties), ...patterned].flatMap(([name, member]) => {
    const key = prefix ? `${prefix}.${name}` : name
    const isRequired = required?.includes(name) ?? false
    const rows = membersOf(member, key, page)
    const twin = twinOf(key, rows, page)
    return twin ? [row(key, member, isRequired, twin)] : [row(key, member, isRequired), ...rows]
  })
}

/** The key whose mapping was shown before, with the same members. */
function twinOf(key: string, rows: readonly string[], { shown }: Page): string | undefined {
  if (rows.length < 2) return undefined
  const members = rows.map((text) => text.replace(`\`${key}`, '`')).join('\n')
  const twin = shown.get(members)
  if (twin === undefined) shown.set(members, key)
  return twin
}

function unionRows(union: readonly ConfigSchema[], prefix: string, page: Page): string[] {
  const mappings = mappingsOf(union)
  if (mappings.length < 2) return union.flatMap((variant) => membersOf(variant, prefix, page))
  page.unions.push(() => variantSections(mappings, prefix, page))
  return union
    .filter((variant) => !mappings.includes(variant))
    .flatMap((variant) => membersOf(variant, prefix, page))
}

function variantSections(variants: readonly ConfigSchema[], prefix: string, { shown }: Page) {
  const tables = variants.map((variant) => {
    const page: Page = { unions: [], shown: new Map(shown) }
    return { variant, rows: membersOf(variant, prefix, page), page }
  })
  const [first] = tables
  const common = first?.rows.filter((row) => tables.every(({ rows }) => rows.includes(row))) ?? []
  const tags = variants.flatMap((variant) => tagOf(variant)?.[1].const ?? [])
  const [name] = variants.flatMap((variant) => tagOf(variant)?.[0] ?? [])
  const values = `\`${tags.map((value) => `"${value}"`).join(' or ')}\``
  const choice = name ? [`| \`${prefix}.${name}\` | ${values} | required | See below. |`] : []
  const rows = [...choice, ...common]
  const shared = { title: `\`${prefix}\``, text: 'Each of them has these.', rows }
  const sections = tables.flatMap(({ variant, rows, page }, index): Section[] => {
    const [, tag] = tagOf(variant) ?? []
    const isOwn = (row: string) =>
      !common.includes(row) && !row.startsWith(`| \`${prefix}.${name}\` `)
    const title = titleOf(variant, variants, prefix)
    const own = rows.filter(isOwn)
    const basis = index > 0 ? first?.rows.filter(isOwn) : undefined
    const like = basis && likeFirst(own, basis, `\`${name}: ${tags[0]}\``)
    const text = [tag?.description, like].filter(Boolean).join(' ')
    const isNew = (row: string) => !like || !basis?.includes(row)
    return [{ title, text, rows: own.filter(isNew) }, ...sectionsOf(page)]
  })
  return rows.length > 0 ? [shared, ...sections] : sections
}

/** Says which rows a variant has like the first one, if they are worth a sentence. */
function likeFirst(rows: readonly string[], first: readonly string[], title: string) {
  const keyOf = (row: string) => /^\| `.*?(\w+)` \|/.exec(row)?.[1]
  const keysOf = (rows: readonly string[]) => rows.flatMap((row) => keyOf(row) ?? [])
  const shared = keysOf(rows.filter((row) => first.includes(row)))
  const missing = keysOf(first).filter((key) => !keysOf(rows).includes(key))
  if (shared.length < 3) return undefined
  const list = (keys: readonly string[]) => keys.map((key) => `\`${key}\``).join(', ')
  return missing.length < shared.length
    ? `Has the options of ${title} too, without ${list(missing)}.`
    : `Has ${list(shared)} too, as ${title}.`
}

function mappingsOf(union: readonly ConfigSchema[]): readonly ConfigSchema[] {
  return union.filter(({ type }) => type === 'object')
}

/** The member whose constant names a variant, such as `type`. */
function tagOf({ properties = {} }: ConfigSchema): readonly [string, ConfigSchema] | undefined {
  return Object.entries(properties).find(([, { const: value }]) => value !== undefined)
}

/** Named by its constant, or else by the keys that only it has. */
function titleOf(variant: ConfigSchema, all: readonly ConfigSchema[], prefix: string): string {
  const { properties = {} } = variant
  const tag = tagOf(variant)
  if (tag) return `\`${prefix}\` with \`${tag[0]}: ${tag[1].const}\``
  const others = all.filter((other) => other !== variant)
  const own = Object.keys(properties).filter((key) =>
    others.every((other) => other.properties?.[key] === undefined),
  )
  return `\`${prefix}\` with ${own.map((key) => `\`${key}\``).join(' and ')}`
}

function row(key: string, schema: ConfigSchema, isRequired: boolean, twin?: string): string {
  const types = `${typesOf(schema, key).join(' or ')}${twin ? `, as \`${twin}\`` : ''}`
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

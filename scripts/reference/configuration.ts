import type { TObject } from 'typebox'
import { type ConfigSchema, expectation } from '../../packages/service-kit/src/config/schema.ts'
import { anchorOf } from './anchors.ts'

/** What the page says of a key, and of those below it. */
interface Setting extends Members {
  readonly key: string
  /** Its type and default. */
  readonly type: string
  readonly text: string
}

interface Members {
  readonly members: readonly Setting[]
  /** The mappings of which one is written, each with the members that not all of them have. */
  readonly variants: readonly Variant[]
}

interface Variant {
  readonly title: string
  /** What is added to the headings of its members, which other variants may have too. */
  readonly suffix: string
  readonly text: string
  readonly members: readonly Setting[]
}

/** Where a mapping was shown, by its members. */
type Shown = Map<string, string>

/** The deepest headings of keys, and of those of variants. */
const DEEPEST = { key: 4, variant: 5 }

const INTRO = `Each key has its type and its default, and below them what it does. \`[]\` stands for each entry of a list, and \`<name>\` for
a name that you choose. Instead of a secret, its \`…File\` names a file that has it.`

/**
 * Renders a Markdown page with a block for each key of the schema, below the key that it is a member of. What variants
 * share, and a mapping that occurs again elsewhere, is shown once.
 */
export function renderReference(schema: TObject, options: { title: string }): string {
  const { members } = membersOf(schema as ConfigSchema, '', new Map())
  const blocks = members.flatMap((setting) => blocksOf(setting, 2))
  return `${[`# ${options.title}`, INTRO, contentsOf(members), ...blocks].join('\n\n')}\n`
}

/** The sections of the page, with the keys in them that have members of their own. */
function contentsOf(sections: readonly Setting[]): string {
  const linkTo = ({ key }: Setting, text: string) => `[\`${text}\`](#${anchorOf(headingOf(key))})`
  const items = sections.map((section) => {
    const groups = section.members.filter(
      ({ members, variants }) => members.length + variants.length,
    )
    const links = groups.map((group) => linkTo(group, group.key.replace(/^[^.]+\./, '')))
    return `- ${[linkTo(section, section.key), ...(links.length > 0 ? [links.join(', ')] : [])].join(': ')}`
  })
  return items.join('\n')
}

const headingOf = (key: string, suffix = ''): string => `\`${key}\`${suffix}`

function blocksOf({ key, type, text, ...below }: Setting, level: number, suffix = ''): string[] {
  const heading = `${'#'.repeat(level)} ${headingOf(key, suffix)}`
  const deepest = suffix === '' ? DEEPEST.key : DEEPEST.variant
  const next = Math.min(level + 1, deepest)
  return [
    ...[heading, type, text].filter(Boolean),
    ...below.members.flatMap((member) => blocksOf(member, next, suffix)),
    ...below.variants.flatMap((variant) => variantBlocks(variant, next, suffix)),
  ]
}

/** Within a variant of something else, what has no suffix has that one. */
function variantBlocks(variant: Variant, level: number, outer: string): string[] {
  const { title, suffix, text, members } = variant
  const next = Math.min(level + 1, DEEPEST.variant)
  const heading = `${'#'.repeat(level)} ${title}`
  const blocks = members.flatMap((member) => blocksOf(member, next, suffix || outer))
  return [...[heading, text].filter(Boolean), ...blocks]
}

function membersOf(schema: ConfigSchema, prefix: string, shown: Shown): Members {
  const alternatives = schema.anyOf ?? [schema]
  const mappings = alternatives.filter(({ type }) => type === 'object')
  const lists = alternatives.flatMap(({ items }) => items ?? [])
  const below = lists.map((item) => membersOf(item, `${prefix}[]`, shown))
  const own =
    mappings.length > 1
      ? variantsOf(mappings, prefix, shown)
      : { members: mappings.flatMap((one) => settingsOf(one, prefix, shown)), variants: [] }
  return {
    members: [...own.members, ...below.flatMap(({ members }) => members)],
    variants: [...own.variants, ...below.flatMap(({ variants }) => variants)],
  }
}

function settingsOf(mapping: ConfigSchema, prefix: string, shown: Shown): Setting[] {
  const { properties = {}, patternProperties = {}, required } = mapping
  const patterned = Object.values(patternProperties).map((member) => ['<name>', member] as const)
  return [...Object.entries(properties), ...patterned].map(([name, member]) => {
    const key = prefix ? `${prefix}.${name}` : name
    const below = membersOf(member, key, shown)
    const twin = twinOf(key, below, shown)
    const type = typeLine(member, key, required?.includes(name) ?? false, twin)
    const text = (member.description ?? '').replaceAll('\n', ' ')
    return { key, type, text, ...(twin === undefined ? below : { members: [], variants: [] }) }
  })
}

/** The key whose mapping was shown before, with the same members. */
function twinOf(key: string, below: Members, shown: Shown): string | undefined {
  if (countOf(below.members) + below.variants.length < 2) return undefined
  const members = JSON.stringify(below).replaceAll(key, '')
  const twin = shown.get(members)
  if (twin === undefined) shown.set(members, key)
  return twin
}

const countOf = (members: readonly Setting[]): number =>
  members.reduce((count, setting) => count + 1 + countOf(setting.members), 0)

function variantsOf(mappings: readonly ConfigSchema[], prefix: string, shown: Shown): Members {
  const all = mappings.map((mapping) => settingsOf(mapping, prefix, new Map(shown)))
  const [first = []] = all
  const common = first.filter((setting) => all.every((members) => has(members, setting)))
  const tags = mappings.flatMap((mapping) => tagOf(mapping) ?? [])
  const tag = tags[0]?.name
  const isOwn = (setting: Setting) => !has(common, setting) && setting.key !== `${prefix}.${tag}`
  const basis = first.filter(isOwn)
  const variants = mappings.map((mapping, index): Variant => {
    const own = all[index]?.filter(isOwn) ?? []
    const like = index > 0 ? likeFirst(own, basis, `\`${tag}: ${tags[0]?.value}\``) : undefined
    return {
      title: titleOf(mapping, mappings, prefix),
      suffix: tag === undefined ? '' : ` (${tagOf(mapping)?.value})`,
      text: [tagOf(mapping)?.text, like].filter(Boolean).join(' '),
      members: like === undefined ? own : own.filter((setting) => !has(basis, setting)),
    }
  })
  const values = `\`${tags.map(({ value }) => `"${value}"`).join(' or ')}\``
  const choice: Setting = {
    ...{ key: `${prefix}.${tag}`, type: `${values}, required` },
    ...{ text: 'Each has keys of its own.', members: [], variants: [] },
  }
  return { members: [...(tag === undefined ? [] : [choice]), ...common], variants }
}

const has = (members: readonly Setting[], setting: Setting): boolean =>
  members.some((other) => JSON.stringify(other) === JSON.stringify(setting))

/** Says which members a variant has like the first one, if they are worth a sentence. */
function likeFirst(members: readonly Setting[], first: readonly Setting[], title: string) {
  const keys = members.map(({ key }) => key)
  const shared = members.filter((setting) => has(first, setting))
  const missing = first.filter(({ key }) => !keys.includes(key))
  if (shared.length < 3) return undefined
  const list = (settings: readonly Setting[]) =>
    settings.map(({ key }) => `\`${key.slice(key.lastIndexOf('.') + 1)}\``).join(', ')
  return missing.length < shared.length
    ? `Has the options of ${title} too${missing.length > 0 ? `, without ${list(missing)}` : ''}.`
    : `Has ${list(shared)} too, as ${title}.`
}

/** The member whose constant names a variant, such as `type`. */
function tagOf({ properties = {} }: ConfigSchema) {
  const [tag] = Object.entries(properties).filter(([, member]) => member.const !== undefined)
  return tag && { name: tag[0], value: String(tag[1].const), text: tag[1].description }
}

/** Named by its constant, or else by the keys that only it has: those that it needs, if there are any. */
function titleOf(variant: ConfigSchema, all: readonly ConfigSchema[], prefix: string): string {
  const { properties = {} } = variant
  const tag = tagOf(variant)
  if (tag) return `\`${prefix}\` with \`${tag.name}: ${tag.value}\``
  const others = all.filter((other) => other !== variant)
  const own = Object.keys(properties).filter((key) =>
    others.every((other) => other.properties?.[key] === undefined),
  )
  const needed = own.filter((key) => variant.required?.includes(key))
  const keys = needed.length > 0 ? needed : own
  return `\`${prefix}\` with ${keys.map((key) => `\`${key}\``).join(' and ')}`
}

function typeLine(schema: ConfigSchema, key: string, isRequired: boolean, twin?: string): string {
  const types = `${typesOf(schema, key).join(' or ')}${twin ? `, as \`${twin}\`` : ''}`
  const fallback = schema.type === 'object' ? '' : fallbackOf(schema, isRequired)
  return [types, fallback].filter(Boolean).join(', ')
}

function fallbackOf(schema: ConfigSchema, isRequired: boolean): string {
  if (schema.default === undefined) return isRequired ? 'required' : ''
  if (schema.default === '') return 'default empty'
  const isText = typeof schema.default === 'string'
  return `default \`${isText ? schema.default : JSON.stringify(schema.default)}\``
}

function typesOf(schema: ConfigSchema, key: string): string[] {
  const { anyOf } = schema
  if (!anyOf) return [typeOf(schema, key)]
  return unique(anyOf.flatMap((one) => typesOf(one, key)))
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

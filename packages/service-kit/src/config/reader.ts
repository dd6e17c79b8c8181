import { resolve } from 'node:path'
import { Check, Errors } from 'typebox/schema'
import {
  type Alias,
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  type Node,
  type Pair,
  type Scalar,
  YAMLMap,
} from 'yaml'
import { suggest } from '../suggest.ts'
import { readNamedFile } from './files.ts'
import { type Fault, hideUnknown, ifKnown } from './rules.ts'
import { type ConfigSchema, durationMs, expectation, explain, spanFault, tagOf } from './schema.ts'

const MAX_ALIASES = 100
const MAX_SECRET_BYTES = 65_536

/** A value in the document: its JSON pointer, and the offset that its faults are reported at. */
interface Location {
  readonly path: string
  readonly offset: number
}

/** A fault whose position is still an offset in the text. */
export type RawFault = Fault & Location

type Entries = Map<string, Pair<Scalar, Node>>

/**
 * Reads a YAML document into the value of a schema, and collects every fault of it. Where a part
 * cannot be read the value is undefined; members and items that cannot be read throw when a rule
 * reads them.
 */
export class ConfigReader {
  faults: RawFault[] = []
  /** Absolute paths of the files that secrets were read from. */
  readonly secretFiles = new Set<string>()
  readonly #doc: Document
  readonly #env: Readonly<Record<string, string | undefined>>
  readonly #folder: string
  readonly #offsets = new Map<string, number>()
  #aliases = 0

  /** @param folder - relative paths are resolved against it */
  constructor(doc: Document, env: Readonly<Record<string, string | undefined>>, folder: string) {
    this.#doc = doc
    this.#env = env
    this.#folder = folder
  }

  read(schema: ConfigSchema): unknown {
    return this.#read(schema, this.#doc.contents, { path: '', offset: 0 })
  }

  /** The offset of the value at a JSON pointer, or of the nearest value around it that is present. */
  offsetOf(path: string): number {
    const offset = this.#offsets.get(path)
    if (offset !== undefined || path === '') return offset ?? 0
    return this.offsetOf(path.slice(0, path.lastIndexOf('/')))
  }

  #fault({ path, offset }: Location, message: string, absent = false): undefined {
    this.faults.push({ path, offset, message, absent })
  }

  /** Checks the value itself, without its members. */
  #check(schema: ConfigSchema, value: unknown, location: Location): boolean {
    const { properties, patternProperties, required, items, anyOf, removed, ...keywords } = schema
    const [passed, errors] = Errors({ ...keywords, additionalProperties: true }, value)
    for (const { keyword, message } of errors)
      this.#fault(location, explain(schema, keyword, message, value))
    return passed
  }

  #read(schema: ConfigSchema, source: Node | null, fallback: Location): unknown {
    const node = isAlias(source) ? this.#resolve(source) : source
    if (isAlias(node)) return this.#fault(fallback, 'is an alias of nothing, or one too many')
    if (!node) return this.#readMissing(schema, fallback)
    // Faults are reported at a scalar itself, and at the key of a mapping or list.
    const location = isScalar(node) ? { ...fallback, offset: startOf(node, fallback) } : fallback
    this.#offsets.set(location.path, location.offset)

    if (isScalar(node) && node.value === null)
      return this.#fault(location, 'is empty: give it a value or remove the key')
    if (schema.anyOf) return this.#readUnion(schema.anyOf, node, location)
    if (schema.type === 'object') return this.#readObject(schema, node, location)
    if (schema.type === 'array') return this.#readArray(schema, node, location)
    return this.#readScalar(schema, isScalar(node) ? node.value : {}, location)
  }

  #resolve(alias: Alias): Node {
    this.#aliases += 1
    return (this.#aliases <= MAX_ALIASES && alias.resolve(this.#doc)) || alias
  }

  #readMissing(schema: ConfigSchema, location: Location): unknown {
    if (schema.default !== undefined)
      return this.#read(schema, this.#doc.createNode(schema.default) as Node, location)
    // An object may be left out if each of its required members has a default.
    if (schema.type === 'object') return this.#read(schema, new YAMLMap(), location)
    return this.#fault(location, `is missing${hintOf(schema)}`)
  }

  #readObject(schema: ConfigSchema, node: Node, location: Location): unknown {
    if (!isMap<unknown, Node>(node))
      return this.#fault(location, `must be ${expectation(schema)}${hintOf(schema)}`)
    const entries = this.#entriesOf(schema, node, location)
    const written: Entries = new Map()
    const members = membersOf(schema, [...entries.keys()]).flatMap(([key, member]) => {
      const entry = take(entries, key)
      const file = member.secret && take(entries, `${key}File`)
      const pair = entry ?? file
      if (pair) written.set(key, pair)
      if (file) return [[key, this.#readSecretFile(member, key, file, location, entry)]]
      const isRead = entry || member.default !== undefined || schema.required?.includes(key)
      if (!isRead) return []
      return [[key, this.#read(member, entry?.value ?? null, below(location, key, entry))]]
    })
    const [pattern] = Object.keys(schema.patternProperties ?? {})
    const hint = pattern ? `: names match ${pattern}` : ''
    for (const [name, entry] of entries) {
      const message = schema.removed?.[name] ?? `is not a known key${hint}`
      this.#fault(below(location, name, entry), message)
    }
    const refused = this.#checkTogether(schema, written, location)
    const value = Object.fromEntries([...members, ...refused.map((key) => [key, undefined])])
    this.#check(schema, value, location)
    this.#checkDemands(schema, hideUnknown(value), location)
    return value
  }

  /** Checks which members of a mapping are written together. Gives those that no rule can judge then. */
  #checkTogether(schema: ConfigSchema, written: Entries, location: Location): string[] {
    const { exactlyOne = [], atLeastOne = [], needs = {}, excludes = {} } = schema
    const isWritten = (key: string) => written.has(key)
    const refused: string[] = []
    const refuse = (key: string, message: string, members: readonly string[]) => {
      this.#fault(below(location, key, written.get(key)), message)
      refused.push(...members)
    }
    for (const keys of [...exactlyOne, ...atLeastOne].filter((keys) => !keys.some(isWritten))) {
      this.#fault(location, `needs ${keys.join(' or ')}`)
      refused.push(...keys)
    }
    const forms = exactlyOne.map((keys) => keys.filter(isWritten))
    const exclusions = forms.map(([first = '', ...others]) => [first, others] as const)
    for (const [key, others] of [...exclusions, ...Object.entries(excludes)])
      for (const other of isWritten(key) ? others.filter(isWritten) : [])
        refuse(other, `is given together with ${key}: keep one of the two`, [key, other])
    for (const [key, names] of Object.entries(needs)) {
      const absent = names.filter((name) => !isWritten(name))
      if (isWritten(key) && absent.length > 0 && !refused.includes(key))
        refuse(key, `needs ${absent.join(' and ')}`, absent)
    }
    return refused
  }

  #checkDemands({ demands = [] }: ConfigSchema, mapping: object, { path }: Location): void {
    for (const { when, schema, ...fault } of demands) {
      const place = path + fault.path
      if (ifKnown(() => Check(when, mapping) && !Check(schema, mapping)))
        this.#fault({ path: place, offset: this.offsetOf(place) }, fault.message)
    }
  }

  /** Reports misspelt keys and corrects them, so that the faults below them are found as well. */
  #entriesOf(
    { properties = {}, removed = {} }: ConfigSchema,
    { items }: YAMLMap<unknown, Node>,
    location: Location,
  ): Entries {
    const entries: Entries = new Map()
    for (const pair of items) {
      if (isScalar(pair.key)) entries.set(String(pair.key.value), pair as Pair<Scalar, Node>)
      else this.#fault(location, 'has a key that is not a plain word')
    }
    const keys = Object.entries(properties).flatMap(([key, { secret }]) =>
      secret ? [key, `${key}File`] : [key],
    )
    for (const [name, entry] of [...entries]) {
      const meant = keys.includes(name) || removed[name] ? undefined : suggest(name, keys)
      if (meant === undefined) continue
      entries.delete(name)
      this.#fault(below(location, name, entry), `is not a known key, did you mean ${meant}?`)
      if (!entries.has(meant)) entries.set(meant, entry)
    }
    return entries
  }

  #readArray(schema: ConfigSchema, node: Node, location: Location): unknown {
    if (!isSeq<Node>(node)) return this.#fault(location, `must be ${expectation(schema)}`)
    const value = node.items.map((item, index) =>
      this.#read(schema.items ?? {}, item, {
        path: `${location.path}/${index}`,
        offset: startOf(item, location),
      }),
    )
    const passed = this.#check(schema, value, location)
    // Rules about an empty list would only repeat its fault.
    return passed || value.length > 0 ? hideUnknown(value) : undefined
  }

  /** Reads by the variant that the tag names; without tags by the one with the fewest faults. */
  #readUnion(variants: readonly ConfigSchema[], node: Node, location: Location): unknown {
    const shape = isMap(node) ? 'object' : isSeq(node) ? 'array' : 'scalar'
    const alike = variants.filter((variant) => shapeOf(variant) === shape)
    const tag = tagOf(alike)
    if (isMap<unknown, Node>(node) && tag) return this.#readTagged(alike, tag, node, location)
    const nearest = this.#nearestOf(alike, node, location)
    const isAmbiguous = shape === 'scalar' && alike.length > 1
    if (!nearest || (isAmbiguous && nearest.faults.length > 0))
      return this.#fault(location, `must be ${eitherOf(variants)}`)
    this.faults.push(...nearest.faults)
    return nearest.value
  }

  #readTagged(
    variants: readonly ConfigSchema[],
    tag: string,
    node: YAMLMap<unknown, Node>,
    location: Location,
  ): unknown {
    const variant = variants.find(({ properties }) => properties?.[tag]?.const === node.get(tag))
    if (variant) return this.#readObject(variant, node, location)
    const tagEntry = node.items.find(({ key }) => isScalar(key) && key.value === tag)
    const tags = variants.flatMap(({ properties }) => properties?.[tag] ?? [])
    return this.#fault(below(location, tag, tagEntry), `must be ${eitherOf(tags)}`)
  }

  /** The value by the variant with the fewest faults, with these faults, which are not reported yet. */
  #nearestOf(variants: readonly ConfigSchema[], node: Node, location: Location) {
    const outer = this.faults
    let nearest: { value: unknown; faults: RawFault[] } | undefined
    for (const variant of variants) {
      this.faults = []
      const value = this.#read(variant, node, location)
      if (!nearest || this.faults.length < nearest.faults.length)
        nearest = { value, faults: this.faults }
      if (nearest.faults.length === 0) break
    }
    this.faults = outer
    return nearest
  }

  #readScalar(schema: ConfigSchema, source: unknown, location: Location): unknown {
    const expanded = typeof source === 'string' ? this.#expand(schema, source, location) : source
    if (expanded === undefined) return undefined
    const value = expanded === source ? source : fromText(schema, String(expanded))
    if (!this.#check(schema, value, location)) return undefined
    if (schema.filePath) return resolve(this.#folder, String(value))
    if (!schema.duration) return value
    const message = spanFault(schema, String(value))
    return message === undefined ? durationMs(String(value)) : this.#fault(location, message)
  }

  /** Replaces `$` followed by a name in braces by that environment variable, and `$$` by `$`. */
  #expand(schema: ConfigSchema, text: string, location: Location): string | undefined {
    let isComplete = true
    const expanded = text.replace(/\$\$|\$\{([^}]*)\}?/g, (match, name: string | undefined) => {
      if (name === undefined) return '$'
      const isName = /^[A-Za-z_]\w*$/.test(name) && match.endsWith('}')
      const value = isName ? this.#env[name] : undefined
      if (value !== undefined) return value
      isComplete = false
      const shown = isName && !schema.secret ? `$\{${name}}` : 'an environment variable'
      const reason = isName ? 'is not set' : `is not written as $\{NAME}`
      const message = `needs ${shown}, which ${reason} ($$ stands for a plain $)`
      this.#fault(location, message, isName && schema.secret === true)
      return ''
    })
    return isComplete ? expanded : undefined
  }

  /** Reads a secret from the file that `<key>File` names. */
  #readSecretFile(
    schema: ConfigSchema,
    key: string,
    entry: Pair<Scalar, Node>,
    parent: Location,
    inline?: Pair<Scalar, Node>,
  ): unknown {
    const location = below(parent, `${key}File`, entry)
    this.#offsets.set(below(parent, key, entry).path, location.offset)
    if (inline) this.#fault(location, `is given together with ${key}: keep one of the two`)
    const file = this.#read({ type: 'string', filePath: true }, entry.value, location)
    if (typeof file !== 'string') return undefined
    const read = readNamedFile(file, MAX_SECRET_BYTES)
    if ('fault' in read) return this.#fault(location, read.fault, read.absent)
    this.secretFiles.add(file)
    const secret = read.text.replace(/\r?\n$/, '')
    if (secret === '') return this.#fault(location, 'names a file that is empty')
    return this.#check(schema, secret, location) ? secret : undefined
  }
}

/** The members that a mapping may have, with those whose names match its pattern. */
function membersOf(
  { properties = {}, patternProperties = {}, removed = {} }: ConfigSchema,
  names: readonly string[],
): [key: string, schema: ConfigSchema][] {
  // The reader itself reads the file of a secret, also where the schema has a key for it.
  const members = Object.entries(properties).filter(
    ([key]) => !(key.endsWith('File') && properties[key.slice(0, -4)]?.secret),
  )
  const matches = Object.entries(patternProperties).flatMap(([pattern, schema]) =>
    names
      .filter((name) => new RegExp(pattern, 'u').test(name) && !Object.hasOwn(removed, name))
      .map((name): [string, ConfigSchema] => [name, schema]),
  )
  return [...members, ...matches]
}

function take(entries: Entries, name: string): Pair<Scalar, Node> | undefined {
  const entry = entries.get(name)
  entries.delete(name)
  return entry
}

function startOf(node: Node | null, { offset }: Location): number {
  return node?.range?.[0] ?? offset
}

function below(parent: Location, name: string, entry: Pair<unknown, Node> | undefined): Location {
  const token = name.replaceAll('~', '~0').replaceAll('/', '~1')
  return {
    path: `${parent.path}/${token}`,
    offset: startOf((entry?.key ?? null) as Node | null, parent),
  }
}

function eitherOf(variants: readonly ConfigSchema[]): string {
  return [...new Set(variants.map(expectation))].join(' or ')
}

const hintOf = ({ write }: ConfigSchema) => (write === undefined ? '' : `: write ${write}`)

function shapeOf({ type }: ConfigSchema): string {
  return type === 'object' || type === 'array' ? type : 'scalar'
}

/** Environment variables are texts: `port: ${PORT}` means the number that the text spells. */
function fromText(schema: ConfigSchema, text: string): unknown {
  const isNumber = schema.type === 'integer' || schema.type === 'number'
  if (isNumber && /^-?\d+(\.\d+)?$/.test(text)) return Number(text)
  if (schema.type === 'boolean' && /^(true|false)$/.test(text)) return text === 'true'
  return text
}

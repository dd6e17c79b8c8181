import { resolve } from 'node:path'
import { Errors } from 'typebox/schema'
import {
  type Alias,
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  type Node,
  type Scalar,
  YAMLMap,
} from 'yaml'
import { suggest } from '../suggest.ts'
import { readNamedFile } from './files.ts'
import { type Fault, hidePart } from './rules.ts'
import { type ConfigSchema, durationMs, expectation, explain, spanFault } from './schema.ts'

const MAX_ALIASES = 100
const MAX_SECRET_BYTES = 65_536

/** A fault whose position is still an offset in the text. */
export interface RawFault extends Fault {
  readonly offset: number
}

/** A value in the document: its JSON pointer, and the offset that its faults are reported at. */
interface Location {
  readonly path: string
  readonly offset: number
}
interface Entry {
  readonly key: Scalar
  readonly value: Node | null
}
type Entries = Map<string, Entry>
type Member = readonly [key: string, value: unknown]

export interface ReaderOptions {
  readonly doc: Document
  readonly env: Readonly<Record<string, string | undefined>>
  /** Relative paths are resolved against it. */
  readonly folder: string
}

/**
 * Reads a YAML document into the value of a schema, and collects every fault of it. Where a part
 * cannot be read the value is undefined; members and items that cannot be read throw when a rule
 * reads them.
 */
export class ConfigReader {
  faults: RawFault[] = []
  /** Absolute paths of the files that secrets were read from. */
  readonly secretFiles = new Set<string>()
  readonly #options: ReaderOptions
  readonly #offsets = new Map<string, number>()
  #aliases = 0

  constructor(options: ReaderOptions) {
    this.#options = options
  }

  /** The value of the whole document. */
  read(schema: ConfigSchema): unknown {
    return this.#read(schema, this.#options.doc.contents, { path: '', offset: 0 })
  }

  /** The offset of the value at a JSON pointer, or of the nearest value around it that is given. */
  offsetOf(path: string): number {
    const offset = this.#offsets.get(path)
    if (offset !== undefined || path === '') return offset ?? 0
    return this.offsetOf(path.slice(0, path.lastIndexOf('/')))
  }

  #fault({ path, offset }: Location, message: string, absent = false): undefined {
    this.faults.push({ path, offset, message, absent })
  }

  /** Checks the value itself, without its members. */
  #check(schema: ConfigSchema, value: unknown, at: Location): boolean {
    const { properties, patternProperties, required, items, anyOf, ...own } = schema
    const [passed, errors] = Errors({ ...own, additionalProperties: true }, value)
    for (const { keyword, message } of errors)
      this.#fault(at, explain(schema, keyword, message, value))
    return passed
  }

  #read(schema: ConfigSchema, given: Node | null, around: Location): unknown {
    const node = isAlias(given) ? this.#resolve(given) : given
    if (isAlias(node)) return this.#fault(around, 'is an alias of nothing, or one too many')
    if (!node) return this.#readMissing(schema, around)
    // Faults are reported at a scalar itself, and at the key of a mapping or list.
    const at = { path: around.path, offset: startOf(isScalar(node) ? node : null, around) }
    this.#offsets.set(at.path, at.offset)

    if (isScalar(node) && node.value === null)
      return this.#fault(at, 'is empty: give it a value or remove the key')
    if (schema.anyOf) return this.#readUnion(schema.anyOf, node, at)
    if (schema.type === 'object') return this.#readObject(schema, node, at)
    if (schema.type === 'array') return this.#readArray(schema, node, at)
    return this.#readScalar(schema, isScalar(node) ? node.value : {}, at)
  }

  #resolve(alias: Alias): Node {
    this.#aliases += 1
    return (this.#aliases <= MAX_ALIASES && alias.resolve(this.#options.doc)) || alias
  }

  #readMissing(schema: ConfigSchema, at: Location): unknown {
    if (schema.default !== undefined)
      return this.#read(schema, this.#options.doc.createNode(schema.default) as Node, at)
    // An object may be left out if each of its required members has a default.
    if (schema.type === 'object') return this.#read(schema, new YAMLMap(), at)
    return this.#fault(at, 'is missing')
  }

  #readObject(schema: ConfigSchema, node: Node, at: Location): unknown {
    if (!isMap(node)) return this.#fault(at, `must be ${expectation(schema)}`)
    const entries: Entries = new Map()
    for (const { key, value } of node.items) {
      if (!isScalar(key)) this.#fault(at, 'has a key that is not a plain word')
      else entries.set(String(key.value), { key, value: value as Node | null })
    }
    this.#correctNames(schema, entries, at)
    const members = [
      ...this.#readProperties(schema, entries, at),
      ...this.#readPatterns(schema, entries, at),
    ]
    const [pattern] = Object.keys(schema.patternProperties ?? {})
    const hint = pattern ? `: names match ${pattern}` : ''
    for (const [name, entry] of entries)
      this.#fault(below(at, name, entry), `is not a known key${hint}`)
    const value = Object.fromEntries(members)
    this.#check(schema, value, at)
    for (const [key, member] of members) if (member === undefined) hidePart(value, key)
    return value
  }

  /** Reports misspelt keys and renames them, so that the faults below them are found as well. */
  #correctNames(
    { properties = {}, patternProperties = {} }: ConfigSchema,
    entries: Entries,
    at: Location,
  ): void {
    const known = Object.entries(properties).flatMap(([key, { secret }]) =>
      secret ? [key, `${key}File`] : [key],
    )
    const patterns = Object.keys(patternProperties).map((pattern) => new RegExp(pattern, 'u'))
    for (const [name, entry] of [...entries]) {
      if (known.includes(name) || patterns.some((pattern) => pattern.test(name))) continue
      const meant = suggest(name, known)
      if (meant === undefined) continue
      entries.delete(name)
      this.#fault(below(at, name, entry), `is not a known key, did you mean ${meant}?`)
      if (!entries.has(meant)) entries.set(meant, entry)
    }
  }

  /** Removes the entries that it reads. */
  #readProperties(
    { properties = {}, required = [] }: ConfigSchema,
    entries: Entries,
    at: Location,
  ): Member[] {
    return Object.entries(properties).flatMap(([key, schema]): Member[] => {
      if (key.endsWith('File') && properties[key.slice(0, -4)]?.secret) return []
      const own = take(entries, key)
      const file = schema.secret ? take(entries, `${key}File`) : undefined
      if (file) {
        const member = below(at, `${key}File`, file)
        if (own) this.#fault(member, `is given together with ${key}: keep one of the two`)
        return [[key, this.#readSecretFile(schema, file, below(at, key, file), member)]]
      }
      if (!own && !required.includes(key) && schema.default === undefined) return []
      return [[key, this.#read(schema, own?.value ?? null, below(at, key, own))]]
    })
  }

  /** Removes the entries that it reads. */
  #readPatterns(
    { patternProperties = {} }: ConfigSchema,
    entries: Entries,
    at: Location,
  ): Member[] {
    return Object.entries(patternProperties).flatMap(([pattern, schema]) => {
      const names = [...entries.keys()].filter((name) => new RegExp(pattern, 'u').test(name))
      return names.map((name): Member => {
        const entry = take(entries, name)
        return [name, this.#read(schema, entry?.value ?? null, below(at, name, entry))]
      })
    })
  }

  #readArray(schema: ConfigSchema, node: Node, at: Location): unknown {
    if (!isSeq(node)) return this.#fault(at, `must be ${expectation(schema)}`)
    const value = node.items.map((item, index) =>
      this.#read(schema.items ?? {}, item as Node, {
        path: `${at.path}/${index}`,
        offset: startOf(item as Node, at),
      }),
    )
    const passed = this.#check(schema, value, at)
    for (const [index, item] of value.entries()) if (item === undefined) hidePart(value, index)
    // Rules about an empty list would only repeat its fault.
    return passed || value.length > 0 ? value : undefined
  }

  /** Reads by the variant that the tag names; without tags by the one with the fewest faults. */
  #readUnion(variants: readonly ConfigSchema[], node: Node, at: Location): unknown {
    const shape = isMap(node) ? 'object' : isSeq(node) ? 'array' : 'scalar'
    const alike = variants.filter((variant) => shapeOf(variant) === shape)
    const tag = tagOf(alike)
    if (isMap(node) && tag !== undefined) return this.#readTagged(alike, tag, node, at)

    const outer = this.faults
    let nearest: { value: unknown; faults: RawFault[] } | undefined
    for (const variant of alike) {
      this.faults = []
      const value = this.#read(variant, node, at)
      if (!nearest || this.faults.length < nearest.faults.length)
        nearest = { value, faults: this.faults }
      if (nearest.faults.length === 0) break
    }
    this.faults = outer
    const isAmbiguous = shape === 'scalar' && alike.length > 1
    if (!nearest || (isAmbiguous && nearest.faults.length > 0))
      return this.#fault(at, `must be ${eitherOf(variants)}`)
    this.faults.push(...nearest.faults)
    return nearest.value
  }

  #readTagged(
    variants: readonly ConfigSchema[],
    tag: string,
    node: YAMLMap,
    at: Location,
  ): unknown {
    const variant = variants.find(({ properties }) => properties?.[tag]?.const === node.get(tag))
    if (variant) return this.#readObject(variant, node, at)
    const pair = node.items.find(({ key }) => isScalar(key) && key.value === tag)
    const tags = variants.flatMap(({ properties }) => properties?.[tag] ?? [])
    return this.#fault(below(at, tag, pair as Entry | undefined), `must be ${eitherOf(tags)}`)
  }

  /** Expands, checks and converts a scalar. */
  #readScalar(schema: ConfigSchema, given: unknown, at: Location): unknown {
    const expanded = typeof given === 'string' ? this.#expand(schema, given, at) : given
    if (expanded === undefined) return undefined
    const value = expanded === given ? given : fromText(schema, String(expanded))
    if (!this.#check(schema, value, at)) return undefined
    if (schema.filePath) return resolve(this.#options.folder, String(value))
    if (!schema.duration) return value
    const message = spanFault(schema, String(value))
    return message === undefined ? durationMs(String(value)) : this.#fault(at, message)
  }

  /** Replaces `$` followed by a name in braces by that environment variable, and `$$` by `$`. */
  #expand(schema: ConfigSchema, text: string, at: Location): string | undefined {
    let isComplete = true
    const expanded = text.replace(/\$\$|\$\{([^}]*)\}?/g, (match, name: string | undefined) => {
      if (name === undefined) return '$'
      const isName = /^[A-Za-z_]\w*$/.test(name) && match.endsWith('}')
      const value = isName ? this.#options.env[name] : undefined
      if (value !== undefined) return value
      isComplete = false
      const shown = isName && !schema.secret ? `$\{${name}}` : 'an environment variable'
      const reason = isName ? 'is not set' : `is not written as $\{NAME}`
      const message = `needs ${shown}, which ${reason} ($$ stands for a plain $)`
      this.#fault(at, message, isName && schema.secret === true)
      return ''
    })
    return isComplete ? expanded : undefined
  }

  /** Reads a secret from the file that `<key>File` names. */
  #readSecretFile(schema: ConfigSchema, { value }: Entry, own: Location, at: Location): unknown {
    this.#offsets.set(own.path, at.offset)
    const file = this.#read({ type: 'string', filePath: true }, value, at)
    if (typeof file !== 'string') return undefined
    const read = readNamedFile(file, MAX_SECRET_BYTES)
    if ('fault' in read) return this.#fault(at, read.fault, read.absent)
    this.secretFiles.add(file)
    const secret = read.text.replace(/\r?\n$/, '')
    if (secret === '') return this.#fault(at, 'names a file that is empty')
    return this.#check(schema, secret, at) ? secret : undefined
  }
}

function take(entries: Entries, name: string): Entry | undefined {
  const entry = entries.get(name)
  entries.delete(name)
  return entry
}

function startOf(node: Node | null, { offset }: Location): number {
  return node?.range?.[0] ?? offset
}

function below(at: Location, name: string, entry: Entry | undefined): Location {
  const token = name.replaceAll('~', '~0').replaceAll('/', '~1')
  return { path: `${at.path}/${token}`, offset: startOf(entry?.key ?? null, at) }
}

/** The member that has a different constant in each variant. */
function tagOf([first, ...others]: readonly ConfigSchema[]): string | undefined {
  return Object.keys(first?.properties ?? {}).find((key) =>
    [first, ...others].every((variant) => variant?.properties?.[key]?.const !== undefined),
  )
}

function eitherOf(variants: readonly ConfigSchema[]): string {
  return [...new Set(variants.map(expectation))].join(' or ')
}

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

import { isAlias, isMap, isScalar, isSeq, type Node, YAMLMap } from 'yaml'
import { hidePart } from './fault.ts'
import { check, expectation, fault, type Place, type RawFault, type Reading } from './reading.ts'
import { readScalar, readSecretFile } from './scalar.ts'
import type { ConfigSchema } from './schema.ts'
import { suggest } from './suggest.ts'

const MAX_ALIASES = 100

type Given = Node | null | undefined
type Entries = Map<string, { readonly key: Node; readonly value: Given }>
type Member = readonly [key: string, value: unknown]

/**
 * The value of the node by the schema; whatever is wrong with it becomes a fault. Undefined: nothing is
 * known of it. Members and items of which nothing is known throw when they are read.
 */
export function readValue(
  reading: Reading,
  schema: ConfigSchema,
  given: Given,
  place: Place,
): unknown {
  const node = isAlias(given) ? resolveAlias(reading, given) : given
  if (isAlias(node)) return fault(reading, place, `is an alias of nothing, or one too many`)
  if (!node) return readMissing(reading, schema, place)
  // A scalar is blamed itself, a mapping or list by its key.
  const start = isScalar(node) ? node.range?.[0] : undefined
  const here = { path: place.path, offset: start ?? place.offset }
  reading.offsets.set(here.path, here.offset)

  if (isScalar(node) && node.value === null)
    return fault(reading, here, 'is empty: give it a value or remove the key')
  if (schema.anyOf) return readUnion(reading, schema.anyOf, node, here)
  if (schema.type === 'object') return readObject(reading, schema, node, here)
  if (schema.type === 'array') return readArray(reading, schema, node, here)
  return readScalar(reading, schema, isScalar(node) ? node.value : {}, here)
}

function resolveAlias(reading: Reading, alias: Node): Given {
  reading.aliases.count += 1
  if (!isAlias(alias) || reading.aliases.count > MAX_ALIASES) return alias
  return alias.resolve(reading.doc) ?? alias
}

function readMissing(reading: Reading, schema: ConfigSchema, place: Place): unknown {
  if (schema.default !== undefined)
    return readValue(reading, schema, reading.doc.createNode(schema.default) as Node, place)
  // An object may be left out when all that it must hold has defaults; else its members are missing.
  if (schema.type === 'object') return readValue(reading, schema, new YAMLMap(), place)
  return fault(reading, place, 'is missing')
}

function readObject(reading: Reading, schema: ConfigSchema, node: Node, place: Place): unknown {
  if (!isMap(node)) return fault(reading, place, `must be ${expectation(schema)}`)
  const entries: Entries = new Map()
  for (const { key, value } of node.items) {
    if (!isScalar(key)) fault(reading, place, 'has a key that is not a plain word')
    else entries.set(String(key.value), { key, value: value as Given })
  }
  readMisspelt(reading, schema, entries, place)
  const members = [
    ...readProperties(reading, schema, entries, place),
    ...readPatterns(reading, schema, entries, place),
  ]
  refuseUnknown(reading, schema, entries, place)
  const value = Object.fromEntries(members)
  check(reading, schema, value, place)
  for (const [key, member] of members) if (member === undefined) hidePart(value, key)
  return value
}

/** Takes a misspelt key for the one that was meant, so that the faults below it are found as well. */
function readMisspelt(
  reading: Reading,
  { properties = {}, patternProperties = {} }: ConfigSchema,
  entries: Entries,
  place: Place,
): void {
  const known = knownKeys(properties)
  const patterns = Object.keys(patternProperties).map((pattern) => new RegExp(pattern, 'u'))
  for (const [name, entry] of [...entries]) {
    if (known.includes(name) || patterns.some((pattern) => pattern.test(name))) continue
    const meant = suggest(name, known)
    if (meant === undefined) continue
    takeEntry(entries, name)
    fault(reading, memberPlace(place, name, entry), `is not a known key, did you mean ${meant}?`)
    if (!entries.has(meant)) entries.set(meant, entry)
  }
}

/** Takes what it reads out of `entries`. */
function readProperties(
  reading: Reading,
  { properties = {}, required = [] }: ConfigSchema,
  entries: Entries,
  place: Place,
): Member[] {
  const isTwin = (key: string) => key.endsWith('File') && properties[key.slice(0, -4)]?.secret
  return Object.entries(properties).flatMap(([key, schema]): Member[] => {
    if (isTwin(key)) return []
    const own = takeEntry(entries, key)
    const twin = schema.secret ? takeEntry(entries, `${key}File`) : undefined
    if (twin) {
      const at = memberPlace(place, `${key}File`, twin)
      reading.offsets.set(memberPlace(place, key, twin).path, at.offset)
      if (own) fault(reading, at, `is given together with ${key}: keep one of the two`)
      const file = readValue(reading, { type: 'string', filePath: true }, twin.value, at)
      const secret =
        typeof file === 'string' ? readSecretFile(reading, schema, file, at) : undefined
      return [[key, secret]]
    }
    if (!own && !required.includes(key) && schema.default === undefined) return []
    return [[key, readValue(reading, schema, own?.value, memberPlace(place, key, own))]]
  })
}

/** Takes what it reads out of `entries`. */
function readPatterns(
  reading: Reading,
  { patternProperties = {} }: ConfigSchema,
  entries: Entries,
  place: Place,
): Member[] {
  return Object.entries(patternProperties).flatMap(([pattern, schema]) => {
    const names = [...entries.keys()].filter((name) => new RegExp(pattern, 'u').test(name))
    return names.map((name): Member => {
      const entry = takeEntry(entries, name)
      return [name, readValue(reading, schema, entry?.value, memberPlace(place, name, entry))]
    })
  })
}

function refuseUnknown(
  reading: Reading,
  { patternProperties = {} }: ConfigSchema,
  entries: Entries,
  place: Place,
): void {
  const [pattern] = Object.keys(patternProperties)
  const hint = pattern ? `: names match ${pattern}` : ''
  for (const [name, entry] of entries)
    fault(reading, memberPlace(place, name, entry), `is not a known key${hint}`)
}

function knownKeys(properties: Readonly<Record<string, ConfigSchema>>): string[] {
  return Object.entries(properties).flatMap(([key, { secret }]) =>
    secret ? [key, `${key}File`] : [key],
  )
}

function readArray(reading: Reading, schema: ConfigSchema, node: Node, place: Place): unknown {
  if (!isSeq(node)) return fault(reading, place, `must be ${expectation(schema)}`)
  const value = node.items.map((item, i) => {
    const at = { path: `${place.path}/${i}`, offset: (item as Node).range?.[0] ?? place.offset }
    return readValue(reading, schema.items ?? {}, item as Node, at)
  })
  const isSound = check(reading, schema, value, place)
  for (const [index, item] of value.entries()) if (item === undefined) hidePart(value, index)
  // Of an empty list rules would only say the same again.
  return isSound || value.length > 0 ? value : undefined
}

/** The variant that the tag names; without tags the first that fits, else the one that comes nearest. */
function readUnion(
  reading: Reading,
  variants: readonly ConfigSchema[],
  node: Node,
  place: Place,
): unknown {
  const shape = isMap(node) ? 'object' : isSeq(node) ? 'array' : 'scalar'
  const alike = variants.filter((variant) => shapeOf(variant) === shape)
  const tag = tagOf(alike)
  if (isMap(node) && tag !== undefined) return readTagged(reading, alike, tag, node, place)

  let nearest: { value: unknown; faults: RawFault[] } | undefined
  for (const variant of alike) {
    const faults: RawFault[] = []
    const value = readValue({ ...reading, faults }, variant, node, place)
    if (faults.length === 0) return value
    if (!nearest || faults.length < nearest.faults.length) nearest = { value, faults }
  }
  if (!nearest || (shape === 'scalar' && alike.length > 1))
    return fault(reading, place, `must be ${eitherOf(variants)}`)
  reading.faults.push(...nearest.faults)
  return nearest.value
}

function readTagged(
  reading: Reading,
  variants: readonly ConfigSchema[],
  tag: string,
  node: YAMLMap,
  place: Place,
): unknown {
  const variant = variants.find(({ properties }) => properties?.[tag]?.const === node.get(tag))
  if (variant) return readObject(reading, variant, node, place)
  const pair = node.items.find(({ key }) => isScalar(key) && key.value === tag)
  const at = memberPlace(place, tag, pair && { key: pair.key as Node })
  const tags = variants.flatMap(({ properties }) => properties?.[tag] ?? [])
  return fault(reading, at, `must be ${eitherOf(tags)}`)
}

/** The member that holds a different constant in each variant. */
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

function takeEntry(entries: Entries, name: string) {
  const entry = entries.get(name)
  entries.delete(name)
  return entry
}

function memberPlace(place: Place, name: string, entry: { readonly key: Node } | undefined): Place {
  const token = name.replaceAll('~', '~0').replaceAll('/', '~1')
  return { path: `${place.path}/${token}`, offset: entry?.key.range?.[0] ?? place.offset }
}

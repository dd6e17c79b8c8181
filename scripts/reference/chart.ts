import { spawnSync } from 'node:child_process'
import { join } from 'node:path'

type Json = Readonly<Record<string, unknown>>

interface Values {
  readonly properties: Readonly<Record<string, { readonly properties: Json }>>
  readonly $defs: Json
}

interface Mapping extends Json {
  readonly properties: Readonly<Record<string, Mapping>>
}

const ROOT = join(import.meta.dirname, '../..')

/** What the chart sets itself. Its templates refuse it with a sentence that says which value is for it. */
export const OWNED: Readonly<Record<string, readonly string[]>> = {
  metrics: [],
  server: ['host', 'port', 'grpc', 'plainHttp'],
  storage: ['path', 'url', 'urlFile', 'masterKey', 'masterKeyFile'],
  session: ['keys'],
}

/**
 * The schema of the values of the chart, with the configurations of the services in `$defs`, since Helm reads one
 * file and no network. Whatever else is in it is left as it is.
 *
 * @param configs - the schema of each configuration, by the key of the service
 */
export function valuesSchema(text: string, configs: Readonly<Record<string, string>>): string {
  const { $defs, ...values }: Values = JSON.parse(text)
  const given = Object.entries(configs).map(([key, config]) => [key, JSON.parse(config)] as const)
  const own = given.map(([key, config]) => [`${key}Config`, inDraft2020(inChart(config))])
  const { variable } = given[0]?.[1].definitions ?? {}
  return formatted({ ...values, $defs: { ...$defs, ...Object.fromEntries(own), variable } })
}

/** What templates refuse with sentences that say what to do. */
const OPEN: Readonly<Record<string, Json>> = {
  domains: { minItems: undefined },
  portals: { minItems: undefined },
  auth: { type: ['object', 'null'] },
  trustedProxies: { type: ['array', 'null'] },
}

function inChart({ title, type, properties, additionalProperties }: Mapping): Json {
  const sections = Object.entries(properties).map(([name, section]) => {
    const owned = OWNED[name]
    return [name, owned ? withoutOwned(owned, section) : { ...section, ...OPEN[name] }]
  })
  return { title, type, properties: Object.fromEntries(sections), additionalProperties }
}

const OF_CHART = { description: 'The chart sets it.' }

/** The section without demands that its own members meet, which are for the templates to refuse. */
function withoutOwned(owned: readonly string[], section: Mapping): Json {
  if (owned.length === 0) return OF_CHART
  const { properties, description, additionalProperties } = (section.then ?? section) as Mapping
  const members = Object.entries(properties).map(([key, member]) => [
    key,
    owned.includes(key) ? OF_CHART : { ...member, ...OPEN[key] },
  ])
  return {
    type: 'object',
    description: section.description ?? description,
    properties: Object.fromEntries(members),
    additionalProperties,
  }
}

/** A text with a variable of the environment in it; `$$` stands for a `$`. */
const REFERENCE = '(^|[^$])(\\$\\$)*\\$\\{[A-Za-z_][A-Za-z0-9_]*\\}'

/**
 * A secret, which is never a value: values are rendered into a ConfigMap. Helm prints a constant that it misses, and
 * what does not match a pattern, which would be the secret.
 */
function elsewhere(key: string, { description }: Json): Json {
  const advice = `no secret: name a file of secretFiles in ${key}File, or write \${NAME} for a variable of the environment`
  return { description, type: 'string', if: { pattern: REFERENCE }, else: { const: advice } }
}

/** The same in the draft of the file that it is put in, without the secrets. */
function inDraft2020(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(inDraft2020)
  if (typeof value !== 'object' || value === null) return value
  const { dependencies, $ref, ...others } = value as Json
  const rest = Object.fromEntries(
    Object.entries(others).map(([key, one]) => [
      key,
      Object(one).writeOnly === true ? elsewhere(key, one as Json) : inDraft2020(one),
    ]),
  )
  if (typeof $ref === 'string') return { ...rest, $ref: $ref.replace('definitions', '$defs') }
  if (dependencies === undefined) return rest
  const schemas = Object.entries(dependencies as Json).map(([key, one]) => [
    key,
    Array.isArray(one) ? { required: one } : inDraft2020(one),
  ])
  return { ...rest, dependentSchemas: Object.fromEntries(schemas) }
}

/** As the linter of the repository wants it. */
function formatted(document: Json): string {
  const biome = join(ROOT, 'node_modules/.bin/biome')
  const args = ['format', '--stdin-file-path=values.schema.json']
  const { stdout, stderr, status } = spawnSync(biome, args, {
    cwd: ROOT,
    input: JSON.stringify(document, null, 2),
    encoding: 'utf8',
    maxBuffer: 16 * 1_048_576,
  })
  if (status !== 0) throw new Error(stderr)
  return stdout
}

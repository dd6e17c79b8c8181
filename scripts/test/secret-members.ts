import { type ConfigSchema, tagOf } from '../../packages/service-kit/src/config/schema.ts'
import { CertServiceSchema } from '../../services/cert-service/src/config/schema.ts'
import { ForwardAuthSchema } from '../../services/forward-auth/src/config/schema.ts'
import { OWNED } from '../reference/chart.ts'

/** A member of a configuration that the schema marks as secret. */
interface SecretMember {
  /** Such as `['portals', 0, 'providers', 0, 'clientSecret']`. */
  readonly path: readonly (string | number)[]
  /** The configuration with this text there, and whatever says which variant of a mapping is meant. */
  config(text: string): unknown
}

/** All secrets that a configuration may have. */
function secretMembers(schema: ConfigSchema): readonly SecretMember[] {
  const { secret, anyOf, items, properties = {}, patternProperties = {} } = schema
  if (secret) return [{ path: [], config: (text) => text }]
  if (anyOf) {
    const tag = tagOf(anyOf.filter(({ type }) => type === 'object'))
    return anyOf.flatMap((variant) =>
      secretMembers(variant).map((one) => marked(one, variant, tag)),
    )
  }
  if (items)
    return secretMembers(items).map(({ path, config }) => ({
      path: [0, ...path],
      config: (text) => [config(text)],
    }))
  const named = Object.keys(patternProperties).map(() => 'NAME')
  return [
    ...Object.entries(properties),
    ...Object.values(patternProperties).map((one, at) => [named[at] ?? '', one] as const),
  ].flatMap(([key, member]) =>
    secretMembers(member).map(({ path, config }) => ({
      path: [key, ...path],
      config: (text) => ({ [key]: config(text) }),
    })),
  )
}

/** With the members by which a variant is told from the others. */
function marked(
  { path, config }: SecretMember,
  { properties = {}, required = [] }: ConfigSchema,
  tag: string | undefined,
): SecretMember {
  const marks = tag
    ? { [tag]: properties[tag]?.const }
    : Object.fromEntries(required.map((key) => [key, 'x']))
  return {
    path,
    config(text) {
      const value = config(text)
      return path.length === 0 ? value : { ...marks, ...(value as object) }
    },
  }
}

const SERVICES = { forwardAuth: ForwardAuthSchema, certService: CertServiceSchema } as const

/** The secrets in the values of the chart, but for those that it sets itself. */
export const CHART_SECRETS = Object.entries(SERVICES).flatMap(([service, schema]) =>
  secretMembers(schema as unknown as ConfigSchema)
    .filter(({ path: [section = '', key] }) => !OWNED[section]?.includes(String(key)))
    .map(({ path, config }) => ({
      /** As a pointer of JSON: `/forwardAuth/config/portals/0/providers/0/clientSecret`. */
      place: `/${[service, 'config', ...path].join('/')}`,
      fileKey: `${path.at(-1)}File`,
      values: (text: string) => ({ [service]: { config: config(text) } }),
    })),
)

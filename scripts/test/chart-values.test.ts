// The values of the Helm chart and their schema, which know the same.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Ajv2020 } from 'ajv/dist/2020.js'
import t from 'tap'
import { parse } from 'yaml'
import { ROOT } from './markdown.ts'
import { CHART_SECRETS } from './secret-members.ts'

type Node = Record<string, unknown>
type Schema = Readonly<{ $ref?: string; properties?: Record<string, Schema> }>

const CHART = join(ROOT, 'deploy/helm/gatehouse')
/** What the schema takes so that the chart can say where its place is. */
const ELSEWHERE = '#/$defs/elsewhere'

const schema = JSON.parse(readFileSync(join(CHART, 'values.schema.json'), 'utf8'))
const resolve = (node: Schema): Schema =>
  node.$ref ? schema.$defs[node.$ref.replace('#/$defs/', '')] : node

/** The paths of the members that the schema names. The configurations have schemas of their own. */
function namedBy(node: Schema, path: string): string[] {
  // Helm itself gives `global` to charts.
  if (node.$ref === ELSEWHERE || path === 'global') return []
  const { properties } = resolve(node)
  if (!properties || /\.config$|\.(databaseUrl|masterKey)$/.test(path)) return [path]
  return Object.entries(properties).flatMap(([key, child]) =>
    namedBy(child, path === '' ? key : `${path}.${key}`),
  )
}

/** The same paths, as far as the values go. */
function givenBy(value: unknown, path: string, known: readonly string[]): string[] {
  if (known.includes(path) || typeof value !== 'object' || value === null) return [path]
  return Object.entries(value as Node).flatMap(([key, child]) =>
    givenBy(child, path === '' ? key : `${path}.${key}`, known),
  )
}

t.test(
  'Helm reads every pattern of the schema: those of Go look neither ahead nor behind',
  async (t) => {
    const patterns = JSON.stringify(schema).match(/"pattern":"(?:[^"\\]|\\.)*"/g) ?? []
    t.ok(patterns.length > 20)
    t.strictSame(
      patterns.filter((one) => /\(\?(?:<?[=!])|\\\\[1-9]/.test(one)),
      [],
    )
  },
)

t.test('values.yaml has each value that values.schema.json knows, and no other', async (t) => {
  const known = namedBy(schema, '')
  const given = givenBy(parse(readFileSync(join(CHART, 'values.yaml'), 'utf8')), '', known)
  t.ok(known.length > 80)
  t.strictSame(given.toSorted(), known.toSorted())
})

/** A variable of the environment. */
const NAME = `$\{NAME}`

t.test('no secret is a value, whichever the schemas of the services have', async (t) => {
  const validate = new Ajv2020({ strict: false, allErrors: true }).compile(schema)
  const faultsAt = (place: string, values: unknown) => {
    validate(values)
    return (validate.errors ?? []).filter(({ instancePath }) => instancePath === place)
  }
  t.ok(CHART_SECRETS.length > 25)
  for (const { place, fileKey, values } of CHART_SECRETS) {
    for (const text of ['hunter2', 'sha256:0a', '$$', `$${NAME}`, `-$$$${NAME}`, '${', '$NAME', ''])
      t.match(
        faultsAt(place, values(text)),
        [
          { keyword: 'const', params: { allowedValue: new RegExp(` ${fileKey}, .*\\$\\{NAME`) } },
          {},
        ],
        `${place} ${text}`,
      )
    for (const text of [NAME, `https://ntfy.test/${NAME}`, `$$${NAME}`, `a$$$$${NAME}b`])
      t.strictSame(faultsAt(place, values(text)), [], `${place} ${text}`)
  }
})

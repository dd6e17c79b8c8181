import { spawnSync } from 'node:child_process'
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { type Manifest, manifestsOf } from './helm.ts'

/** Whether Kubernetes has the kind itself, and no extension brings it. */
const isCore = ({ apiVersion }: Manifest): boolean =>
  /^([a-z]+\/)?v\d\w*$|\.k8s\.io\/v1$/.test(apiVersion) && !apiVersion.startsWith('gateway.')

/** What is wrong with resources by the schemas of Kubernetes, where nothing may be unknown. */
export function checkCore(folder: string, manifests: readonly Manifest[]): string {
  const file = join(folder, 'core.json')
  const core = manifests.filter(isCore)
  // JSON is YAML, and each document is a line.
  writeFileSync(file, core.map((manifest) => `---\n${JSON.stringify(manifest)}\n`).join(''))
  const args = ['--strict', '--no-warn', file]
  const run = spawnSync(process.env.KUBERNETES_VALIDATE ?? 'kubernetes-validate', args, {
    encoding: 'utf8',
  })
  const passed = run.stdout.match(/ passed for resource /g)?.length ?? 0
  if (run.status === 0 && passed === core.length) return ''
  return `${passed} of ${core.length} pass\n${run.stdout}${run.stderr}`
}

/** What is wrong with resources by the schemas of the definitions in this folder of `CRDS`. */
export function checkCustom(set: 'chart' | 'examples', manifests: readonly Manifest[]): string[] {
  const folder = join(process.env.CRDS ?? '', set)
  const custom = manifests.filter((manifest) => !isCore(manifest))
  return custom.flatMap((manifest) => {
    const { kind, apiVersion, metadata } = manifest
    const validate = validatorOf(folder, `${apiVersion} ${kind}`)
    if (!validate) return [`${apiVersion} ${kind} has no definition in ${folder}`]
    if (validate(manifest)) return []
    return [`${kind} ${metadata.name}: ${JSON.stringify(validate.errors)}`]
  })
}

const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true })
/** The schemas of a folder, by version and kind, and what was made of them. */
const known = new Map<string, Map<string, Manifest>>()
const compiled = new Map<Manifest, ReturnType<Ajv2020['compile']>>()

function validatorOf(folder: string, id: string) {
  const schemas = known.get(folder) ?? readSchemas(folder)
  known.set(folder, schemas)
  const schema = schemas.get(id)
  if (!schema) return undefined
  const validate = compiled.get(schema) ?? ajv.compile(closed(schema) as object)
  compiled.set(schema, validate)
  return validate
}

function readSchemas(folder: string): Map<string, Manifest> {
  const definitions = globSync(`${folder}/**/*.{yaml,yml}`)
    .flatMap((file) => manifestsOf(readFileSync(file, 'utf8')))
    .filter(({ kind }) => kind === 'CustomResourceDefinition')
  return new Map(
    definitions.flatMap(({ spec }) =>
      (spec.versions as Manifest[])
        .filter(({ served }) => served)
        .map(({ name, schema }): [string, Manifest] => [
          `${spec.group}/${name} ${spec.names.kind}`,
          schema.openAPIV3Schema,
        ]),
    ),
  )
}

/** The schema with unknown members refused, which an API server would drop. */
function closed(schema: unknown, isRoot = true): unknown {
  if (Array.isArray(schema)) return schema.map((item) => closed(item, false))
  if (typeof schema !== 'object' || schema === null) return schema
  const { properties, items, additionalProperties, pattern, ...rest } = schema as Manifest
  const isOpen = rest['x-kubernetes-preserve-unknown-fields'] === true
  return {
    ...rest,
    ...(properties && {
      properties: Object.fromEntries(
        Object.entries(properties).map(([name, value]) => [
          name,
          // Of every resource, and in no definition.
          isRoot && name === 'metadata' ? { type: 'object' } : closed(value, false),
        ]),
      ),
      additionalProperties: isOpen,
    }),
    // As JavaScript writes it.
    ...(pattern && { pattern: pattern.replace(/^\^\(\?i\)(.*)$/, '^(?i:$1)') }),
    ...(items && { items: closed(items, false) }),
    ...(additionalProperties !== undefined && {
      additionalProperties: closed(additionalProperties, false),
    }),
  }
}

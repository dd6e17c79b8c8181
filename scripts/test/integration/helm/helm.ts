import { type SpawnSyncReturns, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { parseAllDocuments } from 'yaml'
import { ROOT } from '../../markdown.ts'

const { HELM = 'helm', KUBERNETES_VALIDATE, CRDS } = process.env

/** Why the tests are skipped, if they are; `.ci/run` gets what they need. */
export const MISSING =
  process.env.HELM && KUBERNETES_VALIDATE && CRDS
    ? false
    : 'HELM, KUBERNETES_VALIDATE and CRDS do not name helm and what checks manifests'

export const CHART = join(ROOT, 'deploy/helm/gatehouse')
export const EXAMPLES = join(ROOT, 'examples/kubernetes')

/** The examples that are values of the chart. */
export const VALUES = ['values.yaml', 'replicas.yaml', 'monitoring.yaml', 'cert-hosts.yaml']

/** All of them, with the one for clusters without Gateway API. */
export const ALL_VALUES = [...VALUES, 'ingress.yaml']

/** A resource of Kubernetes; the schemas have the types. */
// biome-ignore lint/suspicious/noExplicitAny: every kind is different, and was checked against its schema
export type Manifest = Record<string, any>

/** In place of the registry of the examples, which the chart refuses. */
const REGISTRY = { 'image.registry': 'registry.test/gatehouse' }

/** Arguments of helm for values; `files` are of examples/kubernetes. */
export function valuesOf(files: readonly string[], values: object = {}): string[] {
  const given = files.flatMap((file) => ['--values', join(EXAMPLES, file)])
  const more = Object.entries({ ...REGISTRY, ...values }).flatMap(([key, value]) => [
    '--set-json',
    `${key}=${JSON.stringify(value)}`,
  ])
  return [...given, ...more]
}

/** Runs helm with the chart. */
export function helm(
  command: readonly string[],
  files: readonly string[],
  values: object = {},
  chart = CHART,
): SpawnSyncReturns<string> {
  const args = [...command, chart, '--namespace', 'gatehouse', ...valuesOf(files, values)]
  return spawnSync(HELM, args, { encoding: 'utf8' })
}

/** What the chart makes of these values. */
export function render(files: readonly string[], values: object = {}, chart = CHART): Manifest[] {
  const { status, stdout, stderr } = helm(['template', 'gatehouse'], files, values, chart)
  if (status !== 0) throw new Error(stderr)
  return manifestsOf(stdout)
}

/** YAML 1.1, as Kubernetes reads it. */
export function manifestsOf(text: string): Manifest[] {
  return parseAllDocuments(text, { version: '1.1' }).flatMap((document) => document.toJS() ?? [])
}

export const ofKind = (manifests: readonly Manifest[], kind: string): Manifest[] =>
  manifests.filter((manifest) => manifest.kind === kind)

export function named(manifests: readonly Manifest[], kind: string, name: string): Manifest {
  const found = ofKind(manifests, kind).find(({ metadata }) => metadata.name === name)
  if (!found) throw new Error(`there is no ${kind} ${name}`)
  return found
}

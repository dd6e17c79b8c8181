import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { parse } from 'yaml'
import { type Manifest, named } from './helm.ts'

/** A container as the kubelet would start it: its files below a folder, and its configuration with their places. */
export interface Container {
  readonly config: string
  readonly args: readonly string[]
  /** Where the service listens here, by the name of the port. */
  readonly ports: Readonly<Record<string, number>>
}

const TOKEN = '/var/run/secrets/kubernetes.io/serviceaccount'

/** Mounts what the pod of a Deployment mounts, with the Secrets `secrets`, by name and key. */
export function mountPod(
  folder: string,
  manifests: readonly Manifest[],
  component: string,
  given: {
    readonly secrets: Readonly<Record<string, Readonly<Record<string, string>>>>
    readonly ports: Readonly<Record<string, number>>
    readonly root: string
  },
): Container {
  const deployment = named(manifests, 'Deployment', `gatehouse-${component}`)
  const { containers, volumes, automountServiceAccountToken } = deployment.spec.template.spec
  const [container] = containers
  const places: [from: string, to: string][] = []
  const put = (path: string, text: string, mode = 0o644) => {
    const file = join(folder, path)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, text)
    chmodSync(file, mode)
  }
  for (const { name, mountPath } of container.volumeMounts) {
    const volume = volumes.find((one: Manifest) => one.name === name)
    places.push([mountPath, join(folder, name)])
    mkdirSync(join(folder, name), { recursive: true })
    if (volume.configMap)
      for (const [key, text] of Object.entries(
        named(manifests, 'ConfigMap', volume.configMap.name).data,
      ))
        put(`${name}/${key}`, text as string)
    for (const { secret } of volume.projected?.sources ?? [])
      for (const { key, path } of secret.items) {
        const text = given.secrets[secret.name]?.[key]
        if (text === undefined) throw new Error(`there is no key ${key} of Secret ${secret.name}`)
        put(`${name}/${path}`, text, volume.projected.defaultMode)
      }
  }
  if (automountServiceAccountToken) {
    places.push([TOKEN, join(folder, 'token')])
    put('token/token', 'a-token')
    put('token/ca.crt', given.root)
  }
  const pathOf = (path: string) => {
    const [from, to] = places.find(([mounted]) => path.startsWith(`${mounted}/`)) ?? []
    if (from === undefined) throw new Error(`nothing is mounted at ${path}`)
    return `${to}${path.slice(from.length)}`
  }
  const [{ value: file }] = container.env
  const config = pathOf(file)
  const moved = movePaths(parse(readFileSync(config, 'utf8')), pathOf) as Manifest
  const listeners = [moved.server, moved.metrics, moved.server.grpc, moved.server.plainHttp]
  const names: string[] = container.ports.map(({ name }: Manifest) => name)
  for (const listener of listeners.filter(Boolean)) listener.host = '127.0.0.1'
  moved.server.port = given.ports[names.find((name) => /^https?$/.test(name)) ?? '']
  moved.metrics.port = given.ports.metrics
  if (moved.server.grpc) moved.server.grpc.port = given.ports.grpc
  if (moved.server.plainHttp) moved.server.plainHttp.port = given.ports['plain-http']
  // JSON is YAML.
  writeFileSync(config, JSON.stringify(moved))
  return { config, args: container.args, ports: given.ports }
}

/** Every absolute path in its place here. */
function movePaths(value: unknown, pathOf: (path: string) => string): unknown {
  if (typeof value === 'string') return /^\/(run|var|etc)\//.test(value) ? pathOf(value) : value
  if (Array.isArray(value)) return value.map((item) => movePaths(item, pathOf))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [key, movePaths(item, pathOf)]),
  )
}

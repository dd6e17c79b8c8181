import type { Test } from 'tap'
import { parse } from 'yaml'
import { GRACE_MS } from '../../../../packages/service-kit/src/run-app.ts'
import { type Manifest, named, ofKind } from './helm.ts'

/** The profile "restricted" of the Pod Security Standards, and time to stop. */
export function checkPods(t: Test, manifests: readonly Manifest[]): void {
  const templates = ofKind(manifests, 'Deployment').map(({ spec }) => spec.template)
  for (const { spec } of [...templates, ...ofKind(manifests, 'Pod')]) {
    t.match(spec.securityContext, {
      runAsNonRoot: true,
      seccompProfile: { type: 'RuntimeDefault' },
    })
    for (const { resources, securityContext } of spec.containers) {
      t.match(securityContext, { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true })
      t.strictSame(securityContext.capabilities, { drop: ['ALL'] })
      t.ok(resources.requests.memory && resources.limits.memory, 'bounded memory')
    }
  }
  for (const { spec } of templates) {
    const [{ lifecycle }] = spec.containers
    const left = spec.terminationGracePeriodSeconds - lifecycle.preStop.sleep.seconds
    t.ok(left * 1_000 > GRACE_MS, 'a service may finish what it has begun')
  }
}

function isPartOf(part: object, whole: Manifest): boolean {
  return Object.entries(part).every(([key, value]) => whole[key] === value)
}

/** Whoever selects pods, Services or ports selects those that are there. */
export function checkReferences(t: Test, manifests: readonly Manifest[]): void {
  const deployments = ofKind(manifests, 'Deployment')
  const podsOf = (labels: object) =>
    deployments.filter(({ spec }) => isPartOf(labels, spec.template.metadata.labels))
  const portsOf = ({ spec }: Manifest): string[] =>
    spec.template.spec.containers.flatMap(({ ports }: Manifest) =>
      ports.map(({ name }: Manifest) => name),
    )
  for (const { spec, metadata } of deployments) {
    t.equal(podsOf(spec.selector.matchLabels).length, 1, metadata.name)
    for (const { labelSelector } of spec.template.spec.topologySpreadConstraints ?? [])
      t.equal(podsOf(labelSelector.matchLabels).length, 1)
    const { type, rollingUpdate } = spec.strategy
    const claims = spec.template.spec.volumes.filter((one: Manifest) => one.persistentVolumeClaim)
    t.equal(type, claims.length === 1 ? 'Recreate' : 'RollingUpdate')
    t.equal(rollingUpdate?.maxUnavailable ?? 0, 0)
    if (claims.length === 1) t.equal(spec.replicas, 1, 'one pod for one folder')
    const accounts = ofKind(manifests, 'ServiceAccount').map(({ metadata }) => metadata.name)
    t.ok([...accounts, 'there'].includes(spec.template.spec.serviceAccountName))
  }
  for (const { spec, metadata } of ofKind(manifests, 'Service')) {
    const [pods, ...others] = podsOf(spec.selector)
    t.strictSame(others, [], metadata.name)
    for (const { targetPort } of spec.ports) t.ok(portsOf(pods as Manifest).includes(targetPort))
  }
  for (const { spec } of ofKind(manifests, 'PodDisruptionBudget'))
    for (const pods of podsOf(spec.selector.matchLabels)) t.ok((pods.spec.replicas ?? 3) === 3)
  for (const { spec } of ofKind(manifests, 'HorizontalPodAutoscaler')) {
    const { kind, name } = spec.scaleTargetRef
    t.notOk('replicas' in named(manifests, kind, name).spec, 'the autoscaler alone says how many')
  }
  for (const { spec, metadata } of ofKind(manifests, 'NetworkPolicy')) {
    const [pods] = podsOf(spec.podSelector.matchLabels)
    const open = spec.ingress.flatMap(({ ports }: Manifest) =>
      ports.map(({ port }: Manifest) => port),
    )
    for (const port of portsOf(pods as Manifest))
      if (port !== 'metrics') t.ok(open.includes(port), `${metadata.name} ${port}`)
    for (const port of open) t.ok(portsOf(pods as Manifest).includes(port))
    for (const { to = [] } of spec.egress)
      for (const { podSelector } of to)
        if (podSelector) t.equal(podsOf(podSelector.matchLabels).length, deployments.length)
  }
  checkRoutes(t, manifests)
  for (const { spec, metadata } of ofKind(manifests, 'ServiceMonitor')) {
    const [service] = ofKind(manifests, 'Service').filter(({ metadata }) =>
      isPartOf(spec.selector.matchLabels, metadata.labels),
    )
    t.ok(spec.endpoints.every(({ port }: Manifest) => hasPort(service, port)))
    t.equal(service?.metadata.labels[spec.jobLabel], metadata.name.replace('gatehouse-', ''), 'job')
    t.equal(metadata.labels.release, 'prometheus')
  }
}

export function hasPort(service: Manifest | undefined, port: string | number): boolean {
  return service?.spec.ports.some((one: Manifest) => one.name === port || one.port === port)
}

/** Routes lead to ports of Services that are there. */
function checkRoutes(t: Test, manifests: readonly Manifest[]): void {
  for (const { spec } of ofKind(manifests, 'Ingress'))
    for (const { backend } of spec.rules.flatMap(({ http }: Manifest) => http.paths)) {
      const { name, port } = backend.service
      t.ok(hasPort(named(manifests, 'Service', name), port.name), `Ingress to ${name}:${port.name}`)
    }
  for (const kind of ['HTTPRoute', 'TLSRoute'])
    for (const { spec } of ofKind(manifests, kind))
      for (const { name, port } of spec.rules.flatMap(({ backendRefs }: Manifest) => backendRefs))
        t.ok(hasPort(named(manifests, 'Service', name), port), `${kind} to ${name}:${port}`)
  for (const { spec } of ofKind(manifests, 'ReferenceGrant'))
    for (const { kind, name } of spec.to) t.ok(named(manifests, kind, name))
  for (const { spec } of ofKind(manifests, 'BackendTLSPolicy')) {
    const [{ name, sectionName }] = spec.targetRefs
    t.ok(hasPort(named(manifests, 'Service', name), sectionName))
    const config = parse(named(manifests, 'ConfigMap', name).data['config.yaml'])
    t.ok(config.server.names.includes(spec.validation.hostname), 'the certificate has the name')
  }
}

/** Each file of a Secret is mounted where the configuration reads it, and no Secret is a value. */
export function checkFiles(t: Test, manifests: readonly Manifest[]): void {
  t.strictSame(ofKind(manifests, 'Secret'), [])
  for (const { metadata, spec } of ofKind(manifests, 'Deployment')) {
    const { containers, volumes } = spec.template.spec
    const text: string = named(manifests, 'ConfigMap', metadata.name).data['config.yaml']
    const read = text.match(/(?<=\/run\/secrets\/gatehouse\/)\S+/g)?.sort()
    const mounted = volumes
      .find(({ name }: Manifest) => name === 'secrets')
      .projected.sources.flatMap(({ secret }: Manifest) => secret.items)
      .map(({ path }: Manifest) => path)
    t.strictSame(read, mounted.sort(), `files of ${metadata.name}`)
    for (const { name } of containers[0].volumeMounts)
      t.ok(
        volumes.some((volume: Manifest) => volume.name === name),
        name,
      )
    const key = parse(text).storage.masterKeyFile ?? ''
    t.notOk(key.startsWith('/var/lib/gatehouse/'), 'the master key is not beside the data')
  }
}

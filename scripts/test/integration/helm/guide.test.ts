// The manifests that the guide for Kubernetes shows: by the schemas, and beside the chart.
import { globSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { ROOT, readDocument } from '../../markdown.ts'
import { hasPort } from './consistency.ts'
import {
  ALL_VALUES,
  EXAMPLES,
  type Manifest,
  MISSING,
  manifestsOf,
  named,
  ofKind,
  render,
  VALUES,
} from './helm.ts'
import { checkCore, checkCustom } from './schemas.ts'

t.test('the manifests of the guide fit the schemas and the chart', { skip: MISSING }, async (t) => {
  const files = globSync(`${EXAMPLES}/*.yaml`).sort()
  const [patch] = JSON.parse(readFileSync(join(EXAMPLES, 'cert-listener.json'), 'utf8'))
  t.strictSame([patch.op, patch.path], ['add', '/spec/listeners/-'])
  const manifests = files.flatMap((file) =>
    ALL_VALUES.includes(basename(file)) ? [] : manifestsOf(readFileSync(file, 'utf8')),
  )
  t.ok(manifests.length > 8)
  const { listeners } = named(manifests, 'Gateway', 'gateway').spec
  listeners.push(patch.value)
  t.equal(checkCore(t.testdir(), manifests), '')
  t.strictSame(checkCustom('examples', manifests), [])

  const chart = render(VALUES)
  const [grant] = ofKind(chart, 'ReferenceGrant')
  const asked = manifests.flatMap(({ kind, metadata, spec }) =>
    kind === 'SecurityPolicy'
      ? spec.extAuth.grpc.backendRefs.map((ref: Manifest) => ({
          kind,
          from: metadata.namespace,
          ref,
        }))
      : (spec?.rules ?? [])
          .flatMap(({ filters = [] }: Manifest) => filters)
          .filter(({ type }: Manifest) => type === 'ExternalAuth')
          .map(({ externalAuth }: Manifest) => ({
            ...{ kind, from: metadata.namespace, ref: externalAuth.backendRef },
          })),
  )
  t.equal(asked.length, 2)
  for (const { kind, from, ref } of asked) {
    t.ok(hasPort(named(chart, 'Service', ref.name), ref.port))
    t.equal(ref.namespace, 'gatehouse')
    t.match(
      grant?.spec.from.filter((one: Manifest) => one.kind === kind),
      [{ namespace: from }],
    )
  }
  for (const kind of ['HTTPRoute', 'TLSRoute'])
    for (const { spec } of [...ofKind(chart, kind), ...ofKind(manifests, kind)])
      for (const { sectionName } of spec.parentRefs)
        t.ok(listeners.some(({ name }: Manifest) => name === sectionName))
})

t.test('the commands of the guide name what the chart makes', { skip: MISSING }, async (t) => {
  const chart = render(VALUES)
  const commands = readDocument('docs/kubernetes.md')
    .blocks.filter(({ info }) => info === 'sh')
    .map(({ text }) => text.replaceAll('\\\n', ' '))
    .join('')
  const mentioned = [...commands.matchAll(/\b(deployment|service)\/([\w-]+)/g)]
  t.ok(mentioned.length > 4)
  for (const [text, kind = '', name] of mentioned)
    t.ok(
      chart.some((one) => one.kind.toLowerCase() === kind && one.metadata.name === name),
      text,
    )
  const made = [...commands.matchAll(/create secret generic (\S+) (.+)/g)].flatMap(
    ([, name, options = '']) =>
      [...options.matchAll(/--from-(?:file|literal)=([\w-]+)/g)].map(([, key]) => `${name} ${key}`),
  )
  const read = ofKind(chart, 'Deployment').flatMap(({ spec }) =>
    spec.template.spec.volumes
      .flatMap(({ projected }: Manifest) => projected?.sources ?? [])
      .map(({ secret }: Manifest) => `${secret.name} ${secret.items[0].key}`),
  )
  t.strictSame(made.toSorted(), read.toSorted(), 'the Secrets of step 2, and of replicas')
})

/** Who asks cert-service in these manifests: the pod, by the service account. */
function checkClient(t: Test, pod: Manifest, namespace: string, container: Manifest): void {
  const config = parse(
    named(render(['values.yaml']), 'ConfigMap', 'gatehouse-cert-service').data['config.yaml'],
  )
  const { args, env, image } = container
  const [get, ...names] = args.slice(
    0,
    args.findIndex((arg: string) => arg.startsWith('--')),
  )
  t.equal(get, 'get')
  const subject = `system:serviceaccount:${namespace}:${pod.serviceAccountName}`
  t.strictSame(
    config.rules.filter((rule: Manifest) => rule.subject === subject),
    [{ subject, names }],
  )
  const url = new URL(env.find(({ name }: Manifest) => name === 'GATEHOUSE_URL').value)
  t.ok(config.server.names.includes(url.hostname))
  t.equal(url.port, '7401')
  for (const { name, value } of env)
    if (name !== 'GATEHOUSE_URL')
      t.ok(
        container.volumeMounts.some(({ mountPath }: Manifest) => value.startsWith(`${mountPath}/`)),
        value,
      )
  const token = pod.volumes.find(({ name }: Manifest) => name === 'token')
  t.equal(token.projected.sources[0].serviceAccountToken.audience, config.auth.jwt.audience)
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  t.ok(image.endsWith(`/cert-service:${version}`))
}

t.test('the client of the gateway may do what it does', { skip: MISSING }, async (t) => {
  const manifests = manifestsOf(readFileSync(join(EXAMPLES, 'client.yaml'), 'utf8'))
  const { spec, metadata } = named(manifests, 'CronJob', 'gatehouse-client')
  const pod = spec.jobTemplate.spec.template.spec
  const [container] = pod.containers
  checkClient(t, pod, metadata.namespace, container)
  const [namespace, secret] = container.args.at(-1).split('/')
  t.equal(namespace, metadata.namespace)
  const { rules } = named(manifests, 'Role', pod.serviceAccountName)
  t.strictSame(rules[0].resourceNames, [secret])
  const gateway = manifestsOf(readFileSync(join(EXAMPLES, 'gateway.yaml'), 'utf8'))
  t.equal(
    named(gateway, 'Gateway', 'gateway').spec.listeners[1].tls.certificateRefs[0].name,
    secret,
  )
})

t.test(
  'cert-manager reaches cert-service, and fills the Secret of the Gateway',
  {
    skip: MISSING,
  },
  async (t) => {
    const manifests = manifestsOf(readFileSync(join(EXAMPLES, 'cert-manager.yaml'), 'utf8'))
    const [{ spec, metadata } = { spec: {}, metadata: {} }] = ofKind(manifests, 'Issuer')
    const certificate = named(manifests, 'Certificate', 'gateway')
    t.strictSame(certificate.spec.issuerRef.name, metadata.name)
    t.equal(certificate.metadata.namespace, metadata.namespace)
    const chart = render(['values.yaml'])
    const config = named(chart, 'ConfigMap', 'gatehouse-cert-service').data['config.yaml']
    const url = new URL(spec.acme.server)
    t.ok(parse(config).server.names.includes(url.hostname))
    t.match([url.port, url.pathname], ['7401', '/acme/directory'])
    const gateway = manifestsOf(readFileSync(join(EXAMPLES, 'gateway.yaml'), 'utf8'))
    const [, { tls }] = named(gateway, 'Gateway', 'gateway').spec.listeners
    t.equal(tls.certificateRefs[0].name, certificate.spec.secretName)
  },
)

t.test('the sidecar may do what it does', { skip: MISSING }, async (t) => {
  const manifests = manifestsOf(readFileSync(join(EXAMPLES, 'sidecar.yaml'), 'utf8'))
  const { spec, metadata } = named(manifests, 'Deployment', 'web')
  const pod = spec.template.spec
  const [sidecar] = pod.initContainers
  checkClient(t, pod, metadata.namespace, sidecar)
  const [, name, , out] = sidecar.args
  t.strictSame(sidecar.startupProbe.exec.command.at(-1), `${out}/${name}/fullchain.pem`)
})

// The manifests that the guide for Kubernetes shows: by the schemas, and beside the chart.
import { globSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { ROOT } from '../../markdown.ts'
import { hasPort } from './consistency.ts'
import {
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
  const manifests = files.flatMap((file) =>
    VALUES.includes(basename(file)) ? [] : manifestsOf(readFileSync(file, 'utf8')),
  )
  t.ok(manifests.length > 8)
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
  const listeners = named(manifests, 'Gateway', 'gateway').spec.listeners
  for (const kind of ['HTTPRoute', 'TLSRoute'])
    for (const { spec } of [...ofKind(chart, kind), ...ofKind(manifests, kind)])
      for (const { sectionName } of spec.parentRefs)
        t.ok(listeners.some(({ name }: Manifest) => name === sectionName))
})

t.test('the client of the guide may do what it does', { skip: MISSING }, async (t) => {
  const manifests = manifestsOf(readFileSync(join(EXAMPLES, 'client.yaml'), 'utf8'))
  const config = parse(
    named(render(['values.yaml']), 'ConfigMap', 'gatehouse-cert-service').data['config.yaml'],
  )
  const { spec, metadata } = named(manifests, 'CronJob', 'gatehouse-client')
  const pod = spec.jobTemplate.spec.template.spec
  const [{ args, env, image }] = pod.containers
  const [get, ...names] = args.slice(0, args.indexOf('--secret'))
  const [namespace, secret] = args.at(-1).split('/')
  t.equal(get, 'get')
  t.equal(namespace, metadata.namespace)
  t.match(config.rules, [
    { subject: `system:serviceaccount:${namespace}:${pod.serviceAccountName}`, names },
  ])
  const url = new URL(env.find(({ name }: Manifest) => name === 'GATEHOUSE_URL').value)
  t.ok(config.server.names.includes(url.hostname))
  t.equal(url.port, '7401')
  const token = pod.volumes.find(({ name }: Manifest) => name === 'token')
  t.equal(token.projected.sources[0].serviceAccountToken.audience, config.auth.jwt.audience)
  const { rules } = named(manifests, 'Role', pod.serviceAccountName)
  t.strictSame(rules[0].resourceNames, [secret])
  const gateway = manifestsOf(readFileSync(join(EXAMPLES, 'gateway.yaml'), 'utf8'))
  t.equal(
    named(gateway, 'Gateway', 'gateway').spec.listeners[1].tls.certificateRefs[0].name,
    secret,
  )
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  t.ok(image.endsWith(`/cert-service:${version}`))
})

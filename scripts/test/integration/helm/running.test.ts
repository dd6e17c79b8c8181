// The services, started with what the chart renders.
import { spawnSync } from 'node:child_process'
import { cpSync, writeFileSync } from 'node:fs'
import { request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { freePorts } from '../../../free-ports.ts'
import { createTestCa } from '../../certificates.ts'
import { startPostgres } from '../../postgres.ts'
import { programOf } from '../../program.ts'
import { expectWarnings } from '../../quiet.ts'
import { startRunning } from '../../running.ts'
import { hasPort } from './consistency.ts'
import { CHART, type Manifest, MISSING, named, ofKind, render, VALUES } from './helm.ts'
import { type Container, mountPod } from './pod.ts'

expectWarnings(t, 'FWA_PROVIDER_UNREACHABLE', 'AUTH_ISSUER_UNREACHABLE')

const COMPONENTS = ['cert-service', 'forward-auth'] as const

const SECRETS = {
  'gatehouse-auth': { 'session-key': 's'.repeat(64), 'client-secret': 'a-secret' },
  'gatehouse-certs': {
    'master-key': Buffer.alloc(32, 7).toString('base64'),
    'operator-key': 'o'.repeat(64),
  },
}

const STORES: Readonly<Record<string, readonly string[]>> = {
  'on volumes': ['values.yaml'],
  'on PostgreSQL, with all there is': VALUES,
}

for (const [store, files] of Object.entries(STORES))
  t.test(`the services run ${store}`, { skip: MISSING }, async (t) => {
    const manifests = render(files)
    const { root } = await createTestCa()
    const secrets = structuredClone(SECRETS) as Record<string, Record<string, string>>
    if (files.includes('replicas.yaml')) {
      const { url } = await startPostgres(t)
      for (const keys of Object.values(secrets)) keys['database-url'] = url
    }
    await Promise.all(
      COMPONENTS.map(async (component) => {
        const names = ['http', 'https', 'metrics', 'grpc', 'plain-http']
        const free = await freePorts(names.length)
        const ports = Object.fromEntries(names.map((name, at) => [name, free[at] as number]))
        const folder = join(t.testdirName, component)
        const container = mountPod(folder, manifests, component, { secrets, ports, root })
        await runContainer(t, manifests, component, container)
      }),
    )
  })

/** Checks the configuration, starts the service and asks it as the kubelet, Prometheus and `helm test` do. */
async function runContainer(
  t: Test,
  manifests: readonly Manifest[],
  component: (typeof COMPONENTS)[number],
  { config, args, ports }: Container,
): Promise<void> {
  const program = programOf(component)
  const env = { GATEHOUSE_CONFIG: config }
  const check = spawnSync(process.execPath, [...program, 'check-config'], {
    env: { ...process.env, ...env },
    encoding: 'utf8',
  })
  t.equal(check.status, 0, check.stderr)
  await startRunning(t, [...program, ...args], env).said('ready')

  const { spec } = named(manifests, 'Deployment', `gatehouse-${component}`).spec.template
  const [{ startupProbe, livenessProbe, readinessProbe }] = spec.containers
  for (const { httpGet } of [startupProbe, livenessProbe, readinessProbe]) {
    const url = `${httpGet.scheme.toLowerCase()}://127.0.0.1:${ports[httpGet.port]}${httpGet.path}`
    t.equal(await statusOf(url), 200, `${component} ${httpGet.path}`)
  }
  t.equal(await statusOf(`http://127.0.0.1:${ports.metrics}/metrics`), 200)
  const pod = named(manifests, 'Pod', `gatehouse-${component}-ready`)
  const [, ...command] = pod.spec.containers[0].command
  const url = new URL(command.pop())
  const service = named(manifests, 'Service', url.hostname.split('.')[0] ?? '')
  const port = service.spec.ports.find((one: Manifest) => String(one.port) === url.port).targetPort
  Object.assign(url, { hostname: '127.0.0.1', port: ports[port] })
  const tested = spawnSync(process.execPath, [...command, url.href], { encoding: 'utf8' })
  t.equal(tested.stdout.trim(), '200', `helm test: ${tested.stderr}`)
  t.equal(tested.status, 0)
  if (component === 'cert-service' && hasPort(service, 'plain-http'))
    t.equal(await statusOf(`http://127.0.0.1:${ports['plain-http']}/ca/root.pem`), 200)
}

function statusOf(url: string): Promise<number | undefined> {
  const request = url.startsWith('https:') ? requestHttps : requestHttp
  return new Promise((resolve, reject) => {
    request(url, { rejectUnauthorized: false }, (response) => {
      response.resume()
      resolve(response.statusCode)
    })
      .on('error', reject)
      .end()
  })
}

t.test('the notes name the redirect URIs that check-config names', { skip: MISSING }, async (t) => {
  const values = {
    'forwardAuth.config.domains': [
      { domain: 'example.com', authHost: 'auth.example.com:8443' },
      { domain: 'example.org' },
    ],
    'forwardAuth.config.server.basePath': '/gate',
  }
  // Without a cluster, helm shows notes only as part of a resource.
  const folder = t.testdir()
  cpSync(CHART, folder, { recursive: true })
  writeFileSync(
    join(folder, 'templates/notes.yaml'),
    'kind: Notes\ntext: {{ include (print .Template.BasePath "/NOTES.txt") . | quote }}\n',
  )
  const [{ text: notes = '' } = {}] = ofKind(render(['values.yaml'], values, folder), 'Notes')
  const container = mountPod(join(folder, 'pod'), render(['values.yaml'], values), 'forward-auth', {
    ...{ secrets: SECRETS, ports: { http: 4181, metrics: 9465, grpc: 4182 }, root: '' },
  })
  const { stdout } = spawnSync(
    process.execPath,
    [...programOf('forward-auth'), 'check-config', '--config', container.config],
    { encoding: 'utf8' },
  )
  const uris = stdout.match(/https:\S+callback/g)
  t.equal(uris?.length, 2)
  t.strictSame(notes.match(/https:\S+callback/g), uris)
})

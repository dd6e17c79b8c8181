// The chart and the examples at a real API server, with etcd and the controllers of Kubernetes: `npm run kubernetes`.
import { spawnSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { stringify } from 'yaml'
import { freePorts } from '../../free-ports.ts'
import { createTestCa } from '../certificates.ts'
import {
  ALL_VALUES,
  CHART,
  EXAMPLES,
  type Manifest,
  manifestsOf,
  ofKind,
  VALUES,
  valuesOf,
} from '../integration/helm/helm.ts'
import { mountPod } from '../integration/helm/pod.ts'
import { ROOT } from '../markdown.ts'
import { programOf } from '../program.ts'
import { startRunning } from '../running.ts'
import { until } from '../until.ts'
import { definitionsFolder, startCluster } from './cluster.ts'

const RESTRICTED = ['enforce', 'warn', 'audit'].map(
  (mode) => `pod-security.kubernetes.io/${mode}=restricted`,
)
const STRICT = ['--validate=strict', '-f', '-']
const REENCRYPT = { 'gateway.certTls': 'reencrypt', 'gateway.certRootConfigMap': 'gatehouse-root' }
const AUDIENCE = 'cert-service'

const folder = t.testdir()
const started = performance.now()
const cluster = await startCluster(t, folder)
t.comment(`the API server is ready after ${Math.round(performance.now() - started)} ms`)

/** What kubectl prints, where it has to succeed without a warning. */
function kubectl(t: Test, args: readonly string[], input?: string): string {
  const { status, stdout, stderr } = cluster.kubectl(args, input)
  t.equal(status, 0, `kubectl ${args.join(' ')}: ${stderr}`)
  t.equal(stderr, '', 'without a warning')
  return stdout
}

function helm(t: Test, args: readonly string[]): string {
  const begun = performance.now()
  const { status, stdout, stderr } = cluster.helm(args)
  t.equal(status, 0, `helm ${args[0]}: ${stderr}`)
  t.equal(stderr, '', 'without a warning')
  t.comment(`helm ${args[0]}: ${Math.round(performance.now() - begun)} ms`)
  return stdout
}

/** A namespace that admits only pods of the profile "restricted". */
function createNamespace(t: Test, name: string): void {
  kubectl(t, ['create', 'namespace', name])
  kubectl(t, ['label', 'namespace', name, ...RESTRICTED])
}

const listOf = (t: Test, args: readonly string[]): Manifest[] =>
  JSON.parse(kubectl(t, ['get', ...args, '-o', 'json'])).items

/** The definitions of a set, and what guards them, as one text. */
function definitionsIn(...sets: readonly string[]): string {
  const files = sets.flatMap((set) =>
    globSync(`${definitionsFolder()}/${set}{,/**/*}.{yaml,yml}`).sort(),
  )
  return files
    .flatMap((file) => manifestsOf(readFileSync(file, 'utf8')))
    .filter(({ kind }) => /^(CustomResourceDefinition|ValidatingAdmission.*)$/.test(kind))
    .map((one) => stringify(one))
    .join('---\n')
}

t.test('the cluster takes the definitions of the extensions', async (t) => {
  const sets = ['chart/gateway-api', 'chart/prometheus', 'examples/envoy-gateway']
  const text = definitionsIn(...sets, 'examples/traefik', 'examples/cert-manager')
  kubectl(t, ['apply', '--server-side', ...STRICT], text)
  // A busy kubectl tells of its own watch that ended.
  const wait = ['wait', '--for=condition=Established', 'crd', '--all', '--timeout=60s']
  t.equal(cluster.kubectl(wait).status, 0)
  t.comment(`${listOf(t, ['crd']).length} definitions`)
})

/** The values of each shape of the chart, and how many pods there are of each Deployment. */
const SHAPES: Readonly<
  Record<string, readonly [files: readonly string[], values: object, pods: number, kinds: string[]]>
> = {
  sqlite: [
    ['values.yaml', 'cert-hosts.yaml', 'monitoring.yaml'],
    {},
    1,
    ['PersistentVolumeClaim', 'TLSRoute', 'ServiceMonitor', 'PrometheusRule', 'NetworkPolicy'],
  ],
  postgres: [
    ['values.yaml', 'replicas.yaml', 'cert-hosts.yaml'],
    REENCRYPT,
    3,
    ['PodDisruptionBudget', 'BackendTLSPolicy', 'HTTPRoute', 'ReferenceGrant'],
  ],
  ingress: [
    ['values.yaml', 'replicas.yaml', 'ingress.yaml'],
    {
      'certService.plainHttp': true,
      'certService.ingress': { enabled: true, hosts: ['certs.example.com'], challenges: true },
      'forwardAuth.autoscaling.enabled': true,
      'certService.autoscaling': { enabled: true, targetMemoryUtilizationPercentage: 80 },
      affinity: {
        nodeAffinity: {
          requiredDuringSchedulingIgnoredDuringExecution: {
            nodeSelectorTerms: [
              {
                matchExpressions: [
                  { key: 'kubernetes.io/arch', operator: 'In', values: ['arm64'] },
                ],
              },
            ],
          },
        },
      },
      priorityClassName: 'system-cluster-critical',
      topologySpreadConstraints: [
        ...[{ maxSkew: 1, topologyKey: 'zone', whenUnsatisfiable: 'DoNotSchedule' }],
      ],
      'forwardAuth.extraVolumes': [{ name: 'icons', emptyDir: {} }],
      'forwardAuth.extraVolumeMounts': [{ name: 'icons', mountPath: '/srv/icons' }],
      extraObjects: [
        {
          ...{ apiVersion: 'v1', kind: 'ConfigMap', data: { release: '{{ .Release.Name }}' } },
          metadata: { name: 'extra' },
        },
      ],
    },
    2,
    ['Ingress', 'HorizontalPodAutoscaler', 'PodDisruptionBudget', 'ConfigMap'],
  ],
  named: [
    ['values.yaml'],
    { fullnameOverride: 'sso', 'forwardAuth.serviceAccount.name': 'login' },
    1,
    ['Deployment', 'ServiceAccount'],
  ],
}

for (const [namespace, [files, values, pods, kinds]] of Object.entries(SHAPES))
  t.test(
    `the chart in the shape "${namespace}" is installed, upgraded and uninstalled`,
    async (t) => {
      createNamespace(t, namespace)
      const at = ['--namespace', namespace]
      const chart = ['gatehouse', CHART, ...at, ...valuesOf(files, values)]
      // With the test Pods, which `helm install` does not make.
      const rendered = helm(t, ['template', ...chart])
      kubectl(t, ['create', ...at, '--dry-run=server', ...STRICT], rendered)

      helm(t, ['install', ...chart])
      const installed = cluster.helm(['get', 'manifest', 'gatehouse', ...at]).stdout
      const manifests = manifestsOf(installed)
      t.comment(`${manifests.length} objects`)
      for (const kind of kinds) t.ok(ofKind(manifests, kind).length > 0, kind)
      t.equal(kubectl(t, ['diff', ...at, '-f', '-'], installed), '', 'nothing differs')
      for (const { metadata } of ofKind(manifests, 'Deployment'))
        await until(() => podsOf(t, namespace, metadata).length === pods)

      helm(t, ['upgrade', ...chart, '--set-json', 'forwardAuth.config.log={"level":"debug"}'])
      await until(() =>
        listOf(t, ['replicasets', ...at]).some(
          ({ metadata, status }) =>
            metadata.annotations['deployment.kubernetes.io/revision'] === '2' &&
            status.replicas > 0,
        ),
      )
      const upgraded = cluster.helm(['get', 'manifest', 'gatehouse', ...at]).stdout
      t.equal(kubectl(t, ['diff', ...at, '-f', '-'], upgraded), '', 'nothing differs')

      helm(t, ['uninstall', 'gatehouse', ...at])
      const types = [...new Set(manifests.map(({ kind }) => kind.toLowerCase()))].join(',')
      const labelled = ['-l', 'app.kubernetes.io/managed-by=Helm']
      await until(() => listOf(t, [types, ...at, ...labelled]).every(isVolume))
      t.equal(
        listOf(t, [types, ...at, ...labelled]).length,
        ofKind(manifests, 'PersistentVolumeClaim').length,
        'the volumes stay',
      )
    },
  )

const isVolume = ({ kind }: Manifest) => kind === 'PersistentVolumeClaim'

/** The pods that the controllers made for a Deployment, and that the namespace admitted. */
const podsOf = (t: Test, namespace: string, { labels }: Manifest): Manifest[] =>
  listOf(t, [
    ...['pods', '--namespace', namespace],
    ...['-l', `app.kubernetes.io/component=${labels['app.kubernetes.io/component']}`],
  ])

t.test('who begins with kubectl apply may go on with --server-side', async (t) => {
  createNamespace(t, 'apply')
  const at = ['--namespace', 'apply']
  for (const values of [
    valuesOf(VALUES),
    valuesOf(['values.yaml', 'cert-hosts.yaml'], REENCRYPT),
  ]) {
    const rendered = helm(t, ['template', 'gatehouse', CHART, '--no-hooks', ...at, ...values])
    kubectl(t, ['apply', ...at, ...STRICT], rendered)
    t.equal(kubectl(t, ['diff', ...at, '-f', '-'], rendered), '')
    kubectl(t, ['apply', ...at, '--server-side', ...STRICT], rendered)
    kubectl(t, ['delete', ...at, '-f', '-'], rendered)
  }
})

t.test('the examples are accepted, and their pods admitted', async (t) => {
  for (const namespace of ['gateway', 'shop', 'cert-manager']) createNamespace(t, namespace)
  const later = [...ALL_VALUES, 'external-auth.yaml']
  const files = globSync('*.yaml', { cwd: EXAMPLES }).filter((file) => !later.includes(file))
  t.ok(files.length >= 6)
  kubectl(t, ['create', 'serviceaccount', 'web', '--namespace', 'shop'])
  for (const file of files) kubectl(t, ['apply', ...STRICT.with(-1, join(EXAMPLES, file))])
  const patch = ['--type', 'json', '--patch-file', join(EXAMPLES, 'cert-listener.json')]
  kubectl(t, ['patch', 'gateway', 'gateway', '--namespace', 'gateway', ...patch])
  const issuer = join(ROOT, 'examples/acme-clients/cert-manager.yaml')
  kubectl(t, ['apply', ...STRICT.with(-1, issuer)])
  const job = ['job', '--from=cronjob/gatehouse-client', 'first', '--namespace', 'gateway']
  kubectl(t, ['create', ...job])
  for (const namespace of ['gateway', 'shop'])
    await until(() => listOf(t, ['pods', '--namespace', namespace]).length === 1)
})

const SECRETS = {
  'gatehouse-certs': {
    'master-key': Buffer.alloc(32, 7).toString('base64'),
    'operator-key': 'o'.repeat(64),
  },
}

t.test('a service reads what the chart would give it, before it is installed', (t) => {
  const check = (group: string) => {
    const values = valuesOf(['values.yaml'], {
      'certService.enabled': false,
      'forwardAuth.config.portals[0].policies.admins': group,
    })
    const only = ['--show-only', 'templates/services.yaml']
    const rendered = helm(t, ['template', 'gatehouse', CHART, ...values, ...only])
    const output = ['--filename', '-', '--output', 'jsonpath={.data.config\\.yaml}']
    const input = kubectl(t, ['create', '--dry-run=client', ...output], rendered)
    const program = [process.execPath, ...programOf('forward-auth')]
    const check = [...program, 'check-config', '--no-secrets', '--config', '/dev/stdin']
    // Node gives a socket, which nobody can open by its name; a shell gives a pipe, as Docker does.
    return spawnSync('sh', ['-c', 'cat | "$@"', 'sh', ...check], { input, encoding: 'utf8' })
  }
  t.match(check('Group("admins")'), { status: 0, stdout: /is valid/ })
  t.match(check('Grup("admins")'), { status: 1, stderr: /admins the function Grup is not/ })
  t.end()
})

t.test('the URL of a database joins the other keys of a Secret', (t) => {
  createNamespace(t, 'secrets')
  const at = ['--namespace', 'secrets']
  const create = ['create', 'secret', 'generic', 'gatehouse-auth', ...at]
  kubectl(t, [...create, '--from-literal=session-key=a'])
  const url = [...create, '--from-literal=database-url=b', '--dry-run=client', '--output', 'yaml']
  kubectl(t, ['apply', '--server-side', '--filename', '-'], kubectl(t, url))
  const [secret] = listOf(t, ['secrets', ...at])
  t.strictSame(Object.keys(secret?.data ?? {}).sort(), ['database-url', 'session-key'])
  t.end()
})

t.test('cert-service knows pods by the tokens of their service accounts', async (t) => {
  createNamespace(t, 'gatehouse')
  const token = (account: string, audience?: string) => {
    const [namespace = '', name = ''] = account.split('/')
    const args = ['create', 'token', name, '--namespace', namespace]
    return kubectl(t, audience === undefined ? args : [...args, '--audience', audience]).trim()
  }
  const values = valuesOf(['values.yaml'], {
    'certService.config.auth.jwt.issuerUrl': cluster.url,
    // As in the example, since the document names another address, which is not given the token.
    'certService.config.auth.jwt.jwksUrl': `${cluster.url}/openid/v1/jwks`,
    'certService.config.server.names': ['localhost'],
  })
  const chart = ['gatehouse', CHART, '--namespace', 'gatehouse', ...values]
  helm(t, ['install', ...chart])

  const [https = 0, metrics = 0] = await freePorts(2)
  const manifests = manifestsOf(helm(t, ['template', ...chart]))
  const pod = join(folder, 'pod')
  const { config, args } = mountPod(pod, manifests, 'cert-service', {
    ...{ secrets: SECRETS, ports: { https, metrics }, root: cluster.root },
  })
  writeFileSync(join(pod, 'token/token'), token('gatehouse/gatehouse-cert-service'))
  const program = programOf('cert-service')
  const running = startRunning(t, [...program, ...args], { GATEHOUSE_CONFIG: config })
  await running.said('ready')

  const base = `https://localhost:${https}`
  const ca = (await ask(`${base}/ca/root.pem`, {})).body
  const certificate = async (bearer: string, domain: string) => {
    const headers = { authorization: `Bearer ${bearer}`, 'content-type': 'application/json' }
    const { status, body } = await ask(`${base}/api/certificate`, { ca, headers }, { domain })
    return [status, JSON.parse(body).code]
  }
  const NAME = 'web.shop.svc.cluster.local'
  t.strictSame(await certificate(token('shop/web', AUDIENCE), NAME), [200, undefined])
  t.match(
    [
      await certificate(token('shop/web', AUDIENCE), 'app.example.com'),
      await certificate(token('shop/default', AUDIENCE), NAME),
      await certificate(token('shop/web', 'another'), NAME),
      await certificate(token('shop/web'), NAME),
    ],
    [
      [403, 'CERT_NAME_NOT_ALLOWED'],
      [403, 'CERT_NAME_NOT_ALLOWED'],
      [401, 'AUTH_TOKEN_AUDIENCE'],
      [401, 'AUTH_TOKEN_AUDIENCE'],
    ],
  )
  await t.test('the client fills a Secret', { skip: NOT_ROOT }, async (t) => {
    const account = join(folder, 'account')
    mkdirSync(account)
    writeFileSync(join(account, 'token'), token('gateway/gatehouse-client'))
    writeFileSync(join(account, 'ca.crt'), cluster.root)
    writeFileSync(join(folder, 'client-token'), token('gateway/gatehouse-client', AUDIENCE))
    writeFileSync(join(folder, 'client-root.pem'), ca)
    const names = ['app.example.com', 'auth.example.com']
    const get = [...program, 'get', ...names, '--secret', 'gateway/gateway-tls']
    const env = {
      ...process.env,
      ...{ KUBERNETES_SERVICE_HOST: 'localhost', KUBERNETES_SERVICE_PORT: String(cluster.port) },
      GATEHOUSE_URL: base,
      GATEHOUSE_CA: join(folder, 'client-root.pem'),
      GATEHOUSE_TOKEN_FILE: join(folder, 'client-token'),
    }
    const inPod = ['--mount', 'sh', '-c', IN_POD, account, process.execPath, ...get]
    const placed = () => {
      const { status, stderr } = spawnSync('unshare', inPod, {
        env,
        encoding: 'utf8',
        timeout: 60_000,
      })
      t.equal(status, 0, stderr)
      const secret = ['secret', 'gateway-tls', '--namespace', 'gateway', '-o', 'json']
      const { type, data, metadata } = JSON.parse(kubectl(t, ['get', ...secret]))
      t.equal(type, 'kubernetes.io/tls')
      const { subjectAltName, issuer } = new X509Certificate(Buffer.from(data['tls.crt'], 'base64'))
      t.equal(subjectAltName, names.map((name) => `DNS:${name}`).join(', '))
      t.notMatch(issuer, /Test/)
      return metadata.resourceVersion
    }
    const created = placed()
    t.equal(placed(), created, 'what is there is left alone')
    // What cert-manager has left is taken over.
    const other = (await createTestCa()).certificateFor(...names)
    const secret = {
      ...{ apiVersion: 'v1', kind: 'Secret', type: 'kubernetes.io/tls' },
      metadata: { name: 'gateway-tls', namespace: 'gateway' },
      stringData: { 'tls.crt': other.cert, 'tls.key': other.key },
    }
    const as = ['--server-side', '--force-conflicts', '--field-manager=cert-manager']
    kubectl(t, ['apply', ...as, ...STRICT], JSON.stringify(secret))
    placed()
  })
})

const NOT_ROOT = process.getuid?.() !== 0 && 'only root may mount the folder of a service account'
/** Puts the folder of a service account where pods have it, in a mount namespace of its own. */
const IN_POD = `mount -t tmpfs tmpfs /run && mkdir -p /run/secrets/kubernetes.io &&
  cp -r "$0" /run/secrets/kubernetes.io/serviceaccount && exec "$@"`

async function ask(url: string, options: object, body?: object) {
  const given = { rejectUnauthorized: 'ca' in options, method: body ? 'POST' : 'GET', ...options }
  return new Promise<{ status: number | undefined; body: string }>((resolve, reject) => {
    request(url, given, async (response) =>
      resolve({ status: response.statusCode, body: await text(response) }),
    )
      .on('error', reject)
      .end(body && JSON.stringify(body))
  })
}

t.test('the filter ExternalAuth is accepted where its experimental definition is', async (t) => {
  const example = STRICT.with(-1, join(EXAMPLES, 'external-auth.yaml'))
  const refused = cluster.kubectl(['apply', '--dry-run=server', ...example])
  t.match(refused.stderr, /unknown field "spec\.rules\[0\]\.filters\[1\]\.externalAuth"/)
  // They keep experimental definitions from replacing those of the standard.
  const guards = ['validatingadmissionpolicybindings,validatingadmissionpolicies', '--all']
  kubectl(t, ['delete', ...guards])
  const replace = ['apply', '--server-side', '--force-conflicts', ...STRICT]
  const experimental = definitionsIn('examples/gateway-api')
  const definitions = manifestsOf(experimental).filter(({ kind }) => kind.startsWith('Custom'))
  const text = definitions.map((one) => stringify(one)).join('---\n')
  await until(() => cluster.kubectl(replace, text).status === 0)
  await until(() => cluster.kubectl(['apply', '--dry-run=server', ...example]).status === 0)
  kubectl(t, ['apply', '--dry-run=server', ...example])
})

// The Helm chart: rendered, and checked against the schemas of Kubernetes and of its extensions.
import { spawnSync } from 'node:child_process'
import { cpSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { ROOT } from '../../markdown.ts'
import { checkFiles, checkPods, checkReferences } from './consistency.ts'
import {
  CHART,
  EXAMPLES,
  helm,
  type Manifest,
  MISSING,
  manifestsOf,
  named,
  ofKind,
  render,
  VALUES,
} from './helm.ts'
import { checkCore, checkCustom } from './schemas.ts'

const REENCRYPT = { 'gateway.certTls': 'reencrypt', 'gateway.certRootConfigMap': 'gatehouse-root' }

/** What people choose, and how many resources of a kind it makes. */
const CHOICES: Readonly<
  Record<
    string,
    [files: readonly string[], values: object, makes: Readonly<Record<string, number>>]
  >
> = {
  'both services on volumes': [
    ['values.yaml'],
    {},
    {
      ...{ Deployment: 2, Service: 2, ConfigMap: 2, ServiceAccount: 2, PersistentVolumeClaim: 2 },
      ...{ NetworkPolicy: 2, HTTPRoute: 1, ReferenceGrant: 1, Pod: 2, PodDisruptionBudget: 0 },
    },
  ],
  'three replicas on PostgreSQL': [
    ['values.yaml', 'replicas.yaml'],
    {},
    { Deployment: 2, PodDisruptionBudget: 2, PersistentVolumeClaim: 0 },
  ],
  'one of them on PostgreSQL': [
    ['values.yaml'],
    { 'certService.storage.databaseUrl': { secretName: 'gatehouse-certs', key: 'database-url' } },
    { PersistentVolumeClaim: 1, PodDisruptionBudget: 0 },
  ],
  'the Prometheus operator': [
    ['values.yaml', 'monitoring.yaml'],
    {},
    { ServiceMonitor: 2, PrometheusRule: 2 },
  ],
  'callers from outside': [
    ['values.yaml', 'cert-hosts.yaml'],
    {},
    { TLSRoute: 1, HTTPRoute: 2, BackendTLSPolicy: 0 },
  ],
  'TLS that ends at the gateway': [
    ['values.yaml', 'cert-hosts.yaml'],
    REENCRYPT,
    { TLSRoute: 0, HTTPRoute: 3, BackendTLSPolicy: 1 },
  ],
  everything: [
    VALUES,
    {},
    { Deployment: 2, TLSRoute: 1, ServiceMonitor: 2, PodDisruptionBudget: 2 },
  ],
  'only forward-auth': [
    VALUES,
    { 'certService.enabled': false },
    { Deployment: 1, ServiceMonitor: 1, NetworkPolicy: 1, TLSRoute: 0, HTTPRoute: 1 },
  ],
  'only cert-service': [
    VALUES,
    { 'forwardAuth.enabled': false, 'networkPolicy.gatewayNamespaces': [] },
    { Deployment: 1, ServiceMonitor: 1, NetworkPolicy: 1, ReferenceGrant: 0, HTTPRoute: 1 },
  ],
  'neither routes nor policies': [
    ['values.yaml'],
    { 'gateway.enabled': false, 'networkPolicy.enabled': false },
    { HTTPRoute: 0, ReferenceGrant: 0, NetworkPolicy: 0, Service: 2 },
  ],
  'what a cluster may demand': [
    ['values.yaml'],
    {
      'image.pullSecrets': [{ name: 'registry' }],
      'certService.imageDigest': `sha256:${'0'.repeat(64)}`,
      'certService.storage.existingClaim': 'certs',
      'certService.env': [{ name: 'HTTPS_PROXY', value: 'http://proxy:3128' }],
      'certService.serviceAccountAnnotations': { 'azure.workload.identity/client-id': 'id' },
      podLabels: { 'azure.workload.identity/use': 'true' },
      podAnnotations: { 'example.com/note': 'x' },
      nodeSelector: { 'kubernetes.io/os': 'linux' },
      tolerations: [{ key: 'infra', operator: 'Exists' }],
      'networkPolicy.callerNamespaces': ['shop'],
      'networkPolicy.extraEgress': [{ to: [{ ipBlock: { cidr: '192.0.2.0/24' } }] }],
      'forwardAuth.storage.storageClassName': 'fast',
    },
    { PersistentVolumeClaim: 1, Deployment: 2 },
  ],
}

for (const [choice, [files, values, makes]] of Object.entries(CHOICES))
  t.test(`the chart for ${choice}`, { skip: MISSING }, async (t) => {
    const manifests = render(files, values)
    for (const [kind, count] of Object.entries(makes))
      t.equal(ofKind(manifests, kind).length, count, kind)
    t.equal(checkCore(t.testdir(), manifests), '', 'the schemas of Kubernetes')
    t.strictSame(checkCustom('chart', manifests), [], 'the schemas of extensions')
    const ids = manifests.map(({ kind, metadata }) => `${kind} ${metadata.name}`)
    t.equal(new Set(ids).size, ids.length, 'each resource once')
    for (const { metadata } of manifests) t.equal(metadata.namespace, 'gatehouse')
    checkPods(t, manifests)
    checkReferences(t, manifests)
    checkFiles(t, manifests)
    const lint = helm(['lint', '--strict'], files, values)
    t.equal(lint.status, 0, lint.stdout)
  })

t.test('a fault in a manifest is found', { skip: MISSING }, async (t) => {
  const manifests = render(VALUES)
  const service = named(manifests, 'Service', 'gatehouse-cert-service')
  service.spec.prots = []
  t.match(checkCore(t.testdir(), [service]), /'prots' was unexpected/)
  t.match(checkCore(t.testdir(), [{ ...service, kind: 'Servant' }]), /0 of 1 pass/)
  const route = named(manifests, 'HTTPRoute', 'gatehouse-forward-auth')
  route.spec.rules[0].backendRefs[0].prot = 1
  t.match(checkCustom('chart', [route]), [/"additionalProperty":"prot"/])
  t.match(checkCustom('chart', [{ ...route, kind: 'Root' }]), [/Root has no definition/])
})

/** Values that cannot work, and what is said. */
const REFUSED: readonly [values: object, message: RegExp][] = [
  [
    { 'forwardAuth.replicas': 2 },
    /forwardAuth\.replicas is 2, but a folder is for one: name a data/,
  ],
  [
    { 'certService.replicas': 3 },
    /certService\.replicas is 3, but a folder is for one: name a data/,
  ],
  [{ 'forwardAuth.replicas': 0 }, /'\/forwardAuth\/replicas': minimum: got 0, want 1/],
  [{ 'forwardAuth.replicas': '2' }, /'\/forwardAuth\/replicas': got string, want integer/],
  [{ 'forwardAuth.replica': 2 }, /'\/forwardAuth': additional properties 'replica' not allowed/],
  [{ ingress: {} }, /additional properties 'ingress' not allowed/],
  [{ 'certService.masterKey': null }, /certService\.masterKey is empty: name a key of a Secret/],
  [{ 'certService.masterKey.key': null }, /'\/certService\/masterKey\/key': got null, want string/],
  [{ 'certService.masterKey': 'the key' }, /masterKey': got string, want object/],
  [{ 'forwardAuth.sessionKeys': [] }, /forwardAuth\.sessionKeys is empty: name a key of a Secret/],
  [{ 'forwardAuth.config.portals': [] }, /forwardAuth\.config\.portals is empty: add your portals/],
  [{ 'forwardAuth.config.domains': [] }, /forwardAuth\.config\.domains is empty: add your domains/],
  [
    { 'forwardAuth.config.server.trustedProxies': null },
    /trustedProxies is missing: list the network of the pods/,
  ],
  [
    {
      'forwardAuth.config.portals[0].providers[0].clientSecretFile': '/run/secrets/gatehouse/other',
    },
    /names \/run\/secrets\/gatehouse\/other, but no Secret is mounted there: add other to forwardAuth\.secretFiles/,
  ],
  [
    { 'forwardAuth.config.storage.path': '/data' },
    /forwardAuth\.config\.storage\.path is set by the chart: remove it\. The value for it is forwardAuth\.storage/,
  ],
  [
    { 'forwardAuth.config.session.keys': [] },
    /session\.keys is set by the chart: .* forwardAuth\.sessionKeys/,
  ],
  [
    { 'certService.config.server.port': 443 },
    /certService\.config\.server\.port is set by the chart/,
  ],
  [
    { 'certService.config.metrics.enabled': false },
    /certService\.config\.metrics is set by the chart/,
  ],
  [{ 'certService.config.auth': null }, /certService\.config\.auth is missing: say who may ask/],
  [
    { 'certService.serviceAccountToken': false },
    /certService\.config reads the token of its service account, .*serviceAccountToken to true/,
  ],
  [
    { 'forwardAuth.enabled': false, 'certService.enabled': false },
    /neither forwardAuth\.enabled nor certService\.enabled/,
  ],
  [{ 'networkPolicy.gatewayNamespaces': [] }, /networkPolicy\.gatewayNamespaces is empty/],
  [{ 'gateway.parentRefs': [] }, /gateway\.parentRefs is empty: name your Gateway/],
  [
    { 'gateway.challengeParentRefs': [{ name: 'gateway' }] },
    /challengeParentRefs needs certService\.plainHttp: true/,
  ],
  [
    { 'gateway.certHosts': ['certs.example.com'], 'gateway.certTls': 'reencrypt' },
    /gateway\.certRootConfigMap is empty/,
  ],
  [{ 'certService.newStore': 'maybe' }, /newStore.* must be one of 'auto', true, false/],
]

t.test('values that cannot work are refused, with what to do', { skip: MISSING }, async (t) => {
  for (const [values, message] of REFUSED) {
    const { status, stderr } = helm(['template', 'gatehouse'], ['values.yaml'], values)
    t.equal(status, 1, JSON.stringify(values))
    t.match(stderr, message)
  }
})

t.test(
  'a new CA is made when the release is installed, and not when it is upgraded',
  { skip: MISSING },
  async (t) => {
    const argsOf = (command: readonly string[], values: object) => {
      const { stdout } = helm(['template', 'gatehouse', ...command], ['values.yaml'], values)
      const { spec } = named(manifestsOf(stdout), 'Deployment', 'gatehouse-cert-service')
      return spec.template.spec.containers[0].args
    }
    t.strictSame(argsOf([], {}), ['serve', '--new'])
    t.strictSame(argsOf(['--is-upgrade'], {}), ['serve'])
    t.strictSame(argsOf([], { 'certService.newStore': false }), ['serve'])
    t.strictSame(argsOf(['--is-upgrade'], { 'certService.newStore': true }), ['serve', '--new'])
  },
)

t.test(
  'pods are replaced when the configuration changes, and not otherwise',
  { skip: MISSING },
  async (t) => {
    const podOf = (values: object) =>
      named(render(['values.yaml'], values), 'Deployment', 'gatehouse-forward-auth').spec.template
    t.strictSame(podOf({ 'monitoring.interval': '1m' }), podOf({}))
    t.not(
      podOf({ 'forwardAuth.config.log': { level: 'debug' } }).metadata.annotations[
        'checksum/config'
      ],
      podOf({}).metadata.annotations['checksum/config'],
    )
  },
)

t.test('helm packages the chart, with everything that it needs', { skip: MISSING }, async (t) => {
  const folder = t.testdir()
  const { status, stderr } = spawnSync(
    process.env.HELM as string,
    ['package', CHART, '--destination', folder],
    {
      encoding: 'utf8',
    },
  )
  t.equal(status, 0, stderr)
  const [archive = ''] = globSync(`${folder}/gatehouse-*.tgz`)
  const { stdout } = spawnSync('tar', ['-tzf', archive], { encoding: 'utf8' })
  for (const file of ['values.schema.json', 'README.md', 'rules/cert-service.rules.yaml'])
    t.ok(stdout.includes(`gatehouse/${file}\n`), file)
  const args = ['template', 'gatehouse', archive, '--namespace', 'gatehouse']
  const unpacked = spawnSync(
    process.env.HELM as string,
    [...args, '--values', join(EXAMPLES, 'values.yaml')],
    {
      encoding: 'utf8',
    },
  )
  t.strictSame(manifestsOf(unpacked.stdout), render(['values.yaml']))
})

t.test('the chart of a release names the images of the release', { skip: MISSING }, async (t) => {
  const cwd = t.testdir()
  cpSync(CHART, join(cwd, 'deploy/helm/gatehouse'), { recursive: true })
  const workflow = parse(readFileSync(join(ROOT, '.github/workflows/chart.yml'), 'utf8'))
  const { run } = workflow.jobs.chart.steps.find(({ name }: Manifest) => name === 'Package')
  const env = { ...process.env, TAG: 'v1.2.3', GITHUB_REPOSITORY: 'Acme/gatehouse' }
  const packaging = `helm() { "$HELM" "$@"; }\n${run}`
  const { status, stderr } = spawnSync('bash', ['-euc', packaging], { cwd, env, encoding: 'utf8' })
  t.equal(status, 0, stderr)
  const archive = join(cwd, 'gatehouse-1.2.3.tgz')
  const args = ['show', 'values', archive]
  const shown = spawnSync(process.env.HELM as string, args, { encoding: 'utf8' })
  // The values of the example name a registry of their own.
  const values = { 'image.registry': parse(shown.stdout).image.registry }
  const chart = render(['values.yaml'], values, archive)
  const images = ofKind(chart, 'Deployment').map(
    ({ spec }) => spec.template.spec.containers[0].image,
  )
  t.strictSame(images.toSorted(), [
    'ghcr.io/acme/gatehouse/cert-service:1.2.3',
    'ghcr.io/acme/gatehouse/forward-auth:1.2.3',
  ])
})

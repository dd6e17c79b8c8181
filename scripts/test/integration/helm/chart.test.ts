// The Helm chart: rendered, and checked against the schemas of Kubernetes and of its extensions.
import { spawnSync } from 'node:child_process'
import { cpSync, globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { ROOT } from '../../markdown.ts'
import { CHART_SECRETS } from '../../secret-members.ts'
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

const WORKLOAD_IDENTITY = { 'azure.workload.identity/client-id': 'id' }
const SERVERS_TRANSPORT = {
  'traefik.ingress.kubernetes.io/service.serverstransport': 'gatehouse-certs@kubernetescrd',
}
const SPREAD = { maxSkew: 1, topologyKey: 'zone', whenUnsatisfiable: 'ScheduleAnyway' }
/** Its namespace is a template. */
const EXTRA = {
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name: 'extra', namespace: '{{ .Release.Namespace }}' },
  data: { host: '{{ include "gatehouse.fullname" . }}' },
}

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
  'names and accounts of their own': [
    ['values.yaml'],
    {
      fullnameOverride: 'sso',
      nameOverride: 'login',
      'forwardAuth.serviceAccount': { create: false, name: 'there' },
      'certService.serviceAccount': { name: 'certs', annotations: WORKLOAD_IDENTITY },
    },
    { ServiceAccount: 1, Deployment: 2 },
  ],
  'an Ingress controller': [
    ['values.yaml', 'ingress.yaml'],
    {
      'certService.plainHttp': true,
      'certService.ingress': {
        ...{ enabled: true, hosts: ['certs.example.com'], challenges: true },
        challengeAnnotations: { 'traefik.ingress.kubernetes.io/router.entrypoints': 'web' },
      },
      'certService.service.annotations': SERVERS_TRANSPORT,
    },
    { Ingress: 3, HTTPRoute: 0 },
  ],
  'a number of pods by their load': [
    ['values.yaml', 'replicas.yaml'],
    {
      'forwardAuth.autoscaling': { enabled: true, targetMemoryUtilizationPercentage: 70 },
      'certService.autoscaling': {
        ...{ enabled: true, minReplicas: 3, maxReplicas: 9, targetCPUUtilizationPercentage: 0 },
        metrics: [
          { type: 'Pods', pods: { metric: { name: 'x' }, target: { type: 'Value', value: 1 } } },
        ],
        behavior: { scaleDown: { stabilizationWindowSeconds: 600 } },
      },
    },
    { HorizontalPodAutoscaler: 2, PodDisruptionBudget: 2, Deployment: 2 },
  ],
  'what a cluster may demand': [
    ['values.yaml'],
    {
      'image.pullSecrets': [{ name: 'registry' }],
      'certService.imageDigest': `sha256:${'0'.repeat(64)}`,
      'certService.storage.existingClaim': 'certs',
      'certService.env': [{ name: 'HTTPS_PROXY', value: 'http://proxy:3128' }],
      'certService.serviceAccount.annotations': WORKLOAD_IDENTITY,
      'forwardAuth.extraVolumes': [{ name: 'icons', configMap: { name: 'icons' } }],
      'forwardAuth.extraVolumeMounts': [{ name: 'icons', mountPath: '/srv/icons', readOnly: true }],
      affinity: { podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [] } },
      priorityClassName: 'system-cluster-critical',
      topologySpreadConstraints: [SPREAD],
      extraObjects: [
        EXTRA,
        'apiVersion: v1\nkind: ConfigMap\nmetadata: { name: text, namespace: gatehouse }',
      ],
      podLabels: { 'azure.workload.identity/use': 'true' },
      podAnnotations: { 'example.com/note': 'x' },
      nodeSelector: { 'kubernetes.io/os': 'linux' },
      tolerations: [{ key: 'infra', operator: 'Exists' }],
      'networkPolicy.callerNamespaces': ['shop'],
      'networkPolicy.extraEgress': [{ to: [{ ipBlock: { cidr: '192.0.2.0/24' } }] }],
      'forwardAuth.storage.storageClassName': 'fast',
    },
    { PersistentVolumeClaim: 1, Deployment: 2, ConfigMap: 4 },
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

const SCALED = {
  'certService.storage.databaseUrl': { secretName: 'gatehouse-certs', key: 'database-url' },
  'certService.autoscaling.enabled': true,
}
const PARTS = [
  ...['config', 'secretFiles', 'storage', 'serviceAccount', 'service', 'ingress', 'autoscaling'],
  'resources',
]

/** A value that other charts have in this place, and where this one has it. */
function elsewhere(name: string, place: string): readonly [values: object, message: RegExp] {
  const message = `${name} is no value of this chart: write ${place}`
  const ofService = `${name} is no value of this chart, which has two services: write ${place}`
  return [{ [name]: 'x' }, RegExp(`${message}|${ofService}`.replaceAll('.', '\\.'))]
}

/** Values that cannot work, and what is said. */
const REFUSED: readonly (readonly [values: object, message: RegExp])[] = [
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
  [{ ingres: {} }, /additional properties 'ingres' not allowed/],
  ...[
    ...['replicas', 'config', 'secretFiles', 'storage', 'env', 'resources', 'serviceAccount'],
    ...['service', 'ingress', 'autoscaling', 'extraVolumes', 'extraVolumeMounts'],
  ].map((name) => elsewhere(name, `forwardAuth.${name}, certService.${name}, or both`)),
  elsewhere('replicaCount', 'forwardAuth.replicas, certService.replicas, or both'),
  elsewhere('persistence', 'forwardAuth.storage, certService.storage, or both'),
  elsewhere('imagePullSecrets', 'image.pullSecrets, for both services'),
  elsewhere('securityContext', 'podSecurityContext, for both services'),
  elsewhere('httpRoute', 'gateway, for both services'),
  elsewhere('image.repository', 'image.registry, without the name of the image'),
  elsewhere('image.digest', 'forwardAuth.imageDigest and certService.imageDigest'),
  elsewhere('forwardAuth.replicaCount', 'forwardAuth.replicas'),
  elsewhere('certService.extraEnv', 'certService.env'),
  elsewhere('certService.volumes', 'certService.extraVolumes'),
  elsewhere('forwardAuth.image', 'image.registry and image.tag, for both services'),
  elsewhere('certService.serviceMonitor', 'monitoring.serviceMonitor, for both services'),
  [{ 'forwardAuth.ingress.host': 'x' }, /ingress': additional properties 'host' not allowed/],
  [{ 'certService.autoscaling.min': 2 }, /autoscaling': additional properties 'min' not allowed/],
  [{ 'forwardAuth.serviceAccount.annotation': {} }, /properties 'annotation' not allowed/],
  [{ 'forwardAuth.ingress.challenges': true }, /properties 'challenges' not allowed/],
  [{ fullnameOverride: 'Not A Name' }, /'\/fullnameOverride'.*does not match pattern/],
  [{ extraObjects: [{ kind: 'ConfigMap' }] }, /missing property 'apiVersion'/],
  [{ 'image.registry': '' }, /image\.registry is empty: push the images to a registry of yours/],
  [
    { 'image.registry': 'registry.example.com/gatehouse' },
    /image\.registry is registry\.example\.com\/gatehouse, which is an example .*name it here/,
  ],
  elsewhere('forwardAuth.serviceAccountAnnotations', 'forwardAuth.serviceAccount.annotations'),
  [
    { 'certService.serviceAccount.create': false },
    /create is false: name the service account that is there in certService\.serviceAccount\.name/,
  ],
  [
    { 'forwardAuth.podLabels': { 'app.kubernetes.io/name': 'x' } },
    /podLabels has app\.kubernetes\.io\/name, by which the chart selects the pods of forward-auth/,
  ],
  [
    { 'certService.extraVolumes': [{ name: 'data' }] },
    /certService\.extraVolumes has a volume data, as the chart does: give it another name/,
  ],
  [
    { 'forwardAuth.autoscaling.enabled': true },
    /forwardAuth\.autoscaling needs PostgreSQL, since a folder is for one pod: name a database in/,
  ],
  [
    { ...SCALED, 'certService.autoscaling.minReplicas': 6 },
    /certService\.autoscaling\.minReplicas is 6, which is more than maxReplicas, 5/,
  ],
  [
    { ...SCALED, 'certService.resources.requests.cpu': null },
    /compares the use of cpu with what is requested: set certService\.resources\.requests\.cpu/,
  ],
  [
    { ...SCALED, 'certService.autoscaling.targetCPUUtilizationPercentage': 0 },
    /certService\.autoscaling has nothing to go by: set targetCPUUtilizationPercentage/,
  ],
  [
    { 'forwardAuth.config.storage': { caFile: '/run/secrets/gatehouse/client-secret' } },
    /forwardAuth\.config\.storage\.caFile is the CA of a database.*forwardAuth\.storage\.databaseUrl, or remove/,
  ],
  [
    { 'certService.ingress.enabled': true },
    /certService\.ingress\.hosts is empty: name the hosts at which cert-service is reached/,
  ],
  [
    { 'certService.ingress': { enabled: true, challenges: true } },
    /certService\.ingress\.challenges needs certService\.plainHttp: true/,
  ],
  [
    { forwardAuth: null },
    /forwardAuth is empty: remove the line to keep its defaults, or set forwardAuth\.enabled to fal/,
  ],
  [{ certService: null }, /certService is empty: .*or set certService\.enabled to false/],
  [{ gateway: null }, /: gateway is empty: remove the line to keep its defaults\n/],
  ...['image', 'networkPolicy', 'monitoring', 'podSecurityContext'].map(
    (key) => [{ [key]: null }, new RegExp(`: ${key} is empty: remove the line`)] as const,
  ),
  ...PARTS.map(
    (part) =>
      [
        { [`certService.${part}`]: null },
        new RegExp(`: certService\\.${part} is empty: remove the line to keep its defaults\n`),
      ] as const,
  ),
  [
    { 'forwardAuth.config.portels': [] },
    /'\/forwardAuth\/config': additional properties 'portels' not allowed/,
  ],
  [
    { 'forwardAuth.config.portals[0].providers[0].type': 'gogle' },
    /'\/forwardAuth\/config\/portals\/0\/providers\/0\/type': value must be one of 'openIDConnect'/,
  ],
  [{ 'certService.config.rules': {} }, /config\/rules': got object, want array/],
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

t.test(
  'a provider on a port that the network policy closes is refused',
  { skip: MISSING },
  async (t) => {
    const provider = {
      type: 'openIDConnect',
      name: 'corp',
      clientId: 'a',
      clientSecret: `$\{SECRET}`,
    }
    const rows: [issuerUrl: string, values: object, isRefused: boolean][] = [
      ['https://idp.test:8443/realms/a', {}, true],
      ['https://idp.test:8443/realms/a', { 'networkPolicy.egressPorts': [443, 8443] }, false],
      ['https://idp.test:8443', { 'networkPolicy.egressPorts': [] }, false],
      ['https://idp.test:8443', { 'networkPolicy.enabled': false }, false],
      ['https://idp.test:8443', { 'networkPolicy.extraEgress': [{ to: [] }] }, false],
      ['https://idp.test/a:8443', {}, false],
      ['https://[2001:db8::1]:9000/', {}, true],
      ['https://[2001:db8::1]/', {}, false],
      ['https://idp.test:443/', {}, false],
    ]
    for (const [issuerUrl, values, isRefused] of rows) {
      const portals = [{ name: 'main', providers: [{ ...provider, issuerUrl }] }]
      const given = { 'forwardAuth.config.portals': portals, ...values }
      const { status, stderr } = helm(['template', 'gatehouse'], ['values.yaml'], given)
      t.equal(status, isRefused ? 1 : 0, `${issuerUrl} ${JSON.stringify(values)} ${stderr}`)
      if (isRefused)
        t.match(
          stderr,
          /egressPorts does not open port (8443|9000) of https:.* in forwardAuth\.config/,
        )
    }
  },
)

/** What the services connect to, and on which port; undefined if the policy closes none of it. */
function peers(): [values: object, port: number | undefined][] {
  const portal = (part: object) => ({ 'forwardAuth.config.portals': [{ name: 'main', ...part }] })
  const provider = (part: object) =>
    portal({ providers: [{ name: 'corp', clientId: 'a', clientSecret: `$\{SECRET}`, ...part }] })
  const google = {
    providers: [{ type: 'google', name: 'g', clientId: 'a', clientSecret: `$\{S}` }],
  }
  const callers = (part: object) => ({
    callers: { issuers: [{ name: 'ci', audience: 'a', allow: 'anyone', ...part }] },
  })
  const servers = (...authorizationServers: string[]) => ({
    resources: [{ url: 'https://mcp.example.com:7000/mcp', authorizationServers }],
  })
  const issuer = (part: object) => ({
    'certService.config.issuers': [
      {
        name: 'le',
        type: 'acme',
        directory: 'letsencrypt',
        agreeToTerms: true,
        challenges: [{ type: 'http-01' }],
        ...part,
      },
    ],
  })
  const dns = (part: object) => issuer({ challenges: [{ type: 'dns-01', providers: [part] }] })
  const rfc2136 = (server: string) =>
    dns({ type: 'rfc2136', server, keyName: 'k', keySecret: `$\{KEY}` })
  const httpreq = { type: 'httpreq', endpoint: 'https://dns.test:8443' }
  const azure = { type: 'azure', subscriptionId: 'a', resourceGroup: 'b' }
  const webhook = { url: 'https://hook.test:8443/a', secret: `$\{HOOK}` }
  const receiver = (part: object) => ({
    'certService.config.events': { receivers: [{ name: 'ops', ...part }] },
  })
  const email = { type: 'email', from: 'a@example.com', to: ['b@example.com'] }
  const jwksUrl = (url: string) => ({ 'certService.config.auth.jwt.jwksUrl': url })
  const assertion = (part: object) => ({
    'certService.config.auth.assertion': {
      ...{
        issuerUrl: 'https://auth.example.com/portals/main',
        audience: 'https://certs.example.com',
      },
      ...part,
    },
  })
  const keys = '/portals/main/.well-known/jwks.json'
  const id = 'https://id.test:8443'
  const tenantId = '00000000-0000-0000-0000-000000000000'
  return [
    [provider({ type: 'gitlab', url: id }), 8443],
    [provider({ type: 'gitlab', url: `${id}/` }), 8443],
    [provider({ type: 'github', url: id }), 8443],
    [provider({ type: 'microsoftEntraID', tenantId, authority: id }), 8443],
    [provider({ type: 'gitlab', url: 'https://id.test/a:8443' }), undefined],
    [provider({ type: 'gitlab', url: 'HTTPS://id.test:8443?a' }), 8443],
    [portal({ ...google, ...callers({ issuerUrl: id }) }), 8443],
    [portal({ ...google, ...callers({ issuerUrl: 'https://a.test', jwksUrl: id }) }), 8443],
    [portal({ ...google, ...callers({ issuerUrl: id, jwksUrl: 'https://a.test' }) }), undefined],
    [portal({ ...google, ...servers(id) }), 8443],
    [portal({ ...google, ...servers('https://id.test') }), undefined],
    [
      portal({
        ...{ ...google, ...servers(id) },
        ...callers({ issuerUrl: id, jwksUrl: 'https://id.test/keys' }),
      }),
      undefined,
    ],
    [portal({ ...google, apps: [{ name: 'a', url: 'https://a.example.com:7000' }] }), undefined],
    [jwksUrl('https://kubernetes.default.svc:6443/openid/v1/jwks'), undefined],
    [jwksUrl('https://kubernetes.default.svc:8443/openid/v1/jwks'), 8443],
    [assertion({ jwksUrl: `http://gatehouse-forward-auth.gatehouse.svc:4181${keys}` }), undefined],
    [assertion({ jwksUrl: `http://other-forward-auth.gatehouse.svc:4181${keys}` }), 4181],
    [assertion({ jwksUrl: `http://127.0.0.1:4181${keys}` }), undefined],
    [assertion({ jwksUrl: `http://[::1]:4181${keys}` }), undefined],
    [assertion({ issuerUrl: 'https://auth.example.com:8443/portals/main' }), 8443],
    [issuer({}), undefined],
    [issuer({ directory: 'https://ca.test:9000/acme/acme/directory' }), 9000],
    [dns(httpreq), 8443],
    [dns({ ...azure, authority: id }), 8443],
    [dns({ ...azure, metadataEndpoint: 'http://192.0.2.1:8080' }), 8080],
    [rfc2136('ns.example.com'), undefined],
    [rfc2136('ns.example.com:53'), undefined],
    [rfc2136('ns.example.com:5353'), 5353],
    [rfc2136('2001:1::1'), undefined],
    [rfc2136('[2001:1::1]:5353'), 5353],
    [{ 'certService.config.events': { webhook } }, 8443],
    [receiver({ type: 'webhook', ...webhook }), 8443],
    [receiver({ type: 'ntfy', url: `https://ntfy.test:8443/$\{TOPIC}` }), 8443],
    [receiver({ type: 'slack', url: `$\{SLACK}` }), undefined],
    [receiver({ ...email, host: 'smtp.test' }), 465],
    [receiver({ ...email, host: 'smtp.test', port: 587 }), 587],
    [receiver({ ...email, host: '2001:1::1', port: 587 }), 587],
    [receiver({ ...email, host: 'smtp.test', port: 443 }), undefined],
    [receiver({ ...email, host: 'smtp.test', port: `$\{PORT}` }), undefined],
  ]
}

t.test(
  'whatever a service connects to on a port that the network policy closes is refused',
  { skip: MISSING },
  async (t) => {
    for (const [values, port] of peers()) {
      const run = (more: object = {}) =>
        helm(['template', 'gatehouse'], ['values.yaml'], { ...values, ...more })
      const { status, stderr } = run()
      t.equal(status, port ? 1 : 0, `${JSON.stringify(values)} ${stderr}`)
      if (port === undefined) continue
      t.match(stderr, `egressPorts does not open port ${port} of `)
      const opened = run({ 'networkPolicy.egressPorts': [443, port] })
      t.equal(opened.status, 0, `${JSON.stringify(values)} ${opened.stderr}`)
    }
  },
)

t.test('values that cannot work are refused, with what to do', { skip: MISSING }, async (t) => {
  for (const [values, message] of REFUSED) {
    const { status, stderr } = helm(['template', 'gatehouse'], ['values.yaml'], values)
    t.equal(status, 1, JSON.stringify(values))
    t.match(stderr, message)
  }
})

t.test('a secret is refused as a value, and never shown', { skip: MISSING }, async (t) => {
  const file = join(t.testdir(), 'secret.json')
  for (const { place, fileKey, values } of CHART_SECRETS) {
    writeFileSync(file, JSON.stringify(values('hunter2-the-secret')))
    const { status, stdout, stderr } = helm(['template', 'gatehouse', '--values', file], [])
    t.equal(status, 1, place)
    t.match(
      stderr,
      `'${place}': value must be 'no secret: name a file of secretFiles in ${fileKey},`,
    )
    t.notMatch(stdout + stderr, 'hunter2')
  }
})

t.test('an empty list of a network policy opens nothing', { skip: MISSING }, async (t) => {
  const policyOf = (values: object) =>
    named(render(['values.yaml'], values), 'NetworkPolicy', 'gatehouse-cert-service').spec
  const fromOf = (values: object) =>
    policyOf(values).ingress.find(({ ports }: Manifest) => ports[0].port === 'https').from
  const release = { podSelector: { matchLabels: Object } }
  const namespaces = (...names: readonly string[]) =>
    names.map((name) => ({
      namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': name } },
    }))
  const { networkPolicy } = parse(readFileSync(join(EXAMPLES, 'values.yaml'), 'utf8'))
  const gateways: readonly string[] = networkPolicy.gatewayNamespaces
  const key = 'networkPolicy.callerNamespaces'
  t.equal(fromOf({}), undefined, 'callers authenticate themselves')
  t.equal(fromOf({ [key]: ['*'] }), undefined)
  t.match(fromOf({ [key]: [] }), [release, ...namespaces(...gateways)])
  t.match(fromOf({ [key]: null }), [release, ...namespaces(...gateways)])
  t.match(fromOf({ [key]: ['shop'] }), [release, ...namespaces('shop', ...gateways)])
  const lists = ['callerNamespaces', 'monitoringNamespaces', 'egressPorts', 'extraEgress']
  const empty = Object.fromEntries(lists.map((list) => [`networkPolicy.${list}`, []]))
  for (const { spec } of ofKind(render(['values.yaml'], empty), 'NetworkPolicy'))
    for (const rule of [...spec.ingress, ...spec.egress])
      for (const [part, list] of Object.entries<Manifest[]>(rule))
        t.ok(list?.length > 0, `${part} of ${JSON.stringify(rule)}`)
  for (const { spec } of ofKind(render(['values.yaml'], empty), 'NetworkPolicy'))
    for (const rule of spec.ingress) t.ok(rule.from, JSON.stringify(rule))
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

t.test('a service has values of its own for its pods', { skip: MISSING }, async (t) => {
  const shared = {
    ...{ nodeSelector: { os: 'linux' }, tolerations: [{ key: 'a' }], priorityClassName: 'low' },
    ...{ affinity: { nodeAffinity: {} }, podLabels: { team: 'all', tier: 'x' } },
    ...{ podAnnotations: { note: 'all' }, topologySpreadConstraints: [SPREAD] },
  }
  const own = {
    ...{ nodeSelector: { disk: 'ssd' }, tolerations: [{ key: 'b' }], priorityClassName: 'high' },
    ...{ affinity: { podAffinity: {} }, podLabels: { team: 'certs' } },
    ...{ podAnnotations: { more: 'x' } },
    topologySpreadConstraints: [{ ...SPREAD, labelSelector: { matchLabels: { mine: 'yes' } } }],
  }
  const values = Object.entries(own).map(([key, value]) => [`certService.${key}`, value])
  const manifests = render(['values.yaml'], { ...shared, ...Object.fromEntries(values) })
  const podOf = (name: string) => named(manifests, 'Deployment', `gatehouse-${name}`).spec.template
  const { podLabels, podAnnotations, ...rest } = own
  t.match(podOf('cert-service'), {
    metadata: {
      labels: { team: 'certs', tier: 'x' },
      annotations: { note: 'all', more: 'x', 'checksum/config': String },
    },
    spec: rest,
  })
  t.strictSame(podOf('cert-service').spec.nodeSelector, { disk: 'ssd' }, 'in place of that of both')
  const { spec, metadata } = podOf('forward-auth')
  const { podLabels: labels, podAnnotations: annotations, ...others } = shared
  t.match({ spec, metadata }, { spec: others, metadata: { labels, annotations } })
  const [{ labelSelector }] = spec.topologySpreadConstraints
  const { selector } = named(manifests, 'Deployment', 'gatehouse-forward-auth').spec
  t.strictSame(labelSelector, selector, 'of the pods of the service')
})

t.test('names follow the overrides', { skip: MISSING }, async (t) => {
  const namesOf = (values: object) =>
    ofKind(render(['values.yaml'], values), 'Service').map(({ metadata }) => metadata.name)
  t.strictSame(namesOf({}), ['gatehouse-cert-service', 'gatehouse-forward-auth'])
  t.strictSame(namesOf({ nameOverride: 'sso' }), [
    'gatehouse-sso-cert-service',
    'gatehouse-sso-forward-auth',
  ])
  t.strictSame(namesOf({ fullnameOverride: 'sso' }), ['sso-cert-service', 'sso-forward-auth'])
  t.strictSame(
    namesOf({ fullnameOverride: 'sso', nameOverride: 'x' }),
    namesOf({ fullnameOverride: 'sso' }),
  )
})

t.test(
  'an Ingress leads to the sign-in pages and to cert-service',
  { skip: MISSING },
  async (t) => {
    const hostsOf = ({ spec }: Manifest) => spec.rules.map(({ host }: Manifest) => host)
    const ingresses = (values: object) => ofKind(render(['values.yaml'], values), 'Ingress')
    t.strictSame(ingresses({}), [])
    const [auth] = ingresses({ 'forwardAuth.ingress.enabled': true })
    t.strictSame(hostsOf(auth as Manifest), ['auth.example.com'], 'the hosts of the configuration')
    const given = { enabled: true, hosts: ['id.example.com'] }
    t.strictSame(ingresses({ 'forwardAuth.ingress': given }).map(hostsOf), [['id.example.com']])
    const manifests = render(['values.yaml'], {
      'certService.ingress': { enabled: true, hosts: ['certs.example.com'] },
    })
    const config = named(manifests, 'ConfigMap', 'gatehouse-cert-service').data['config.yaml']
    t.ok(parse(config).server.names.includes('certs.example.com'), 'the certificate has the name')
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
  const values = ['--values', join(EXAMPLES, 'values.yaml'), '--set', 'image.registry=r.test']
  const unpacked = spawnSync(process.env.HELM as string, [...args, ...values], { encoding: 'utf8' })
  t.strictSame(
    manifestsOf(unpacked.stdout),
    render(['values.yaml'], { 'image.registry': 'r.test' }),
  )
})

t.test('the chart of a release names the images of the release', { skip: MISSING }, async (t) => {
  const cwd = t.testdir()
  cpSync(CHART, join(cwd, 'deploy/helm/gatehouse'), { recursive: true })
  mkdirSync(join(cwd, 'docs/images'), { recursive: true })
  writeFileSync(join(cwd, 'docs/images/logo.svg'), '<svg xmlns="http://www.w3.org/2000/svg"/>')
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
  const described = spawnSync(process.env.HELM as string, ['show', 'chart', archive], {
    encoding: 'utf8',
  })
  const source = 'https://github.com/Acme/gatehouse'
  t.match(parse(described.stdout), {
    ...{ home: source, sources: [source], version: '1.2.3', appVersion: '1.2.3' },
    icon: 'https://raw.githubusercontent.com/Acme/gatehouse/v1.2.3/docs/images/logo.svg',
  })
  const { annotations } = parse(described.stdout)
  t.match(annotations, { 'artifacthub.io/category': 'security', 'artifacthub.io/license': 'MIT' })
  const announced = parse(annotations['artifacthub.io/images']) as Manifest[]
  t.strictSame(parse(annotations['artifacthub.io/links']), [
    { name: 'Guide', url: `${source}/blob/v1.2.3/docs/kubernetes.md` },
    { name: 'Changes', url: `${source}/releases/tag/v1.2.3` },
  ])
  t.notOk(annotations['artifacthub.io/prerelease'])
  t.equal(helm(['lint', '--strict'], ['values.yaml'], values, archive).status, 0)
  const chart = render(['values.yaml'], values, archive)
  const images = ofKind(chart, 'Deployment').map(
    ({ spec }) => spec.template.spec.containers[0].image,
  )
  t.strictSame(images.toSorted(), [
    'ghcr.io/acme/gatehouse/cert-service:1.2.3',
    'ghcr.io/acme/gatehouse/forward-auth:1.2.3',
  ])
  t.strictSame(announced.map(({ image }) => image).toSorted(), images.toSorted())
})

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { readProjectFile } from './compose-files.ts'

interface Service {
  readonly image?: string
  readonly build?: { readonly target: string }
  readonly ports?: readonly string[]
  readonly networks?: readonly string[] | Record<string, { ipv4_address?: string }>
  readonly volumes?: readonly string[]
  readonly user?: string
  readonly read_only?: boolean
  readonly cap_drop?: readonly string[]
  readonly security_opt?: readonly string[]
  readonly environment?: Record<string, string>
  readonly labels?: readonly string[]
  readonly command?: readonly string[]
  readonly healthcheck?: object
  readonly depends_on?: object
}

interface ComposeFile {
  readonly services: Record<string, Service>
  readonly volumes: object
  readonly networks: {
    readonly front: { ipam: { config: [Record<string, string>] } }
    readonly docker?: { internal?: boolean }
  }
}

const read = (path: string) => parse(readProjectFile(path), { merge: true })
const ROOT = join(import.meta.dirname, '../..')
const DEMO = 'docker-compose.yml'
const REPLICAS = 'compose.replicas.yml'
const PRODUCTION = 'compose.production.yml'
const HOMELAB = 'compose.homelab.yml'
/** Whoever has it has the machine. */
const SOCKET = `\${DOCKER_SOCKET:-/var/run/docker.sock}:/var/run/docker.sock:ro`

/** How the files differ. */
const FILES = {
  [DEMO]: { folder: 'docker', sealed: ['certificates', 'keys'], check: 'http://forward-auth:4181' },
  [REPLICAS]: {
    folder: 'docker/replicas',
    sealed: ['shared-keys'],
    check: 'http://127.0.0.1:4181',
    // Its own route to the replicas.
    hops: ['127.0.0.1'],
  },
  [PRODUCTION]: {
    folder: 'docker/production',
    sealed: ['certificates', 'keys'],
    check: 'http://forward-auth:4181',
  },
  [HOMELAB]: {
    folder: 'docker/homelab',
    sealed: ['certificates', 'keys'],
    check: 'http://forward-auth:4181',
    proxy: 'traefik',
  },
}
const NETWORK = `\${GATEHOUSE_NETWORK:-172.30.74}`

/** The middlewares of every app of a homelab, in their order. */
const LOGIN = ['without-forged', 'gatehouse']

/** The replicas of a service: `cert-service-2` is one of `cert-service`. */
function isOf(service: string, name: string): boolean {
  return name === service || new RegExp(`^${service}-\\d$`).test(name)
}

for (const [
  path,
  { folder, check, sealed, proxy = 'proxy', hops = [] },
] of Object.entries<FileFacts>(FILES))
  t.test(path, async (t) => {
    const { services, volumes, networks }: ComposeFile = read(path)

    t.test('every container has as little as it needs', async (t) => {
      for (const [name, service] of Object.entries(services))
        t.match(
          service,
          { read_only: true, cap_drop: ['ALL'], security_opt: ['no-new-privileges:true'] },
          name,
        )
    })

    t.test('nothing but the proxy is reachable from outside', async (t) => {
      const published = Object.entries(services).filter(([, { ports }]) => ports)
      t.strictSame(
        published.map(([name]) => name),
        [proxy],
      )
      for (const port of services[proxy]?.ports ?? [])
        if (path === DEMO || path === REPLICAS)
          t.match(port, /^127\.0\.0\.1:/, 'the demo knows no passwords')
    })

    if (path !== HOMELAB)
      t.test('forward-auth believes one address, that of the proxy', async (t) => {
        const { server } = read(`${folder}/forward-auth.yaml`)
        t.strictSame(server.trustedProxies, [`\${GATEHOUSE_PROXY}`, ...hops])
        const checking = Object.keys(services).filter((name) => isOf('forward-auth', name))
        t.equal(checking.length, path === REPLICAS ? 3 : 1)
        for (const name of checking)
          t.equal(services[name]?.environment?.GATEHOUSE_PROXY, `${NETWORK}.2`)
        t.match(services.proxy?.networks, { front: { ipv4_address: `${NETWORK}.2` } })
        const [{ subnet, ip_range: others }] = networks.front.ipam.config
        t.equal(subnet, `${NETWORK}.0/24`)
        t.equal(others, `${NETWORK}.128/25`, 'which no other is given')
      })

    t.test('mounts: files of this repository, read-only, and volumes', async (t) => {
      for (const [name, { volumes: mounts = [] }] of Object.entries(services))
        for (const mount of mounts) {
          if (mount === SOCKET) continue
          const [source = '', , mode] = mount.split(':')
          const what = `${name}: ${mount}`
          if (!source.startsWith('.')) t.ok(source in volumes, what)
          else t.ok(mode === 'ro' && existsSync(join(ROOT, source)), what)
        }
    })

    t.test('the master key and what it seals are volumes of one service alone', async (t) => {
      const holders = (volume: string) =>
        Object.entries(services)
          .filter(([, { volumes = [] }]) => volumes.some((mount) => mount.startsWith(`${volume}:`)))
          .map(([name]) => name)
      for (const volume of sealed) {
        const running = holders(volume).filter((name) => name !== 'make-secrets')
        t.not(running.length, 0)
        for (const name of running) t.ok(isOf('cert-service', name), `${volume} at ${name}`)
      }
    })

    t.test('images: pinned, or made here', async (t) => {
      const dockerfile = readProjectFile('Dockerfile')
      for (const [name, { image = '', build }] of Object.entries(services))
        if (image.startsWith('gatehouse/')) {
          const target = build?.target ?? image.slice('gatehouse/'.length)
          t.match(dockerfile, new RegExp(`^FROM \\w+ AS ${target}$`, 'm'), name)
          t.equal(image, `gatehouse/${target}`, name)
        } else if (name === 'database') t.match(image, /^postgres:\d+-bookworm$/, 'of one format')
        else t.match(image, /:v?\d+\.\d+\.\d+(-alpine)?(@sha256:[0-9a-f]{64})?$/, name)
    })

    t.test(
      'routes: whatever is protected gets all headers of a portal, and credentials, from the check',
      async (t) => {
        const { http } = read(`${folder}/routes.yaml`)
        const { portals } = read(`${folder}/forward-auth.yaml`)
        const sent = [
          ...['X-Forwarded-User', 'X-Forwarded-Displayname', 'X-Authenticated-User'],
          'X-Gatehouse-Assertion',
          'X-Gatehouse-Tools',
          // The key of a program that came as a password is for no app.
          'Authorization',
          ...(portals[0].headers?.includes('remote-*')
            ? ['Remote-User', 'Remote-Name', 'Remote-Email', 'Remote-Groups']
            : []),
        ]
        const checks = Object.entries<Middleware>(http.middlewares).flatMap(
          ([name, { forwardAuth }]) => (forwardAuth ? [{ name, ...forwardAuth }] : []),
        )
        t.not(checks.length, 0)
        for (const { name, authResponseHeaders, address } of checks) {
          t.strictSame(authResponseHeaders, sent, name)
          const [origin, policy] = address.split('/portals/main?policy=')
          t.equal(origin, check, name)
          t.match(policy, /^\w+$/, name)
        }
        const own = ['forward-auth', 'demo-idp', 'cert-service', 'noop@internal']
        for (const [name, { service, middlewares = [] }] of Object.entries<Router>(http.routers)) {
          t.ok(service in http.services || service === 'noop@internal', name)
          if (own.includes(service)) continue
          const [first, second] = path === HOMELAB ? LOGIN : middlewares
          t.equal(first, 'without-forged', name)
          t.ok(
            checks.some((check) => check.name === second),
            `${name} is checked`,
          )
        }
      },
    )

    if (path !== HOMELAB)
      t.test('the key of the proxy is for its own names', async (t) => {
        const { auth, certificates } = read(`${folder}/cert-service.yaml`)
        const proxy = auth.psk.keys.find(({ name }: { name: string }) => name === 'proxy')
        t.strictSame(
          proxy.domains,
          certificates.flatMap(({ names }: { names: string[] }) =>
            names.map((name) => name.replace(/^\*/, '=*')),
          ),
        )
      })
  })

t.test('the images run without root', async (t) => {
  const [, , runtime = '', ...images] = readProjectFile('Dockerfile').split(/^(?=FROM )/m)
  t.match(runtime, /^FROM \S+ AS runtime$.*^USER 1000:1000$/ms)
  t.ok(images.length > 2)
  for (const image of images) t.match(image, /^FROM (runtime|service) AS (?!.*^USER )/ms)
})

t.test('production: the challenges of CAs reach what answers them', async (t) => {
  const { http } = read('docker/production/routes.yaml')
  const { server, issuers } = read('docker/production/cert-service.yaml')
  t.strictSame(issuers[0].challenges, [{ type: 'http-01' }])
  const [{ url }] = http.services['cert-service'].loadBalancer.servers
  t.equal(url, `http://cert-service:${server.plainHttp.port}`)
  t.equal(http.routers.challenges.rule, 'PathPrefix(`/.well-known/acme-challenge/`)')
})

t.test('replicas: alike, watched, and asked by the proxy only over loopback', async (t) => {
  const { services }: ComposeFile = read(REPLICAS)
  const { http } = read('docker/replicas/routes.yaml')
  const { entryPoints } = read('docker/replicas/traefik.yaml')
  for (const [service, port] of [
    ['forward-auth', 'http:4181'],
    ['cert-service', 'https:7401'],
  ] as const) {
    const names = Object.keys(services).filter((name) => isOf(service, name))
    t.equal(names.length, 3)
    for (const name of names) t.same(services[name], services[names[0] ?? ''], name)
    const { servers, healthCheck } = http.services[service].loadBalancer
    t.strictSame(
      servers.map(({ url }: { url: string }) => url),
      names.map((name) => port.replace(':', `://${name}:`)),
    )
    t.equal(healthCheck.path, '/readyz')
  }
  const { checks, https } = entryPoints
  t.match(checks, { address: '127.0.0.1:4181', forwardedHeaders: { trustedIPs: ['127.0.0.1'] } })
  t.equal(https.asDefault, true, 'so that no other route is at the entry point of checks')
  t.notOk(https.forwardedHeaders, 'and what clients say about their request is dropped')
  const inside = Object.entries<Router>(http.routers).filter(([, route]) => route.entryPoints)
  t.strictSame(
    inside.map(([name, { entryPoints }]) => [name, ...(entryPoints ?? [])]),
    [['checks', 'checks']],
  )
})

t.test('replicas: configured as the demo but for what they share', async (t) => {
  for (const [service, keys] of [
    ['cert-service', ['storage']],
    ['forward-auth', ['storage', 'session', 'server']],
  ] as const) {
    const [alone, shared] = ['docker', 'docker/replicas'].map((folder) => {
      const config = read(`${folder}/${service}.yaml`)
      for (const key of keys) delete config[key]
      return config
    })
    t.same(shared, alone, service)
  }
})

t.test(
  'a homelab: an app needs no label for its login, and has none that takes it away',
  async (t) => {
    const { services }: ComposeFile = read(HOMELAB)
    const { entryPoints, providers } = read('docker/homelab/traefik.yaml')
    const { http, https } = entryPoints
    t.strictSame(http.http, { redirections: { entryPoint: { to: 'https' } } }, 'no other way')
    t.equal(https.asDefault, true)
    t.strictSame(
      https.http.middlewares,
      LOGIN.map((name) => `${name}@file`),
    )
    t.strictSame(Object.keys(providers), ['file', 'http'], 'Traefik itself reads no label')
    t.equal(providers.http.endpoint, 'http://docker-reader:2375')
    t.strictSame(services.whoami?.labels, ['traefik.enable=true'])
    t.strictSame(services.whoami?.networks, ['apps'], 'where neither service can be asked')
  },
)

t.test('a homelab: who has signed in sees the certificates, without a group', async (t) => {
  const { rules } = read('docker/homelab/cert-service.yaml')
  t.match(rules, [{ people: 'anyone', names: ['*'], rights: ['read'] }])
})

t.test('a homelab: the proxy is believed by its name, and started first', async (t) => {
  const { services }: ComposeFile = read(HOMELAB)
  t.strictSame(read('docker/homelab/forward-auth.yaml').server.trustedProxies, ['traefik'])
  t.ok('traefik' in services)
  t.ok(Object.keys(services['forward-auth']?.depends_on ?? {}).includes('traefik'))
})

t.test('a homelab: one service has the socket of Docker, and two others ask it', async (t) => {
  const { services, networks }: ComposeFile = read(HOMELAB)
  const having = (isHad: (service: Service) => boolean) =>
    Object.keys(services).filter((name) => services[name] && isHad(services[name]))
  t.strictSame(
    having(({ volumes = [] }) => volumes.includes(SOCKET)),
    ['docker-reader'],
  )
  const { volumes, environment, healthcheck, ...reader } = services['docker-reader'] ?? {}
  t.strictSame([volumes, environment], [[SOCKET], undefined], 'and nothing else')
  t.ok(healthcheck)
  const { http } = read('docker/homelab/routes.yaml')
  const hosts = Object.values<{ rule: string }>(http.routers).flatMap(({ rule }) => {
    const [, name] = /^Host\(`(\w+)\.\{\{/.exec(rule) ?? []
    return name === undefined ? [] : `${name}.\${DOMAIN}`
  })
  const [command, domain, ...reserved] = reader.command ?? []
  t.strictSame([command, domain], ['docker-reader', `\${DOMAIN}`])
  t.strictSame(reserved.toSorted(), hosts.toSorted(), 'no app gets a host of Gatehouse')
  const inNetwork = (name: string) =>
    having(({ networks = [] }) =>
      (Array.isArray(networks) ? networks : Object.keys(networks)).includes(name),
    )
  t.strictSame(inNetwork('docker'), ['traefik', 'docker-reader'])
  t.strictSame(inNetwork('labels'), ['docker-reader', 'forward-auth'])
  t.match(networks, { docker: { internal: true }, labels: { internal: true } })
  const [{ appsFrom }] = read('docker/homelab/forward-auth.yaml').portals
  t.equal(appsFrom, 'http://docker-reader:2375')
})

t.test('a homelab: Traefik renews certificates by the lifetime that they have', async (t) => {
  const { acme } = read('docker/homelab/traefik.yaml').certificatesResolvers.gatehouse
  const { ca } = read('docker/homelab/cert-service.yaml')
  t.equal(`${acme.certificatesDuration / 24}d`, ca.leafLifetime)
})

t.test('compose.caddy.yml changes the proxy and what fills in its configuration', async (t) => {
  const { services }: ComposeFile = read('compose.caddy.yml')
  t.strictSame(Object.keys(services), ['proxy', 'hand-over'])
  t.match(services.proxy?.image, /^caddy:\d+\.\d+\.\d+$/)
})

interface FileFacts {
  readonly folder: string
  /** Volumes that only cert-service may see. */
  readonly sealed: readonly string[]
  /** Where the proxy asks. */
  readonly check: string
  /** The service that is the proxy. Default: `proxy`. */
  readonly proxy?: string
  /** Addresses that the proxy adds to the chain. */
  readonly hops?: readonly string[]
}

interface Middleware {
  readonly forwardAuth?: { readonly address: string; readonly authResponseHeaders: string[] }
}

interface Router {
  readonly service: string
  readonly middlewares?: readonly string[]
  readonly entryPoints?: readonly string[]
}

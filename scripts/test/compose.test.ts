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
}

interface ComposeFile {
  readonly services: Record<string, Service>
  readonly volumes: object
  readonly networks: { readonly front: { ipam: { config: [Record<string, string>] } } }
}

const read = (path: string) => parse(readProjectFile(path), { merge: true })
const ROOT = join(import.meta.dirname, '../..')
const DEMO = 'docker-compose.yml'
const PRODUCTION = 'compose.production.yml'
/** Where each of them has its configuration. */
const FOLDERS = { [DEMO]: 'docker', [PRODUCTION]: 'docker/production' }
const NETWORK = `\${GATEHOUSE_NETWORK:-172.30.74}`

for (const [path, folder] of Object.entries(FOLDERS))
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
        ['proxy'],
      )
      for (const port of services.proxy?.ports ?? [])
        if (path === DEMO) t.match(port, /^127\.0\.0\.1:/, 'the demo knows no passwords')
    })

    t.test('forward-auth believes one address, that of the proxy', async (t) => {
      const { server } = read(`${folder}/forward-auth.yaml`)
      t.strictSame(server.trustedProxies, [`\${GATEHOUSE_PROXY}`])
      t.equal(services['forward-auth']?.environment?.GATEHOUSE_PROXY, `${NETWORK}.2`)
      t.match(services.proxy?.networks, { front: { ipv4_address: `${NETWORK}.2` } })
      const [{ subnet, ip_range: others }] = networks.front.ipam.config
      t.equal(subnet, `${NETWORK}.0/24`)
      t.equal(others, `${NETWORK}.128/25`, 'which no other is given')
    })

    t.test('mounts: files of this repository, read-only, and volumes', async (t) => {
      for (const [name, { volumes: mounts = [] }] of Object.entries(services))
        for (const mount of mounts) {
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
      t.strictSame(holders('certificates'), ['cert-service'])
      t.strictSame(
        holders('keys').filter((name) => name !== 'make-secrets'),
        ['cert-service'],
      )
    })

    t.test('images: pinned, or made here', async (t) => {
      const dockerfile = readProjectFile('Dockerfile')
      for (const [name, { image = '', build }] of Object.entries(services))
        if (image.startsWith('gatehouse/')) {
          const target = build?.target ?? image.slice('gatehouse/'.length)
          t.match(dockerfile, new RegExp(`^FROM \\w+ AS ${target}$`, 'm'), name)
          t.equal(image, `gatehouse/${target}`, name)
        } else t.match(image, /:v?\d+\.\d+\.\d+$/, name)
    })

    t.test(
      'routes: whatever is protected has all headers of a portal taken from clients',
      async (t) => {
        const { http } = read(`${folder}/routes.yaml`)
        const { portals } = read(`${folder}/forward-auth.yaml`)
        const sent = [
          ...['X-Forwarded-User', 'X-Forwarded-Displayname', 'X-Authenticated-User'],
          'X-Gatehouse-Assertion',
          ...(portals[0].headers?.includes('remote-*')
            ? ['Remote-User', 'Remote-Name', 'Remote-Email', 'Remote-Groups']
            : []),
        ]
        for (const [name, { forwardAuth }] of Object.entries<Middleware>(http.middlewares)) {
          t.strictSame(forwardAuth.authResponseHeaders, sent, name)
          t.match(
            forwardAuth.address,
            /^http:\/\/forward-auth:4181\/portals\/main\?policy=\w+$/,
            name,
          )
        }
        const own = ['forward-auth', 'demo-idp', 'cert-service']
        for (const [name, { service, middlewares }] of Object.entries<Router>(http.routers)) {
          t.ok(service in http.services, name)
          if (!own.includes(service))
            t.ok((middlewares?.[0] ?? '') in http.middlewares, `${name} is checked`)
        }
      },
    )

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

t.test('production: the challenges of CAs reach what answers them', async (t) => {
  const { http } = read('docker/production/routes.yaml')
  const { server, issuers } = read('docker/production/cert-service.yaml')
  t.strictSame(issuers[0].challenges, [{ type: 'http-01' }])
  const [{ url }] = http.services['cert-service'].loadBalancer.servers
  t.equal(url, `http://cert-service:${server.plainHttp.port}`)
  t.equal(http.routers.challenges.rule, 'PathPrefix(`/.well-known/acme-challenge/`)')
})

t.test('compose.caddy.yml changes the proxy and what fills in its configuration', async (t) => {
  const { services }: ComposeFile = read('compose.caddy.yml')
  t.strictSame(Object.keys(services), ['proxy', 'hand-over'])
  t.match(services.proxy?.image, /^caddy:\d+\.\d+\.\d+$/)
})

interface Middleware {
  readonly forwardAuth: { readonly address: string; readonly authResponseHeaders: string[] }
}

interface Router {
  readonly service: string
  readonly middlewares?: readonly string[]
}

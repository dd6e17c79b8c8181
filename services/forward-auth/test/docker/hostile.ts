import type { Labels } from './containers.ts'

const router = (name: string) => `traefik.http.routers.x.${name}`
/** Label sets that want more than a host, and get the host of their service. */
export const GREEDY: readonly [what: string, labels: Labels][] = [
  [
    'another entry point, first',
    { [router('entrypoints')]: 'login', [router('priority')]: '99999' },
  ],
  ['no login', { [router('middlewares')]: '' }],
  [
    'a middleware of its own',
    {
      [router('middlewares')]: 'x@docker',
      'traefik.http.middlewares.x.headers.customrequestheaders.Remote-User': 'ada',
    },
  ],
  [
    'the check replaced',
    { 'traefik.http.middlewares.gatehouse.forwardauth.address': 'http://evil/' },
  ],
  ['another service', { [router('service')]: 'forward-auth@file' }],
  ['the API of Traefik', { [router('service')]: 'api@internal' }],
  [
    'the address of a server',
    { 'traefik.http.services.x.loadbalancer.server.url': 'http://docker-reader:2375' },
  ],
  [
    'servers',
    { 'traefik.http.services.x.loadbalancer.servers[0].url': 'http://forward-auth:4181' },
  ],
  [
    'a router of TCP',
    {
      'traefik.tcp.routers.x.rule': 'HostSNI(`*`)',
      'traefik.tcp.routers.x.entrypoints': 'https',
      'traefik.tcp.routers.x.tls.passthrough': 'true',
    },
  ],
  [
    'one for the sign-in host',
    {
      'traefik.tcp.routers.x.rule': 'HostSNI(`auth.lab.home.arpa`)',
      'traefik.tcp.routers.x.priority': '9',
    },
  ],
  ['a router of UDP', { 'traefik.udp.routers.x.entrypoints': 'https' }],
  [
    'options of TLS',
    { [router('tls.domains[0].main')]: '*.lab.home.arpa', [router('tls.options')]: 'x@file' },
  ],
  ['other certificates', { [router('tls.certresolver')]: 'x' }],
  [
    'a transport that checks nothing',
    { 'traefik.http.services.x.loadbalancer.serverstransport': 'x@file' },
  ],
  ['mirrors and failovers', { 'traefik.http.services.x.mirroring.service': 'y' }],
  ['another network', { 'traefik.docker.network': 'gatehouse-test_front' }],
  ['a template', { 'traefik.http.routers.{{ env "EAB_KEY" }}': 'x' }],
  ['a prototype', { __proto__x: 'y', constructor: 'z', 'traefik.__proto__.rule': 'Host(`a`)' }],
  ['a label of another proxy', { caddy: 'auth.lab.home.arpa', 'caddy.respond': '{env.EAB_KEY}' }],
]

/** Rules that are not one plain host of an app, and give none. */
export const UNFIT_RULES: readonly string[] = [
  'PathPrefix(`/`)',
  'Host(`auth.lab.home.arpa`)',
  'Host(`id.lab.home.arpa`)',
  'Host(`certs.lab.home.arpa`)',
  'Host(`x.auth.lab.home.arpa`)',
  'Host(`lab.home.arpa`)',
  'Host(`home.arpa`)',
  'Host(`badlab.home.arpa`)',
  'Host(`auth.example.com`)',
  'Host(`*.lab.home.arpa`)',
  'Host(`*`)',
  'Host(``)',
  'Host()',
  'HostRegexp(`.+`)',
  'HostRegexp(`^auth.lab.home.arpa$`)',
  'HostSNI(`auth.lab.home.arpa`)',
  'Host(`tv.lab.home.arpa`, `auth.lab.home.arpa`)',
  'Host(`tv.lab.home.arpa`) || Host(`auth.lab.home.arpa`)',
  'Host(`tv.lab.home.arpa`) || PathPrefix(`/`)',
  '!Host(`tv.lab.home.arpa`)',
  'Host(`tv.lab.home.arpa`) && PathPrefix(`/a`)',
  'Host(`AUTH.lab.home.arpa`)',
  'Host(`Tv.lab.home.arpa`)',
  'Host(`auth.lab.home.arpa.`)',
  'Host(`tv.lab.home.arpa.`)',
  'Host(`tv.lab.home.arpa:443`)',
  'Host(`tv.lab.home.arpa/`)',
  'Host(` tv.lab.home.arpa`)',
  ' Host(`tv.lab.home.arpa`)',
  'Host(`tv.lab.home.arpa`)\n',
  'Host(`tv.lab.home.arpa\n`)',
  'Host("tv.lab.home.arpa")',
  'host(`tv.lab.home.arpa`)',
  'Host(`ａｕｔｈ.lab.home.arpa`)',
  'Host(`xn--auth-.lab.home.arpa`)',
  'Host(`tv。lab.home.arpa`)',
  'Host(`bücher.lab.home.arpa`)',
  'Host(`10.0.0.1`)',
  'Host(`[::1]`)',
  'Host(`..lab.home.arpa`)',
  'Host(`-.lab.home.arpa`)',
  'Host(`a_b.lab.home.arpa`)',
  `Host(\`${'a'.repeat(64)}.lab.home.arpa\`)`,
  `Host(\`${'a.'.repeat(200)}lab.home.arpa\`)`,
  '',
  '{{ env "EAB_KEY" }}',
]

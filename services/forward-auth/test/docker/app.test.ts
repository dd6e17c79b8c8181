import { parseHost } from '@gatehouse/net'
import fc from 'fast-check'
import t from 'tap'
import { type App, type Container, readApp, routeApps } from '../../src/docker/app.ts'
import { composed, containerOf, type Labels, SECRET, ZONE } from './containers.ts'
import { GREEDY, UNFIT_RULES } from './hostile.ts'

const NOTES = { 'traefik.enable': 'true', ...composed('notes') }
const RULE = 'traefik.http.routers.x.rule'
const PORT = 'traefik.http.services.x.loadbalancer.server.port'
const SCHEME = 'traefik.http.services.x.loadbalancer.server.scheme'

const NONE = { loadBalancer: { passHostHeader: true } }

/** The routes of containers that have one image. */
function routesOf(containers: readonly Container[], image: Labels = {}, before = new Map()) {
  const readings = containers.map((one) => readApp(one, image, ZONE))
  const apps = readings.flatMap(({ app }) => app ?? [])
  const routes = routeApps(apps, before)
  const {
    routers = {},
    services: { none, ...services },
  } = routes.document.http
  t.strictSame(none, NONE, 'Traefik refuses a document without any')
  const hosts = Object.fromEntries(
    Object.entries(services).map(([host, service]) => {
      const { loadBalancer } = service as { loadBalancer: { servers: { url: string }[] } }
      return [host, loadBalancer.servers.map(({ url }) => url)]
    }),
  )
  const warnings = [...readings.flatMap(({ warnings }) => warnings), ...routes.warnings]
  return { ...routes, routers, hosts, warnings }
}

t.test('what labels may say', async (t) => {
  const rule = (host: string) => ({ [RULE]: `Host(\`${host}\`)` })
  const table: [what: string, labels: Labels, host: string, url?: string][] = [
    ['nothing but that it is an app', NOTES, 'notes'],
    ['the same in other words', { ...NOTES, 'traefik.enable': '1' }, 'notes'],
    ['a host', { ...NOTES, ...rule('tv.lab.home.arpa') }, 'tv'],
    ['a host several labels below', { ...NOTES, ...rule('a.b.c.lab.home.arpa') }, 'a.b.c'],
    ['an international one', { ...NOTES, ...rule('xn--bcher-kva.lab.home.arpa') }, 'xn--bcher-kva'],
    [
      'in another spelling',
      { ...NOTES, 'traefik.HTTP.Routers.x.Rule': 'Host(`tv.lab.home.arpa`)' },
      'tv',
    ],
    ['a port', { ...NOTES, [PORT]: '8096' }, 'notes', 'http://10.7.0.9:8096'],
    ['a scheme', { ...NOTES, [SCHEME]: 'https', [PORT]: '443' }, 'notes', 'https://10.7.0.9:443'],
    ['a name with what no host has', { ...NOTES, ...composed('My_app.2') }, 'my-app-2'],
  ]
  const Networks = { 'gatehouse-apps': { IPAddress: '10.7.0.9' }, other: { IPAddress: '10.8.0.9' } }
  for (const [what, labels, host, url = 'http://10.7.0.9:80'] of table) {
    const { routers, hosts, warnings } = routesOf([
      containerOf(labels, { NetworkSettings: { Networks } }),
    ])
    const name = `${host}.lab.home.arpa`
    t.strictSame(hosts, { [name]: [url] }, what)
    t.strictSame(routers, {
      [name]: { rule: `Host(\`${name}\`)`, service: name, entryPoints: ['https'], priority: 1 },
    })
    t.strictSame(warnings, [], what)
  }
})

t.test('label sets that want more get nothing but the host of their service', async (t) => {
  for (const [what, labels] of GREEDY) {
    const { routers, hosts, warnings } = routesOf([
      containerOf({ ...NOTES, ...labels }, { Names: ['/evil'] }),
    ])
    t.strictSame(Object.keys(routers), ['notes.lab.home.arpa'], what)
    t.match(hosts['notes.lab.home.arpa']?.join(), /^http:\/\/10\.7\.0\.\d+:80$/, what)
    const ofTraefik = Object.keys(labels).filter((label) => label.startsWith('traefik.'))
    t.equal(warnings.length, ofTraefik.length > 0 ? 1 : 0, what)
    for (const label of ofTraefik) t.match(warnings[0], label, `${what} is told`)
  }
})

t.test('a label that cannot be followed gives no host, and says why', async (t) => {
  const table: [what: string, labels: Labels, why?: RegExp][] = [
    ...UNFIT_RULES.map((rule): [string, Labels] => [rule, { [RULE]: rule }]),
    ['a service with the name of a host that is taken', composed('auth'), /not for apps/],
    ['in upper case', composed('AUTH'), /not for apps/],
    ['a name that no host can have', composed('_'), /one host/],
    [
      'two rules',
      {
        [RULE]: 'Host(`a.lab.home.arpa`)',
        'traefik.http.routers.y.rule': 'Host(`b.lab.home.arpa`)',
      },
      /keep one/,
    ],
    [
      'two spellings',
      {
        [RULE]: 'Host(`a.lab.home.arpa`)',
        'traefik.http.routers.x.Rule': 'Host(`b.lab.home.arpa`)',
      },
      /keep one/,
    ],
    [
      'two ports',
      { [PORT]: '80', 'traefik.http.services.y.loadbalancer.server.port': '81' },
      /keep one/,
    ],
    ...['0', '65536', '080', '-1', '80 ', '80@auth', '', '1e3'].map(
      (port): [string, Labels, RegExp] => [`port ${port}`, { [PORT]: port }, /a port/],
    ),
    ...['ftp', 'HTTP', 'file', '', 'http://auth.lab.home.arpa/?'].map(
      (scheme): [string, Labels, RegExp] => [`scheme ${scheme}`, { [SCHEME]: scheme }, /scheme/],
    ),
  ]
  for (const [what, labels, why = /choose another|has to be one host/] of table) {
    const { routers, hosts, warnings } = routesOf([containerOf({ ...NOTES, ...labels })])
    t.strictSame([routers, hosts], [{}, {}], what)
    t.equal(warnings.length, 1, what)
    t.match(warnings[0], /has no route/, what)
    t.match(warnings[0], why, what)
  }
})

t.test('where an app is', async (t) => {
  const inNetwork = (name: string, IPAddress: string) => ({
    NetworkSettings: { Networks: { [name]: { IPAddress } } },
  })
  const table: [what: string, changes: Partial<Container>, isRouted: boolean, warns: boolean][] = [
    ['it runs', { Status: 'Up Less than a second' }, true, false],
    ['it is healthy', { Status: 'Up 2 minutes (healthy)' }, true, false],
    ['it is not', { Status: 'Up 2 minutes (unhealthy)' }, false, false],
    ['nobody knows yet', { Status: 'Up 2 seconds (health: starting)' }, false, false],
    ['it is paused', { Status: 'Up 2 minutes (Paused)' }, false, false],
    ['it has ended', { Status: 'Exited (0) 2 minutes ago' }, false, false],
    ['it was made', { Status: 'Created' }, false, false],
    ['it restarts', { Status: 'Restarting (1) 2 seconds ago' }, false, false],
    ['an unknown state', { Status: 'Up' }, false, false],
    ['another network', inNetwork('front', '10.7.0.9'), false, true],
    ['no address', inNetwork('gatehouse-apps', ''), false, true],
    ['what is no address', inNetwork('gatehouse-apps', 'forward-auth'), false, true],
    ['no port', { Ports: [] }, false, true],
    ['no port of TCP', { Ports: [{ PrivatePort: 53, Type: 'udp' }] }, false, true],
  ]
  for (const [what, changes, isRouted, warns] of table) {
    const { hosts, holders, warnings } = routesOf([containerOf(NOTES, changes)])
    t.equal('notes.lab.home.arpa' in hosts, isRouted, what)
    t.equal(warnings.length > 0, warns, what)
    t.equal(holders.get('notes.lab.home.arpa'), 'home/notes', `${what}: it keeps its host`)
  }
})

t.test('what the image has does not count', async (t) => {
  const image = {
    'traefik.enable': 'true',
    [RULE]: 'Host(`tv.lab.home.arpa`)',
    [PORT]: '1234',
    ...composed('tv', 'evil'),
  }
  const own = composed('notes')
  const table: [what: string, labels: Labels, hosts: string[]][] = [
    ['all from the image', image, []],
    ['not if Compose runs it', { ...image, ...own }, []],
    [
      'the same words from somebody else cannot be told from it',
      { ...image, ...own, 'traefik.enable': 'true' },
      [],
    ],
    ['another value is of somebody else', { ...image, ...own, 'traefik.enable': '1' }, ['notes']],
    [
      'another rule too',
      { ...image, ...own, 'traefik.enable': '1', [RULE]: 'Host(`a.lab.home.arpa`)' },
      ['a'],
    ],
    [
      'without Compose the name is that of the container',
      { ...image, 'traefik.enable': '1' },
      ['shop'],
    ],
  ]
  for (const [what, labels, hosts] of table) {
    const found = routesOf([containerOf(labels, { Names: ['/shop'] })], image)
    t.strictSame(
      Object.keys(found.hosts),
      hosts.map((host) => `${host}.lab.home.arpa`),
      what,
    )
    t.notMatch(found.hosts, /1234/, what)
    t.match(
      found.warnings.join(),
      /shop: only .*each unlike that of the image; ignored: .*rule|shop: only .*server\.port/,
      what,
    )
  }
  const built = { 'com.docker.compose.project': 'home', 'com.docker.compose.service': 'notes' }
  t.strictSame(
    Object.keys(routesOf([containerOf(NOTES)], built).hosts),
    ['notes.lab.home.arpa'],
    'that Compose has built',
  )
  const { app, warnings } = readApp(containerOf(NOTES), undefined, ZONE)
  t.equal(app, undefined, 'an image that nobody can look at')
  t.equal(warnings.length, 1)
})

t.test('one host is one app', async (t) => {
  const app = (name: string, id: string, server?: string): App => ({
    id,
    name,
    host: 'tv.lab.home.arpa',
    server,
  })
  const [old, young] = [
    app('old', 'home/old', 'http://10.7.0.1:80'),
    app('young', 'home/young', 'http://10.7.0.2:80'),
  ]
  const had = (id: string) => new Map([['tv.lab.home.arpa', id]])
  const table: [
    what: string,
    apps: App[],
    before: Map<string, string>,
    holder: string,
    urls: string[],
  ][] = [
    ['the oldest', [old, young], new Map(), 'home/old', ['http://10.7.0.1:80']],
    ['who had it keeps it', [old, young], had('home/young'), 'home/young', ['http://10.7.0.2:80']],
    [
      'also while it is stopped',
      [old, { ...young, server: undefined }],
      had('home/young'),
      'home/young',
      [],
    ],
    ['who is gone does not', [old, young], had('home/gone'), 'home/old', ['http://10.7.0.1:80']],
    [
      'all containers of a service',
      [old, young, { ...old, server: 'http://10.7.0.3:80' }],
      new Map(),
      'home/old',
      ['http://10.7.0.1:80', 'http://10.7.0.3:80'],
    ],
    [
      'one of them is stopped',
      [
        { ...old, server: undefined },
        { ...old, server: 'http://10.7.0.3:80' },
      ],
      new Map(),
      'home/old',
      ['http://10.7.0.3:80'],
    ],
  ]
  for (const [what, apps, before, holder, urls] of table) {
    const { document, holders, warnings } = routeApps(apps, before)
    t.strictSame([...holders], [['tv.lab.home.arpa', holder]], what)
    const servers = urls.map((url) => ({ url }))
    t.strictSame(
      document.http.services,
      { none: NONE, ...(urls.length > 0 && { 'tv.lab.home.arpa': { loadBalancer: { servers } } }) },
      what,
    )
    t.equal(warnings.length, apps.filter(({ id }) => id !== holder).length, what)
  }
})

t.test('a one-off container of Compose takes no part', async (t) => {
  const { hosts, holders } = routesOf([
    containerOf({ ...NOTES, 'com.docker.compose.oneoff': 'True' }),
  ])
  t.strictSame([hosts, holders.size], [{}, 0])
})

t.test(
  'whatever the labels are, a route is one free host below the domain, at the address of its container',
  async (t) => {
    const host = fc.constantFrom(
      'auth',
      'AUTH',
      'tv',
      'a.b',
      'id',
      'certs',
      'x.auth',
      '',
      '*',
      'lab',
    )
    const domain = fc.constantFrom(
      '.lab.home.arpa',
      '.home.arpa',
      '',
      '.lab.home.arpa.',
      '.example.com',
    )
    const name = fc.tuple(host, domain).map((parts) => parts.join(''))
    const rule = fc.oneof(
      name.map((one) => `Host(\`${one}\`)`),
      fc
        .array(name, { minLength: 2, maxLength: 3 })
        .map((all) => all.map((one) => `Host(\`${one}\`)`).join(' || ')),
      fc.string().map((text) => `Host(\`${text}\`)`),
      fc.constantFrom('PathPrefix(`/`)', 'HostRegexp(`.*`)'),
    )
    const value = fc.oneof(
      rule,
      fc.string(),
      fc.constantFrom('true', '1', '80', '443', 'https', 'login', SECRET),
    )
    const label = fc.oneof(
      fc.constantFrom(
        'traefik.enable',
        RULE,
        PORT,
        SCHEME,
        'traefik.http.routers.y.rule',
        'traefik.tcp.routers.x.rule',
        'traefik.http.routers.x.entrypoints',
        'traefik.http.services.x.loadbalancer.server.url',
        ...Object.keys(composed('x')),
      ),
      fc.string(),
      fc.string().map((text) => `traefik.${text}`),
    )
    const labels = fc.dictionary(label, value).map((own) => ({ ...own }))
    const start = { 'traefik.enable': 'true' }
    let routed = 0
    fc.assert(
      fc.property(
        fc.array(fc.tuple(labels, fc.boolean()), { maxLength: 6 }),
        labels,
        (sets, image) => {
          const containers = sets.map(([own, isApp]) =>
            containerOf(isApp ? { ...own, ...start } : own),
          )
          const { routers, hosts } = routesOf(containers, image)
          const addresses = containers.map(
            (one) => one.NetworkSettings.Networks['gatehouse-apps']?.IPAddress,
          )
          for (const [key, router] of Object.entries(routers)) {
            routed++
            t.same(router, {
              rule: `Host(\`${key}\`)`,
              service: key,
              entryPoints: ['https'],
              priority: 1,
            })
            t.ok(parseHost(key)?.name === key && key.endsWith('.lab.home.arpa'))
            t.notOk(ZONE.reserved.some((one) => key === one || key.endsWith(`.${one}`)))
            for (const url of hosts[key] ?? []) {
              const [, address] = /^(?:https?|h2c):\/\/([\d.]+):[1-9]\d*$/.exec(url) ?? []
              t.ok(addresses.includes(address), url)
            }
          }
          t.strictSame(Object.keys(routers), Object.keys(hosts))
          t.notOk(JSON.stringify([routers, hosts]).includes(SECRET))
        },
      ),
      { numRuns: 500 },
    )
    t.ok(routed > 100, 'some were apps')
  },
)

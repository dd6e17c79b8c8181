import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { HEADER_NAMES } from '@gatehouse/gate'
import { PROXIES, PROXY_NAMES } from '@gatehouse/service-kit/proxies'
import t from 'tap'
import { parse } from 'yaml'
import { portalOf, startApp, yamlOf } from '../../services/forward-auth/test/app.ts'
import { TESTED } from '../../services/forward-auth/test/proxies/index.ts'
import { SHAPES } from '../../services/forward-auth/test/shapes.ts'
import { fateOf, PROXY_HEADERS } from '../reference/proxies.ts'
import { codeOf, ROOT, readDocument, tableRows } from './markdown.ts'
import { documentsOf, membersOf } from './yaml.ts'

const read = (file: string) => readFileSync(join(ROOT, file), 'utf8')
const example = (name: string) => read(`examples/proxies/${name}`)
const sorted = (names: Iterable<string>) =>
  [...new Set(names)].map((name) => name.toLowerCase()).sort()
const without = (names: readonly string[], ...others: readonly string[]) =>
  names.filter((name) => !others.includes(name))

/** The names in a row of the one list, docs/proxies.md. */
const LIST = new Map(
  tableRows(readDocument('docs/proxies.md').prose).map(([what = '', names = '']) => [
    what,
    sorted(codeOf(names).filter((name) => /^[A-Z]/.test(name))),
  ]),
)
const listed = (what: string) => LIST.get(what) ?? []

const CALLS = listed('A call of MCP, read by the check')
const READ = sorted([...listed('Read by the check'), ...CALLS])
const IDENTITY = listed('Identity')
const CREDENTIALS = listed('Credentials')
const OVERRIDES = [...HEADER_NAMES.methodOverrides, ...HEADER_NAMES.pathOverrides]
/** What the examples remove, so that neither check nor app get it from a client. */
const FORGEABLE = without(
  [...HEADER_NAMES.read, ...HEADER_NAMES.believed, 'http2-settings'],
  ...['x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-forward-auth-if'],
)

t.test('the one list has the names of the code', async (t) => {
  t.same(listed('Only by a proxy, read by the check'), sorted(HEADER_NAMES.read))
  t.same(CALLS, sorted(HEADER_NAMES.calls))
  t.same(listed('Only by a proxy'), sorted(HEADER_NAMES.believed))
  t.same(listed('Another method'), sorted(HEADER_NAMES.methodOverrides))
  t.same(listed('Another path'), sorted(HEADER_NAMES.pathOverrides))
  t.same(listed('Another protocol'), ['http2-settings', 'upgrade'])
})

t.test('each example sets and removes what the file of its proxy says', async (t) => {
  for (const proxy of PROXY_NAMES) {
    const [sets, removes] = TESTED[proxy].lines()
    const isOfProxies = (name: string) => PROXY_HEADERS.some((one) => one === name.toLowerCase())
    const fates = (fate: string) =>
      PROXY_HEADERS.filter((name) => fateOf(PROXIES[proxy], name) === fate)
    t.same(sorted(sets.filter(isOfProxies)), sorted(fates('set')), `${proxy} sets`)
    t.same(sorted(removes.filter(isOfProxies)), sorted(fates('removed')), `${proxy} removes`)
  }
})

t.test('a check reads no headers of its client but those of the list', async (t) => {
  const portals = portalOf(
    'main',
    `preflight: true, policies: { admins: 'Group("a")' }, rules: [{ from: [10.0.0.0/8], require: anyone }, { tools: ['*'], require: signedIn }]`,
  )
  const seen = new Set<string>()
  const { check, signIn } = await startApp(t, yamlOf(portals), (app) => {
    app.addHook('onRequest', async ({ raw }) => {
      const headers = new Proxy(raw.headers, {
        get: (target, name) => {
          if (typeof name === 'string') seen.add(name)
          return Reflect.get(target, name)
        },
      })
      Object.defineProperty(raw, 'headers', { value: headers })
    })
  })
  const session = { cookie: await signIn('main') }
  const preflight = {
    ...{ origin: 'https://a.example.com', 'access-control-request-method': 'PUT' },
    ...{ 'x-forwarded-method': 'OPTIONS', 'x-original-method': 'OPTIONS' },
  }
  const page = { 'sec-fetch-mode': 'navigate', accept: 'text/html' }
  const call = { ...session, 'mcp-method': 'tools/list' }
  for (const shape of SHAPES)
    for (const headers of [{}, session, { authorization: 'Bearer x' }, preflight, page, call])
      await check(shape, headers)
  // A page that refuses is in the language of the visitor.
  for (const shape of SHAPES)
    await check(shape, { ...session, ...page }, { query: '?policy=admins' })
  // Fastify looks for bodies and for a request that it knows.
  const ofFastify = ['content-type', 'content-length', 'transfer-encoding', 'request-id']
  const ofLog = ['user-agent']
  const ofProxy = [
    ...HEADER_NAMES.read,
    'x-gatehouse-answer',
    'host',
    'x-request-id',
    'traceparent',
  ]
  const read = sorted(without([...seen], ...ofFastify, ...ofLog, ...ofProxy))
  t.same(without(read, ...READ), [])
  for (const name of ['accept', 'cookie', 'origin', 'sec-fetch-mode', ...CALLS])
    t.ok(read.includes(name), name)
})

t.test('nginx sets or removes each of them, for the app and for its check', async (t) => {
  const setIn = (location: string) => {
    const text = example('nginx.conf').split(`location ${location} {`)[1]?.split('\n    }')[0] ?? ''
    return sorted([...text.matchAll(/proxy_set_header (\S+) /g)].map(([, name = '']) => name))
  }
  const ofProxies = [...HEADER_NAMES.read, ...HEADER_NAMES.believed]
  const app = setIn('/')
  for (const name of [...ofProxies, ...IDENTITY, ...CREDENTIALS, 'http2-settings', 'upgrade'])
    t.ok(app.includes(name), name)
  const own = ['connection', 'content-length', 'x-gatehouse-answer']
  t.same(setIn('= /_gatehouse'), sorted([...ofProxies, ...own]))
  // It asks nothing: the answer is all that it sends.
  t.same(setIn('@refused'), own)
  t.match(example('nginx.conf').split('location @refused {')[1], 'proxy_pass_request_headers off;')
})

t.test('Caddy', async (t) => {
  const ofLabels = 'examples/homelab/caddy/Caddyfile'
  for (const file of ['examples/proxies/Caddyfile', 'docker/Caddyfile', ofLabels]) {
    const text = read(file)
    const removed = [...text.matchAll(/request_header (?:@other )?-(\S+)/g)].map(
      ([, name = '']) => name,
    )
    const ofOriginal = FORGEABLE.filter((name) => name.startsWith('x-original-'))
    const others = ['x-original-*', 'x-gatehouse-tools', 'connection', 'upgrade']
    t.same(sorted(removed), sorted([...without(FORGEABLE, ...ofOriginal), ...others]), file)
    for (const [, names = ''] of text.matchAll(/copy_headers (.*)/g))
      for (const name of [...IDENTITY, ...CREDENTIALS])
        t.ok(sorted(names.split(' ')).includes(name), `${file}: ${name}`)
    const sites = text.split(/\n(?=\S)/).filter((site) => /^\t+forward_auth /m.test(site))
    t.not(sites.length, 0)
    for (const site of sites)
      t.match(site, /^\t(import guard|request_header -.+)$/m, `${file}: the guard of each site`)
    const checks = text.match(/^\t+forward_auth [^{]+\{\n(\t+[^}\t].*\n)+/gm) ?? []
    t.equal(checks.length, text.match(/^\t+forward_auth /gm)?.length)
    for (const one of checks)
      t.match(one, '\theader_up X-Forwarded-Uri {http.request.orig_uri}\n', `${file}: a prefix`)
    // Caddy would ask first, and then remove them.
    const isOrdered = /^\torder request_header before forward_auth$/m.test(text)
    t.equal(isOrdered, /^\tforward_auth /m.test(text), `${file}: removed before the check`)
  }
})

t.test('a Caddy that the internet reaches has no socket of Docker', async (t) => {
  const { services } = parse(read('examples/homelab/caddy/compose.yml'))
  t.match(services.caddy, { read_only: true, cap_drop: ['ALL'] })
  t.notMatch(JSON.stringify(services), 'docker.sock')
})

t.test('HAProxy', async (t) => {
  const lua = example('haproxy.lua')
  const listOf = (name: string) =>
    sorted(
      [
        ...(new RegExp(`${name} = \\{(.*?)\\n?\\}`, 's').exec(lua)?.[1] ?? '').matchAll(/'(.+?)'/g),
      ].map(([, one = '']) => one),
    )
  t.same(listOf('IDENTITY'), IDENTITY)
  const ofProxy = ['x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto']
  const asked = [...READ, ...without(OVERRIDES, 'x-original-url'), ...ofProxy, 'user-agent']
  t.same(listOf('ASKED'), sorted(asked))
  const removed = [...example('haproxy.cfg').matchAll(/del-header (\S+) -m reg/g)].map(
    ([, one = '']) => new RegExp(one),
  )
  for (const name of [...FORGEABLE, 'x_forwarded_user', 'x~forwarded~user', "x'a"])
    t.ok(
      removed.some((one) => one.test(name)),
      name,
    )
  for (const name of [...READ, ...HEADER_NAMES.methodOverrides, 'x-rewrite-url'])
    t.notOk(
      removed.some((one) => one.test(name)),
      name,
    )
})

t.test('Connection is written anew for the app', async (t) => {
  const ofLabels = 'examples/homelab/caddy/Caddyfile'
  const lines: Readonly<Record<string, readonly [file: string, lines: readonly string[]][]>> = {
    nginx: [['examples/proxies/nginx.conf', ['proxy_set_header Connection $upgrade_connection;']]],
    Caddy: ['examples/proxies/Caddyfile', 'docker/Caddyfile', ofLabels].map((file) => [
      file,
      ['request_header @websocket Connection Upgrade', 'request_header @other -Connection'],
    ]),
    HAProxy: [
      [
        'examples/proxies/haproxy.cfg',
        [
          'http-request del-header Connection',
          'http-request set-header Connection Upgrade if for-websocket',
        ],
      ],
    ],
  }
  for (const [file, expected] of Object.values(lines).flat()) {
    const names = /^\s*(?:proxy_set_header|request_header|http-request).* -?Connection(?: .*)?$/gm
    const found = [...read(file).matchAll(names)].map(([line]) => line.trim())
    const own = found.filter((line) => line !== 'proxy_set_header Connection "";')
    t.same(own, expected, file)
  }
})

t.test('Envoy', async (t) => {
  for (const file of ['envoy.yaml', 'envoy-grpc.yaml']) {
    const all = documentsOf(example(file))
    const [removed] = membersOf(all, 'request_headers_to_remove') as string[][]
    t.same(sorted(removed ?? []), sorted([...FORGEABLE, 'x-forward-auth-if']), file)
    t.same(membersOf(all, 'upgrade_configs'), [[{ upgrade_type: 'websocket' }]], file)
  }
  const all = documentsOf(example('envoy.yaml'))
  const [seen] = membersOf(all, 'allowed_headers') as {
    patterns: { exact?: string; safe_regex?: { regex: string } }[]
  }[]
  const exact = seen?.patterns.flatMap(({ exact = [] }) => exact) ?? []
  // Envoy passes on Authorization by itself.
  t.same(
    sorted(exact),
    sorted([...without(READ, 'authorization'), ...without(OVERRIDES, 'x-original-url')]),
  )
  const [regex = ''] = seen?.patterns.flatMap(({ safe_regex: one }) => one?.regex ?? []) ?? []
  for (const name of ['x.forwarded.user', 'x~forwarded~user', 'x_real_ip', 'x-http~method'])
    t.match(name, new RegExp(`^${regex}$`))
  for (const name of [':path', ':authority', 'x-forwarded-user'])
    t.notMatch(name, new RegExp(`^${regex}$`))
  const answered = membersOf(all, 'allowed_upstream_headers') as { patterns: { exact: string }[] }[]
  const told = sorted([...IDENTITY, ...CREDENTIALS])
  for (const { patterns } of answered) t.same(sorted(patterns.map(({ exact }) => exact)), told)
  for (const file of ['envoy.yaml', 'envoy-grpc.yaml']) {
    const mutations = membersOf(documentsOf(example(file)), 'mutations')
    t.same(mutations, [[{ remove: 'x-gatehouse-tools' }]], `${file}: before the check`)
  }
})

const OF_TRAEFIK = globSync(
  '{examples/{proxies,kubernetes}/traefik,docker/routes,docker/*/routes}.yaml',
  { cwd: ROOT },
)

/** The values of Upgrade that each configuration of Traefik refuses, in files and guides. */
const REFUSED = [...OF_TRAEFIK, 'docs/traefik.md'].flatMap((file) =>
  // Compose writes $ as $$.
  [
    ...read(file)
      .replaceAll('$$', '$')
      .matchAll(/HeaderRegexp\(`Upgrade`,\s+`\(\?i\)(.+)`\)/g),
  ].map(([, expression = '']) => ({ file, expression: new RegExp(expression, 'i') })),
)

t.test('Traefik refuses each upgrade but to WebSockets', async (t) => {
  t.equal(REFUSED.length, OF_TRAEFIK.length + 2)
  const others = ['', 'h2c', 'H2C', 'websocket, h2c', 'h2c, websocket', 'websockets', 'TLS/1.0']
  const alike = [...'websocket'].flatMap((_letter, i) => [
    'websocket'.slice(0, i),
    `${'websocket'.slice(0, i)}x${'websocket'.slice(i + 1)}`,
  ])
  for (const { file, expression } of REFUSED) {
    for (const upgrade of ['websocket', 'WebSocket']) t.notMatch(upgrade, expression, file)
    for (const upgrade of [...others, ...alike]) t.match(upgrade, expression, `${file}: ${upgrade}`)
  }
})

t.test('Traefik removes what its entry point leaves', async (t) => {
  const left = ['Forwarded', 'HTTP2-Settings', 'X-Original-Method', 'X-Original-URL']
  t.equal(OF_TRAEFIK.length, 6)
  for (const file of OF_TRAEFIK) {
    const all = documentsOf(read(file))
    const [byMiddleware = {}] = membersOf(all, 'customRequestHeaders') as Record<string, string>[]
    const [byRoute = []] = membersOf(all, 'remove') as string[][]
    t.same([...Object.keys(byMiddleware), ...byRoute], left, file)
    const listed = membersOf(all, 'authResponseHeaders') as string[][]
    for (const names of listed)
      for (const name of [...IDENTITY, ...CREDENTIALS])
        t.ok(sorted(names).includes(name), `${file}: ${name}`)
    const ofRouters = membersOf(all, 'middlewares').filter(Array.isArray) as string[][]
    for (const names of ofRouters.filter(([first]) => first !== 'next-replica'))
      t.equal(names[0], 'without-forged', `${file}: ${names}`)
  }
})

t.test('other implementations of Gateway API remove them in the route', async (t) => {
  for (const file of ['app.yaml', 'external-auth.yaml']) {
    const [removed = []] = membersOf(
      documentsOf(read(`examples/kubernetes/${file}`)),
      'remove',
    ) as string[][]
    t.same(sorted(removed), sorted(FORGEABLE), file)
  }
})

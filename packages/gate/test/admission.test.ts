import { parseHost, parseIp } from '@gatehouse/net'
import t from 'tap'
import type { Principal } from '../src/decide.ts'
import { decide } from '../src/decide.ts'
import { readPath, UNKNOWN_PATH } from '../src/paths.ts'
import { createPolicy } from '../src/policy.ts'
import { createReach, Program } from '../src/programs.ts'
import { type AccessRule, admissionFor, createRules, type RuledRequest } from '../src/rules.ts'
import { createRandom, oneOf, type Random, randomTarget, readingOf } from './paths.ts'
import { Person, profileOf } from './person.ts'

const CONDITIONS = {
  staff: 'Group("staff")',
  ops: 'Group("ops") || Scope("ops")',
  metrics: 'Group("ops") || Scope("metrics")',
  any: 'true',
}
const policies = new Map(
  Object.entries(CONDITIONS).map(([name, source]) => [name, createPolicy(name, source)]),
)
const NAMES = Object.keys(CONDITIONS)
const settings = { name: 'main', headers: [], dynamicHeaders: [] }

const program = (scopes: string[], reach: { hosts?: string[]; policies?: string[] }) =>
  new Program({ method: 'psk', subject: 'ci', scopes }, '', createReach(reach), settings)

const HOSTS = ['app.example.com', 'deploy.example.com']
const PRINCIPALS: readonly Principal[] = [
  ...[[], ['staff'], ['ops'], ['staff', 'ops']].map((groups) => new Person(profileOf({ groups }))),
  ...[['ops'], ['metrics'], ['ops', 'metrics']].flatMap((scopes) => [
    program(scopes, { hosts: ['app.example.com'] }),
    program(scopes, { policies: ['ops'] }),
    program(scopes, { policies: ['metrics', 'any'] }),
    program(scopes, { hosts: ['*.example.com'], policies: ['ops', 'metrics'] }),
  ]),
]

const PATHS = ['/admin', '/admin/*', '/public/*', '/a/*/b', '/a/admin', '/*/admin', '/*', '/']
const METHODS = ['GET', 'POST', 'DELETE']
const REQUIRED = ['anyone', 'signedIn', ...NAMES, ['ops', 'metrics'], ['staff', 'ops']]

function randomRules(random: Random): readonly AccessRule[] {
  const some = <T>(all: readonly T[]) => [oneOf(random, all), oneOf(random, all)]
  const maybe = <T>(name: string, all: readonly T[]) =>
    random(3) === 0 ? { [name]: some(all) } : {}
  const configs = Array.from({ length: 1 + random(4) }, () => ({
    ...(random(3) > 0 && { paths: some(PATHS) }),
    ...maybe('hosts', [...HOSTS, '*.example.com']),
    ...maybe('methods', METHODS),
    ...maybe('from', ['10.0.0.0/8', '192.0.2.0/24']),
    require: oneOf(random, REQUIRED),
  }))
  return createRules(configs, policies)
}

/** Spellings, and what an app or a network takes them for. */
const HOST_SPELLINGS = ['$', '$.', '$:443']
const METHOD_SPELLINGS = [
  (text: string) => text,
  (text: string) => text.toLowerCase(),
  () => undefined,
]
const ADDRESS_SPELLINGS = ['$', '::ffff:$', '', '$:80', 'unknown']

/** A request as it is written, and the plain one that some app takes it for. */
function randomRequest(random: Random): {
  written: RuledRequest
  plain: RuledRequest
  text: string
} {
  const host = oneOf(random, HOSTS)
  const method = oneOf(random, [...METHODS, 'HEAD', 'OPTIONS'])
  const from = oneOf(random, ['10.1.2.3', '192.0.2.7', '203.0.113.9'])
  const target = randomTarget(random)
  const written = {
    host: parseHost(oneOf(random, HOST_SPELLINGS).replace('$', host.toUpperCase()).split(':')[0]!)!,
    path: random(20) === 0 ? UNKNOWN_PATH : readPath(target),
    method: oneOf(random, METHOD_SPELLINGS)(method),
    clientIp: () => parseIp(oneOf(random, ADDRESS_SPELLINGS).replace('$', from))?.text,
  }
  const address = written.clientIp()
  const segments =
    written.path === UNKNOWN_PATH
      ? readingOf(random, randomTarget(random))
      : readingOf(random, target)
  return {
    written: { ...written, clientIp: () => address },
    // Nothing that this app would take for another one.
    plain: {
      host: parseHost(host)!,
      path: { segments, folded: segments.map((segment) => `\0${segment}`), next: undefined },
      method,
      clientIp: () => from,
    },
    text: `${written.method} ${host}${target} from ${address}, to an app ${method} /${segments.join('/')}`,
  }
}

const passes = (
  rules: readonly AccessRule[],
  request: RuledRequest,
  principal: Principal | undefined,
  route?: string,
) =>
  ['allow', 'anonymous'].includes(
    decide({
      preflight: false,
      host: request.host,
      principal,
      admission: admissionFor(rules, request),
      routePolicy: () => (route === undefined ? undefined : policies.get(route)),
      kind: () => 'api',
      now: 0,
    }).outcome,
  )

/** `GATEHOUSE_FAULT_RUNS` draws more, `GATEHOUSE_FAULT_SEED` others. */
const RUNS = Math.max(100_000, Number(process.env.GATEHOUSE_FAULT_RUNS ?? 0))
const SEED = Number(process.env.GATEHOUSE_FAULT_SEED ?? 7)
/** Requests that are asked about for the same rules. */
const EACH = 20

t.test('no spelling of a request passes where the plain one is refused', async (t) => {
  const random = createRandom(SEED)
  const seen = { anyone: 0, person: 0, program: 0, refused: 0 }
  const wrong: string[] = []
  for (let run = 0; run < RUNS; run += EACH) {
    const rules = randomRules(random)
    for (let i = 0; i < EACH; i++) {
      const { written, plain, text } = randomRequest(random)
      const route = random(3) === 0 ? oneOf(random, NAMES) : undefined
      for (const principal of [undefined, oneOf(random, PRINCIPALS)]) {
        const mayPass = passes(rules, plain, principal, route)
        if (!mayPass) seen.refused++
        if (!passes(rules, written, principal, route)) continue
        if (!principal) seen.anyone++
        else if (principal instanceof Program) seen.program++
        else seen.person++
        if (mayPass) continue
        wrong.push(`${text} ${JSON.stringify(rules.map(({ config }) => config))} ${route}`)
      }
    }
  }
  t.strictSame(wrong.slice(0, 3), [], `of ${RUNS} requests, seed ${SEED}`)
  t.ok(Math.min(...Object.values(seen)) > RUNS / 50, JSON.stringify(seen))
})

t.test('what a row of callers admits', async (t) => {
  const rules = createRules(
    [
      { paths: ['/metrics'], require: 'metrics' },
      { hosts: ['deploy.example.com'], require: 'ops' },
      { paths: ['/status'], methods: ['GET'], from: ['10.0.0.0/8'], require: 'metrics' },
      { paths: ['/both'], require: ['ops', 'metrics'] },
      { paths: ['/open/*'], require: 'anyone' },
    ],
    policies,
  )
  const scopes = ['metrics', 'ops']
  const rows = {
    hosts: program(scopes, { hosts: ['app.example.com'] }),
    policies: program(scopes, { policies: ['metrics'] }),
    deploy: program(scopes, { policies: ['ops'] }),
    both: program(scopes, { hosts: ['app.example.com'], policies: ['metrics'] }),
  }
  const APP = 'app.example.com'
  const DEPLOY = 'deploy.example.com'
  type Row = keyof typeof rows
  const asked: [
    url: string,
    admitted: readonly Row[],
    sent?: Partial<RuledRequest>,
    route?: string,
  ][] = [
    [`${APP}/metrics`, ['hosts', 'policies', 'both']],
    [`${DEPLOY}/metrics`, ['policies']],
    [`${DEPLOY}/METRICS`, []],
    [`${DEPLOY}/x`, ['deploy']],
    [`${APP}/both`, ['hosts']],
    [`${APP}/status`, ['hosts', 'policies', 'both'], { clientIp: () => '10.1.2.3' }],
    [`${APP}/status`, ['hosts'], { clientIp: () => undefined }],
    [`${APP}/status`, ['hosts'], { clientIp: () => '10.1.2.3', method: undefined }],
    [`${APP}/status`, ['hosts'], { clientIp: () => '10.1.2.3', method: 'get' }],
    [`${APP}/x`, ['hosts'], {}],
    [`${APP}/x`, ['hosts', 'policies', 'both'], {}, 'metrics'],
    [`${APP}/metrics`, ['hosts'], {}, 'ops'],
    [`${APP}/x/../y`, ['hosts'], {}, 'metrics'],
    [`${APP}/open/x`, ['hosts', 'policies', 'deploy', 'both']],
    [`${APP}/`, ['hosts'], { path: UNKNOWN_PATH }],
  ]
  for (const spelling of [
    '/admin//users',
    '/./secret',
    '/secret;x',
    '/%2e/secret',
    '/x%2fy',
    '//metrics',
    '/a/..;/metrics',
  ])
    asked.push([`${APP}${spelling}`, ['hosts']])
  for (const [url, admitted, sent, route] of asked) {
    const at = url.indexOf('/')
    const host = parseHost(url.slice(0, at))!
    const plain = {
      host,
      path: readPath(url.slice(at)),
      method: 'GET',
      clientIp: () => '192.0.2.7',
    }
    const request = { ...plain, ...sent }
    const passing = Object.entries(rows).filter(([, one]) => passes(rules, request, one, route))
    t.strictSame(
      passing.map(([name]) => name),
      admitted,
      `${url} ${Object.keys(sent ?? {})} ${route}`,
    )
  }
})

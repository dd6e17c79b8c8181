import { writeFileSync } from 'node:fs'
import { BlockList } from 'node:net'
import { join } from 'node:path'
import { testFolder } from '@gatehouse/service-kit/testing'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { parse, stringify } from 'yaml'
import { explain } from '../../../services/forward-auth/src/cli/explain.ts'
import { loadForwardAuthConfig } from '../../../services/forward-auth/src/config/load.ts'
import { recognise } from '../src/migrate.ts'
import { PROGRAMS } from '../src/programs.ts'
import { rowOf } from '../src/table.ts'
import { areMarked, migration } from './kit.ts'
import { AUTHELIA_KEYS } from './reference.ts'

const BASE = {
  session: {
    secret: 'CANARY',
    cookies: [{ domain: 'example.com', authelia_url: 'https://auth.example.com' }],
  },
}
type Settings = Readonly<Record<string, unknown>>
const withRules = (rules: readonly object[], more: Settings = {}) => ({
  ...BASE,
  access_control: { rules, ...more },
})

t.test('the table has every setting of their reference, and no other', async (t) => {
  const { Authelia: table } = PROGRAMS.authelia.tables
  const keys = AUTHELIA_KEYS.map((key) => key.replaceAll('$', '0'))
  for (const key of keys) t.ok(rowOf(table, key), key)
  for (const { names, becomes, note } of table) {
    t.ok(becomes ?? note, names.join(', '))
    for (const name of names)
      t.ok(
        keys.some((key) => rowOf([{ names: [name] }], key)),
        name,
      )
  }
})

t.test('what the settings become', async (t) => {
  const migrated = migration(t, 'authelia')
  const portal = (more: object) => ({ portals: [more] })
  const rules = (...list: object[]) => portal({ rules: list })
  const site = (cookie: object) => ({ session: { cookies: [cookie] } })
  const cookie = { domain: 'example.com', authelia_url: 'https://auth.example.com' }
  const one = { domain: 'app.example.com', policy: 'one_factor' }
  const group = (name: string) => ({ ...one, subject: `group:${name}` })
  // biome-ignore format: a table
  const table: [settings: Settings, printed: object][] = [
    [BASE, { server: { host: '0.0.0.0', port: 9091 }, session: { lifetime: '1h' } }],
    [BASE, portal({ name: 'main', headers: 'remote-*', userHeader: 'username', session: { idle: '5m' }, providers: [{ type: 'openIDConnect', name: 'corp' }] })],
    [BASE, { domains: [{ domain: 'example.com', authHost: 'auth.example.com' }] }],
    [BASE, rules({ require: 'nobody' })],
    [{ ...BASE, server: { address: 'tcp://127.0.0.1:8080/auth' } }, { server: { host: '127.0.0.1', port: 8080 } }],
    [{ ...BASE, server: { host: '10.0.0.2', port: 80 } }, { server: { host: '10.0.0.2', port: 80 } }],
    [site({ ...cookie, expiration: '1 day and 2 hours', inactivity: '45 minutes' }), { session: { lifetime: '26h' }, portals: [{ session: { idle: '45m' } }] }],
    [site({ ...cookie, expiration: 3600, inactivity: 30 }), { session: { lifetime: '1h' }, portals: [{ session: { idle: '5m' } }] }],
    [{ session: { domain: 'example.com', expiration: '12h' } }, { domains: [{ domain: 'example.com', authHost: '' }], session: { lifetime: '12h' } }],
    [site({ ...cookie, authelia_url: undefined }), { domains: [{ domain: 'example.com', authHost: '' }] }],
    [{ session: { cookies: [cookie, { domain: 'b.example' }] } }, { domains: [{ authHost: 'auth.example.com' }, { domain: 'b.example', authHost: 'auth.example.com' }] }],
    [withRules([], { default_policy: 'one_factor' }), rules({ require: 'signedIn' })],
    [withRules([], { default_policy: 'two_factor' }), portal({ rules: [{ require: 'second-factor' }], policies: { 'second-factor': {} } })],
    [withRules([], { default_policy: 'bypass' }), rules({ require: 'anyone' })],
    [withRules([{ ...one, policy: 'bypass' }]), rules({ hosts: ['app.example.com'], require: 'anyone' }, { require: 'nobody' })],
    [withRules([{ ...one, policy: 'typo' }], { default_policy: 'one_factor' }), rules({ hosts: ['app.example.com'], require: 'nobody' }, { require: 'signedIn' })],
    [withRules([{ ...one, domain: ['*.EXAMPLE.com', 'example.com'] }]), rules({ hosts: ['*.example.com', 'example.com'], require: 'signedIn' })],
    [withRules([{ ...one, methods: ['get', 'HEAD'] }]), rules({ methods: ['GET', 'HEAD'], require: 'signedIn' })],
    [withRules([{ ...one, methods: ['GET'] }]), rules({ methods: ['HEAD'], require: 'nobody' }, { methods: ['GET'], require: 'signedIn' }, { require: 'nobody' })],
    [withRules([{ ...one, networks: ['10.0.0.1', 'home'] }], { networks: [{ name: 'home', networks: ['192.168.1.0/24'] }] }), rules({ from: ['10.0.0.1', '192.168.1.0/24'] })],
    [{ ...withRules([{ ...one, networks: ['home'] }]), definitions: { network: { home: ['192.168.1.0/24'] } } }, rules({ from: ['192.168.1.0/24'] })],
    [withRules([group('ops')]), portal({ rules: [{ require: 'people-1' }, { require: 'nobody' }], policies: { 'people-1': 'Group("ops")' } })],
    [withRules([{ ...one, subject: ['user:ada', 'group: dev'] }]), portal({ policies: { 'people-1': 'claims.preferred_username == "ada" || Group("dev")' } })],
    [withRules([{ ...one, subject: [['user:ada', 'group:dev'], ['group:ops']] }]), portal({ policies: { 'people-1': 'claims.preferred_username == "ada" && Group("dev") || Group("ops")' } })],
    [withRules([group('ops'), group('dev')]), portal({ rules: [{ hosts: ['app.example.com'], require: 'people-1' }, { require: 'nobody' }], policies: { 'people-1': 'Group("ops") || Group("dev")' } })],
    [withRules([group('ops'), { ...one, policy: 'bypass' }]), rules({ hosts: ['app.example.com'], require: 'signedIn' }, { require: 'nobody' })],
    [withRules([{ ...group('ops'), domain: '*.example.com' }, group('dev')]), portal({
      rules: [{ hosts: ['app.example.com'], require: 'people-1' }, { hosts: ['*.example.com'], require: 'people-2' }, { require: 'nobody' }],
      policies: { 'people-1': 'Group("ops") || Group("dev")', 'people-2': 'Group("ops")' },
    })],
    [withRules([{ ...group('ops'), policy: 'two_factor' }]), portal({ rules: [{ require: ['people-1', 'second-factor'] }, {}] })],
    [withRules([{ ...one, policy: 'bypass', resources: ['^/api([/?].*)?$', '^/a/.*$', '^/b.*$', '^/c\\.d/'] }]), rules({ paths: ['/api/*', '/a/*/*', '/b/*', '/c.d/*/*'], require: 'anyone' })],
    [withRules([{ ...one, policy: 'deny', resources: ['^/api([/?].*)?$', '^/a/.*$', '^/x$', '^/y/?$'] }]), rules({ paths: ['/api/*', '/a/*', '/x/*', '/y/*'], require: 'nobody' }, { require: 'nobody' })],
    [withRules([{ ...one, resources: ['^/.*$'] }]), rules({ paths: ['/*'], require: 'signedIn' })],
    [withRules([{ ...group('ops'), networks: ['10.0.0.0/8'] }, { ...one, policy: 'deny', networks: ['10.1.0.0/16'] }], { default_policy: 'one_factor' }), rules({ from: ['10.1.0.0/16'], require: 'people-1' }, { from: ['10.0.0.0/8'], require: 'signedIn' }, { require: 'signedIn' })],
    // What an earlier rule decides needs no other.
    [withRules([one, group('ops')]), { portals: [{ rules: [{ require: 'signedIn' }, { require: 'nobody' }] }] }],
  ]
  for (const [settings, printed] of table) {
    const outcome = await migrated(stringify(settings))
    t.match(outcome.printed, printed, JSON.stringify(settings))
    const [theirs] = [Object(printed).portals?.[0]?.rules]
    if (theirs?.some(({ require }: { require?: string }) => require === 'nobody'))
      t.equal(outcome.printed.portals[0].rules.length, theirs.length, JSON.stringify(settings))
    t.notMatch(outcome.yaml, 'CANARY')
    t.ok(areMarked(outcome), outcome.yaml)
  }
})

t.test('what a rule cannot say denies until a person has written it', async (t) => {
  const migrated = migration(t, 'authelia')
  const one = { domain: 'app.example.com', policy: 'one_factor' }
  const bypass = { ...one, policy: 'bypass' }
  const table: [rule: object, says: string, then: string][] = [
    [{ ...one, domain_regex: '^a\\d$' }, 'write the hosts of ^a\\d$', 'signedIn'],
    [{ ...one, domain: '{user}.example.com' }, 'write the hosts of {user}.example.com', 'signedIn'],
    [{ ...one, networks: ['home'] }, 'write the networks of home', 'signedIn'],
    [{ ...one, query: [[{ key: 'a', operator: 'present' }]] }, 'it reads the query', 'signedIn'],
    [{ ...one, subject: 'oauth2:client:x' }, 'write a policy for oauth2:client:x', 'nobody'],
    [{ ...one, policy: 'deny', subject: 'group:x' }, 'write a policy for Group("x")', 'nobody'],
    [{ ...bypass, resources: ['^/ping$'] }, 'write the paths of ^/ping$', 'anyone'],
    [{ ...bypass, resources: ['^/(a|b)$', '^/c.d$'] }, 'of ^/(a|b)$ and ^/c.d$', 'anyone'],
    [{ ...one, resources: ['^/a/.*$'] }, 'write the paths of ^/a/.*$', 'signedIn'],
    [{ ...one, policy: 'deny', resources: ['^/a.*$'] }, 'write the paths of ^/a.*$', 'nobody'],
    [{ ...one, policy: 'deny', resources: ['^/as?$'] }, 'write the paths of ^/as?$', 'nobody'],
    [{ ...one, policy: 'two_factor', resources: ['x'] }, 'write the paths of x', 'second-factor'],
  ]
  for (const [rule, says, then] of table) {
    const { printed, refused, yaml } = await migrated(stringify(withRules([rule])))
    const text = yaml.replaceAll(/\n *# +/g, ' ')
    t.ok(text.includes(`TODO: ${says}`) || text.includes(says), `${says}\n${yaml}`)
    t.match(text, `Then require ${then}.`)
    t.equal(printed.portals[0].rules[0].require, 'undecided')
    t.ok(refused.includes('/portals/0/rules/0/require'))
  }
})

t.test('what does not move is said, once for each section', async (t) => {
  const migrated = migration(t, 'authelia')
  const settings = {
    ...withRules([]),
    authentication_backend: { file: { path: '/users.yml', password: { algorithm: 'argon2' } } },
    totp: { issuer: 'example.com', period: 30 },
    notifier: { smtp: { address: 'smtp://x', password: 'CANARY' } },
    regulation: { max_retries: 3, ban_time: '5m' },
    storage: { encryption_key: 'CANARY', local: { path: '/db' } },
    identity_providers: {
      oidc: {
        hmac_secret: 'CANARY',
        clients: [
          { client_id: 'gitea', client_secret: 'CANARY' },
          { id: 'grafana', secret: 'CANARY' },
        ],
      },
    },
    themes: 'dark',
  }
  const { yaml } = await migrated(stringify(settings))
  const text = yaml.replaceAll(/\n *# +(?!line)/g, ' ')
  for (const says of [
    'Gatehouse has no users',
    'second factors are at the provider',
    'Gatehouse sends no mail',
    'the provider bans who guesses passwords',
    'Gatehouse is no provider for apps',
  ])
    t.equal(text.split(says).length, 2, says)
  t.match(text, 'or move to the provider: gitea, grafana.')
  t.match(text, 'themes: is not a known setting; did you mean theme?')
  t.match(text, 'themes (line')
  t.notMatch(yaml, 'CANARY')
})

t.test('a configuration of Authelia is recognised', async (t) => {
  const text = stringify({
    ...withRules([{ domain: 'a.example.com', policy: 'one_factor' }]),
    authentication_backend: { file: { path: '/users.yml' } },
    notifier: { filesystem: { filename: '/x' } },
  })
  t.equal(await recognise('forward-auth', text, 'configuration.yml'), 'authelia')
  t.equal(await recognise('cert-service', text, 'configuration.yml'), undefined)
})

/** A rule as their file has it. */
interface TheirRule {
  readonly domain: string | readonly string[]
  readonly policy: string
  readonly subject?: readonly (readonly string[])[]
  readonly methods?: readonly string[]
  readonly networks?: readonly string[]
  readonly resources?: readonly string[]
}
interface Person {
  readonly name: string
  readonly groups: readonly string[]
  readonly usedTwo: boolean
}
interface Request {
  readonly host: string
  /** With its query. */
  readonly path: string
  readonly method: string
  readonly from: string
}

/** The path that Authelia compares: decoded, without dot segments and empty ones, with the query. */
function comparedPath(target: string): string {
  const [path = '', ...query] = target.split('?')
  const parts: string[] = []
  for (const part of decodeURIComponent(path).split('/'))
    if (part === '..') parts.pop()
    else if (part !== '' && part !== '.') parts.push(part)
  const end = parts.length > 0 && path.endsWith('/') ? '/' : ''
  return [`/${parts.join('/')}${end}`, ...query].join('?')
}

function inNetwork(network: string, address: string): boolean {
  const [start = '', prefix = '32'] = network.split('/')
  const list = new BlockList()
  list.addSubnet(start, Number(prefix))
  return list.check(address)
}

/** Whether Authelia lets a request pass: by the first rule that fits. Subjects do not matter before somebody signs in. */
function passes(
  rules: readonly TheirRule[],
  fallback: string,
  { host, path, method, from }: Request,
  person: Person | undefined,
): boolean {
  const isDomain = (text: string) =>
    text.startsWith('*.') ? host.endsWith(text.slice(1)) : host === text
  const isSubject = (text: string) =>
    text.startsWith('user:')
      ? text.slice(5) === person?.name
      : person?.groups.includes(text.slice(6))
  const rule = rules.find(
    ({ domain, subject, methods, networks, resources }) =>
      [domain].flat().some(isDomain) &&
      (resources?.some((text) => new RegExp(text).test(comparedPath(path))) ?? true) &&
      (methods?.includes(method) ?? true) &&
      (networks?.some((network) => inNetwork(network, from)) ?? true) &&
      (!person || (subject?.some((texts) => texts.every(isSubject)) ?? true)),
  )
  const policy = rule?.policy ?? fallback
  if (policy === 'bypass') return true
  if (!person || policy === 'deny') return false
  return policy === 'one_factor' || person.usedTwo
}

const PEOPLE: readonly (Person | undefined)[] = [
  undefined,
  { name: 'ada', groups: ['ops', 'dev'], usedTwo: true },
  { name: 'ada', groups: ['ops'], usedTwo: false },
  { name: 'bob', groups: ['dev'], usedTwo: true },
  { name: 'eve', groups: [], usedTwo: false },
]

/** Has our own functions say who passes. The marked places are filled as they say, or deny. */
function decider(t: Test) {
  const folder = testFolder(t)
  const file = join(folder, 'config.yaml')
  const people = PEOPLE.map((person, index) => {
    if (!person) return undefined
    const as = join(folder, `person-${index}.json`)
    const { name, groups, usedTwo } = person
    const claims = { sub: name, preferred_username: name, groups, amr: usedTwo ? ['mfa'] : ['pwd'] }
    writeFileSync(as, JSON.stringify(claims))
    return as
  })
  return async (yaml: string) => {
    const config = parse(yaml)
    const [portal] = config.portals
    Object.assign(portal.providers[0], { issuerUrl: 'https://id.example.com', clientSecret: 'x' })
    delete portal.providers[0].clientSecretFile
    const policies = {
      ...portal.policies,
      closed: 'false',
      'second-factor': 'ClaimContains("amr", "mfa")',
    }
    portal.policies = policies
    for (const rule of portal.rules) if (rule.require === 'undecided') rule.require = 'closed'
    writeFileSync(file, stringify(config))
    const { value } = await loadForwardAuthConfig(file, {})
    return async (request: Request, person: number) => {
      const as = people[person]
      const lines = await explain(value, { ...request, ...(as !== undefined && { as }) }, 0)
      return /^decision: 200/m.test(lines)
    }
  }
}

t.test('whom Authelia keeps out, Gatehouse keeps out', async (t) => {
  const migrated = migration(t, 'authelia')
  const decide = decider(t)
  const domain = fc.constantFrom(
    '*.example.com',
    'a.example.com',
    'b.example.com',
    '*.b.example.com',
  )
  const resource = fc.constantFrom(
    ...[
      '^/api([/?].*)?$',
      '^/api/.*$',
      '^/api/',
      '^/api.*$',
      '^/api$',
      '^/api/?$',
      '^/api/v1/.+$',
      '^/$',
      '^/.*$',
    ],
    ...['^/apis?$', '^/(x|y)$', '/admin', '^/api\\.x([/?].*)?$', '^/api/v1([/?].*)?$'],
  )
  const some = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined, freq: 2 })
  const list = <T>(value: fc.Arbitrary<T>) => fc.uniqueArray(value, { minLength: 1, maxLength: 2 })
  const rule: fc.Arbitrary<TheirRule> = fc
    .record({
      domain: fc.oneof(domain, list(domain)),
      policy: fc.constantFrom('bypass', 'one_factor', 'one_factor', 'two_factor', 'deny'),
      subject: some(list(list(fc.constantFrom('group:ops', 'group:dev', 'user:ada', 'user:eve')))),
      methods: some(list(fc.constantFrom('GET', 'HEAD', 'POST'))),
      networks: some(
        list(fc.constantFrom('10.0.0.0/8', '10.1.0.0/16', '10.1.2.3', '192.168.1.0/24')),
      ),
      resources: some(list(resource)),
    })
    .map((members) => JSON.parse(JSON.stringify(members)))
  const request: fc.Arbitrary<Request> = fc.record({
    host: fc.constantFrom('a.example.com', 'b.example.com', 'c.b.example.com', 'example.com'),
    path: fc.constantFrom(
      ...[
        '/',
        '/?a=1',
        '/api',
        '/api/',
        '/api?a=1',
        '/api/?a=1',
        '/api/v1',
        '/api/v1/x',
        '/apix',
        '/API',
      ],
      ...[
        '/api-x',
        '/api.x',
        '/x',
        '/z/../api',
        '//api',
        '/api%2Fv1',
        '/admin',
        '/z/admin?a',
        '/apis',
      ],
    ),
    method: fc.constantFrom('GET', 'HEAD', 'POST', 'OPTIONS'),
    from: fc.constantFrom('10.0.0.1', '10.1.2.3', '10.1.9.9', '192.168.1.7', '203.0.113.7'),
  })
  const counts = { theirs: 0, ours: 0, whole: 0 }
  await fc.assert(
    fc.asyncProperty(
      fc.array(rule, { minLength: 1, maxLength: 5 }),
      fc.constantFrom('deny', 'one_factor', 'two_factor', 'bypass'),
      fc.array(request, { minLength: 6, maxLength: 6 }),
      async (rules, fallback, requests) => {
        const outcome = await migrated(stringify(withRules(rules, { default_policy: fallback })))
        t.ok(areMarked(outcome), outcome.yaml)
        if (!outcome.yaml.includes('undecided')) counts.whole += 1
        const admits = await decide(outcome.yaml)
        for (const sent of requests)
          for (const [index, person] of PEOPLE.entries()) {
            const theirs = passes(rules, fallback, sent, person)
            const ours = await admits(sent, index)
            counts.theirs += Number(theirs)
            counts.ours += Number(ours)
            if (ours && !theirs)
              throw new Error(
                `${JSON.stringify({ sent, person, rules, fallback })}\n${outcome.yaml}`,
              )
          }
      },
    ),
    { numRuns: 200 },
  )
  t.ok(counts.ours > counts.theirs / 2, JSON.stringify(counts))
  t.ok(counts.whole > 15, JSON.stringify(counts))
  t.comment(JSON.stringify(counts))
})

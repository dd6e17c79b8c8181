// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the placeholders are what is tested
import t from 'tap'
import { holdOneRound } from '../../../../packages/service-kit/test/config/one-round.ts'
import { loadForwardAuthConfig } from '../../src/config/load.ts'

type Section = Record<string, unknown>

/** A configuration without a fault that has something everywhere. */
const base = () => ({
  server: { port: 4181, trustedProxies: ['10.0.0.2'] } as Section,
  metrics: {} as Section,
  session: { keys: [{ secret: 's'.repeat(32) }] } as Section,
  storage: {} as Section,
  domains: [
    { domain: 'example.com', authHost: 'auth.example.com', session: { scope: 'domain' } },
  ] as Section[],
  portals: [
    {
      name: 'main',
      policies: { admins: 'Group("admin")' } as Section,
      session: {} as Section,
      sessions: { admins: 'admins' } as Section,
      allow: { groups: ['staff'] } as Section,
      headers: ['default'] as unknown,
      callers: {
        keys: ['a', 'b', 'c', 'd'].map((name) => ({
          name,
          key: name.repeat(16),
          policies: ['admins'],
        })),
      },
      providers: [
        {
          type: 'openIDConnect',
          name: 'corp',
          issuerUrl: 'https://id.example.com',
          clientId: 'gatehouse',
          clientSecret: 'some-secret',
        } as Section,
        { type: 'google', name: 'goo', clientId: 'gatehouse', clientSecret: 's' } as Section,
      ],
    } as Section &
      Record<'policies' | 'session' | 'sessions' | 'allow', Section> & {
        providers: Section[]
        callers: { keys: Section[] }
      },
  ],
})

type Config = ReturnType<typeof base>
type Break = (config: Config, portal: Config['portals'][0]) => void

/** Each makes one fault; no two of them touch the same key. */
const BREAKS: Readonly<Record<string, Break>> = {
  '/server/port': ({ server }) => {
    server.port = 70_000
  },
  '/server/basePath': ({ server }) => {
    server.basePath = 'gate/'
  },
  '/server/trustedProxies/0': ({ server }) => {
    server.trustedProxies = ['10.1.2.3/8']
  },
  '/sesion': (config) => void Object.assign(config, { sesion: {} }),
  '/metrics/port': ({ metrics }) => {
    metrics.port = '${NOT_SET}'
  },
  '/session/keys/0/secretFile': ({ session }) => {
    session.keys = [{ secretFile: 'no-such-file' }]
  },
  '/session/lifetime': ({ session }) => {
    session.lifetime = '1s'
  },
  '/storage/path': ({ storage }) => {
    storage.path = 1
  },
  '/domains/0/authHost': ({ domains }) => {
    domains[0] = { ...domains[0], authHost: 'a.org' }
  },
  '/domains/1/domain': ({ domains }) => void domains.push({ domain: 'app.example.com' }),
  '/portals/0/accent': (_, portal) => {
    portal.accent = 'red'
  },
  '/portals/0/loginLifetime': (_, portal) => {
    portal.loginLifetime = '2h'
  },
  '/portals/0/session/lifetime': (_, { session }) => {
    session.lifetime = '91d'
  },
  '/portals/0/session/idle': (_, { session }) => {
    session.idle = '1m'
  },
  '/portals/0/session/refresh': (_, { session }) => {
    session.refresh = 'never'
  },
  '/portals/0/sessions/admins': (_, { sessions }) => {
    sessions.admins = 'nobody'
  },
  '/portals/0/policies/any': (_, { policies }) => {
    policies.any = 'true'
  },
  '/portals/0/policies/admins': (_, { policies }) => {
    policies.admins = 'Grup("a")'
  },
  '/portals/0/policies/staff': (_, { policies }) => {
    policies.staff = 1
  },
  '/portals/0/allow/condition': (_, { allow }) => {
    allow.condition = 'Group("a") &&'
  },
  '/portals/0/allow/emailDomains': (_, { allow }) => {
    allow.emailDomains = 'example.com'
  },
  '/portals/0/headers/1/name': (_, portal) => {
    portal.headers = ['default', { name: 'X_Mail', claim: 'email' }]
  },
  '/portals/0/preflight': (_, portal) => {
    portal.preflight = 'no'
  },
  '/portals/0/callers/keys/0/key': (_, { callers }) => {
    Object.assign(callers.keys[0] ?? {}, { key: 'short' })
  },
  '/portals/0/callers/keys/2/name': (_, { callers }) => {
    Object.assign(callers.keys[2] ?? {}, { name: 'a' })
  },
  '/portals/0/callers/keys/3': (_, { callers }) => {
    Object.assign(callers.keys[3] ?? {}, { key: 'b'.repeat(16) })
  },
  '/portals/0/providers/0/issuerUrl': (_, { providers }) =>
    void Object.assign(providers[0] ?? {}, { issuerUrl: 'http://id.example.com' }),
  '/portals/0/providers/0/ca': (_, { providers }) =>
    void Object.assign(providers[0] ?? {}, { ca: 'none' }),
  '/portals/0/providers/0/scopes': (_, { providers }) =>
    void Object.assign(providers[0] ?? {}, { scopes: 'openid' }),
  '/portals/0/providers/1/timeout': (_, { providers }) =>
    void Object.assign(providers[1] ?? {}, { timeout: 10 }),
  '/portals/0/providers/1/allow': (_, { providers }) =>
    void Object.assign(providers[1] ?? {}, { allow: 'Group("a" ||' }),
  '/portals/1/name': ({ portals }) =>
    void portals.push({ ...base().portals[0], name: 'main' } as (typeof portals)[0]),
}

holdOneRound(t, {
  base,
  breaks: Object.fromEntries(
    Object.entries(BREAKS).map(([path, change]) => [
      path,
      (config: Config) => change(config, config.portals[0] as Config['portals'][0]),
    ]),
  ),
  absent: '/session/keys/0/secretFile',
  load: loadForwardAuthConfig,
})

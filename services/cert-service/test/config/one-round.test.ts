// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the placeholders are what is tested
import t from 'tap'
import { holdOneRound } from '../../../../packages/service-kit/test/config/one-round.ts'
import { loadCertConfig } from '../../src/config/load.ts'

type Section = Record<string, unknown>

/** A configuration without a fault that has something everywhere. */
const base = () => ({
  server: { port: 7401, names: ['certs.test'], tls: 'own' } as Section,
  metrics: { port: 9464 } as Section,
  storage: { path: 'data', masterKeyFile: 'master.key' } as Section,
  auth: {
    psk: {
      keys: [
        { name: 'a', key: 'a-key-of-sixteen-or-more' },
        { name: 'b', key: 'another-key-of-sixteen' },
        { name: 'c', key: 'third-key-of-sixteen' },
        { name: 'd', key: 'fourth-key-of-sixteen' },
        { name: 'e', key: 'fifth-key-of-sixteen' },
      ] as [Section, Section, Section, Section, Section],
    },
    jwt: { issuerUrl: 'https://id.test', audience: 'certs' } as Section,
  },
  rules: [{ names: ['a.test'], subject: 's' }] as [Section, ...Section[]],
  ca: { permitted: [] } as Section,
  issuer: {
    name: 'le',
    type: 'acme',
    directory: 'letsencrypt-staging',
    agreeToTerms: true,
    names: ['le.test'],
  } as Section,
  provider: { type: 'cloudflare', apiToken: 'some-token' } as Section,
  propagation: {} as Section,
  certificate: { names: ['a.test'] } as Section,
  events: {
    webhook: { url: 'https://hook.test', secret: 'secret-of-sixteen' } as Section,
    receivers: [
      { name: 'phone', type: 'ntfy', url: 'https://ntfy.test/topic' } as Section,
      {
        name: 'mail',
        type: 'email',
        host: 'h.test',
        from: 'a@a.test',
        to: ['a@a.test'],
      } as Section,
    ] as const,
  },
  audit: {} as Section,
})

type Config = ReturnType<typeof base>

/** As the file has it. */
function fileOf({ issuer, provider, propagation, certificate, ...config }: Config): object {
  const challenges = [{ type: 'dns-01', providers: [provider], propagation }]
  return { ...config, issuers: [{ ...issuer, challenges }], certificates: [certificate] }
}

type Break = (config: Config) => void

/** Each makes one fault; no two of them touch the same key. */
const BREAKS: Readonly<Record<string, Break>> = {
  '/server/port': ({ server }) => {
    server.port = 'many'
  },
  '/server/names/0': ({ server }) => {
    server.names = ['a b']
  },
  '/sever': (config) => void Object.assign(config, { sever: {} }),
  '/metrics/host': ({ metrics }) => {
    metrics.host = '${NOT_SET}'
  },
  '/storage/masterKeyFile': ({ storage }) => {
    storage.masterKeyFile = 'data/master.key'
  },
  // One more than the database package takes.
  '/storage/schema': ({ storage }) => {
    storage.schema = 'a'.repeat(49)
  },
  '/storage/retention': ({ storage }) => {
    storage.retention = 'long'
  },
  '/auth/psk/keys/0/domains/0': ({ auth }) => {
    auth.psk.keys[0].domains = ['*x']
  },
  '/auth/psk/keys/1/keyFile': ({ auth }) => {
    auth.psk.keys[1] = { name: 'b', keyFile: 'no-such-file' }
  },
  '/auth/psk/keys/2/key': ({ auth }) => {
    auth.psk.keys[2].key = 'short'
  },
  '/auth/psk/keys/3/name': ({ auth }) => {
    auth.psk.keys[3].name = 'b'
  },
  '/auth/psk/keys/4': ({ auth }) => {
    auth.psk.keys[4].key = 'fourth-key-of-sixteen'
  },
  '/auth/jwt/jwksUrl': ({ auth }) => {
    auth.jwt.jwksUrl = 'http://id.test/keys'
  },
  '/auth/jwt/requiredScopes': ({ auth }) => {
    auth.jwt.requiredScopes = 'one'
  },
  '/rules/0/names/0': ({ rules }) => {
    rules[0].names = ['a_']
  },
  '/rules/0/effect': ({ rules }) => {
    rules[0].effect = 'maybe'
  },
  '/rules/1': ({ rules }) => void rules.push({ names: ['b.test'] }),
  '/ca/crlUrl': ({ ca }) => {
    ca.crlUrl = 'https://a.test/crl'
  },
  '/ca/leafLifetime': ({ ca }) => {
    ca.leafLifetime = '59m'
  },
  '/ca/name': ({ ca }) => {
    ca.name = ''
  },
  '/issuers/0/directory': ({ issuer }) => {
    issuer.directory = 'letsencript'
  },
  '/issuers/0/fallback': ({ issuer }) => {
    issuer.fallback = 'nobody'
  },
  '/issuers/0/email': ({ issuer }) => {
    issuer.email = 'nobody'
  },
  '/issuers/0/challenges/0/providers/0/endpoint': ({ provider }) => {
    provider.endpoint = 'http://api.test'
  },
  '/issuers/0/challenges/0/providers/0/apiTokenFile': ({ provider }) => {
    delete provider.apiToken
    provider.apiTokenFile = '.'
  },
  '/issuers/0/challenges/0/propagation/resolvers/0': ({ propagation }) => {
    propagation.resolvers = ['dns.test']
  },
  '/certificates/0/names/1': ({ certificate }) => {
    certificate.names = ['a.test', 'a b']
  },
  '/events/webhook/url': ({ events }) => {
    events.webhook.url = 'http://hook.test'
  },
  '/events/webhook/secret': ({ events }) => {
    events.webhook.secret = 'short'
  },
  '/events/receivers/0/url': ({ events }) => {
    events.receivers[0].url = 'https://ntfy.test/'
  },
  '/events/receivers/1/host': ({ events }) => {
    events.receivers[1].host = 'h..test'
  },
  '/events/receivers/1/to/0': ({ events }) => {
    events.receivers[1].to = ['nobody']
  },
  '/audit/retention': ({ audit }) => {
    audit.retention = 90
  },
}

holdOneRound(t, {
  base,
  breaks: BREAKS,
  absent: '/auth/psk/keys/1/keyFile',
  fileOf,
  load: loadCertConfig,
})

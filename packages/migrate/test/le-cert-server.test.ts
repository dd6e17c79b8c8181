import { hash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ConfigError } from '@gatehouse/service-kit/config'
import { testFolder } from '@gatehouse/service-kit/testing'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { parse, stringify } from 'yaml'
import { PROGRAM } from '../../../services/cert-service/src/cli/program.ts'
import { migrate, recognise } from '../src/migrate.ts'
import { PROGRAMS } from '../src/programs.ts'
import { rowOf } from '../src/table.ts'

/** The names of all settings in the reference of le-cert-server, in both layouts of `auth`. */
const REFERENCE = `
  server.listener server.bind server.port server.tls.letsEncryptDomain server.tls.path server.tls.certPEM
  server.tls.keyPEM server.tsnet.hostname server.tsnet.authKey server.tsnet.stateDir server.tsnet.ephemeral
  letsEncrypt.email letsEncrypt.dnsProvider letsEncrypt.dnsCredentials.X letsEncrypt.staging
  letsEncrypt.renewalDays database.path auth.method auth.psk.key auth.jwt.issuerUrl auth.jwt.audience
  auth.jwt.requiredScopes auth.jwt.domainsClaim auth.issuerUrl auth.audience auth.requiredScopes
  auth.domainsClaim logs.level logs.omitHealthChecks logs.json
`
  .trim()
  .split(/\s+/)

const KEY = 'CANARY-0123456789'
const BASE = {
  letsEncrypt: {
    email: 'admin@example.com',
    dnsProvider: 'cloudflare',
    dnsCredentials: { CF_DNS_API_TOKEN: 'CANARY' },
  },
  auth: { psk: { key: KEY } },
}
const JWT = { issuerUrl: 'https://id.example.com', audience: 'certs' }
const withDns = (dnsProvider: string, dnsCredentials: object) => ({
  ...BASE,
  letsEncrypt: { ...BASE.letsEncrypt, dnsProvider, dnsCredentials },
})

/** Migrates a file by the command, and has `check-config` read what it prints. */
function migration(t: Test) {
  const folder = testFolder(t)
  return async (settings: object) => {
    const file = join(folder, 'theirs.yaml')
    writeFileSync(file, stringify(settings))
    const { yaml, todos } = await migrate('le-cert-server', file, PROGRAM.load)
    const ours = join(folder, 'config.yaml')
    writeFileSync(ours, yaml)
    const marked = yaml.match(/TODO: /g)?.length ?? 0
    const outcome = { yaml, todos, marked, printed: parse(yaml) }
    try {
      await PROGRAM.load(ours, {}, { beforeStart: true, withoutSecrets: true })
      return { ...outcome, refused: [] }
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error
      return { ...outcome, refused: error.faults.map(({ path }) => path) }
    }
  }
}

t.test('the table has every setting of their reference, and no other', async (t) => {
  const table = PROGRAMS['le-cert-server'].tables['le-cert-server']
  for (const name of REFERENCE) t.ok(rowOf(table, name), name)
  for (const { names, becomes, note } of table) {
    t.ok(becomes ?? note, names.join(', '))
    for (const name of names)
      t.ok(
        REFERENCE.some((one) => rowOf([{ names: [name] }], one)),
        name,
      )
  }
})

t.test('what the settings become', async (t) => {
  const migrated = migration(t)
  const issuer = (more: object) => ({ issuers: [{ name: 'letsencrypt', type: 'acme', ...more }] })
  const dns = (more: object) => issuer({ challenges: [{ type: 'dns-01', providers: [more] }] })
  const keySha256 = hash('sha256', KEY, 'hex')
  // biome-ignore format: a table
  const table: [settings: object, printed: object][] = [
    [BASE, { server: { host: '127.0.0.1', port: 7401, tls: 'off' }, storage: { path: 'data' } }],
    [BASE, { auth: { psk: { keys: [{ name: 'default', keySha256 }] } } }],
    [BASE, issuer({ directory: 'letsencrypt', email: 'admin@example.com', agreeToTerms: true })],
    [BASE, dns({ type: 'cloudflare', apiTokenFile: 'dns-apitoken' })],
    [{ ...BASE, server: { bind: '0.0.0.0', port: 8443 } }, { server: { host: '0.0.0.0', port: 8443, tls: 'own' } }],
    [{ ...BASE, server: { tls: { letsEncryptDomain: 'certs.example.com' } } }, { server: { names: ['certs.example.com'], tls: 'own' } }],
    [{ ...BASE, server: { tls: { path: '/tls/' } } }, { server: { tls: { certFile: '/tls/tls-cert.pem', keyFile: '/tls/tls-key.pem' } } }],
    [{ ...BASE, server: { tls: { certPEM: 'CANARY', keyPEM: 'CANARY' } } }, { server: { tls: { certFile: 'tls-cert.pem', keyFile: 'tls-key.pem' } } }],
    [{ ...BASE, letsEncrypt: { ...BASE.letsEncrypt, staging: true } }, issuer({ directory: 'letsencrypt-staging' })],
    [{ ...BASE, logs: { level: 'warn', json: true } }, { log: { level: 'warn', format: 'json' } }],
    [{ ...BASE, auth: { method: 'jwt', jwt: { ...JWT, requiredScopes: ['a', 'b'], domainsClaim: 'domains' } } }, { auth: { jwt: { ...JWT, requiredScopes: ['a', 'b'], domainsClaim: 'domains' } } }],
    [{ ...BASE, auth: JWT }, { auth: { jwt: JWT } }],
    [{ ...BASE, auth: { method: 'jwt', psk: { key: KEY }, jwt: JWT } }, { auth: { jwt: JWT, psk: undefined } }],
    [{ ...BASE, auth: { method: 'PSK', psk: { key: KEY }, jwt: JWT } }, { auth: { psk: { keys: [{ keySha256 }] } } }],
    [withDns('route53', { AWS_ACCESS_KEY_ID: 'id', secretAccessKey: 'CANARY', AWS_REGION: 'eu-west-1', hostedZoneID: 'Z1' }), dns({ type: 'route53', accessKeyId: 'id', secretAccessKeyFile: 'dns-secretaccesskey', region: 'eu-west-1', hostedZoneId: 'Z1' })],
    [withDns('rfc2136', { nameserver: 'ns.example.com', tsigKey: 'k', tsigSecret: 'CANARY', tsigAlgorithm: 'hmac-sha512.' }), dns({ type: 'rfc2136', server: 'ns.example.com', keyName: 'k', keySecretFile: 'dns-keysecret', algorithm: 'hmac-sha512' })],
    [withDns('httpreq', { HTTPREQ_ENDPOINT: 'https://dns.example.com', HTTPREQ_USERNAME: 'u', HTTPREQ_PASSWORD: 'CANARY', HTTPREQ_MODE: 'RAW' }), dns({ type: 'httpreq', endpoint: 'https://dns.example.com', username: 'u', passwordFile: 'dns-password', mode: 'raw' })],
    [withDns('azure', { subscriptionId: 's', resourceGroup: 'g', tenantId: 't', clientId: 'c', clientSecret: 'CANARY' }), dns({ type: 'azure', subscriptionId: 's', resourceGroup: 'g', tenantId: 't', clientId: 'c', clientSecretFile: 'dns-clientsecret' })],
    [withDns('azuredns', { AZURE_SUBSCRIPTION_ID: 's', AZURE_RESOURCE_GROUP: 'g', AZURE_TENANT_ID: 't', AZURE_CLIENT_ID: 'c', AZURE_CLIENT_SECRET: 'CANARY' }), dns({ type: 'azure', subscriptionId: 's', resourceGroup: 'g', tenantId: 't', clientId: 'c', clientSecretFile: 'dns-clientsecret' })],
    [withDns('gcloud', { GCE_PROJECT: 'p', GCE_SERVICE_ACCOUNT_FILE: '/sa.json' }), dns({ type: 'google', project: 'p', serviceAccountFile: '/sa.json' })],
  ]
  for (const [settings, printed] of table) {
    const { todos, refused, yaml, printed: ours } = await migrated(settings)
    t.match(ours, printed, JSON.stringify(settings))
    t.strictSame([todos, refused], [0, []], yaml)
    t.notMatch(yaml, 'CANARY')
  }
})

t.test('what a person has to decide about is marked', async (t) => {
  const migrated = migration(t)
  const table: [settings: object, refused: string, says: RegExp][] = [
    [{ ...BASE, auth: { method: 'tsnet' } }, '/auth', /no issuer of tokens for the method tsnet/],
    [
      { ...BASE, auth: { method: 'psk', jwt: JWT } },
      '/auth',
      /no issuer of tokens for the method psk/,
    ],
    [{ ...BASE, auth: {} }, '/auth', /there is no key and no issuer of tokens:/],
    [
      { ...BASE, auth: { ...BASE.auth, domains: ['a.example'] } },
      '/auth',
      /auth\.domains \(line \d+\) may keep people out/,
    ],
    [
      { ...BASE, auth: { jwt: { ...JWT, issuerUrl: 'https://accounts.google.com' } } },
      '/auth/jwt/issuerUrl',
      /TODO: issuerUrl /,
    ],
    [
      withDns('hetzner', { HETZNER_API_KEY: 'CANARY' }),
      '/issuers/0/challenges/0/providers/0/path',
      /dns_hetzner is its script/,
    ],
    ...['acme-dns', 'acmedns'].map((name): [object, string, RegExp] => [
      withDns(name, { ACME_DNS_API_BASE: 'https://a.example', ACME_DNS_STORAGE_PATH: '/CANARY' }),
      '/issuers/0/challenges/0/providers/0/accounts',
      /accounts are missing: list subdomain(.|\n)*endpoint: https:\/\/a\.example/,
    ]),
    [
      withDns('cloudflare', { CF_API_KEY: 'CANARY', CF_API_EMAIL: 'a@b.c' }),
      '/issuers/0/challenges/0/providers/0/apiToken',
      /TODO: apiToken is missing/,
    ],
    [
      withDns('httpreq', { endpoint: 'https://u:CANARY@dns.example.com' }),
      '/issuers/0/challenges/0/providers/0/endpoint',
      /TODO: endpoint is missing/,
    ],
  ]
  for (const [settings, path, says] of table) {
    const { todos, marked, refused, yaml } = await migrated(settings)
    t.ok(
      refused.includes(path) || refused.some((one) => one.startsWith(path)),
      `${path}: ${refused}`,
    )
    t.ok(todos > 0 && todos === marked, yaml)
    t.match(yaml.replaceAll(/\n *# +/g, ' '), says)
    t.notMatch(yaml, 'CANARY')
  }
})

t.test('any settings give a valid file, or one that is refused at marked places', async (t) => {
  const migrated = migration(t)
  const secret = /key$|PEM$|authKey|Credentials/i
  const values: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
    'letsEncrypt.dnsProvider': fc.constantFrom(
      'cloudflare',
      'route53',
      'rfc2136',
      'hetzner',
      '',
      '$',
    ),
    'letsEncrypt.dnsCredentials.X': fc.constantFrom('CANARY'),
    'auth.method': fc.constantFrom('psk', 'jwt', 'tsnet', 'x'),
  }
  const any = fc.constantFrom('x', true, 7, 'https://id.example.com', '$' + '{HOME}', '# "')
  const settings = fc
    .uniqueArray(fc.constantFrom(...REFERENCE), { minLength: 2 })
    .chain((names) =>
      fc.tuple(
        ...names.map((name) =>
          (values[name] ?? (secret.test(name) ? fc.constant(KEY) : any)).map(
            (value) => [name, value] as const,
          ),
        ),
      ),
    )
  await fc.assert(
    fc.asyncProperty(settings, async (entries) => {
      const root: Record<string, unknown> = {}
      for (const [name, value] of entries) {
        const parts = name.split('.')
        let at = root
        for (const part of parts.slice(0, -1)) {
          at[part] ??= {}
          at = at[part] as Record<string, unknown>
        }
        at[parts.at(-1) ?? ''] = value
      }
      const { yaml, todos, marked, refused } = await migrated(root)
      t.ok(
        todos === marked && todos > 0 === refused.length > 0,
        `${stringify(root)}\n${yaml}\n${refused}`,
      )
      t.notMatch(yaml, 'CANARY')
    }),
    { numRuns: 150 },
  )
})

t.test('whose file it is', async (t) => {
  t.equal(await recognise('cert-service', stringify(BASE), 'f'), 'le-cert-server')
  const ours =
    'server: { host: 127.0.0.1, port: x }\nauth: { psk: { key: abc }, method: psk }\nstorage: { pth: data }\n'
  for (const text of [ours, '', 'a: [', 'x'])
    t.equal(await recognise('cert-service', text, 'f'), undefined, text)
})

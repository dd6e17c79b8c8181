import { join } from 'node:path'
import { ConfigError, loadConfig } from '@gatehouse/service-kit/config'
import { applyRules } from '@gatehouse/service-kit/rules'
import { testFolder } from '@gatehouse/service-kit/testing'
import t, { type Test } from 'tap'
import { Type } from 'typebox'
import { kindOf, type ProviderConfig, ProviderSchema } from '../src/kinds.ts'
import { CONSUMERS } from '../src/presets/microsoft-entra-id.ts'
import { PROVIDER_RULES } from '../src/rules.ts'
import { open, signIn } from './kit.ts'
import { startGithub } from './stand-ins/github.ts'
import { CLIENT, startOpenIdProvider } from './stand-ins/openid-provider.ts'
import { PRODUCTS } from './stand-ins/products.ts'

const schema = Type.Object({ provider: ProviderSchema })

/** Reads `provider` of a configuration file; its secrets are in files beside it. */
async function load(t: Test, provider: object): Promise<ProviderConfig> {
  const folder = testFolder(t, {
    'config.yaml': JSON.stringify({ provider }),
    secret: `${CLIENT.clientSecret}\n`,
    'not-pem': 'none',
  })
  const rule = ({ provider }: { provider: ProviderConfig }) =>
    applyRules(provider, PROVIDER_RULES, '/provider')
  const file = join(folder, 'config.yaml')
  const { value } = await loadConfig({ schema, file, env: {}, rules: [rule] })
  return value.provider
}

async function faults(t: Test, provider: object): Promise<string[]> {
  const error = await load(t, provider).catch((reason) => reason)
  if (!(error instanceof ConfigError)) return []
  return error.faults.map(({ path, message }) => `${path} ${message}`)
}

const client = { clientId: 'gatehouse', clientSecretFile: 'secret' }
const oidc = { type: 'openIDConnect', name: 'corp', ...client, issuerUrl: 'https://idp.example' }
const tenantId = '7d6e6b2c-2f0b-4b0e-9a55-0c5d0a6f3e11'
const presets = Object.values(PRODUCTS).flatMap(({ config }) =>
  config ? [{ name: 'corp', ...client, ...config }] : [],
)
const entra = { type: 'microsoftEntraID', name: 'corp', ...client, tenantId }

t.test(
  'every type of provider reads its secret from a file and drops the final newline',
  async (t) => {
    const kinds = [oidc, ...presets, { type: 'github', name: 'corp', ...client }]
    for (const kind of kinds)
      t.match(
        await load(t, kind),
        { clientSecret: CLIENT.clientSecret, timeout: 10_000 },
        kind.type,
      )

    const { issuer } = await startOpenIdProvider(t)
    const byOpenId = open(t, await load(t, { ...oidc, issuerUrl: issuer }))
    t.equal((await signIn(byOpenId)).id, 'alice')
    const { url } = await startGithub(t)
    const byGithub = open(t, await load(t, { type: 'github', name: 'code', ...client, url }))
    t.equal((await signIn(byGithub)).id, '583231')
  },
)

t.test('fills in defaults', async (t) => {
  t.match(await load(t, oidc), { scopes: undefined, trustEmail: false })
  t.match(await load(t, entra), { authority: 'https://login.microsoftonline.com' })
  t.match(await load(t, { type: 'tailscaleWhois', name: 'net' }), {
    socket: '/var/run/tailscale/tailscaled.sock',
    taggedDevices: false,
  })
  const { clientSecretFile: _, ...withoutSecret } = entra
  const clientAssertion = { type: 'kubernetesServiceAccount' }
  t.match(await load(t, { ...withoutSecret, clientAssertion }), {
    clientAssertion: { file: '/var/run/secrets/kubernetes.io/serviceaccount/token' },
  })
})

t.test('reports faults of the options', async (t) => {
  const { clientSecretFile: _, ...withoutSecret } = oidc
  const table: Record<string, [provider: object, expected: string | RegExp]> = {
    'no kind': [{ ...oidc, type: 'saml' }, /^\/provider\/type must be "openIDConnect" or "google"/],
    'a key of another kind': [{ ...oidc, tenantId }, '/provider/tenantId is not a known key'],
    'a name with capitals': [{ ...oidc, name: 'Corp' }, /^\/provider\/name must match/],
    'a name that would split a user header': [{ ...oidc, name: 'a:b' }, /^\/provider\/name/],
    'a colour that is CSS': [{ ...oidc, color: 'red;x' }, /^\/provider\/color must match/],
    'an icon of one’s own': [{ ...oidc, icon: 'logo.svg' }, /^\/provider\/icon must be "openid"/],
    'plain http': [
      { ...oidc, issuerUrl: 'http://idp.example' },
      '/provider/issuerUrl plain http is refused for idp.example: use https',
    ],
    'a URL with a password': [
      { ...oidc, issuerUrl: 'https://a:b@idp.example' },
      '/provider/issuerUrl the URL must not hold a user name or password',
    ],
    'the URL of a document': [
      { ...oidc, issuerUrl: 'https://idp.example/.well-known/openid-configuration' },
      '/provider/issuerUrl must end before /.well-known',
    ],
    'the folder of a document': [
      { ...oidc, issuerUrl: 'https://idp.example/.well-known' },
      '/provider/issuerUrl must end before /.well-known',
    ],
    'another name': [
      { type: 'openIDConnect', name: 'corp', ...client, issuer: 'https://idp.example' },
      '/provider/issuer is not a known key, did you mean issuerUrl?',
    ],
    'a URL with a query': [
      { ...oidc, issuerUrl: 'https://idp.example/?a' },
      '/provider/issuerUrl must not have a query',
    ],
    'no URL': [
      { type: 'github', name: 'code', ...client, url: 'github.com' },
      '/provider/url the URL must be absolute, http or https',
    ],
    'all tenants': [{ ...entra, tenantId: 'common' }, /^\/provider\/tenantId must match/],
    'all companies': [{ ...entra, tenantId: 'organizations' }, /^\/provider\/tenantId must match/],
    'all persons': [{ ...entra, tenantId: 'consumers' }, /^\/provider\/tenantId must match/],
    'all persons, by number': [
      { ...entra, tenantId: '9188040d-6c67-4c5b-b112-36a304b66dad' },
      '/provider/tenantId is the tenant of all personal accounts',
    ],
    'no secret': [withoutSecret, '/provider needs clientSecret or clientAssertion'],
    'a secret and an assertion': [
      { ...oidc, clientAssertion: { type: 'file', file: 'token' } },
      '/provider/clientAssertion is given together with clientSecret: keep one of the two',
    ],
    'a scope that is two': [{ ...oidc, scopes: ['openid email'] }, /^\/provider\/scopes\/0 must/],
    'certificates that are none': [
      { ...oidc, caFile: 'not-pem' },
      '/provider/ca holds no PEM certificate',
    ],
    'a parameter that every login has': [
      { ...oidc, authorizationParameters: { prompt: 'login', state: 'x' } },
      '/provider/authorizationParameters/state is set by Gatehouse itself',
    ],
    'scopes as a parameter': [
      { ...oidc, authorizationParameters: { scope: 'openid' } },
      '/provider/authorizationParameters/scope is set by Gatehouse itself: set `scopes` instead',
    ],
    'an age that nothing would check': [
      { type: 'github', name: 'code', ...client, authorizationParameters: { max_age: '0' } },
      '/provider/authorizationParameters/max_age is set by Gatehouse itself: give a policy `maxAge` instead',
    ],
    'a parameter that is a number': [
      { ...oidc, authorizationParameters: { ui_locales: 3 } },
      /^\/provider\/authorizationParameters\/ui_locales must be a string/,
    ],
    'a parameter with a space': [
      { ...oidc, authorizationParameters: { 'a b': 'c' } },
      /^\/provider\/authorizationParameters\/a b is not a known key/,
    ],
    'parameters that fill the URL': [
      { ...oidc, authorizationParameters: { claims: '{"a":"ü"}'.repeat(20) } },
      '/provider/authorizationParameters has 567 characters in a URL, more than 500',
    ],
    'an organisation with its team': [
      { type: 'github', name: 'code', ...client, organizations: ['acme/ops'] },
      /^\/provider\/organizations\/0 must match/,
    ],
  }
  for (const [what, [provider, expected]] of Object.entries(table))
    await t.test(what, async (t) => t.match(await faults(t, provider), [expected]))
  t.strictSame(await faults(t, oidc), [], 'and without a fault there is none')
})

t.test('knows which providers can be asked for a step-up', async (t) => {
  const table: [provider: object, expected: boolean][] = [
    [oidc, true],
    ...presets.map((config): [object, boolean] => [config, true]),
    [{ type: 'github', name: 'code', ...client }, false],
    [{ type: 'tailscaleWhois', name: 'net' }, false],
  ]
  for (const [provider, expected] of table)
    t.equal(kindOf(await load(t, provider)).stepsUp ?? false, expected, JSON.stringify(provider))
})

t.test('knows which providers are open to anybody', async (t) => {
  const github = { type: 'github', name: 'code', ...client }
  const gitlab = { type: 'gitlab', name: 'code', ...client }
  const table: [provider: object, expected: boolean][] = [
    [{ type: 'google', name: 'goo', ...client }, true],
    [github, true],
    [{ ...github, url: 'https://GitHub.com/' }, true],
    [{ ...github, url: 'https://github.acme.example' }, false],
    [gitlab, true],
    [{ ...gitlab, url: 'https://gitlab.com/' }, true],
    [{ ...gitlab, url: 'https://git.acme.example' }, false],
    [entra, false],
    [oidc, false],
    [{ ...oidc, issuerUrl: 'https://accounts.google.com' }, true],
    [{ ...oidc, issuerUrl: 'https://Accounts.Google.com/' }, true],
    [{ ...oidc, issuerUrl: `https://login.microsoftonline.com/${CONSUMERS}/v2.0` }, true],
    [{ ...oidc, issuerUrl: 'https://login.microsoftonline.com/common/v2.0' }, true],
    [{ ...oidc, issuerUrl: 'https://app.terraform.io' }, true],
    [{ ...oidc, issuerUrl: 'https://accounts.google.com.acme.example' }, false],
    [{ type: 'tailscaleWhois', name: 'net' }, false],
  ]
  for (const [provider, expected] of table) {
    const config = await load(t, provider)
    t.equal(kindOf(config).isPublic?.(config) ?? false, expected, JSON.stringify(provider))
  }
})

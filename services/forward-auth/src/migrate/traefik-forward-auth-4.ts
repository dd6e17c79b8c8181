import { PROVIDER_ICONS } from '@gatehouse/identity-providers'
import { type Draft, type Given, type Path, plainUrl, type Translate } from '@gatehouse/service-kit'
import { askForDomains, boundedDuration, setClientSecret, slug } from './translation.ts'

/** Translates the settings of ItalyPaleAle/traefik-forward-auth 4. */
export const translateVersion4: Translate = (given, draft) => {
  setServer(given, draft)
  const lifetime = given.take('tokens.sessionLifetime')
  draft.set(['session', 'lifetime'], boundedDuration(lifetime?.values[0] ?? '2h'), lifetime)
  setLog(given, draft)
  setDomains(given, draft)
  const portals = given.itemsOf('portals')
  for (const [index, number] of portals.entries()) setPortal(given, draft, number, index)
  if (portals.length === 0) {
    draft.set(['portals'], [])
    draft.todo(['portals'], 'there is no portal.')
  }
  const isDefault = given.text('defaultPortal') !== undefined
  return {
    steps: [
      'List the addresses of Traefik in server.trustedProxies, unless it runs on this machine.',
      'Save this file, and check it: gatehouse-auth check-config --config config.yaml',
      `In Traefik, ${isDefault ? 'have the middleware ask /portals/<portal>, ' : ''}set trustForwardHeader: true, and add X-Gatehouse-Assertion to authResponseHeaders.`,
    ],
  }
}

function setServer(given: Given, draft: Draft): void {
  const [bind, port, base] = ['server.bind', 'server.port', 'server.basePath'].map((name) =>
    given.take(name),
  )
  draft.set(['server', 'host'], bind?.values[0] ?? '0.0.0.0', bind)
  draft.set(['server', 'port'], Number(port?.values[0] ?? 4181), port)
  const path = base?.values[0]?.replace(/^\/*/, '/').replace(/(?<!\/)\/+$/, '')
  draft.set(['server', 'basePath'], path || undefined, base)
  const folder = given.take('server.tlsPath')
  const [cert, key, ca] = ['server.tlsCertPEM', 'server.tlsKeyPEM', 'server.tlsCAPEM'].map((name) =>
    given.take(name),
  )
  const fileIn = (name: string) =>
    folder ? `${folder.values[0]?.replace(/\/$/, '')}/${name}` : name
  if (cert && key) {
    draft.secret(['server', 'tls', 'certFile'], 'tls-cert.pem', cert)
    draft.secret(['server', 'tls', 'keyFile'], 'tls-key.pem', key)
  } else if (folder) {
    draft.set(['server', 'tls', 'certFile'], fileIn('tls-cert.pem'), folder)
    draft.set(['server', 'tls', 'keyFile'], fileIn('tls-key.pem'), folder)
  }
  if (!given.isOn('server.tlsClientAuth')) return
  if (ca) draft.secret(['server', 'tls', 'clientCaFile'], 'tls-ca.pem', ca)
  else draft.set(['server', 'tls', 'clientCaFile'], fileIn('tls-ca.pem'), folder)
  draft.set(['server', 'trustedProxies'], [], given.take('server.tlsClientAuth'))
}

function setLog(given: Given, draft: Draft): void {
  const [level, json] = ['logs.level', 'logs.json'].map((name) => given.take(name))
  draft.set(['log', 'level'], level?.values[0]?.toLowerCase(), level)
  if (json) draft.set(['log', 'format'], given.isOn('logs.json') ? 'json' : 'pretty', json)
}

function setDomains(given: Given, draft: Draft): void {
  const rows = given.itemsOf('server.domains')
  for (const [index, number] of rows.entries())
    for (const key of ['domain', 'authHost']) {
      const from = given.take(`server.domains.${number}.${key}`)
      draft.set(['domains', index, key], from?.values[0], from)
    }
  // As older versions had it, for one domain.
  const [host, domain] = ['server.hostname', 'cookies.domain'].map((name) => given.take(name))
  if (rows.length === 0 && host) {
    draft.set(
      ['domains', 0, 'domain'],
      (domain ?? host).values[0]?.replace(/:\d+$/, ''),
      domain ?? host,
    )
    draft.set(['domains', 0, 'authHost'], host.values[0], host)
  }
  if (draft.has(['domains'])) return
  draft.set(['domains'], [])
  askForDomains(draft)
}

function setPortal(given: Given, draft: Draft, number: number, index: number): void {
  const start = `portals.${number}`
  const from = (key: string) => given.take(`${start}.${key}`)
  const at = (key: string): Path => ['portals', index, key]
  const name = from('name')
  const ours = slug(name?.values[0] ?? '', 32)
  draft.set(at('name'), ours, name)
  if (ours !== name?.values[0]?.toLowerCase())
    draft.comment(
      at('name'),
      'The name is part of the addresses that Traefik asks. Change it there too.',
    )
  const title = from('displayName')
  draft.set(at('title'), title?.values[0]?.slice(0, 60), title)
  const isShown = given.isOn(`${start}.alwaysShowProvidersPage`) || undefined
  draft.set(at('alwaysShowProviders'), isShown, from('alwaysShowProvidersPage'))
  setLifetimes(given, draft, start, index)
  const providers = given.itemsOf(`${start}.providers`)
  const kinds = providers.map((item, place) =>
    setProvider(given, draft, `${start}.providers.${item}`, [...at('providers'), place]),
  )
  setCallback(draft, at('sharedCallback'), kinds)
  setHeaders(given, draft, number, index)
}

function setLifetimes(given: Given, draft: Draft, start: string, index: number): void {
  const [timeout, lifetime] = ['authenticationTimeout', 'sessionLifetime'].map((key) =>
    given.take(`${start}.${key}`),
  )
  const login = boundedDuration(timeout?.values[0] ?? '5m', 30_000, 3_600_000)
  draft.set(['portals', index, 'loginLifetime'], login, timeout)
  const own = lifetime && boundedDuration(lifetime.values[0] ?? '')
  draft.set(['portals', index, 'sessionLifetime'], own, lifetime)
}

/** A portal with one provider to sign in at can keep its redirect URI. */
function setCallback(draft: Draft, at: Path, kinds: readonly string[]): void {
  if (kinds.filter((kind) => kind !== 'tailscaleWhois').length !== 1) return
  draft.set(at, true)
  draft.comment(
    at,
    'Keeps the redirect URI that is registered. Without it, each provider has its own.',
  )
}

const texts = (text: string) => text
const shortened = (text: string) => text.slice(0, 60)
const words = (text: string) => text.split(/\s+/).filter(Boolean)
const lower = (text: string) => text.toLowerCase()
const iconOf = (text: string) =>
  PROVIDER_ICONS.find((icon) => icon.replace('-', '') === text.replace('-', ''))
const colorOf = (text: string) => (/^#([0-9a-f]{3}|[0-9a-f]{6})$/i.test(text) ? text : undefined)

/** Their key of a provider, ours, and how the value changes. */
const COPIED: readonly [theirs: string, ours: string, change: (text: string) => unknown][] = [
  ['displayName', 'title', shortened],
  ['tokenIssuer', 'issuerUrl', plainUrl],
  ['endpoint', 'url', plainUrl],
  ['tenantID', 'tenantId', lower],
  ['clientID', 'clientId', texts],
  ['scopes', 'scopes', words],
  ['requestTimeout', 'timeout', timeoutOf],
  ['tlsCACertificatePEM', 'ca', texts],
  ['tlsCACertificatePath', 'caFile', texts],
  ['allowedTailnet', 'tailnet', texts],
  ['icon', 'icon', iconOf],
  ['color', 'color', colorOf],
]

/** @returns the kind of the provider */
function setProvider(given: Given, draft: Draft, item: string, at: Path): string {
  const [first] = given.all.filter(({ name }) => name.startsWith(`${item}.`))
  const kind = first?.name.slice(item.length + 1).split('.')[0] ?? ''
  const start = `${item}.${kind}`
  draft.set([...at, 'type'], kind)
  draft.set([...at, 'name'], slug(given.text(`${start}.name`) ?? kind, 32))
  for (const [theirs, ours, change] of COPIED) {
    const setting = given.take(`${start}.${theirs}`)
    if (!setting) continue
    const value =
      kind === 'github' && ours === 'scopes' ? undefined : change(setting.values[0] ?? '')
    draft.set([...at, ours], value, setting)
    if (value === undefined) draft.remark(setting, 'has no such value here')
  }
  const [, portal, , place] = at
  const file = `client-secret${portal === 0 && place === 0 ? '' : `-${portal}-${place}`}`
  setClientSecret(given, draft, at, [`${start}.clientSecret`, `${start}.clientSecretFile`], file)
  setAssertion(given, draft, start, at)
  const capabilities = given.take(`${start}.capabilityNames`)
  const names = capabilities?.values.map((name) => name.replace(/^https:\/\//, ''))
  draft.set([...at, 'capabilities'], names, capabilities)
  return kind
}

/** From 1s to 2m. */
function timeoutOf(text: string): string | undefined {
  return boundedDuration(text, 1_000, 120_000)
}

function setAssertion(given: Given, draft: Draft, start: string, at: Path): void {
  const old = given.take(`${start}.azureFederatedIdentity`)
  const setting = given.take(`${start}.clientAssertion`) ?? old
  const text = setting?.values[0] ?? ''
  const [kind = '', detail] = (setting === old && text !== '' ? `Azure${text}` : text).split(
    /=(.*)/,
  )
  const assertion = {
    AzureManagedIdentity: { type: 'azureManagedIdentity', ...(detail && { clientId: detail }) },
    AzureWorkloadIdentity: { type: 'azureWorkloadIdentity' },
    KubernetesServiceAccountToken: {
      type: 'kubernetesServiceAccount',
      ...(detail && { file: detail }),
    },
  }[kind]
  draft.set([...at, 'clientAssertion'], assertion, setting)
  if (setting && !assertion)
    draft.remark(
      setting,
      `${kind} has no counterpart: give a clientSecretFile or another clientAssertion`,
    )
}

const PROPERTIES: Readonly<Record<string, string>> = {
  'portal.name': 'portal',
  'provider.name': 'provider',
}

function setHeaders(given: Given, draft: Draft, number: number, index: number): void {
  const list = `portals.${number}.headers`
  const rows = given.itemsOf(list).map((item) => {
    const [name, claim, property] = ['name', 'claim', 'property'].map((key) =>
      given.text(`${list}.${item}.${key}`),
    )
    return claim === undefined ? { name, property: PROPERTIES[property ?? ''] } : { name, claim }
  })
  const isEmpty = given.all.some(({ name, values }) => name === list && values.length === 0)
  given.take(list)
  if (rows.length > 0 || isEmpty) draft.set(['portals', index, 'headers'], rows)
}

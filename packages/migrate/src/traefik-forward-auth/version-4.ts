import type { Draft, Path } from '../draft.ts'
import type { Translate } from '../foreign.ts'
import {
  askForDomains,
  boundedDuration,
  setClientSecret,
  shortened,
  slug,
} from '../forward-auth/settings.ts'
import { type Given, plainUrl } from '../given.ts'
import { fileIn, lower, setLog, setTls } from '../server.ts'
import { words } from '../table.ts'

/** Translates the settings of ItalyPaleAle/traefik-forward-auth 4. */
export const translateVersion4: Translate = (given, draft) => {
  setServer(given, draft)
  draft.copy(['session', 'lifetime'], given.take('tokens.sessionLifetime'), boundedDuration, '2h')
  setLog(given, draft)
  setDomains(given, draft)
  const portals = given.itemsOf('portals')
  for (const [index, number] of portals.entries()) setPortal(given, draft, number, index)
  if (portals.length === 0) {
    draft.set(['portals'], [])
    draft.todo(['portals'], 'there is no portal.')
  }
  const isDefault = given.text('defaultPortal') !== undefined
  return [
    'List the address or host name of Traefik in server.trustedProxies, unless it runs on this machine.',
    'Save this file, and check it: gatehouse-auth check-config --config config.yaml',
    `In Traefik, ${isDefault ? 'have the middleware ask /portals/<portal>, ' : ''}set trustForwardHeader: true, ` +
      'and add X-Gatehouse-Assertion to authResponseHeaders.',
  ]
}

function setServer(given: Given, draft: Draft): void {
  const from = (key: string) => given.take(`server.${key}`)
  draft.copy(['server', 'host'], from('bind'), asIs, '0.0.0.0')
  draft.copy(['server', 'port'], from('port'), Number, '4181')
  draft.copy(
    ['server', 'basePath'],
    from('basePath'),
    (text) => text.replace(/^\/*/, '/').replace(/(?<!\/)\/+$/, '') || undefined,
  )
  setTls(given, draft, ['server.tlsPath', 'server.tlsCertPEM', 'server.tlsKeyPEM'])
  const ca = from('tlsCAPEM')
  const folder = from('tlsPath')
  const clientAuth = given.ifOn('server.tlsClientAuth')
  if (!clientAuth) return
  const clientCa = ['server', 'tls', 'clientCaFile']
  if (ca) draft.secret(clientCa, 'tls-ca.pem', ca)
  else if (folder) draft.copy(clientCa, folder, fileIn('tls-ca.pem'))
  else draft.set(clientCa, 'tls-ca.pem')
  draft.set(['server', 'trustedProxies'], [], clientAuth)
}

function setDomains(given: Given, draft: Draft): void {
  const rows = given.itemsOf('server.domains')
  for (const [index, number] of rows.entries())
    for (const key of ['domain', 'authHost'])
      draft.copy(['domains', index, key], given.take(`server.domains.${number}.${key}`))
  // As older versions had it, for one domain.
  const host = given.take('server.hostname')
  const domain = given.take('cookies.domain') ?? host
  if (rows.length === 0 && host) {
    draft.copy(['domains', 0, 'domain'], domain, (text) => text.replace(/:\d+$/, ''))
    draft.copy(['domains', 0, 'authHost'], host)
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
  draft.copy(at('title'), from('displayName'), shortened)
  const isShown = given.ifOn(`${start}.alwaysShowProvidersPage`)
  draft.copy(at('alwaysShowProviders'), isShown, () => true)
  const loginLifetime = (text: string) => boundedDuration(text, 30_000, 3_600_000)
  draft.copy(at('loginLifetime'), from('authenticationTimeout'), loginLifetime, '5m')
  draft.copy([...at('session'), 'lifetime'], from('sessionLifetime'), boundedDuration)
  const providers = given.itemsOf(`${start}.providers`)
  const kinds = providers.map((item, place) =>
    setProvider(given, draft, `${start}.providers.${item}`, [...at('providers'), place]),
  )
  setCallback(draft, at('sharedCallback'), kinds)
  setHeaders(given, draft, number, index)
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

const asIs = (text: string) => text
/** The icons of providers that our pages have. */
const ICONS = ['openid', 'google', 'microsoft', 'github', 'gitlab', 'pocket-id', 'tailscale']
const iconOf = (text: string) =>
  ICONS.find((icon) => icon.replace('-', '') === text.replace('-', ''))
const colorOf = (text: string) => (/^#([0-9a-f]{3}|[0-9a-f]{6})$/i.test(text) ? text : undefined)

/** The keys of a provider: theirs, ours, and how the value changes. */
const COPIED: readonly [theirs: string, ours: string, change: (text: string) => unknown][] = [
  ['displayName', 'title', shortened],
  ['tokenIssuer', 'issuerUrl', plainUrl],
  ['endpoint', 'url', plainUrl],
  ['tenantID', 'tenantId', lower],
  ['clientID', 'clientId', asIs],
  ['scopes', 'scopes', words],
  ['requestTimeout', 'timeout', (text) => boundedDuration(text, 1_000, 120_000)],
  ['tlsCACertificatePEM', 'ca', asIs],
  ['tlsCACertificatePath', 'caFile', asIs],
  ['allowedTailnet', 'tailnet', asIs],
  ['icon', 'icon', iconOf],
  ['color', 'color', colorOf],
]

/** Sets a provider, and returns its kind. */
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

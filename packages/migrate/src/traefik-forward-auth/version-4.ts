import type { Draft, Path } from '../draft.ts'
import type { Translate } from '../foreign.ts'
import {
  boundedDuration,
  setClientSecret,
  setDomains,
  shortened,
  slug,
} from '../forward-auth/settings.ts'
import { fileIn, lower, setLog, setTls } from '../server.ts'
import { plainUrl, type SourceConfig } from '../source.ts'
import { words } from '../table.ts'

/** Translates the settings of ItalyPaleAle/traefik-forward-auth 4. */
export const translateVersion4: Translate = (source, draft) => {
  setServer(source, draft)
  draft.copy(['session', 'lifetime'], source.take('tokens.sessionLifetime'), boundedDuration, '2h')
  setLog(source, draft)
  copyDomains(source, draft)
  const portals = source.itemsOf('portals')
  for (const [index, number] of portals.entries()) setPortal(source, draft, number, index)
  if (portals.length === 0) {
    draft.set(['portals'], [])
    draft.todo(['portals'], 'there is no portal.')
  }
  const isDefault = (source.text('defaultPortal') ?? source.text('authProvider')) !== undefined
  return [
    'List the address or host name of Traefik in server.trustedProxies, unless it runs on this machine.',
    'Save this file, and check it: gatehouse-auth check-config --config config.yaml',
    `In Traefik, ${isDefault ? 'have the middleware ask /portals/<portal>, ' : ''}set trustForwardHeader: true, ` +
      'and add X-Gatehouse-Assertion to authResponseHeaders.',
  ]
}

function setServer(source: SourceConfig, draft: Draft): void {
  const setting = (key: string) => source.take(`server.${key}`)
  draft.copy(['server', 'host'], setting('bind'), asIs, '0.0.0.0')
  draft.copy(['server', 'port'], setting('port'), Number, '4181')
  draft.copy(
    ['server', 'basePath'],
    setting('basePath'),
    (text) => text.replace(/^\/*/, '/').replace(/(?<!\/)\/+$/, '') || undefined,
  )
  setTls(source, draft, ['server.tlsPath', 'server.tlsCertPEM', 'server.tlsKeyPEM'])
  const ca = setting('tlsCAPEM')
  const folder = setting('tlsPath')
  const clientAuth = source.ifOn('server.tlsClientAuth')
  if (!clientAuth) return
  const clientCa = ['server', 'tls', 'clientCaFile']
  if (ca) draft.secret(clientCa, 'tls-ca.pem', ca)
  else if (folder) draft.copy(clientCa, folder, fileIn('tls-ca.pem'))
  else draft.set(clientCa, 'tls-ca.pem')
  draft.set(['server', 'trustedProxies'], [], clientAuth)
}

function copyDomains(source: SourceConfig, draft: Draft): void {
  const rows = source.itemsOf('server.domains')
  for (const [index, number] of rows.entries())
    for (const key of ['domain', 'authHost'])
      draft.copy(['domains', index, key], source.take(`server.domains.${number}.${key}`))
  // Older versions had one domain.
  const host = source.take('server.hostname')
  const domain = source.take('cookies.domain') ?? host
  if (rows.length === 0 && host) {
    draft.copy(['domains', 0, 'domain'], domain, (text) => text.replace(/:\d+$/, ''))
    draft.copy(['domains', 0, 'authHost'], host)
  }
  if (!draft.has(['domains'])) setDomains(draft, [])
}

function setPortal(source: SourceConfig, draft: Draft, number: number, index: number): void {
  const start = `portals.${number}`
  const setting = (key: string) => source.take(`${start}.${key}`)
  const path = (key: string): Path => ['portals', index, key]
  const name = setting('name')
  const ours = slug(name?.values[0] ?? 'main', 32)
  draft.set(path('name'), ours, name)
  if (ours !== name?.values[0]?.toLowerCase())
    draft.comment(
      path('name'),
      'The name is part of the addresses that Traefik asks. Change it there too.',
    )
  draft.copy(path('title'), setting('displayName'), shortened)
  const isShown = source.ifOn(`${start}.alwaysShowProvidersPage`)
  draft.copy(path('alwaysShowProviders'), isShown, () => true)
  const loginLifetime = (text: string) => boundedDuration(text, 30_000, 3_600_000)
  draft.copy(path('loginLifetime'), setting('authenticationTimeout'), loginLifetime, '5m')
  draft.copy([...path('session'), 'lifetime'], setting('sessionLifetime'), boundedDuration)
  const providers = source.itemsOf(`${start}.providers`)
  const kinds = providers.map((item, place) =>
    setProvider(source, draft, `${start}.providers.${item}`, [...path('providers'), place]),
  )
  if (name) setCallback(draft, path('sharedCallback'), kinds)
  setHeaders(source, draft, number, index)
}

/** Keeps the redirect URI of a portal that has one provider to sign in at. */
function setCallback(draft: Draft, path: Path, kinds: readonly string[]): void {
  if (kinds.filter((kind) => kind !== 'tailscaleWhois').length !== 1) return
  draft.set(path, true)
  draft.comment(
    path,
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
function setProvider(source: SourceConfig, draft: Draft, item: string, path: Path): string {
  const [first] = source.settings.filter(({ name }) => name.startsWith(`${item}.`))
  const kind = first?.name.slice(item.length + 1).split('.')[0] ?? ''
  const start = `${item}.${kind}`
  draft.set([...path, 'type'], kind)
  draft.set([...path, 'name'], slug(source.text(`${start}.name`) ?? kind, 32))
  for (const [theirs, ours, change] of COPIED) {
    const setting = source.take(`${start}.${theirs}`)
    if (!setting) continue
    const value =
      kind === 'github' && ours === 'scopes' ? undefined : change(setting.values[0] ?? '')
    draft.set([...path, ours], value, setting)
    if (value === undefined) draft.remark(setting, 'has no such value here')
  }
  const [, portal, , place] = path
  const file = `client-secret${portal === 0 && place === 0 ? '' : `-${portal}-${place}`}`
  setClientSecret(source, draft, path, [`${start}.clientSecret`, `${start}.clientSecretFile`], file)
  setAssertion(source, draft, start, path)
  const capabilities = source.take(`${start}.capabilityNames`)
  const names = capabilities?.values.map((name) => name.replace(/^https:\/\//, ''))
  draft.set([...path, 'capabilities'], names, capabilities)
  return kind
}

function setAssertion(source: SourceConfig, draft: Draft, start: string, path: Path): void {
  const old = source.take(`${start}.azureFederatedIdentity`)
  const setting = source.take(`${start}.clientAssertion`) ?? old
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
  draft.set([...path, 'clientAssertion'], assertion, setting)
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

function setHeaders(source: SourceConfig, draft: Draft, number: number, index: number): void {
  const list = `portals.${number}.headers`
  const rows = source.itemsOf(list).map((item) => {
    const [name, claim, property] = ['name', 'claim', 'property'].map((key) =>
      source.text(`${list}.${item}.${key}`),
    )
    return claim === undefined ? { name, property: PROPERTIES[property ?? ''] } : { name, claim }
  })
  const isEmpty = source.settings.some(({ name, values }) => name === list && values.length === 0)
  source.take(list)
  if (rows.length > 0 || isEmpty) draft.set(['portals', index, 'headers'], rows)
}
